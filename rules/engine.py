"""Runs the rules over the facts of a repository and says what was found.

Goals: `throughput` leaves out advice that frees memory at the price of time; `memory` lists
findings about memory before others of the same severity; `balanced` does neither.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pitstop.rules import notes
from pitstop.rules.finding import Finding, Location, Severity, Unread, UserError
from pitstop.rules.knobs import closest
from pitstop.rules.rule import Check, Rule, RuleInfo
from pitstop.rules.suppress import Suppression, first_line, read_suppressions, sort_out

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.job import TrainingJob

GOALS = ("balanced", "throughput", "memory")
"""What the advice is for."""

HAVE_THEIR_OWN_AUDIT = frozenset({"relax"})
"""Frameworks whose jobs get findings of their own audit only."""


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that a comment in the repository answers, with the reason given there."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True)
class Audit:
    """Everything the rules had to say. `skipped` holds (rule id, reason) of rules that broke or
    could not run; `unused_suppressions` are comments that answered nothing."""

    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    unused_suppressions: tuple[tuple[Location, str], ...] = ()
    unread: tuple[Unread, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()


@functools.cache
def _rules() -> tuple[Rule, ...]:
    """Every rule: the rows of the catalogues and the classes under `checks`, by id."""
    from pitstop.rules import checks
    from pitstop.rules.relax.rule import relax_rules
    from pitstop.rules.row_reader import rows

    found: list[Rule] = [*rows(), *relax_rules()]
    for module in pkgutil.iter_modules(checks.__path__):
        loaded = importlib.import_module(f"{checks.__name__}.{module.name}")
        found += [
            thing()
            for thing in vars(loaded).values()
            if isinstance(thing, type)
            and issubclass(thing, Check)
            and thing.__module__ == loaded.__name__
        ]
    return tuple(sorted(found, key=lambda rule: rule.info.id))


@functools.cache
def all_rules() -> tuple[RuleInfo, ...]:
    """The metadata of every rule, by id."""
    return tuple(rule.info for rule in _rules())


def means(word: str, info: RuleInfo) -> bool:
    """Whether an id, a name or the beginning of ids (`HF`, `HF-H`) means a rule."""
    return word == info.name or info.id.lower().startswith(word.lower())


def audit(
    facts: ProjectFacts,
    *,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    goal: str = "balanced",
) -> Audit:
    """Run the rules that `select` names (all, when empty) except those that `ignore` names.

    Raises UserError for a word that means no rule and for an unknown goal. A rule that breaks
    is skipped with the reason.
    """
    if goal not in GOALS:
        raise UserError(f"goal {goal!r} is not one of {', '.join(GOALS)}.")
    chosen = _selected(select, ignore, goal)
    found, skipped = _run(chosen, facts)
    texts = _Texts(facts)
    merged = [texts.placed(f) for f in _merged(_own_first(_audited_here(found, facts)))]
    standing, answered, unused = sort_out(
        merged,
        texts.suppressions({f.primary.path for f in merged}),
        texts.start_of,
        lambda word, finding: any(
            means(word, rule.info) for rule in chosen if rule.info.id == finding.rule
        ),
    )
    return Audit(
        findings=tuple(sorted(standing, key=lambda f: _rank(f, goal))),
        suppressed=tuple(Suppressed(f, reason) for f, reason in answered),
        unused_suppressions=tuple(_unused(unused, chosen)),
        unread=tuple(facts.unread),
        skipped=tuple(skipped),
    )


def without_suppressed(found: Sequence[Finding], facts: ProjectFacts) -> tuple[Finding, ...]:
    """Findings that no `pitstop: ignore[...]` comment of the repository answers."""
    texts = _Texts(facts)
    infos = {info.id: info for info in all_rules()}
    standing, _, _ = sort_out(
        [texts.placed(one) for one in found],
        texts.suppressions({one.primary.path for one in found}),
        texts.start_of,
        lambda word, finding: means(word, infos[finding.rule]),
    )
    return tuple(standing)


def _selected(select: Collection[str], ignore: Collection[str], goal: str) -> list[Rule]:
    infos = all_rules()
    for word in (*select, *ignore):
        if not any(means(word, info) for info in infos):
            near = closest(word, [n for i in infos for n in (i.id, i.name)])
            hint = f", did you mean {near!r}?" if near else "; `pitstop rules` lists them."
            raise UserError(f"{word!r} means no rule{hint}")
    return [
        rule
        for rule in _rules()
        if (not select or any(means(word, rule.info) for word in select))
        and not any(means(word, rule.info) for word in ignore)
        and not (goal == "throughput" and rule.info.trades_time)
    ]


def _run(rules: Iterable[Rule], facts: ProjectFacts) -> tuple[list[Finding], list[tuple[str, str]]]:
    found: list[Finding] = []
    skipped: list[tuple[str, str]] = []
    for rule in rules:
        try:
            found += rule.check(facts)
        except Exception as error:  # one broken rule must not lose the others' findings
            skipped.append((rule.info.id, f"{type(error).__name__}: {error}"))
    return found, skipped


def _audited_here(found: Iterable[Finding], facts: ProjectFacts) -> list[Finding]:
    """Findings with the jobs they concern, without jobs that have an audit of their own."""
    elsewhere = {job.id for job in facts.jobs if job.framework in HAVE_THEIR_OWN_AUDIT}
    catalogue = {info.id: info.catalogue for info in all_rules()}
    kept: list[Finding] = []
    for finding in found:
        if catalogue[finding.rule] in HAVE_THEIR_OWN_AUDIT:
            kept.append(finding)
            continue
        concerned = finding.jobs or _jobs_of(finding.primary.path, facts.jobs)
        here = tuple(job for job in concerned if job not in elsewhere)
        if here or not concerned:
            kept.append(replace(finding, jobs=here))
    return kept


def _jobs_of(path: str, jobs: Sequence[TrainingJob]) -> tuple[str, ...]:
    return tuple(job.id for job in jobs if path in job.files)


def _own_first(found: Sequence[Finding]) -> list[Finding]:
    """One finding per setting and job: the framework's own catalogue wins over the general one."""
    catalogue = {info.id: info.catalogue for info in all_rules()}
    own = {
        (job, _subject(f))
        for f in found
        if f.deciding is not None and catalogue[f.rule] != "general"
        for job in f.jobs
    }
    kept: list[Finding] = []
    for finding in found:
        if finding.deciding is not None and catalogue[finding.rule] == "general":
            jobs = tuple(job for job in finding.jobs if (job, _subject(finding)) not in own)
            if not jobs and finding.jobs:
                continue
            finding = replace(finding, jobs=jobs)
        kept.append(finding)
    return kept


