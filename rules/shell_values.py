"""What a shell variable holds: characters with their origin, splitting, joining, conditions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pitstop.rules.job import Word
from pitstop.rules.shell_text import ShellText

MAX_VALUE = 32_768
"""Characters of one variable; `A=$B$B` repeated would double without end."""
MAX_FRAGMENTS = 4_096
MAX_PIECES = 8
"""A word with more parts than this (JSON full of escapes) does not list them."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """Characters that come from one place. `why` says what could not be resolved; `soft` that
    it comes from outside the script (an argument, the environment), so that a default holds.
    `quoted` characters are not split into words. `default` ones may be given from outside."""

    text: str
    source: ShellText
    start: int
    end: int
    exact: bool = True
    why: str | None = None
    soft: bool = False
    condition: str | None = None
    note: str | None = None
    quoted: bool = False
    default: bool = False

    def cut(self, start: int, end: int) -> Fragment:
        """Part of the characters."""
        where = (self.start + start, self.start + end) if self.exact else (self.start, self.end)
        return Fragment(
            self.text[start:end], self.source, *where, self.exact, self.why, self.soft,
            self.condition, self.note, self.quoted, self.default,
        )  # fmt: skip


Field = tuple[Fragment, ...]
"""One shell word, or the value of one variable."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A variable. A plain one has one field, an array any number."""

    fields: tuple[Field, ...]
    array: bool = False
    exported: bool = False

    @property
    def value(self) -> Field:
        """What `$NAME` gives: an array's first element."""
        return self.fields[0] if self.fields else ()


@dataclass(slots=True)
class Scope:
    """Everything a command's meaning depends on at one point of a script.

    `arguments` are the positional parameters, None when the script is started by hand. `cwd` is
    relative to the tree's root, "" when not known.
    """

    source: ShellText
    script: str
    variables: dict[str, Binding] = field(default_factory=dict)
    functions: dict[str, Callable[[Any], None]] = field(default_factory=dict)
    arguments: tuple[Field, ...] | None = None
    cwd: str = ""
    export_all: bool = False

    def fork(self) -> Scope:
        """A copy, for a subshell or a branch."""
        return replace(self, variables=dict(self.variables), functions=dict(self.functions))

    def exports(self) -> dict[str, Binding]:
        """What a child process gets."""
        return {name: b for name, b in self.variables.items() if b.exported}

    def assign(self, name: str, binding: Binding) -> None:
        """Set a variable; an export stays one."""
        old = self.variables.get(name)
        exported = binding.exported or self.export_all or (old is not None and old.exported)
        self.variables[name] = Binding(binding.fields, binding.array, exported)


def unknown(source: ShellText, start: int, end: int, why: str, *, soft: bool = False) -> Fragment:
    """A stretch of text that stays as it is written because it could not be resolved."""
    return Fragment(source.text[start:end], source, start, end, True, why, soft)


def text_of(value: Field) -> str:
    """The characters, unresolved parts as written."""
    return "".join(f.text for f in value)


def known(value: Field) -> bool:
    """True when every part is resolved and holds under all conditions."""
    return all(f.why is None and f.condition is None for f in value)


def soft(value: Field) -> bool:
    """True when the whole value comes from outside the script."""
    return bool(value) and all(f.soft for f in value)


def bounded(value: Field) -> Field:
    """The value, or one unknown fragment when it grows out of hand."""
    size = sum(len(f.text) for f in value)
    if size <= MAX_VALUE and len(value) <= MAX_FRAGMENTS:
        return value
    first = value[0]
    return (replace(first.cut(0, 64), exact=False, why="grows too long"),)


def split(value: Field) -> tuple[bool, list[Field], bool]:
    """Word splitting: whether blanks stand before, the words, whether blanks stand behind."""
    words: list[Field] = []
    current: list[Fragment] = []
    leading = trailing = False
    for fragment in value:
        whole = fragment.why is not None or fragment.quoted
        spans = [(0, len(fragment.text))] if whole else map(re.Match.span, _runs(fragment.text))
        at = 0
        for start, end in spans:
            if start > at or (trailing and not at):
                leading = leading or not (words or current)
                _flush(current, words)
            current.append(fragment.cut(start, end))
            at, trailing = end, False
        if at < len(fragment.text):
            leading = leading or not (words or current)
            _flush(current, words)
            trailing = True
    _flush(current, words)
    return leading, words, trailing


_runs = re.compile(r"[^ \t\n\r]+").finditer  # the default IFS: no other white space splits


def _flush(current: list[Fragment], words: list[Field]) -> None:
    if current:
        words.append(tuple(current))
        current.clear()


def word_of(value: Field, source: ShellText, start: int, end: int) -> Word:
    """A field as a Word; `start` and `end` are where it is used."""
    joined = _joined(value)
    if len(joined) == 1:
        return _word(joined[0])
    location, _ = source.place(start, end)
    conditions = dict.fromkeys(f.condition for f in joined)
    why = next((f.why for f in joined if f.why), None)
    condition = next((c for c in conditions if c), None)
    if why is None and len(conditions) > 1:
        why, condition = f"depends on {condition}", None
    pieces = tuple(_word(f) for f in joined) if 1 < len(joined) <= MAX_PIECES else ()
    note = next((f.note for f in joined if f.note), None)
    return Word(text_of(value), location, why, condition, note, exact=False, pieces=pieces)


def _joined(value: Field) -> Field:
    """Neighbours of one exact stretch become one fragment."""
    out: list[Fragment] = []
    for f in value:
        last = out[-1] if out else None
        if last and last.end == f.start and last.source is f.source and _alike(last, f):
            out[-1] = replace(last, text=last.text + f.text, end=f.end)
        elif f.text or f.why or not out:
            out.append(f)
    return tuple(out)


def _alike(a: Fragment, b: Fragment) -> bool:
    if a.why or b.why or not (a.exact and b.exact):
        return False
    return a.condition == b.condition and a.note == b.note


def _word(f: Fragment) -> Word:
    location, exact = f.source.place(f.start, f.end)
    return Word(f.text, location, f.why, f.condition, f.note, exact=exact and f.exact)


def conditional(value: Field, condition: str | None) -> Field:
    """The value as it holds under one more condition."""
    if condition is None:
        return value
    return tuple(replace(f, condition=both(condition, f.condition)) for f in value)


def both(first: str | None, second: str | None) -> str | None:
    """Two conditions as one text."""
    if first and second:
        return f"{first} && {second}" if first != second else first
    return first or second


def noted(value: Field, note: str | None) -> Field:
    """The value with an author's reason beside it, where it has none yet."""
    if note is None:
        return value
    return tuple(f if f.note else replace(f, note=note) for f in value)


def unquoted(value: Field) -> Field:
    """The value as a variable holds it: no character is protected from splitting any more."""
    return tuple(replace(f, quoted=False) if f.quoted else f for f in value)


def same(a: Binding, b: Binding) -> bool:
    """True when two bindings give the same words."""
    return a.array == b.array and a.fields == b.fields


def common_prefix(base: Sequence[object], other: Sequence[object]) -> bool:
    """True when `other` begins with all of `base`."""
    return len(other) >= len(base) and list(other[: len(base)]) == list(base)


def total(fields: Iterable[Field]) -> int:
    """Fragments in some fields, as a measure of work."""
    return sum(len(f) for f in fields)
