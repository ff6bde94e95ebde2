"""TOML: values from `tomllib`, places from a small scanner; where the two disagree the leaf is
left out and reported as unread."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from pitstop.rules.configs import (
    MAX_DEPTH,
    MAX_ENTRIES,
    ConfigFile,
    Entry,
    Path,
    Section,
)
from pitstop.rules.finding import Scalar, Unknown, Unread, Value
from pitstop.rules.notes import note_beside
from pitstop.rules.tree import SourceFile, UnreadableError

_LINE = re.compile(r"line (\d+)")
# No possessive quantifiers: before Python 3.11.5 they give up matches (python/cpython#106052).
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
_LONG_BASIC = re.compile(r'"""[^"\\]*(?:(?:\\[\s\S]|"(?!""))[^"\\]*)*"{3,5}')
_LONG_LITERAL = re.compile(r"'''[^']*(?:'(?!'')[^']*)*'{3,5}")
_WORD = re.compile(r"[^\s,\]}#]+(?: (?=\d\d:)[^\s,\]}#]+)?")


def read_toml(file: SourceFile) -> ConfigFile:
    """The file's leaves. Raises UnreadableError with the line of the first error."""
    data = _load(file)
    scanner = _Scanner(file)
    try:
        scanner.scan()
    except _UnsureError:
        line = file.position(min(scanner.at, len(file.text)))[0]
        scanner.unread.append(Unread(file.path, "the rest of the file was not understood", line))
    return scanner.finish(data)


def _load(file: SourceFile) -> dict[str, Any]:
    text = file.text.removeprefix("\ufeff")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _LINE.search(str(error))
        line = int(found.group(1)) if found else text.count("\n") + 1
        reason = str(error).split(" (at")[0]
        raise UnreadableError(f"line {line}: {reason}") from error
    except (RecursionError, ValueError) as error:
        raise UnreadableError("not TOML within our limits") from error


class _UnsureError(Exception):
    """The scanner lost its way."""


class _Scanner:
    """Walks statements; trusts that the text is valid TOML, because tomllib has read it."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.text = file.text
        self.at = 1 if file.text.startswith("\ufeff") else 0
        self.entries: list[tuple[Path, int, int, int, int, tuple[tuple[int, int], ...]]] = []
        self.sections: list[Section] = []
        self.unread: list[Unread] = []
        self._tables: dict[Path, int] = {}

    def scan(self) -> None:
        """Every statement of the file."""
        table: Path = ()
        while self._skip(_BLANK) < len(self.text):
            if self.text.startswith("[", self.at):
                table = self._header()
            else:
                self._pair(table, 0)
            if len(self.entries) > MAX_ENTRIES:
                raise UnreadableError("more values than a configuration has")

    def _header(self) -> Path:
        start = self.at
        double = self.text.startswith("[[", self.at)
        self.at += 2 if double else 1
        key_start = self._skip(_SPACE)
        parts = self._key()
        key_end = self.at
        self._skip(_SPACE)
        self._expect("]]" if double else "]")
        table = self._resolved(parts, double)
        self.sections.append(
            Section(
                table,
                self.file.location(start, self.at),
                self.file.location(key_start, key_end),
                "block",
                "mapping",
            )
        )
        return table

    def _resolved(self, parts: tuple[str, ...], double: bool) -> Path:
        """The header's path with the index of each array of tables it goes through."""
        path: Path = ()
        for number, part in enumerate(parts):
            path = (*path, part)
            last = number == len(parts) - 1
            if last and double:
                self._tables[path] = self._tables.get(path, -1) + 1
            if path in self._tables:
                path = (*path, self._tables[path])
        return path

    def _pair(self, table: Path, depth: int) -> None:
        start = self.at
        parts = self._key()
        end = self.at
        self._skip(_SPACE)
        self._expect("=")
        self._skip(_SPACE)
        self._value((*table, *parts), (start, end), depth)

    def _value(self, path: Path, key: tuple[int, int], depth: int) -> None:
        if depth > MAX_DEPTH or len(path) > MAX_DEPTH:
            raise _UnsureError
        start = self.at
        items: list[tuple[int, int]] = []
        if self.text.startswith("{", self.at):
            if self._table(path, key, depth):
                return
        elif self.text.startswith("[", self.at):
            self._array(items, depth)
        else:
            self._word()
        self.entries.append((path, start, self.at, *key, tuple(items)))

    def _table(self, path: Path, key: tuple[int, int], depth: int) -> bool:
        """An inline table's pairs; False when it is empty, which is a leaf."""
        start = self.at
        self.at += 1
        some = False
        while True:
            self._skip(_BLANK)
            if self.text.startswith("}", self.at):
                self.at += 1
                break
            some = True
            self._pair(path, depth + 1)
            self._skip(_BLANK)
            if not self.text.startswith("}", self.at):
                self._expect(",")
        if some:
            at, key_at = self.file.location(start, self.at), self.file.location(*key)
            self.sections.append(Section(path, at, key_at, "flow", "mapping"))
        return some

    def _array(self, items: list[tuple[int, int]], depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _UnsureError
        self._expect("[")
        while self._skip(_BLANK) >= 0:
            if self.text.startswith("]", self.at):
                self.at += 1
                return
            start = self.at
            if self.text.startswith("[", self.at):
                self._array([], depth + 1)
            elif self.text.startswith("{", self.at):
                kept = len(self.entries)
                sections = len(self.sections)
                self._table((), (start, start), depth + 1)
                del self.entries[kept:], self.sections[sections:]
            else:
                self._word()
            items.append((start, self.at))
            self._skip(_BLANK)
            if not self.text.startswith("]", self.at):
                self._expect(",")

    def _key(self) -> tuple[str, ...]:
        parts: list[str] = []
        while True:
            self._skip(_SPACE)
            start = self.at
            for pattern in (_BARE, _BASIC, _LITERAL):
                if match := pattern.match(self.text, self.at):
                    self.at = match.end()
                    break
            else:
                raise _UnsureError
            word = self.text[start : self.at]
            parts.append(_parsed(word) if word[0] in "\"'" else word)
            end = self._skip(_SPACE)
            if not self.text.startswith(".", end):
                self.at = start + len(word)
                return tuple(parts)
            self.at += 1

    def _word(self) -> None:
        for pattern in (_LONG_BASIC, _LONG_LITERAL, _BASIC, _LITERAL, _WORD):
            if match := pattern.match(self.text, self.at):
                self.at = match.end()
                return
        raise _UnsureError

    def _skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at

    def _expect(self, text: str) -> None:
        if not self.text.startswith(text, self.at):
            raise _UnsureError
        self.at += len(text)

    def finish(self, data: dict[str, Any]) -> ConfigFile:
        """The leaves whose place and value agree."""
        entries: list[Entry] = []
        for path, start, end, key_start, key_end, items in self.entries:
            raw = self.text[start:end]
            actual = _lookup(data, path)
            if not _same(_parsed(raw), actual):
                line = self.file.position(start)[0]
                self.unread.append(Unread(self.file.path, "a value was not understood", line))
                continue
            value = _value(actual)
            key_at = self.file.location(key_start, key_end)
            members = actual if isinstance(actual, list) and len(actual) == len(items) else []
            inner = tuple(
                Entry((*path, i), _value(m), self.text[a:b], self.file.location(a, b), None)
                for i, (m, (a, b)) in enumerate(zip(members, items, strict=False))
            )
            note = note_beside(self.file, key_at.line, end)
            place = self.file.location(start, end)
            entries.append(Entry(path, value, raw, place, key_at, note=note, items=inner))
        return ConfigFile(
            self.file.path, "toml", tuple(entries), tuple(self.sections), (), tuple(self.unread)
        )


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return _UnsureError


def _same(one: Any, other: Any) -> bool:
    """Equal in type too; NaN is itself."""
    try:
        return repr(one) == repr(other)
    except RecursionError:
        return False


def _lookup(data: Any, path: Path) -> Any:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return _UnsureError
    return data


def _value(actual: Any) -> Value:
    if actual is None or isinstance(actual, (bool, int, float, str)):
        return actual
    if isinstance(actual, list):
        members: list[Scalar] = []
        for member in actual:
            if not isinstance(member, (bool, int, float, str)):
                return Unknown("a nested array")
            members.append(member)
        return tuple(members)
    if isinstance(actual, dict) and not actual:
        return ()
    return Unknown(f"a {type(actual).__name__}")
