"""Settings in configuration files: YAML and JSON of the tree, and those that a script writes."""

from __future__ import annotations

from dataclasses import dataclass

from pitstop.rules.configs import ConfigFile, Entry, read_config
from pitstop.rules.finding import Location, Scalar, Span, Surface
from pitstop.rules.frameworks.spelling import Spelling, Unwritable
from pitstop.rules.shell import Heredoc
from pitstop.rules.tree import SourceFile, UnreadableError
from pitstop.transforms import edit_json, edit_toml, edit_yaml
from pitstop.transforms.command_settings import commands
from pitstop.transforms.config_proof import Path
from pitstop.transforms.patch import (
    Changed,
    Edit,
    Outcome,
    Patch,
    Refused,
    apply_edits,
    edits_between,
)
from pitstop.transforms.place import Place
from pitstop.transforms.shell_proof import proved_file

SURFACES = (Surface.YAML, Surface.JSON, Surface.TOML)


@dataclass(frozen=True, slots=True)
class Source:
    """A configuration file as it is read, and the heredoc it is written in, if it is."""

    place: Place
    file: SourceFile
    config: ConfigFile
    heredoc: Heredoc | None = None

    @property
    def surface(self) -> Surface:
        """YAML, JSON or TOML."""
        return Surface(self.config.kind)

    def finished(self, outcome: Outcome) -> Outcome:
        """The change of the file as a change of the tree."""
        if self.heredoc is None or not isinstance(outcome, Changed):
            return outcome
        found = commands(self.place.job, self.place.facts)
        if isinstance(found, Refused):
            return found
        edits = tuple(_moved(edit, self.heredoc, self.place) for edit in outcome.patch.edits)
        if any(edit is None for edit in edits):
            return Refused("the place is put together from several pieces of the script")
        text = apply_edits(self.file, outcome.patch.edits)
        return proved_file(found, tuple(e for e in edits if e), self.heredoc, text)


def source(place: Place, path: str) -> Source | Refused:
    """The configuration file at a path: one of the tree, or one that a script writes."""
    config = place.facts.configs.get(path)
    if config is not None:
        file = place.file(path)
        return file if isinstance(file, Refused) else Source(place, file, config)
    for heredoc in _heredocs(place):
        if heredoc.known and heredoc.location.path == path and _speaks(place, heredoc):
            suffix = heredoc.target.rpartition(".")[2]
            file = SourceFile(f"{path}.{suffix}", heredoc.text)
            try:
                return Source(place, file, read_config(file), heredoc)
            except UnreadableError as error:
                return Refused(f"{heredoc.target} cannot be read: {error}")
    return Refused(f"{path} holds no configuration that can be edited")


def _heredocs(place: Place) -> list[Heredoc]:
    scripts = [place.facts.scripts[p] for p in place.job.files if p in place.facts.scripts]
    jobfiles = place.facts.sources.jobfiles
    scripts += [s for p in place.job.files for s in jobfiles.get(p, ())]
    return [heredoc for script in scripts for heredoc in script.heredocs]


def _speaks(place: Place, heredoc: Heredoc) -> bool:
    """True when the setting stands in the heredoc; for one that is new: when any does."""
    if place.setting.value_at is not None:
        return _within(place.setting.value_at, heredoc)
    places = (s.value_at for s in place.job.written() if s.surface in SURFACES)
    return any(_within(at, heredoc) for at in places if at)


def _within(at: Location, heredoc: Heredoc) -> bool:
    outer = heredoc.location
    inside = outer.span.start <= at.span.start and at.span.end <= outer.span.end
    return outer.path == at.path and inside


def _moved(edit: Edit, heredoc: Heredoc, place: Place) -> Edit | None:
    """An edit of the written file as one of the script, when it lies in one exact piece."""
    start = 0
    for piece in heredoc.pieces:
        end = start + len(piece.text)
        if start <= edit.span.start and edit.span.end <= end and piece.exact and piece.known:
            at = piece.location.span.start - start
            file = place.file(piece.location.path)
            span = Span(edit.span.start + at, edit.span.end + at)
            if isinstance(file, Refused) or file.text[span.start : span.end] != edit.old:
                return None
            return Edit(file.path, span, edit.old, edit.text)
        start = end
    return None


