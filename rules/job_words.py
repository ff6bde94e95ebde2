"""The words after a program as flags with values: `--a 1`, `--a=1`, `--a`, `a=1`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pitstop.rules.finding import Location, Span, Unknown, Value
from pitstop.rules.frameworks.spelling import plain_name
from pitstop.rules.job import Word

_FLAG = re.compile(r"--?[A-Za-z][\w.\-]*")
_OVERRIDE = re.compile(r"[+~]{0,2}([A-Za-z_][\w.\-/]*)=")


@dataclass(frozen=True, slots=True)
class FlagUse:
    """One flag or override on a command line. `name` is plain (no dashes before, underscores
    inside), `spelled` as written; `values` are the words that belong to it. `inline` is the part
    after `=` of the flag's own word."""

    name: str
    spelled: str
    word: Word
    values: tuple[Word, ...] = ()
    inline: Word | None = None
    override: bool = False

    @property
    def words(self) -> tuple[Word, ...]:
        """The value's words, wherever they stand."""
        return (self.inline,) if self.inline else self.values

    @property
    def value(self) -> Value:
        """The value's text: Unknown when it is, True for a flag without one."""
        if not self.words:
            return True
        for word in self.words:
            if not word.known:
                return Unknown(word.why_unknown or "not resolved")
        return " ".join(word.text for word in self.words)

    def first(self) -> Value:
        """The first word of the value: what a flag takes that has one argument."""
        if not self.words:
            return True
        word = self.words[0]
        return word.text if word.known else Unknown(word.why_unknown or "not resolved")

    @property
    def name_at(self) -> Location:
        """The flag itself, without an inline value."""
        at = self.word.location
        if self.inline is None or at.end_line != at.line:
            return at
        return part_of(at, 0, len(self.spelled))

    @property
    def note(self) -> str | None:
        """An explaining comment beside the flag or its value."""
        return next((w.note for w in (self.word, *self.words) if w.note), None)

    @property
    def condition(self) -> str | None:
        """The shell condition under which the flag is passed."""
        return next((w.condition for w in (self.word, *self.words) if w.condition), None)


def part_of(at: Location, start: int, end: int) -> Location:
    """A part of a one-line location, in characters from its beginning."""
    span = Span(at.span.start + start, at.span.start + end)
    return Location(at.path, span, at.line, at.column + start, at.line, at.column + end)


def flag_uses(words: Iterable[Word]) -> tuple[tuple[FlagUse, ...], tuple[Word, ...], bool]:
    """(the flags and overrides in order, the positional words before the first flag, whether
    more flags may be passed that cannot be seen: `"$@"`, `$EXTRA`)."""
    uses: list[FlagUse] = []
    positional: list[Word] = []
    more = False
    current: FlagUse | None = None
    for word in words:
        use = _begin(word)
        if use is not None:
            uses.append(use)
            current = use if not use.override and use.inline is None else None
        elif current is not None and not (not word.known and _opens(current, word)):
            current = _extended(current, word)
            uses[-1] = current
        elif not word.known:
            more = True
        else:
            positional.append(word)
    return tuple(uses), tuple(positional), more


_REST = re.compile(r"[$][@*]|[$][{@]?\w*(arg|opt|extra|flag|param|cmd)", re.IGNORECASE)


def _opens(current: FlagUse, word: Word) -> bool:
    """True for an unknown word that rather stands for further flags than for a value."""
    return bool(current.values) or _REST.search(word.text) is not None


def _extended(use: FlagUse, word: Word) -> FlagUse:
    return FlagUse(use.name, use.spelled, use.word, (*use.values, word), None, use.override)


def _begin(word: Word) -> FlagUse | None:
    """The flag that a word begins, or None for a value."""
    match = _FLAG.match(word.text)
    if match:
        spelled, rest = match[0], word.text[match.end() :]
        if not rest and word.known:
            return FlagUse(plain_name(spelled), spelled, word)
        if rest.startswith("="):
            return FlagUse(plain_name(spelled), spelled, word, (), _tail(word, len(spelled) + 1))
        return None
    match = _OVERRIDE.match(word.text)
    if match and not word.text.startswith(("/", ".", "http")):
        inline = _tail(word, match.end())
        return FlagUse(plain_name(match[1]), match[1], word, (), inline, override=True)
    return None


def _tail(word: Word, start: int) -> Word:
    """The part of a word after `=`, placed exactly where the word is written without quotes."""
    at = word.location
    written = at.span.end - at.span.start
    plain = at.line == at.end_line and written == len(word.text) and word.known
    where = part_of(at, start, written) if plain else at
    return Word(word.text[start:], where, word.why_unknown, word.condition, word.note)
