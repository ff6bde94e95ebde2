"""Set, rename and remove keys of a TOML file by splicing its text.

Keys that have a line of their own are edited; inline tables are left alone but for the values
in them.
"""

from __future__ import annotations

import json
import math

from pitstop.rules.configs import ConfigFile, Entry
from pitstop.rules.finding import Location, Scalar, Span, Unknown
from pitstop.rules.tree import SourceFile, UnreadableError
from pitstop.transforms.config_proof import (
    ABSENT,
    Path,
    dotted,
    find,
    proved,
    read_or_refuse,
    same,
)
from pitstop.transforms.members import line_end, line_start, newline
from pitstop.transforms.patch import Edit, Outcome, Refused, Unchanged


def set_key(file: SourceFile, path: Path, value: Scalar, *, beside: Path | None = None) -> Outcome:
    """Set `path` to `value`, inserting it into its table (behind key `beside`, else last) where
    it is missing."""
    config = read_or_refuse(file)
    if isinstance(config, Refused):
        return config
    entry = find(config, path, 0)
    if entry is not None and same(entry.value, value):
        return Unchanged()
    if entry is not None and isinstance(entry.value, Unknown | tuple):
        return Refused(f"{dotted(path)} is no plain value")
    text = written(value, entry.raw if entry else "")
    if text is None:
        return Refused(f"{value} cannot be written in TOML")
    if entry is not None:
        edit = Edit.replace(file, entry.value_at.span, text)
        return proved(file, config, (edit,), {path: value}, 0, comments)
    sibling = _sibling(file, config, path, beside)
    if sibling is None or not isinstance(path[-1], str):
        return Refused(f"there is no table in which {dotted(path)} could stand")
    end = line_end(file, sibling.value_at.span.end)
    indent = _indent(file, sibling.key_at)
    line = f"{newline(file, end)}{indent}{_key(path[-1])} = {text}"
    edit = Edit.replace(file, Span(end, end), line)
    return proved(file, config, (edit,), {path: value}, 0, comments)


def rename_key(file: SourceFile, path: Path, name: str, value: Scalar) -> Outcome:
    """Write `name = value` in place of the key at `path`."""
    config = read_or_refuse(file)
    if isinstance(config, Refused):
        return config
    entry, new = find(config, path, 0), (*path[:-1], name)
    text = written(value, entry.raw if entry else "")
    if entry is None or entry.key_at is None or text is None or config.has(*new):
        return Refused(f"{dotted(path)} cannot become {name}")
    edits = (
        Edit.replace(file, entry.key_at.span, _key(name)),
        Edit.replace(file, entry.value_at.span, text),
    )
    return proved(file, config, edits, {path: ABSENT, new: value}, 0, comments)


def remove_key(file: SourceFile, path: Path) -> Outcome:
    """Remove the line of a key."""
    config = read_or_refuse(file)
    if isinstance(config, Refused):
        return config
    entry = find(config, path, 0)
    if entry is None:
        return Unchanged("not set")
    if entry.key_at is None or _indent(file, entry.key_at) is None or not _alone(file, entry):
        return Refused(f"{dotted(path)} has no line of its own")
    start = line_start(file, entry.key_at.span.start)
    end = line_end(file, entry.value_at.span.end)
    after = end + (2 if file.text.startswith("\r\n", end) else int(end < len(file.text)))
    if after == end and start:
        start, after = line_end(file, start - 1), end
    edit = Edit.replace(file, Span(start, after), "")
    return proved(file, config, (edit,), {path: ABSENT}, 0, comments)


def written(value: Scalar, old: str = "") -> str | None:
    """The text of a value; an old string's quotes are kept. None for what TOML cannot say."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        literal = old.startswith("'") and "'" not in value and value.isprintable()
        return f"'{value}'" if literal else json.dumps(value, ensure_ascii=False)
    return repr(value)


def comments(file: SourceFile) -> list[str]:
    """Every comment's text. Raises UnreadableError for what is no TOML."""
    config = read_or_refuse(file)
    if isinstance(config, Refused):
        raise UnreadableError(config.reason)
    found: list[str] = []
    at = 0
    spans = sorted(e.value_at.span for e in config.entries)
    for span in [*spans, Span(len(file.text), len(file.text))]:
        for line in file.text[at : max(at, span.start)].splitlines():
            found += [line[line.index("#") :].rstrip()] if "#" in line else []
        at = max(at, span.end)
    return found


def _sibling(file: SourceFile, config: ConfigFile, path: Path, beside: Path | None) -> Entry | None:
    """The key of the same table behind which the new one goes."""
    table = [
        e
        for e in config.entries
        if e.path[:-1] == path[:-1] and _indent(file, e.key_at) is not None and _alone(file, e)
    ]
    chosen = [e for e in table if e.path == beside] or table
    return chosen[-1] if chosen else None


def _indent(file: SourceFile, at: Location | None) -> str | None:
    """The blanks before a key that begins its line."""
    if at is None:
        return None
    before = file.text[line_start(file, at.span.start) : at.span.start]
    return before if not before.strip() else None


def _alone(file: SourceFile, entry: Entry) -> bool:
    end = entry.value_at.span.end
    rest = file.text[end : line_end(file, end)].strip()
    return not rest or rest.startswith("#")


def _key(name: str) -> str:
    bare = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
    return name if bare else json.dumps(name, ensure_ascii=False)
