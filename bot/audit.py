"""The audit of one tree: read, judge, see which fixes can be made, tell what is new."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib.metadata
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pitstop.bot import globs
from pitstop.bot.report import Report, ReportedFinding
from pitstop.rules import engine, facts
from pitstop.rules.finding import Finding, Severity, Unread
from pitstop.rules.job import HardwareFacts, TrainingJob
from pitstop.rules.sources import Sources
from pitstop.rules.tree import RepoTree, SourceFile, UnreadableError
from pitstop.transforms import fixes
from pitstop.transforms.patch import Changed, Outcome, apply_patches, unified_diff

Progress = Callable[[str], None]
"""Is told, in a few words, what is being done now."""


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """What to judge and how; everything beyond the tree itself.

    `base` is the tree before the change, `renames` maps a new path to the one it had there.
    `severities` maps a rule's id to the severity that the repository wants. `include` and
    `exclude` are patterns of `pitstop.bot.globs`; files outside them are not read at all.
    """

    launch: str | None = None
    hardware: HardwareFacts | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    goal: str = "balanced"
    severities: Mapping[str, Severity] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    base: RepoTree | None = None
    renames: Mapping[str, str] = field(default_factory=dict)
    revision: str | None = None
    base_revision: str | None = None


class AuditedTree:
    """A tree without the files that the request leaves out; remembers what was read."""

    def __init__(self, tree: RepoTree, request: AuditRequest) -> None:
        self._tree = tree
        self._request = request
        self._files: dict[str, SourceFile] = {}
        self.paths = tuple(path for path in tree.paths if self._wanted(path))

    def _wanted(self, path: str) -> bool:
        include, exclude = self._request.include, self._request.exclude
        return (not include or globs.matches(path, include)) and not globs.matches(path, exclude)

    @property
    def unread(self) -> tuple[Unread, ...]:
        """What could not even be listed."""
        return tuple(unread for unread in self._tree.unread if self._wanted(unread.path))

    @property
    def files_read(self) -> int:
        """How many different files were read."""
        return len(self._files)

    def read(self, path: str) -> SourceFile:
        """The file's text, from memory the second time."""
        if path not in self._files:
            if not self._wanted(path):
                raise UnreadableError("left out by `paths` in Pitstop's configuration")
            self._files[path] = self._tree.read(path)
        return self._files[path]


def audit_tree(
    tree: RepoTree, request: AuditRequest, *, progress: Progress = lambda _: None
) -> Report:
    """Judge a tree. Raises UserError for a launch command that cannot be read."""
    with without_cycle_search():
        return _audit_tree(tree, request, progress)


@contextlib.contextmanager
def without_cycle_search() -> Iterator[None]:
    """Reading a repository makes millions of objects that stay until its end, hardly any of them
    garbage in cycles: to look for those again and again takes as long as all the rest."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _audit_tree(tree: RepoTree, request: AuditRequest, progress: Progress) -> Report:
    started = time.perf_counter()
    progress("reading")
    audited = AuditedTree(tree, request)
    project = _gather(audited, request)
    progress("judging")
    audit = _judge(project, request)
    jobs_before: tuple[TrainingJob, ...] = ()
    known: Counter[str] = Counter()
    if request.base is not None:
        progress("comparing with the base")
        jobs_before, known = _before(request.base, request, project.sources)
    progress("preparing fixes")
    return Report(
        version=version(),
        jobs=project.jobs,
        findings=_report(audit.findings, project, known, request.renames),
        suppressed=audit.suppressed,
        unused_suppressions=audit.unused_suppressions,
        unread=tuple(dict.fromkeys((*audited.unread, *audit.unread, *_in_scripts(project)))),
        skipped=audit.skipped,
        revision=request.revision,
        base=request.base_revision,
        jobs_before=jobs_before,
        files=audited.files_read,
        seconds=time.perf_counter() - started,
    )


def version() -> str:
    """Pitstop's own version."""
    return importlib.metadata.version("pitstop")


def _gather(
    tree: RepoTree, request: AuditRequest, like: Sources | None = None
) -> facts.ProjectFacts:
    return facts.gather(tree, launch=request.launch, hardware=request.hardware, like=like)


def _judge(project: facts.ProjectFacts, request: AuditRequest) -> engine.Audit:
    audit = engine.audit(project, select=request.select, ignore=request.ignore, goal=request.goal)
    wanted = {
        info.id: severity
        for word, severity in request.severities.items()
        for info in engine.all_rules()
        if engine.means(word, info)
    }
    findings = [
        dataclasses.replace(finding, severity=wanted.get(finding.rule, finding.severity))
        for finding in audit.findings
    ]
    findings.sort(key=lambda f: -f.severity)  # stable: the engine's order within a severity
    return dataclasses.replace(audit, findings=tuple(findings))


def _before(
    base: RepoTree, request: AuditRequest, now: Sources
) -> tuple[tuple[TrainingJob, ...], Counter[str]]:
    """The jobs and the findings that were there before (a suppressed finding was not, so that
    taking away its comment brings it back as new)."""
    project = _gather(AuditedTree(base, request), request, now)
    findings = _judge(project, request).findings
    return project.jobs, Counter(finding.fingerprint for finding in findings)


def _report(
    findings: Iterable[Finding],
    project: facts.ProjectFacts,
    known: Counter[str],
    renames: Mapping[str, str],
) -> tuple[ReportedFinding, ...]:
    """Each finding with its fix. Of equal ones, as many are old as there were before."""
    left = known.copy()
    reported = []
    for finding in findings:
        before = _as_before(finding, renames).fingerprint
        introduced = left[before] <= 0
        left[before] -= 1
        outcome = fixes.outcome_for(finding, project)
        diff = _diff(outcome, project.tree)
        reported.append(ReportedFinding(finding, outcome, introduced, diff))
    return tuple(reported)


def _diff(outcome: Outcome, tree: RepoTree) -> str:
    if not isinstance(outcome, Changed):
        return ""
    texts, _ = apply_patches(tree, (outcome.patch,))
    created = {path for path, _ in outcome.patch.new_files}
    return "".join(
        unified_diff(path, "", text, new=True)
        if path in created
        else unified_diff(path, tree.read(path).text, text)
        for path, text in sorted(texts.items())
    )


def _as_before(finding: Finding, renames: Mapping[str, str]) -> Finding:
    """The finding at the path that its file had before the change."""
    path = finding.primary.path
    primary = dataclasses.replace(finding.primary, path=renames.get(path, path))
    return dataclasses.replace(finding, primary=primary)


def _in_scripts(project: facts.ProjectFacts) -> Iterator[Unread]:
    """What was not understood in the scripts that start jobs; other scripts do not matter."""
    started = {path for job in project.jobs for path in job.files}
    for path, script in project.scripts.items():
        if path in started:
            yield from script.unread
