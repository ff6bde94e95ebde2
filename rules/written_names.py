"""The names that a job hands to its framework, known or not: for rules about the names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pitstop.rules.detection import config_framework, program_in
from pitstop.rules.finding import Location, Surface, Value
from pitstop.rules.frameworks import Framework, Known, frameworks
from pitstop.rules.frameworks.spelling import plain_name
from pitstop.rules.job import TrainingJob
from pitstop.rules.job_words import flag_uses

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts


@dataclass(frozen=True, slots=True)
class WrittenName:
    """A name at its place. `spelled` is as written, `framework` the one that it is meant for."""

    spelled: str
    at: Location
    value: Value
    framework: Framework
    surface: Surface = Surface.KEYWORD

    @property
    def known(self) -> Known | None:
        """What the framework knows of the name; None when no version accepts it."""
        plain = plain_name(self.spelled)
        found = self.framework.known.get(plain)
        return found or self.framework.known.get(plain.partition(".")[0])


def speakers(job: TrainingJob) -> tuple[Framework, ...]:
    """The job's frameworks, dialects first."""
    found = [frameworks()[use.name] for use in job.frameworks if use.name in frameworks()]
    return tuple(sorted(found, key=lambda f: f.part_of is None))


def written_names(job: TrainingJob, facts: ProjectFacts) -> Iterator[WrittenName]:
    """The names on the command line, in the config files of the job's main framework and in
    calls that make its configuration; without those that the program declares itself. An engine
    reads the command lines of its own programs only, where `name=value` is a flag's value."""
    own = _declared(job, facts)
    names = [*_keywords(job, facts), *_variables(job)]
    leader = next((f for f in speakers(job) if f.kind == "main" or f.part_of), None)
    if leader is not None:
        names += (*_flags(job, leader), *_keys(job, facts, leader))
    for engine in speakers(job):
        if engine.kind == "engine" and program_in(engine, job.launch) is not None:
            names += (name for name in _flags(job, engine) if name.spelled.startswith("-"))
    for name in names:
        if plain_name(name.spelled) not in own:
            yield name


def _declared(job: TrainingJob, facts: ProjectFacts) -> frozenset[str]:
    """Options and fields that the repository's own code defines, which are not the framework's."""
    modules = (m for path in job.files if (m := facts.modules.get(path)) is not None)
    return frozenset().union(*(facts.sources.understood(m).declared for m in modules))


def _flags(job: TrainingJob, leader: Framework) -> Iterator[WrittenName]:
    if job.launch is None:
        return
    for use in flag_uses(job.launch.args)[0]:
        if use.word.known:
            yield WrittenName(use.spelled, use.name_at, use.value, leader, Surface.FLAG)


def _variables(job: TrainingJob) -> Iterator[WrittenName]:
    for name, word in job.launch.env.items() if job.launch is not None else ():
        for framework in speakers(job):
            if framework.named(name, Surface.ENV):
                yield WrittenName(name, word.location, word.text, framework, Surface.ENV)


def _keys(job: TrainingJob, facts: ProjectFacts, leader: Framework) -> Iterator[WrittenName]:
    for path in job.configs:
        config = facts.configs.get(path)
        if config is None:
            continue
        framework = config_framework(config)
        if framework is None or framework.name not in (leader.name, leader.part_of):
            continue
        for entry in config.entries:
            if len(entry.path) == 1 and entry.key_at is not None and entry.document == 0:
                surface = Surface(config.kind)
                yield WrittenName(str(entry.path[0]), entry.key_at, entry.value, leader, surface)


def _keywords(job: TrainingJob, facts: ProjectFacts) -> Iterator[WrittenName]:
    for path in sorted(job.files):
        module = facts.modules.get(path)
        if module is None or not facts.scope.audits_code(path):
            continue
        seen: set[int] = set()
        for framework in speakers(job):
            for call in facts.sources.understood(module).calls_of(framework.config_calls):
                if id(call.node) in seen:
                    continue
                seen.add(id(call.node))
                for argument in call.arguments:
                    if argument.name and argument.name_at is not None:
                        yield WrittenName(
                            argument.name, argument.name_at, argument.value, framework
                        )
