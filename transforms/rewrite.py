"""Change or remove a setting where it is written, whatever the surface."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pitstop.rules.finding import Location, Scalar, Setting, Span, Surface
from pitstop.rules.frameworks import Framework, accepted, frameworks
from pitstop.rules.frameworks.spelling import Spelling, Unwritable, plain_name
from pitstop.rules.job import TrainingJob, Word
from pitstop.rules.tree import SourceFile, UnreadableError
from pitstop.rules.written_names import speakers
from pitstop.transforms import edit_env, edit_json, edit_python, edit_shell, edit_yaml, python_text
from pitstop.transforms.config_proof import Path
from pitstop.transforms.edit_shell import Target
from pitstop.transforms.patch import (
    Changed,
    Outcome,
    Patch,
    Refused,
    Unchanged,
    apply_edits,
    edits_between,
)
from pitstop.transforms.shell_proof import Commands
from pitstop.transforms.spelled import env_text, flag_text, literal, negated, row_of

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts

CONFIG = (Surface.YAML, Surface.JSON, Surface.TOML)
CODE = (Surface.KEYWORD, Surface.PY_DEFAULT, Surface.STATEMENT)


@dataclass(frozen=True, slots=True)
class Place:
    """A setting of a job, and everything needed to edit it."""

    job: TrainingJob
    setting: Setting
    facts: ProjectFacts

    @property
    def path(self) -> str:
        """The file in which the setting is written."""
        where = self.setting.value_at or self.setting.name_at
        return where.path if where else ""

    def file(self) -> SourceFile | Refused:
        """That file's text."""
        return read(self.facts, self.path)


def read(facts: ProjectFacts, path: str) -> SourceFile | Refused:
    """A file of the tree, or why there is none."""
    try:
        return facts.tree.read(path)
    except UnreadableError as error:
        return Refused(f"{path or 'the place'} cannot be edited: {error}")


def rewrite(place: Place, value: Scalar) -> Outcome:
    """Give the written setting another value, by another name where its own cannot say it."""
    setting = place.setting
    row = row_of(setting)
    if row is None:
        return Refused(f"how {setting.name} is written is not known")
    written = row.written(value)
    if negated(setting, row):
        return erase(place) if value is True else Refused(f"{setting.name} cannot say {value}")
    if isinstance(written, Unwritable):
        return _respell(place, row, value)
    if setting.surface in CONFIG:
        return _set_key(place, written)
    if setting.surface is Surface.FLAG:
        return _set_flag(place, row, value)
    if setting.surface is Surface.ENV and not place.path.endswith(".py"):
        text = env_text(row, value, setting.raw)
        return Refused(text.why) if isinstance(text, Unwritable) else _set_env(place, text)
    if setting.surface in CODE or setting.surface is Surface.ENV:
        return _set_literal(place, row, value)
    return Refused(f"a setting in a {setting.surface} is not edited")


def erase(place: Place) -> Outcome:
    """Remove the written setting, so that the framework's default holds."""
    setting = place.setting
    if setting.surface in CONFIG:
        return _remove_key(place)
    if setting.surface is Surface.FLAG:
        target = flag_target(place.job, place.facts, setting.name)
        if isinstance(target, Refused):
            return target
        bare = setting.value_at is None
        return edit_shell.remove_flag(target, _dashed(setting.name), bare=bare)
    if setting.surface is Surface.ENV and not place.path.endswith(".py"):
        return _remove_env(place)
    if setting.surface is Surface.KEYWORD:
        return _remove_keyword(place)
    if setting.surface in (Surface.STATEMENT, Surface.ENV):
        return _remove_statement(place)
    return Refused(f"a setting in a {setting.surface} is not removed")


# --- another name ----------------------------------------------------------------------------


def _respell(place: Place, row: Spelling, value: Scalar) -> Outcome:
    """`fp16: true` to bf16: the name becomes that of the row which can say it."""
    setting = place.setting
    for other in rows_for(place, setting.surface):
        written = other.written(value)
        if other.name == row.name or isinstance(written, Unwritable):
            continue
        outcome = _rename(place, row, other, value)
        if isinstance(outcome, Refused):
            beside = _set_both(place, row, other, value)
            return outcome if isinstance(beside, Refused) else beside
        return outcome
    framework = frameworks()[setting.framework]
    if framework.default(setting.knob, place.facts.versions) == value:
        file, path = place.file(), key_path(place)
        if setting.surface in CONFIG and path is not None and not isinstance(file, Refused):
            return _silenced(file, setting.surface, path, row)
        return erase(place)
    return Refused(f"{setting.name} cannot say {value}, and no other name here can")


def rows_for(place: Place, surface: Surface) -> Iterator[Spelling]:
    """The rows that write the setting's knob on a surface in the job's versions, those of the
    job's own dialect first."""
    own = frameworks()[place.setting.framework]
    seen: dict[Framework, None] = {f: None for f in speakers(place.job) if f.extends == own.name}
    for framework in (*seen, own):
        for row in framework.writers(place.setting.knob, surface):
            if accepted(row, place.facts.versions) is True and not row.deprecated:
                yield row


