"""Which frameworks a job uses, from signs that belong to the job itself."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from typing import TYPE_CHECKING

from pitstop.rules.finding import Location
from pitstop.rules.frameworks import Framework, Sign, frameworks
from pitstop.rules.frameworks.spelling import plain_name, written_word
from pitstop.rules.job import FrameworkUse, LaunchCommand
from pitstop.rules.job_modules import Program
from pitstop.rules.versions import Versions

if TYPE_CHECKING:
    from pitstop.rules.configs import ConfigFile


@dataclass(frozen=True)
class Evidence:
    """What is looked at for one job: its command, the modules it runs, the configs it reads,
    the environment it sets, and what the repository declares and holds."""

    launch: LaunchCommand | None = None
    program: Program = field(default_factory=Program)
    configs: tuple[ConfigFile, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)
    versions: Versions = field(default_factory=dict)
    paths: Collection[str] = ()

    @functools.cached_property
    def commands(self) -> tuple[str, ...]:
        """What patterns of commands are held against."""
        return tuple(command_texts(self.launch)) if self.launch is not None else ()


@dataclass(frozen=True, slots=True)
class Match:
    """A sign that was found: what it was, in words, and where."""

    text: str
    location: Location | None = None


def recognise(evidence: Evidence) -> tuple[FrameworkUse, ...]:
    """The frameworks of a job: the one main framework that wins by precedence, then engines and
    helpers beside it by name. An engine without a main framework leads.

    One strong sign is enough. Weak signs count in pairs, of which one at least must belong to
    the job (a declared dependency or a file of the repository speaks for every job).
    """
    found = {f.name: m for f in frameworks().values() if (m := _recognised(f, evidence))}
    mains = [f for name in found if (f := frameworks()[name]).kind == "main"]
    for name in tuple(found):
        part_of = frameworks()[name].part_of
        if part_of and frameworks()[part_of] not in mains:
            mains.append(frameworks()[part_of])
            found[part_of] = found[name]
    mains.sort(key=lambda f: f.rank)
    engines = [f for name in found if (f := frameworks()[name]).kind == "engine"]
    engines.sort(key=lambda f: f.rank)
    leading = _leader(mains, engines, evidence.program.trains)
    helpers = [f for name in sorted(found) if (f := frameworks()[name]).kind == "helper"]
    others = [f for f in (*engines, *helpers) if f not in leading]
    kept = [*leading, *(f for f in others if not f.part_of or frameworks()[f.part_of] in leading)]
    return tuple(_use(f, found[f.name], evidence) for f in kept)


def _leader(mains: list[Framework], engines: list[Framework], trains: bool) -> list[Framework]:
    """The framework that decides what kind of job this is. Plain PyTorch is what everything is
    built on: an engine precedes it unless the program's own code trains."""
    special = [f for f in mains if f.name != "pytorch"]
    if special or trains:
        return (special or mains)[:1]
    return engines[:1] or mains[:1]


def _use(framework: Framework, match: Match, evidence: Evidence) -> FrameworkUse:
    pins = [evidence.versions[p] for p in framework.packages if p in evidence.versions]
    return FrameworkUse(framework.name, next(iter(pins), ""), match.text, match.location)


def _recognised(framework: Framework, evidence: Evidence) -> Match | None:
    for sign in framework.detection.strong:
        match = match_sign(sign, evidence)
        if match:
            return match
    weak = [(s, m) for s in framework.detection.weak if (m := match_sign(s, evidence))]
    of_job = [match for sign, match in weak if not _of_repository(sign)]
    return of_job[0] if of_job and len(weak) > 1 else None


def _of_repository(sign: Sign) -> bool:
    """True for a sign that says nothing about one job in particular."""
    return not (
        sign.imports or sign.calls or sign.commands or sign.keys_all or sign.keys_any
        or sign.flags or sign.env
    )  # fmt: skip


def match_sign(sign: Sign, evidence: Evidence) -> Match | None:
    """The first evidence for a sign, or None when one of its parts is missing."""
    parts: list[Match | None] = []
    if sign.imports:
        parts.append(_imported(sign.imports, evidence.program))
    if sign.calls:
        parts.append(_called(sign.calls, evidence.program))
    if sign.commands:
        parts.append(_commanded(sign.commands, evidence))
    if sign.flags:
        parts.append(_flagged(sign, evidence))
    if sign.env:
        parts.append(_environment(sign.env, evidence.launch))
    if sign.keys_all or sign.keys_any:
        parts.append(next((m for c in evidence.configs if (m := match_keys(sign, c))), None))
    if sign.packages:
        named = next((p for p in sign.packages if p in evidence.versions), None)
        parts.append(Match(f"dependency {named}") if named else None)
    if sign.paths:
        here = next((p for p in sign.paths if p in evidence.paths), None)
        parts.append(Match(f"file {here}") if here else None)
    return parts[0] if parts and None not in parts else None


