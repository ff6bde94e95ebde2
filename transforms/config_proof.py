"""Proof of an edit to a configuration file: read again, exactly the intended key differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from pitstop.rules.configs import ConfigFile, Entry, read_config
from pitstop.rules.finding import Scalar, Unknown, Value
from pitstop.rules.tree import SourceFile, UnreadableError
from pitstop.transforms.patch import Changed, Edit, Outcome, Patch, Refused, apply_edits

Path = tuple[str | int, ...]

ABSENT = object()
"""In place of a value: the key must be gone."""


def dotted(path: Path) -> str:
    """A path as people write it."""
    return ".".join(str(part) for part in path)


def read_or_refuse(file: SourceFile) -> ConfigFile | Refused:
    """The file as the reader sees it, or why it cannot be edited."""
    try:
        return read_config(file)
    except UnreadableError as error:
        return Refused(f"{file.path} cannot be read: {error}")


def same(a: Value, b: object) -> bool:
    """Equal in type as well: `true` is not 1, but 1 and 1.0 are one number."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a == b
    return type(a) is type(b) and a == b


def find(config: ConfigFile, path: Path, document: int) -> Entry | None:
    """The entry at a path of one document."""
    for entry in config.entries:
        if entry.document == document and _equal(entry.path, path):
            return entry
    return None


def proved(
    before: SourceFile,
    config: ConfigFile,
    edits: Iterable[Edit],
    changes: Mapping[Path, Scalar | object],
    document: int,
    comments: Callable[[SourceFile], list[str]],
) -> Outcome:
    """The patch, when reading the result shows each wanted value (or ABSENT) at its path, every
    other entry and every comment outside removed text unchanged."""
    edits = tuple(edits)
    after = SourceFile(before.path, apply_edits(before, edits))
    try:
        result = read_config(after)
        kept = Counter(comments(before)) - Counter(comments(after))
    except UnreadableError as error:
        return Refused(f"{before.path} would not be readable after the change: {error}")
    for path, value in changes.items():
        found = find(result, path, document)
        if value is ABSENT and found is not None:
            return Refused(f"{dotted(path)} would still be set, by a merge or a second place")
        if value is not ABSENT and (found is None or not same(found.value, value)):
            return Refused(f"{dotted(path)} would not read as {value!r} after the change")
    other = _difference(config, result, tuple(changes), document)
    if other:
        return Refused(f"the change would also change {other}")
    if any(not _inside(text, edits) for text in kept):
        return Refused("the change would swallow a comment")
    return Changed(Patch(edits))


def _difference(
    before: ConfigFile, after: ConfigFile, changed: tuple[Path, ...], document: int
) -> str | None:
    """The first other entry that differs."""
    old, new = (Counter(_others(c, changed, document)) for c in (before, after))
    for (_, where, _, _), _ in ((old - new) + (new - old)).items():
        return dotted(where)
    if len(before.duplicates) != len(after.duplicates):
        return "the number of duplicate keys"
    return None


def _others(
    config: ConfigFile, changed: tuple[Path, ...], document: int
) -> Iterable[tuple[int, Path, str, str]]:
    """Entries that are neither at, nor below a changed path; an ancestor is only ever an entry
    while it is empty."""
    for e in config.entries:
        if e.document == document and any(_related(e.path, path) for path in changed):
            continue
        value = e.value
        text = "unknown" if isinstance(value, Unknown) else f"{type(value).__name__}:{value!r}"
        yield e.document, e.path, text, e.raw


def _related(a: Path, b: Path) -> bool:
    size = min(len(a), len(b))
    return _equal(a[:size], b[:size])


def _equal(a: Path, b: Path) -> bool:
    return len(a) == len(b) and all(str(x) == str(y) for x, y in zip(a, b, strict=True))


def _inside(comment: str, edits: Iterable[Edit]) -> bool:
    return any(comment in edit.old for edit in edits)
