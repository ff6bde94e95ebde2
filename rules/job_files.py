"""The config files of a job: positional ones, those named by flags, keys and keywords, and those
that the launching script writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pitstop.rules.configs import ConfigFile
from pitstop.rules.detection import config_framework
from pitstop.rules.finding import Location
from pitstop.rules.frameworks import Framework, frameworks
from pitstop.rules.job import Word
from pitstop.rules.job_heredocs import read_heredoc
from pitstop.rules.job_settings import Written, from_config
from pitstop.rules.job_start import Start
from pitstop.rules.job_words import FlagUse
from pitstop.rules.shell import Heredoc
from pitstop.rules.sources import CONFIG_SUFFIXES, Sources, folder_of
from pitstop.rules.tree import normalise

MAX_CONFIGS = 12


@dataclass(frozen=True, slots=True)
class NamedConfig:
    """A config file of a job and the framework in whose words it is written: None until the
    job's own framework is known, for a file whose keys alone do not tell."""

    config: ConfigFile
    framework: Framework | None


@dataclass(frozen=True, slots=True)
class CommandConfigs:
    """The config files on a command line, in the order given, and the paths that look like one
    and are not in the repository."""

    found: tuple[NamedConfig, ...]
    missing: tuple[str, ...]


def command_configs(
    sources: Sources,
    start: Start,
    positional: Iterable[Word],
    uses: Iterable[FlagUse],
    folders: tuple[str, ...],
) -> CommandConfigs:
    """The positional files, and those given to flags that are configs by their own keys; a
    config that starts a job by itself is the first."""
    first = [start.config] if start.config else []
    first += [word.text for word in positional if word.known]
    later = [word.text for use in uses for word in use.words if word.known]
    found: dict[str, NamedConfig] = {}
    missing: list[str] = []
    for number, text in enumerate((*first, *later)):
        if not text.lower().endswith(CONFIG_SUFFIXES) or len(found) >= MAX_CONFIGS:
            continue
        config = read_named(sources, start, text, folders)
        if config is None:
            missing += [text] if number < len(first) else []
            continue
        framework = config_framework(config)
        if framework is not None or number < len(first):
            found.setdefault(config.path, NamedConfig(config, framework))
    return CommandConfigs(tuple(found.values()), tuple(missing))


def follow(
    written: Iterable[Written],
    already: Iterable[NamedConfig],
    start: Start,
    sources: Sources,
    folders: tuple[str, ...],
) -> Iterator[NamedConfig]:
    """The files that settings name (`deepspeed: ds.json`), and what those name in turn, without
    those that the job has `already`. A path is looked up in the command's folder, the folder of
    the file that names it, and the root."""
    queue = list(written)
    seen = {named.config.path for named in already}
    while queue and len(seen) < MAX_CONFIGS:
        one = queue.pop(0)
        row = next((row for row in one.rows if row.file), None)
        if row is None or row.file is None or not isinstance(one.value, str):
            continue
        at = one.name_at or one.value_at
        near = (folder_of(at.path),) if at else ()
        config = read_named(sources, start, one.value, (*folders, *near))
        if config is None or config.path in seen:
            continue
        seen.add(config.path)
        framework = frameworks()[row.file]
        yield NamedConfig(config, framework)
        queue += from_config(framework, config)


def read_named(
    sources: Sources, start: Start, text: str, folders: tuple[str, ...]
) -> ConfigFile | None:
    """A config file by its path as written: one that the script itself writes comes before one
    in the tree."""
    written = _heredoc(start.heredocs, text, folders)
    if written is not None:
        return read_heredoc(written, sources.file(written.location.path))
    path = sources.resolve(text, *folders)
    return sources.config(path) if path and path.lower().endswith(CONFIG_SUFFIXES) else None


def _heredoc(heredocs: Iterable[Heredoc], text: str, folders: tuple[str, ...]) -> Heredoc | None:
    wanted = {normalise(f"{folder}/{text}" if folder else text) for folder in folders} | {text}
    found = None
    for heredoc in heredocs:
        if heredoc.target in wanted:
            found = heredoc
    return found


def config_location(config: ConfigFile) -> Location | None:
    """The first key of a file: the place to show for the file as a whole."""
    for entry in config.entries:
        return entry.key_at or entry.value_at
    return None