def _rename(place: Place, old: Spelling, row: Spelling, value: Scalar) -> Outcome:
    setting, file = place.setting, place.file()
    if isinstance(file, Refused):
        return file
    written = row.written(value)
    parent, _, name = row.name.rpartition(".")
    if parent != old.name.rpartition(".")[0]:
        return Refused(f"{row.name} does not stand where {old.name} does")
    assert not isinstance(written, Unwritable)  # noqa: S101
    if setting.surface in (Surface.YAML, Surface.JSON):
        path = key_path(place)
        if path is None:
            return Refused(f"the key {setting.name} is not found again")
        if setting.surface is Surface.YAML:
            return edit_yaml.rename_key(file, path, name, written)
        return edit_json.rename_key(file, path, name, written)
    if setting.surface is Surface.FLAG:
        target = flag_target(place.job, place.facts, setting.name)
        text = flag_text(row, value, setting.raw)
        if isinstance(text, Unwritable):
            return Refused(text.why)
        if isinstance(target, Refused):
            return target
        dashes = "--" if setting.name.startswith("--") or "-" not in setting.name[:1] else "-"
        bare = setting.value_at is None
        return edit_shell.rename_flag(
            target, _dashed(setting.name), dashes + row.name, None if bare else text
        )
    if setting.surface is Surface.KEYWORD:
        call = enclosing_call(file, setting.name_at)
        new = literal(row, value, setting.raw)
        if isinstance(new, Unwritable) or call is None:
            return Refused(f"{setting.name} is not a keyword of a call")
        return edit_python.rename_keyword(file, call, setting.name, name, new)
    return Refused(f"{setting.name} cannot be renamed in a {setting.surface}")


def _set_both(place: Place, row: Spelling, other: Spelling, value: Scalar) -> Outcome:
    """Where both names are written: one says it, the other nothing any more."""
    if place.setting.surface not in (Surface.YAML, Surface.JSON):
        return Refused(f"{other.name} is already written beside {row.name}")
    file, path = place.file(), key_path(place)
    if isinstance(file, Refused) or path is None:
        return file if isinstance(file, Refused) else Refused("the key is not found again")
    written = other.written(value)
    assert not isinstance(written, Unwritable)  # noqa: S101
    new = (*path[: len(path) - len(row.name.split("."))], *other.name.split("."))
    first = set_config_key(file, place.setting.surface, new, written)
    if isinstance(first, Refused):
        return first
    edits = first.patch.edits if isinstance(first, Changed) else ()
    middle = SourceFile(file.path, apply_edits(file, edits))
    second = _silenced(middle, place.setting.surface, path, row)
    if isinstance(second, Refused):
        return second
    edits = second.patch.edits if isinstance(second, Changed) else ()
    return Changed(Patch(edits_between(file, apply_edits(middle, edits))))


def _silenced(file: SourceFile, surface: Surface, path: Path, row: Spelling) -> Outcome:
    """The key stays and says nothing about the knob: false for a switch; else it goes."""
    if row.type == "bool":
        return set_config_key(file, surface, path, False)
    return remove_config_key(file, surface, path)


# --- configuration files ---------------------------------------------------------------------


def key_path(place: Place) -> Path | None:
    """The path of the key that the setting stands for."""
    config = place.facts.configs.get(place.path)
    value_at = place.setting.value_at
    for entry in config.entries if config else ():
        if entry.value_at == value_at and ".".join(map(str, entry.path)) == place.setting.name:
            return entry.path
    found = [e.path for e in (config.entries if config else ()) if e.value_at == value_at]
    ends = [p for p in found if place.setting.name.endswith(".".join(map(str, p)))]
    return ends[0] if len(ends) == 1 else None


def _set_key(place: Place, written: Scalar) -> Outcome:
    file, path = place.file(), key_path(place)
    if isinstance(file, Refused) or path is None:
        return file if isinstance(file, Refused) else Refused("the key is not found again")
    return set_config_key(file, place.setting.surface, path, written)


def set_config_key(
    file: SourceFile, surface: Surface, path: Path, value: Scalar, beside: Path | None = None
) -> Outcome:
    """Set or insert a key of a file of any kind."""
    if surface is Surface.YAML:
        return edit_yaml.set_key(file, path, value, beside=beside)
    if surface is Surface.JSON:
        return edit_json.set_key(file, path, value, beside=beside)
    return Refused(f"{surface} files are not edited")


def _remove_key(place: Place) -> Outcome:
    file, path = place.file(), key_path(place)
    if isinstance(file, Refused) or path is None:
        return file if isinstance(file, Refused) else Refused("the key is not found again")
    return remove_config_key(file, place.setting.surface, path)


