"""Everything that rules may ask about a repository, gathered once."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pitstop.rules.dependencies import read_versions
from pitstop.rules.finding import Unread, UserError
from pitstop.rules.job import HardwareFacts, TrainingJob
from pitstop.rules.job_start import Start, config_starts, entry_starts, launch_starts
from pitstop.rules.jobs import resolve
from pitstop.rules.scope import Scope, scope_of
from pitstop.rules.sources import Sources
from pitstop.rules.tree import RepoTree
from pitstop.rules.versions import Versions

if TYPE_CHECKING:
    from pitstop.rules.configs import ConfigFile
    from pitstop.rules.pysource import PyModule
    from pitstop.rules.shell import Script
    from pitstop.rules.written_names import WrittenName


@dataclass(frozen=True)
class ProjectFacts:
    """A repository, its jobs, and what was read to find them.

    `modules`, `configs` and `scripts` are by path and hold what was read; `module` reads
    another file. `versions` maps a normalised distribution name to its specifier text.
    """

    sources: Sources = field(repr=False, compare=False)
    scope: Scope = field(repr=False, compare=False)
    jobs: tuple[TrainingJob, ...] = ()
    versions: Versions = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()
    _names: dict[str, tuple[WrittenName, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def tree(self) -> RepoTree:
        """The repository."""
        return self.sources.tree

    @property
    def modules(self) -> Mapping[str, PyModule]:
        """The Python files read so far."""
        return self.sources.modules

    @property
    def configs(self) -> Mapping[str, ConfigFile]:
        """The YAML, JSON and TOML files read so far."""
        return self.sources.configs

    @property
    def scripts(self) -> Mapping[str, Script]:
        """The shell scripts read so far."""
        return self.sources.scripts

    def module(self, path: str) -> PyModule | None:
        """A Python file of the tree, None when there is none or it cannot be read."""
        return self.sources.module(path) if path in self.sources.paths else None

    @functools.cached_property
    def training_modules(self) -> tuple[PyModule, ...]:
        """The Python files that take part in a training job, by path: no tests, documentation,
        copies of other projects or frameworks' own sources."""
        paths = {p for job in self.jobs if job.purpose == "train" for p in job.files}
        inside = sorted(p for p in paths if p.endswith(".py") and self.scope.audits_code(p))
        return tuple(m for path in inside if (m := self.module(path)) is not None)

    def written_names(self, job: TrainingJob) -> tuple[WrittenName, ...]:
        """The names that a job hands to its framework, known or not."""
        from pitstop.rules.written_names import written_names

        if job.id not in self._names:
            self._names[job.id] = tuple(written_names(job, self))
        return self._names[job.id]

    def job(self, identity: str) -> TrainingJob:
        """The job with this id; raises KeyError."""
        return {job.id: job for job in self.jobs}[identity]


def gather(
    tree: RepoTree,
    *,
    launch: str | None = None,
    hardware: HardwareFacts | None = None,
    only: Collection[str] | None = None,
    like: Sources | None = None,
) -> ProjectFacts:
    """Read a repository and resolve its training jobs.

    `launch` is a command that a person types: then only its jobs are. `hardware` is what
    the user says of the machine; it goes before what the files say. `only` keeps the jobs in
    which one of these paths takes part. `like` are the sources of another state of the tree, what
    is equal in both is not read again. Raises UserError when `launch` is no plain command or
    starts no training job.
    """
    sources = Sources(tree, like)
    scope = scope_of(sources.paths)
    versions = read_versions(sources, (path for path in tree.paths if scope.trains(path)))
    if launch is not None:
        jobs = _typed_jobs(launch, sources, scope, versions, hardware)
    else:
        jobs = _all_jobs(sources, scope, versions, hardware)
    if only is not None:
        jobs = [job for job in jobs if job.files & set(only)]
    kept = _unique(jobs)
    unread = dict.fromkeys(
        (*tree.unread, *sources.unread, *(u for job in kept for u in job.unread))
    )
    return ProjectFacts(sources, scope, kept, versions, tuple(unread))


def _typed_jobs(
    text: str, sources: Sources, scope: Scope, versions: Versions, hardware: HardwareFacts | None
) -> list[TrainingJob]:
    """The jobs of a command that a person types; `bash train.sh` means what the script starts."""
    from pitstop.rules.launch import find_launches, parse_command

    launch = parse_command(text)
    path = sources.resolve(launch.entry) if launch.entry else None
    script = sources.script(path) if path and launch.launchers[:1] == ("bash",) else None
    launches = find_launches(script) if script is not None else (launch,)
    starts = (Start(one, script) for one in launches)
    found = [resolve(start, sources, scope, versions, hardware) for start in starts]
    jobs = [job for job in found if job is not None]
    if not jobs:
        raise UserError(
            f"--launch {text!r}: no training job begins there; give the command that trains,"
            " as typed in the repository's root."
        )
    return jobs


def _all_jobs(
    sources: Sources, scope: Scope, versions: Versions, hardware: HardwareFacts | None
) -> list[TrainingJob]:
    jobs: list[TrainingJob] = []
    for start in launch_starts(sources, scope):
        job = resolve(start, sources, scope, versions, hardware)
        jobs += [job] if job else []
    used = {path for job in jobs for path in job.files}
    for start in config_starts(sources, scope, used):
        job = resolve(start, sources, scope, versions, hardware)
        jobs += [job] if job else []
    for start in entry_starts(sources, scope, used):
        job = resolve(start, sources, scope, versions, hardware)
        jobs += [job] if job else []
    return jobs


def _unique(jobs: list[TrainingJob]) -> tuple[TrainingJob, ...]:
    """The jobs without doubles (a loop may start the same one often), with unique ids: the
    second of a name gets a number."""
    seen: dict[str, list[frozenset[object]]] = {}
    found = []
    for job in jobs:
        known = seen.setdefault(job.id, [])
        signature = frozenset(
            (s.knob, s.value, s.where) for ss in job.settings.values() for s in ss
        )
        if signature in known:
            continue
        known.append(signature)
        number = len(known)
        found.append(job if number == 1 else replace(job, id=f"{job.id} ({number})"))
    return tuple(found)