def set_value(place: Place, written: Scalar) -> Outcome:
    """Another value for the key."""
    found = source(place, place.path)
    if isinstance(found, Refused):
        return found
    path = _key_path(found)
    if path is None:
        return Refused(f"the key {place.setting.name} is not found again")
    return found.finished(set_key(found.file, found.surface, path, written))


def remove(place: Place) -> Outcome:
    """The key goes."""
    found = source(place, place.path)
    if isinstance(found, Refused):
        return found
    path = _key_path(found)
    if path is None:
        return Refused(f"the key {place.setting.name} is not found again")
    return found.finished(_remove_key(found.file, found.surface, path))


def silence(place: Place, row: Spelling) -> Outcome:
    """The key says nothing about the knob any more: false for a switch; else it goes."""
    return set_value(place, False) if row.type == "bool" else remove(place)


def respell(place: Place, old: Spelling, new: Spelling, value: Scalar) -> Outcome:
    """Another name for the knob: in place of the old one, or beside it where both are written."""
    found, written = source(place, place.path), new.written(value)
    if isinstance(written, Unwritable):
        return Refused(written.why)
    if isinstance(found, Refused):
        return found
    path = _key_path(found)
    if path is None:
        return Refused(f"the key {place.setting.name} is not found again")
    target = (*path[: len(path) - len(old.name.split("."))], *new.name.split("."))
    if target[:-1] == path[:-1] and not found.config.has(*target):
        return found.finished(_rename_key(found.file, found.surface, path, target[-1], written))
    return found.finished(_one_for_other(found, path, old, target, written))


def _one_for_other(
    found: Source, path: Path, old: Spelling, target: Path, written: Scalar
) -> Outcome:
    first = set_key(found.file, found.surface, target, written)
    if isinstance(first, Refused):
        return first
    done = first.patch.edits if isinstance(first, Changed) else ()
    middle = SourceFile(found.file.path, apply_edits(found.file, done))
    if old.type == "bool":
        second = set_key(middle, found.surface, path, False)
    else:
        second = _remove_key(middle, found.surface, path)
    if isinstance(second, Refused):
        return second
    done = second.patch.edits if isinstance(second, Changed) else ()
    return Changed(Patch(edits_between(found.file, apply_edits(middle, done))))


def _key_path(found: Source) -> Path | None:
    """The path of the key that the setting stands for; its name may begin below another file's
    key, and be a part of the path only."""
    setting = found.place.setting
    here = [e.path for e in found.config.entries if _written_at(found, e) == setting.value_at]
    named = [p for p in here if setting.name == ".".join(map(str, p))]
    ends = [p for p in here if setting.name.endswith("." + ".".join(map(str, p)))]
    chosen = named or ends
    return chosen[0] if len(chosen) == 1 else None


def _written_at(found: Source, entry: Entry) -> Location | None:
    """Where a value stands in the tree."""
    if found.heredoc is None:
        return entry.value_at
    span = entry.value_at.span
    edit = _moved(Edit.replace(found.file, span, ""), found.heredoc, found.place)
    file = found.place.file(edit.path) if edit else None
    if edit is None or file is None or isinstance(file, Refused):
        return None
    return file.location(edit.span.start, edit.span.end)


def set_key(
    file: SourceFile, surface: Surface, path: Path, value: Scalar, beside: Path | None = None
) -> Outcome:
    """Set or insert a key of a file of any kind."""
    if surface is Surface.YAML:
        return edit_yaml.set_key(file, path, value, beside=beside)
    if surface is Surface.JSON:
        return edit_json.set_key(file, path, value, beside=beside)
    return edit_toml.set_key(file, path, value, beside=beside)


def _remove_key(file: SourceFile, surface: Surface, path: Path) -> Outcome:
    if surface is Surface.YAML:
        return edit_yaml.remove_key(file, path)
    if surface is Surface.JSON:
        return edit_json.remove_key(file, path)
    return edit_toml.remove_key(file, path)


def _rename_key(
    file: SourceFile, surface: Surface, path: Path, name: str | int, value: Scalar
) -> Outcome:
    if surface is Surface.YAML:
        return edit_yaml.rename_key(file, path, str(name), value)
    if surface is Surface.JSON:
        return edit_json.rename_key(file, path, str(name), value)
    return edit_toml.rename_key(file, path, str(name), value)