def remove_config_key(file: SourceFile, surface: Surface, path: Path) -> Outcome:
    """Remove a key of a file of any kind."""
    if surface is Surface.YAML:
        return edit_yaml.remove_key(file, path)
    if surface is Surface.JSON:
        return edit_json.remove_key(file, path)
    return Refused(f"{surface} files are not edited")


# --- commands --------------------------------------------------------------------------------


def commands(job: TrainingJob, facts: ProjectFacts) -> Commands | Refused:
    """The scripts and job files of a job."""
    if job.launch is None or job.launch.location.path not in facts.sources.paths:
        return Refused("the command is not written in a file")
    known = {*facts.scripts, *facts.sources.jobfiles}
    return Commands(facts.tree, tuple(sorted(job.files & known)))


def flag_target(job: TrainingJob, facts: ProjectFacts, name: str) -> Target | Refused:
    """The words among which a flag of the job's command stands."""
    found = commands(job, facts)
    if isinstance(found, Refused) or job.launch is None:
        return found if isinstance(found, Refused) else Refused("nothing is launched")
    launch = job.launch
    if not _has(launch.args, name) and _has(launch.launcher_args, name):
        return Target(found, launch.location, launch.launcher_args)
    return Target(found, launch.location, launch.args, launch.entry_location)


def _has(words: tuple[Word, ...], name: str) -> bool:
    return any(plain_name(w.text.partition("=")[0]) == plain_name(name) for w in words)


def _dashed(name: str) -> str:
    """A flag as it is written on a command line."""
    return name if name.startswith("-") else f"--{name}"


def _set_flag(place: Place, row: Spelling, value: Scalar) -> Outcome:
    setting = place.setting
    target = flag_target(place.job, place.facts, setting.name)
    text = flag_text(row, value, setting.raw)
    if isinstance(text, Unwritable):
        return Refused(text.why)
    if isinstance(target, Refused):
        return target
    name = _dashed(setting.name)
    if row.flag_style == "store_true" and isinstance(value, bool):
        return edit_shell.remove_flag(target, name, bare=True) if not value else Unchanged()
    if setting.value_at is None and _switch(place):
        return edit_shell.remove_flag(target, name, bare=True)
    return edit_shell.set_flag(target, name, text)


def _switch(place: Place) -> bool:
    """True for an option of the program's own that takes no value."""
    plain = plain_name(place.setting.name)
    modules = (place.facts.modules.get(path) for path in place.job.files)
    options = (o for module in modules if module for o in module.options)
    return any(plain_name(f) == plain for o in options for f in o.flags if "store_" in o.action)


def _set_env(place: Place, text: str) -> Outcome:
    found = commands(place.job, place.facts)
    if isinstance(found, Refused) or place.job.launch is None:
        return found if isinstance(found, Refused) else Refused("nothing is launched")
    launch = place.job.launch
    now = launch.env.get(place.setting.name)
    return edit_env.set_env(found, launch.location, now, place.setting.name, text)


def _remove_env(place: Place) -> Outcome:
    found = commands(place.job, place.facts)
    if isinstance(found, Refused) or place.job.launch is None:
        return found if isinstance(found, Refused) else Refused("nothing is launched")
    launch = place.job.launch
    now = launch.env.get(place.setting.name)
    return edit_env.remove_env(found, launch.location, now, place.setting.name)


# --- Python ----------------------------------------------------------------------------------


def enclosing_call(file: SourceFile, at: Location | None) -> Span | None:
    """The innermost call around a place."""
    if at is None:
        return None
    try:
        call = python_text.call_around(file, python_text.parse(file), at.span)
    except UnreadableError:
        return None
    return python_text.span(file, call) if call else None


def _set_literal(place: Place, row: Spelling, value: Scalar) -> Outcome:
    setting, file = place.setting, place.file()
    if isinstance(file, Refused):
        return file
    if setting.value_at is None:
        return Refused(f"the default of {setting.name} is not written out")
    if setting.surface is Surface.ENV:
        new: edit_python.Literal | Unwritable = env_text(row, value, setting.raw.strip("'\""))
    else:
        new = literal(row, value, setting.raw)
    if isinstance(new, Unwritable):
        return Refused(new.why)
    span = setting.value_at.span
    if setting.surface is Surface.KEYWORD and setting.name_at is not None:
        return edit_python.replace_for_use(file, setting.name_at.span, span, new)
    return edit_python.replace_value(file, span, new)


def _remove_keyword(place: Place) -> Outcome:
    file = place.file()
    if isinstance(file, Refused):
        return file
    call = enclosing_call(file, place.setting.name_at)
    if call is None:
        return Refused(f"{place.setting.name} is not a keyword of a call")
    return edit_python.remove_keyword(file, call, place.setting.name)


def _remove_statement(place: Place) -> Outcome:
    file, at = place.file(), place.setting.name_at
    if isinstance(file, Refused) or at is None:
        return file if isinstance(file, Refused) else Refused("the statement is not found again")
    return edit_python.remove_statement(file, at.span)
