"""The written structure of a JSON file, comments and trailing commas allowed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from pitstop.rules.finding import Span
from pitstop.rules.tree import SourceFile, UnreadableError

MAX_NESTING = 200

_BLANK = re.compile(r"(?:[\s\ufeff]|//[^\r\n]*|\#[^\r\n]*|/\*.*?\*/)*+", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\r\n]|\\.)*+"')
_WORD = re.compile(r"[-+.\w]+")
_COMMENT = re.compile(r'"(?:[^"\\\r\n]|\\.)*"|//[^\r\n]*|\#[^\r\n]*|/\*.*?\*/', re.DOTALL)


@dataclass(slots=True)
class Node:
    """An object, an array or a scalar; `names` are the spans of an object's keys."""

    kind: str  # object | array | scalar
    start: int
    end: int = 0
    keys: list[str] = field(default_factory=list)
    names: list[Span] = field(default_factory=list)
    values: list[Node] = field(default_factory=list)

    @property
    def members(self) -> tuple[Span, ...]:
        """From each key to its value's end."""
        pairs = zip(self.names, self.values, strict=True)
        return tuple(Span(name.start, value.end) for name, value in pairs)


def document(file: SourceFile) -> Node:
    """The root node. Raises UnreadableError with the line where the file stops being JSON."""
    root, at = _value(file, _blank(file.text, 0), 0)
    at = _blank(file.text, at)
    if at < len(file.text):
        raise _error(file, at, "more than one value")
    return root


def comments(file: SourceFile) -> list[str]:
    """Every comment's text."""
    found = (m[0] for m in _COMMENT.finditer(file.text))
    return [text for text in found if not text.startswith('"')]


def _value(file: SourceFile, at: int, depth: int) -> tuple[Node, int]:
    text = file.text
    if depth > MAX_NESTING:
        raise _error(file, at, "nested too deeply")
    if text.startswith("{", at) or text.startswith("[", at):
        return _collection(file, at, depth)
    found = _STRING.match(text, at) or _WORD.match(text, at)
    if not found:
        raise _error(file, at, "a value is missing")
    return Node("scalar", at, found.end()), found.end()


def _collection(file: SourceFile, at: int, depth: int) -> tuple[Node, int]:
    text = file.text
    node = Node("object" if text[at] == "{" else "array", at)
    closing = "}" if text[at] == "{" else "]"
    at = _blank(text, at + 1)
    while not text.startswith(closing, at):
        if node.kind == "object":
            at = _key(file, node, at)
        value, at = _value(file, at, depth + 1)
        node.values.append(value)
        at = _blank(text, at)
        if text.startswith(",", at):
            at = _blank(text, at + 1)
        elif not text.startswith(closing, at):
            raise _error(file, at, f"',' or '{closing}' is missing")
    node.end = at + 1
    return node, at + 1


def _key(file: SourceFile, node: Node, at: int) -> int:
    found = _STRING.match(file.text, at)
    if not found:
        raise _error(file, at, "a key in double quotes is missing")
    try:
        node.keys.append(str(json.loads(found[0], strict=False)))
    except ValueError as error:
        raise _error(file, at, "a key is not a string") from error
    node.names.append(Span(at, found.end()))
    at = _blank(file.text, found.end())
    if not file.text.startswith(":", at):
        raise _error(file, at, "':' is missing")
    return _blank(file.text, at + 1)


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _error(file: SourceFile, at: int, what: str) -> UnreadableError:
    return UnreadableError(f"line {file.position(min(at, len(file.text)))[0]}: {what}")