def _imported(names: Iterable[str], program: Program) -> Match | None:
    """An import in the file that is started: what a library of the repository imports, possibly
    for another program, says little."""
    entry = program.entry
    for qualified in entry.imports.values() if entry is not None else ():
        for name in names:
            if qualified == name or qualified.startswith(f"{name}."):
                return Match(f"import of {name} in {entry.path if entry else ''}")
    return None


def _called(patterns: tuple[str, ...], program: Program) -> Match | None:
    found = program.uses(patterns)
    return Match(f"use of {found.name}", found.location) if found else None


def _commanded(patterns: tuple[str, ...], evidence: Evidence) -> Match | None:
    wanted = _commands(patterns)
    text = next((text for text in evidence.commands if wanted.match(text)), None)
    if text is None or evidence.launch is None:
        return None
    return Match(f"command {text.partition(' -')[0]}", evidence.launch.location)


@functools.cache
def _commands(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """A command, or its beginning, that fits one of the patterns."""
    return re.compile("|".join(translate(p) for one in patterns for p in (one, f"{one} *")))


def command_texts(launch: LaunchCommand) -> Iterator[str]:
    """The command from each of its words on, up to the entry's first argument: what patterns
    such as "llamafactory-cli train" or "-m vllm.*" are held against."""
    entry = launch.entry or ""
    first = launch.args[0].text if launch.args and launch.args[0].known else ""
    if entry:
        yield f"{entry} {first}".strip()
        yield f"-m {entry} {first}".strip()
    for launcher in launch.launchers:
        yield f"{launcher} {entry}".strip()
    known = [word.text for word in launch.words if word.known]
    for start, text in enumerate(known[:12]):
        name = text.rpartition("/")[2]
        yield " ".join((name, *known[start + 1 : start + 3]))


def program_in(framework: Framework, launch: LaunchCommand | None) -> str | None:
    """Which of the framework's own programs a launch starts; None for another program."""
    if launch is None or not framework.programs:
        return None
    texts = tuple(command_texts(launch))
    for command in framework.programs:
        if any(_commands((command,)).match(text) for text in texts):
            return command
    return None


def _flagged(sign: Sign, evidence: Evidence) -> Match | None:
    found = [name for name in sign.flags if name in evidence.flags]
    for name, words in sign.values.items():
        if name in found and evidence.flags[name].lower() not in words:
            found.remove(name)
    if len(found) < sign.at_least:
        return None
    where = evidence.launch.location if evidence.launch else None
    return Match("flags " + ", ".join(f"--{name}" for name in found), where)


def _environment(names: Iterable[str], launch: LaunchCommand | None) -> Match | None:
    if launch is None:
        return None
    for name in names:
        if name in launch.env:
            return Match(f"variable {name}", launch.env[name].location)
    return None


def match_keys(sign: Sign, config: ConfigFile) -> Match | None:
    """The keys of a config file that a sign asks for, dotted or at the top."""
    if not all(config.has(*name.split(".")) for name in sign.keys_all):
        return None
    found = [name for name in sign.keys_any if config.has(*name.split("."))]
    for name, words in sign.values.items():
        entry = config.get(*name.split("."))
        if entry is None or written_word(entry.value) not in words:
            if name in sign.keys_all:
                return None
            found = [other for other in found if other != name]
    if sign.keys_any and len(found) < sign.at_least:
        return None
    first = (found or list(sign.keys_all))[0]
    entry = config.get(*first.split("."))
    at = (entry.key_at or entry.value_at) if entry else None
    return Match(f"key {plain_name(first)} in {config.path}", at)


def config_framework(config: ConfigFile) -> Framework | None:
    """The framework whose configuration file this is, by its keys alone: main frameworks by
    precedence, then helpers; None for any other file."""
    order = sorted(frameworks().values(), key=lambda f: (f.kind != "main", f.rank, f.name))
    for framework in order:
        for sign in framework.detection.strong:
            alone = not (sign.calls or sign.imports or sign.commands or sign.flags)
            if alone and (sign.keys_all or sign.keys_any) and match_keys(sign, config):
                return framework
    return None


def config_words() -> frozenset[str]:
    """Words of which one stands in every file that `config_framework` knows: a cheap test."""
    return frozenset(
        name.rpartition(".")[2]
        for framework in frameworks().values()
        for sign in framework.detection.strong
        for name in (*sign.keys_all, *sign.keys_any)
    )
