"""What a start runs and reads, before it is known whether it trains, and what it is called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pitstop.rules.finding import Location
from pitstop.rules.frameworks import frameworks
from pitstop.rules.job import FrameworkUse, Word
from pitstop.rules.job_code import CommandLine, where_trained
from pitstop.rules.job_files import NamedConfig, command_configs, config_location
from pitstop.rules.job_modules import Program, entry_path, program_of
from pitstop.rules.job_start import Start
from pitstop.rules.job_words import FlagUse, flag_uses
from pitstop.rules.scope import Scope
from pitstop.rules.sources import Sources, folder_of
from pitstop.rules.tree import SourceFile


@dataclass(frozen=True, slots=True)
class Draft:
    """A start with what it runs and reads, before its settings are known."""

    start: Start
    entry: str | None
    program: Program
    configs: tuple[NamedConfig, ...]
    missing: tuple[str, ...]
    uses: tuple[FlagUse, ...]
    launcher_uses: tuple[FlagUse, ...]
    more: bool
    folders: tuple[str, ...]

    @property
    def line(self) -> CommandLine:
        """The flags that reach the program."""
        return CommandLine({use.name: use for use in self.uses}, self.more)


def draft_of(start: Start, sources: Sources, scope: Scope) -> Draft:
    """Find the files of a start: its program, its flags, the configs on its command line."""
    launch = start.launch
    folders = tuple(dict.fromkeys(_folders(start)))
    entry = start.entry or (entry_path(sources, launch, folders) if launch else None)
    mine = entry is not None and scope.audits_code(entry)
    program = program_of(sources, entry, scope) if entry and mine else Program()
    uses, positional, more = flag_uses(launch.args) if launch else ((), (), False)
    launcher_uses = flag_uses(launch.launcher_args)[0] if launch else ()
    files = command_configs(sources, start, positional, uses, folders)
    return Draft(
        start, entry, program, files.found, files.missing, uses, launcher_uses, more, folders
    )


def _folders(start: Start) -> Iterator[str]:
    """Where paths of a job may start: the command's folder, then the script's own and those
    around it (people run scripts from the project's folder), the root last."""
    launch = start.launch
    if launch is not None and launch.cwd:
        yield launch.cwd
    path = launch.location.path if launch else start.config or start.entry or ""
    while path:
        path = folder_of(path)
        yield path
    yield ""


def identity(draft: Draft) -> str:
    """A name that survives moved lines: the script, what it runs, and the config it is given."""
    launch = draft.start.launch
    own = draft.configs[0].config.path if draft.configs else None
    if launch is None:
        return own or draft.entry or "?"
    where = launch.location.path
    program = draft.entry or launch.entry or (launch.launchers[-1] if launch.launchers else "")
    parts = [part for part in (where, program, own) if part]
    return " > ".join(dict.fromkeys(parts))


def title(draft: Draft, uses: tuple[FrameworkUse, ...]) -> str:
    """The job in words: the framework and the file that says most about it."""
    name = frameworks()[uses[0].name].title if uses else "Training"
    launch = draft.start.launch
    own = draft.configs[0].config.path if draft.configs else None
    what = own or draft.entry or (launch.entry if launch else None) or "?"
    return f"{name}: {what}"


def location_of(draft: Draft) -> Location | None:
    """The line to show for the job as a whole."""
    if draft.start.config is not None or (draft.start.launch is None and draft.configs):
        return config_location(draft.configs[0].config)
    launch = draft.start.launch
    if launch is not None:
        return launch.entry_location or launch.location
    for module in draft.program.modules:
        found = where_trained(module)
        if found is not None:
            return found
    return None


def files_of(draft: Draft, configs: Iterable[str]) -> Iterator[str]:
    """All paths that take part in the job."""
    launch = draft.start.launch
    if launch is not None:
        yield launch.location.path
        if draft.start.script is not None:
            yield draft.start.script.path
        yield from (word.location.path for word in launch.words)
    if draft.entry is not None:
        yield draft.entry
    yield from (module.path for module in draft.program.modules)
    yield from configs


def headers_of(draft: Draft) -> Mapping[str, Word]:
    """The scheduler's lines of the script that starts the job."""
    script = draft.start.script
    return script.headers if script is not None else {}


def commented_files(draft: Draft, sources: Sources) -> Iterator[SourceFile]:
    """The files whose comments may say on what machine the job runs."""
    launch = draft.start.launch
    paths = [launch.location.path] if launch else []
    paths += [named.config.path for named in draft.configs]
    for path in paths:
        file = sources.file(path) if path in sources.paths else None
        if file is not None:
            yield file
