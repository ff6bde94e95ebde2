"""Set and remove keys of a JSON file by splicing its text; comments and trailing commas stay."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from pitstop.rules.configs import ConfigFile
from pitstop.rules.finding import Scalar, Span, Unknown
from pitstop.rules.tree import SourceFile, UnreadableError
from pitstop.transforms import json_nodes
from pitstop.transforms.config_proof import (
    ABSENT,
    Path,
    dotted,
    find,
    proved,
    read_or_refuse,
    same,
)
from pitstop.transforms.json_nodes import Node
from pitstop.transforms.members import (
    Members,
    indent_step,
    insert_member,
    line_start,
    newline,
    remove_member,
)
from pitstop.transforms.patch import Edit, Outcome, Refused, Unchanged

Edits = tuple[Edit, ...] | Refused


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a path leads: a member of an object, or the object that lacks `rest`."""

    parent: Node
    index: int | None
    rest: Path


def set_key(file: SourceFile, path: Path, value: Scalar, *, beside: Path | None = None) -> Outcome:
    """Set `path` to `value`, inserting it (behind key `beside`, else last) where it is missing."""
    opened = _open(file, path)
    if isinstance(opened, Refused):
        return opened
    config, place = opened
    entry = find(config, path, 0)
    if entry is not None and same(entry.value, value):
        return Unchanged()
    if entry is not None and isinstance(entry.value, Unknown):
        return Refused(f"{dotted(path)} is computed: {entry.value.why}")
    text = written(value)
    if text is None:
        return Refused(f"{value} cannot be written in JSON")
    if place.index is not None:
        node = place.parent.values[place.index]
        if node.kind != "scalar":
            return Refused(
                f"{dotted(path)} holds {'an' if node.kind[0] in 'ao' else 'a'} {node.kind}"
            )
        edits: Edits = (Edit.replace(file, Span(node.start, node.end), text),)
    else:
        edits = _insert(file, place, text, _sibling(place, path, beside))
    if isinstance(edits, Refused):
        return edits
    return proved(file, config, edits, {path: value}, 0, json_nodes.comments)


def remove_key(file: SourceFile, path: Path) -> Outcome:
    """Remove `path` with everything below it; comments on lines of their own stay."""
    opened = _open(file, path)
    if isinstance(opened, Refused):
        return opened
    config, place = opened
    if place.index is None:
        return Unchanged("not set")
    edits = remove_member(_members(file, place.parent), place.index)
    return proved(file, config, edits, {path: ABSENT}, 0, json_nodes.comments)


def rename_key(file: SourceFile, path: Path, name: str, value: Scalar) -> Outcome:
    """Write `"name": value` in place of the key at `path`: one spelling instead of another."""
    opened = _open(file, path)
    if isinstance(opened, Refused):
        return opened
    config, place = opened
    text = written(value)
    if place.index is None or text is None:
        return Refused(f"{dotted(path)} is not written here, or {value} cannot be")
    if name in place.parent.keys:
        return Refused(f"{name} is already written beside {dotted(path)}")
    node, key = place.parent.values[place.index], place.parent.names[place.index]
    if node.kind != "scalar":
        return Refused(f"{dotted(path)} holds an {node.kind}")
    edits = (
        Edit.replace(file, key, json.dumps(name, ensure_ascii=False)),
        Edit.replace(file, Span(node.start, node.end), text),
    )
    changes = {path: ABSENT, (*path[:-1], name): value}
    return proved(file, config, edits, changes, 0, json_nodes.comments)


def written(value: Scalar) -> str | None:
    """The text of a value; None for what JSON cannot say."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return json.dumps(value, ensure_ascii=False)


def _open(file: SourceFile, path: Path) -> tuple[ConfigFile, _Place] | Refused:
    config = read_or_refuse(file)
    if isinstance(config, Refused):
        return config
    try:
        root = json_nodes.document(file)
    except UnreadableError as error:
        return Refused(f"{file.path} cannot be read: {error}")
    place = _locate(root, path)
    return place if isinstance(place, Refused) else (config, place)


def _locate(root: Node, path: Path) -> _Place | Refused:
    node = root
    place: _Place | None = None
    for at, part in enumerate(path):
        if node.kind == "array" and isinstance(part, int) and part < len(node.values):
            place, node = None, node.values[part]
            continue
        if node.kind != "object":
            return Refused(f"{dotted(path[:at]) or 'the file'} is not an object")
        found = [i for i, key in enumerate(node.keys) if key == str(part)]
        if len(found) > 1:
            return Refused(f"{dotted(path[: at + 1])} is written {len(found)} times")
        place = _Place(node, found[0] if found else None, path[at:])
        if not found:
            return place
        node = node.values[found[0]]
    return place or Refused(f"{dotted(path)} is an item of an array")


def _sibling(place: _Place, path: Path, beside: Path | None) -> int | None:
    parent = path[: len(path) - len(place.rest)]
    if beside is None or beside[: len(parent)] != parent or len(beside) <= len(parent):
        return None
    name = str(beside[len(parent)])
    return place.parent.keys.index(name) if name in place.parent.keys else None


def _insert(file: SourceFile, place: _Place, text: str, after: int | None) -> Edits:
    if any(not isinstance(part, str) for part in place.rest):
        return Refused(f"{dotted(place.rest)} names an item of an array that is not there")
    colon = _colon(file, place.parent)
    if place.parent.values:
        own_line = _members(file, place.parent).own_line(-1 if after is None else after)
    else:
        own_line = "\n" in file.text.strip() or "\r" in file.text.strip()
    indent = _line_indent(
        file, place.parent.names[-1].start if place.parent.names else place.parent.start
    )
    step, mark = indent_step(file), newline(file, place.parent.start)
    inner = indent if place.parent.values else indent + step
    for level, part in reversed(list(enumerate(place.rest))):
        text = f"{json.dumps(part, ensure_ascii=False)}{colon}{text}"
        if level and own_line:
            text = f"{{{mark}{inner}{step * level}{text}{mark}{inner}{step * (level - 1)}}}"
        elif level:
            text = f"{{{text}}}"
    members = _members(file, place.parent)
    empty = file.text[members.inside.start : members.inside.end]
    if not place.parent.values and own_line and not empty.strip(" \t"):
        return (Edit.replace(file, members.inside, f"{mark}{inner}{text}{mark}{indent}"),)
    return insert_member(members, text, after)


def _members(file: SourceFile, node: Node) -> Members:
    return Members.between(file, Span(node.start + 1, node.end - 1), node.members, ("//", "#"))


def _line_indent(file: SourceFile, offset: int) -> str:
    start = line_start(file, offset)
    text = file.text[start:offset]
    return text[: len(text) - len(text.lstrip(" \t"))]


def _colon(file: SourceFile, node: Node) -> str:
    """What stands between a key and its value here, else in the file, else `: `."""
    for name, value in zip(node.names, node.values, strict=True):
        gap = file.text[name.end : value.start]
        if re.fullmatch(r"[ \t]*:[ \t]*", gap):
            return gap
    found = re.search(r'"([ \t]*:[ \t]*)["\d{\[tfn-]', file.text)
    return found[1] if found else ": "
