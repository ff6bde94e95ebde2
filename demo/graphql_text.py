"""Reads a GraphQL document: operations, fragments, fields with arguments and selections.

The October 2021 edition's executable documents, less block strings and directives' effects
(directives are read and passed over, but for @include and @skip, which are refused).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TOKEN = re.compile(
    r"""(?P<skip>[\s,\ufeff]+|\#[^\n]*)
    |(?P<punct>\.\.\.|[{}()\[\]:=!$@|&])
    |(?P<name>[_A-Za-z]\w*)
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<block>\"\"\"(?:.|\n)*?\"\"\")
    |(?P<string>"(?:[^"\\\n]|\\.)*")""",
    re.VERBOSE,
)


class SyntaxProblem(Exception):  # noqa: N818 - reported to the client, not to us
    """The document does not parse: what was met, and where."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Variable:
    """A `$name` in an argument."""

    name: str


@dataclass(frozen=True, slots=True)
class Field:
    """A field with its alias, arguments and what is wanted of it. Lines count from 1."""

    name: str
    alias: str
    arguments: Mapping[str, Any]
    selections: tuple[Selection, ...]
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of a selection that holds for one type, or for any when `on` is None. `spread` is
    the name of a fragment written elsewhere."""

    on: str | None
    selections: tuple[Selection, ...]
    spread: str | None = None


Selection = Field | Fragment


@dataclass(frozen=True, slots=True)
class Operation:
    """A query or mutation. `variables` maps a name to its type and default."""

    kind: str
    name: str | None
    variables: Mapping[str, tuple[str, Any]]
    selections: tuple[Selection, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """All operations and named fragments of a request."""

    operations: tuple[Operation, ...]
    fragments: Mapping[str, Fragment] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int
    column: int


def parse(text: str) -> Document:
    """The document. Raises SyntaxProblem."""
    return _Reader(text).document()


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, text: str | None = None, kind: str | None = None) -> _Token:
        token = self._next
        if (text is not None and token.text != text) or (kind is not None and token.kind != kind):
            wanted = text or kind
            raise SyntaxProblem(
                f"Expected {wanted}, actual: {token.text or 'end of file'}",
                token.line,
                token.column,
            )
        self._at += 1
        return token

    def _try(self, text: str) -> bool:
        if self._next.text == text and self._next.kind != "string":
            self._at += 1
            return True
        return False

    def document(self) -> Document:
        operations, fragments = [], {}
        while self._next.kind != "end":
            if self._next.text == "fragment":
                self._take()
                name = self._take(kind="name").text
                self._take("on")
                on = self._take(kind="name").text
                self._directives()
                fragments[name] = Fragment(on, self._selections())
            else:
                operations.append(self._operation())
        return Document(tuple(operations), fragments)

    def _operation(self) -> Operation:
        if self._next.text == "{":
            return Operation("query", None, {}, self._selections())
        kind = self._take(kind="name")
        if kind.text not in ("query", "mutation"):
            raise SyntaxProblem(f"Unexpected {kind.text}", kind.line, kind.column)
        name = self._take().text if self._next.kind == "name" else None
        variables: dict[str, tuple[str, Any]] = {}
        if self._try("("):
            while not self._try(")"):
                self._take("$")
                variable = self._take(kind="name").text
                self._take(":")
                written = self._type()
                variables[variable] = (written, self._value() if self._try("=") else None)
        self._directives()
        return Operation(kind.text, name, variables, self._selections())

    def _type(self) -> str:
        if self._try("["):
            inner = f"[{self._type()}]"
            self._take("]")
        else:
            inner = self._take(kind="name").text
        return inner + "!" if self._try("!") else inner

    def _directives(self) -> None:
        while self._next.text == "@":
            token = self._take()
            name = self._take(kind="name").text
            if name in ("include", "skip"):
                message = f"@{name} is not served here"
                raise SyntaxProblem(message, token.line, token.column)
            if self._try("("):
                self._arguments()

    def _selections(self) -> tuple[Selection, ...]:
        self._take("{")
        found = []
        while not self._try("}"):
            found.append(self._fragment() if self._try("...") else self._field())
        return tuple(found)

    def _fragment(self) -> Fragment:
        if self._next.text == "on":
            self._take()
            on = self._take(kind="name").text
            self._directives()
            return Fragment(on, self._selections())
        if self._next.kind == "name":
            return Fragment(None, (), self._take().text)
        self._directives()
        return Fragment(None, self._selections())

    def _field(self) -> Field:
        first = self._take(kind="name")
        name = self._take(kind="name").text if self._try(":") else first.text
        arguments = self._arguments() if self._try("(") else {}
        self._directives()
        selections = self._selections() if self._next.text == "{" else ()
        return Field(name, first.text, arguments, selections, first.line, first.column)

    def _arguments(self) -> dict[str, Any]:
        found = {}
        while not self._try(")"):
            name = self._take(kind="name").text
            self._take(":")
            found[name] = self._value()
        return found

    def _value(self) -> Any:
        token = self._take()
        if token.kind in ("string", "number"):
            return json.loads(token.text)
        if token.kind == "block":
            return token.text[3:-3].strip("\n")
        if token.text == "$":
            return Variable(self._take(kind="name").text)
        if token.text == "[":
            items = []
            while not self._try("]"):
                items.append(self._value())
            return items
        if token.text == "{":
            members = {}
            while not self._try("}"):
                name = self._take(kind="name").text
                self._take(":")
                members[name] = self._value()
            return members
        if token.kind == "name":
            return {"true": True, "false": False, "null": None}.get(token.text, token.text)
        raise SyntaxProblem(f"Unexpected {token.text}", token.line, token.column)


def _tokens(text: str) -> list[_Token]:
    found = []
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        line = text.count("\n", 0, at) + 1
        column = at - text.rfind("\n", 0, at)
        if match is None:
            raise SyntaxProblem(f"Unexpected {text[at]!r}", line, column)
        kind = match.lastgroup or ""
        if kind != "skip":
            found.append(_Token(kind, match[0], line, column))
        at = match.end()
    found.append(_Token("end", "", text.count("\n") + 1, 1))
    return found