def _subject(finding: Finding) -> tuple[str | None, Location | None]:
    return finding.knob, finding.deciding.where if finding.deciding else None


def _merged(found: Iterable[Finding]) -> list[Finding]:
    """Equal findings of several jobs (same rule, same place) become one that names them all."""
    merged: dict[tuple[str, Location, str | None], Finding] = {}
    for finding in found:
        key = (finding.rule, finding.primary, finding.knob)
        before = merged.get(key)
        if before is None:
            merged[key] = finding
            continue
        merged[key] = replace(
            before,
            severity=max(before.severity, finding.severity),
            jobs=tuple(dict.fromkeys((*before.jobs, *finding.jobs))),
            related=tuple(dict.fromkeys((*before.related, *finding.related))),
        )
    return list(merged.values())


def _rank(finding: Finding, goal: str) -> tuple[int, bool, str, int, str]:
    off_goal = goal == "memory" and finding.resource not in ("memory", "both")
    at = finding.primary
    return -finding.severity, off_goal, at.path, at.line, finding.rule


def _unused(comments: Iterable[Suppression], ran: Sequence[Rule]) -> Iterable[tuple[Location, str]]:
    """Comments without effect. One about a rule that did not run may well be needed."""
    infos = all_rules()
    for comment in comments:
        if comment.fault:
            yield comment.location, comment.fault
            continue
        for word in comment.words:
            if not any(means(word, info) for info in infos):
                near = closest(word, [n for i in infos for n in (i.id, i.name)])
                hint = f", did you mean {near!r}?" if near else ""
                yield comment.location, f"{word!r} means no rule{hint}"
            elif any(means(word, rule.info) for rule in ran):
                yield comment.location, f"{word} has nothing to answer here"


class _Texts:
    """What the audited files' texts say: anchors, and comments that explain or answer."""

    def __init__(self, facts: ProjectFacts) -> None:
        self.facts = facts

    def placed(self, finding: Finding) -> Finding:
        """The finding with its anchor; information only where the author explains the choice."""
        at = finding.primary
        file = self.facts.sources.file(at.path)
        anchor = " ".join(file.line_text(at.line).split()) if file else ""
        note = finding.deciding.note if finding.deciding else self._comment(at)
        if note is None:
            return replace(finding, anchor=anchor)
        return replace(
            finding,
            anchor=anchor,
            severity=Severity.INFO,
            evidence={**finding.evidence, "note": note},
        )

    def _comment(self, at: Location) -> str | None:
        module = self.facts.modules.get(at.path)
        if module is None:
            return None
        comments: Mapping[int, str] = module.comments
        for line in (at.line, at.line - 1):
            text = comments.get(line, "")
            if "pitstop:" not in text and notes.explains(text):
                return notes.comment_text(text)
        return None

    def start_of(self, finding: Finding) -> int:
        """The first line of the statement or command around a finding."""
        file = self.facts.sources.file(finding.primary.path)
        module = self.facts.modules.get(finding.primary.path)
        if file is None:
            return finding.primary.line
        return first_line(file, finding.primary.line, module.tree if module else None)

    def suppressions(self, paths: Collection[str]) -> list[Suppression]:
        """The comments of every file that takes part in a job or has a finding."""
        parts = {path for job in self.facts.jobs for path in job.files}
        found: list[Suppression] = []
        for path in sorted(parts | set(paths) | set(self.facts.modules)):
            file = self.facts.sources.file(path)
            module = self.facts.modules.get(path)
            if file is not None:
                found += read_suppressions(file, module.comments if module else None)
        return found
