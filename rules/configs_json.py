"""JSON with the place of every key and value. Comments and trailing commas are let pass, as
the tools that read JSON configurations do or should; everything else is as strict as `json`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]  # the stubs leave it out
from typing import Literal

from pitstop.rules.configs import (
    MAX_DEPTH,
    MAX_ENTRIES,
    ConfigFile,
    DuplicateKey,
    Entry,
    Path,
    Section,
)
from pitstop.rules.finding import Location, Scalar, Unknown, Value
from pitstop.rules.notes import note_beside
from pitstop.rules.tree import SourceFile, UnreadableError

# No possessive quantifiers: before Python 3.11.5 they give up matches (python/cpython#106052).
_GAP = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?(?![\w.])")
_WORDS: dict[str, Scalar] = {
    "true": True, "false": False, "null": None,
    "NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf"),
}  # fmt: skip
_WORD = re.compile(r"-?[A-Za-z]+")
_MAX_DIGITS = 4_000


@dataclass(slots=True)
class _Frame:
    """An object or array that is being read."""

    path: Path
    start: int
    key: tuple[int, int] | None
    is_object: bool
    entries: list[Entry] = field(default_factory=list)
    nested: bool = False
    count: int = 0
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)


def read_json(file: SourceFile) -> ConfigFile:
    """The file's leaves. Raises UnreadableError with the line of the first error."""
    return _Reader(file).read()


class _Reader:
    """An iterative parser: nesting costs no stack."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.text = file.text
        self.at = 1 if file.text.startswith("\ufeff") else 0
        self.sections: list[Section] = []
        self.duplicates: list[DuplicateKey] = []
        self._steps = 0
        self._notes = "//" in file.text

    def read(self) -> ConfigFile:
        """Reads one value that fills the file."""
        top = _Frame((), self.at, None, is_object=False)
        stack = [top]
        self._value(stack, (), None)
        while len(stack) > 1:
            self._member(stack)
        self._gap()
        if self.at != len(self.text):
            raise self._error("more text after the end")
        return ConfigFile(
            self.file.path,
            "json",
            tuple(top.entries),
            tuple(sorted(self.sections, key=lambda s: s.at.span.start)),
            tuple(self.duplicates),
        )

    def _member(self, stack: list[_Frame]) -> None:
        """The next member of the innermost collection, or its end."""
        frame = stack[-1]
        self._gap()
        if frame.count and not self._closes(frame):
            if not self._take(","):
                raise self._error("a comma or the end of the collection is missing")
            self._gap()
        if self._closes(frame):
            self.at += 1
            stack.pop()
            self._close(frame, stack[-1])
            return
        frame.count += 1
        if frame.is_object:
            name, key = self._key(frame)
            self._value(stack, (*frame.path, name), key)
        else:
            self._value(stack, (*frame.path, frame.count - 1), None)

    def _key(self, frame: _Frame) -> tuple[str, tuple[int, int]]:
        if not self.text.startswith('"', self.at):
            raise self._error("a key in double quotes is missing")
        start = self.at
        name = self._string()
        key = (start, self.at)
        if name in frame.keys:
            path = (*frame.path, name)
            first = self._location(*frame.keys[name])
            self.duplicates.append(DuplicateKey(path, first, self._location(*key)))
            depth = len(path)
            frame.entries = [e for e in frame.entries if e.path[:depth] != path]
            self.sections = [s for s in self.sections if s.path[:depth] != path]
        frame.keys[name] = key
        self._gap()
        if not self._take(":"):
            raise self._error("a colon is missing")
        return name, key

    def _value(self, stack: list[_Frame], path: Path, key: tuple[int, int] | None) -> None:
        """Reads a scalar, or opens a collection."""
        self._gap()
        self._steps += 1
        if self._steps > MAX_ENTRIES:
            raise self._error("more values than a configuration has")
        start = self.at
        opening = self.text[start : start + 1]
        if opening in ("{", "["):
            if len(stack) > MAX_DEPTH:
                raise self._error(f"nested deeper than {MAX_DEPTH} levels")
            self.at += 1
            stack.append(_Frame(path, start, key, opening == "{"))
            stack[-2].nested = True
            return
        value = self._scalar()
        stack[-1].entries.append(self._entry(path, value, start, key))

    def _close(self, frame: _Frame, parent: _Frame) -> None:
        """A closed collection becomes one leaf (scalars only, or empty) or a section."""
        if frame.nested or (frame.is_object and frame.entries):
            at = self._location(frame.start, self.at)
            key_at = self._location(*frame.key) if frame.key else None
            kind: Literal["mapping", "sequence"] = "mapping" if frame.is_object else "sequence"
            self.sections.append(Section(frame.path, at, key_at, "flow", kind))
            parent.entries += frame.entries
            return
        items = tuple(frame.entries)
        values = [e.value for e in items]
        unknown = next((v for v in values if isinstance(v, Unknown)), None)
        value = unknown or tuple(v for v in values if not isinstance(v, (tuple, Unknown)))
        parent.entries.append(self._entry(frame.path, value, frame.start, frame.key, items))

    def _entry(
        self,
        path: Path,
        value: Value,
        start: int,
        key: tuple[int, int] | None,
        items: tuple[Entry, ...] = (),
    ) -> Entry:
        key_at = self._location(*key) if key else None
        value_at = self._location(start, self.at)
        line = (key_at or value_at).line
        note = note_beside(self.file, line, self.at, "//") if self._notes else None
        raw = self.text[start : self.at]
        return Entry(path, value, raw, value_at, key_at, note=note, items=items)

    def _scalar(self) -> Value:
        if self.text.startswith('"', self.at):
            text = self._string()
            whole = text.startswith("${") and text.endswith("}")
            return Unknown(f"the interpolation {text!r}") if whole else text
        if match := _NUMBER.match(self.text, self.at):
            self.at = match.end()
            return _number(match)
        if (match := _WORD.match(self.text, self.at)) and match.group() in _WORDS:
            self.at = match.end()
            return _WORDS[match.group()]
        raise self._error("a value is missing or not JSON")

    def _string(self) -> str:
        try:
            text, self.at = scanstring(self.text, self.at + 1, False)
        except JSONDecodeError as error:
            raise self._error("a string does not end or has a bad escape") from error
        return str(text)

    def _closes(self, frame: _Frame) -> bool:
        return self.text.startswith("}" if frame.is_object else "]", self.at)

    def _take(self, char: str) -> bool:
        found = self.text.startswith(char, self.at)
        self.at += found
        return found

    def _gap(self) -> None:
        match = _GAP.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _location(self, start: int, end: int) -> Location:
        return self.file.location(start, end)

    def _error(self, reason: str) -> UnreadableError:
        line = self.file.position(min(self.at, len(self.text)))[0]
        return UnreadableError(f"line {line}: {reason}")


def _number(match: re.Match[str]) -> Value:
    text = match.group()
    if match.group(1) or match.group(2):
        return float(text)
    if len(text) > _MAX_DIGITS:
        return Unknown("a number of thousands of digits")
    return int(text)
