"""The words after a program as flags with values: `--a 1`, `--a=1`, `--a`, `a=1`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pitstop.rules.finding import Location, Unknown, Value
from pitstop.rules.frameworks.spelling import plain_name
from pitstop.rules.job import Word

_FLAG = re.compile(r"--?[A-Za-z][\w.\-]*")
_OVERRIDE = re.compile(r"[+~]{0,2}([A-Za-z_][\w.\-/]*)=")


@dataclass(frozen=True, slots=True)
class FlagUse:
    """One flag or override on a command line.

    `name` is plain (no dashes before, underscores inside), `spelled` as written in `word`;
    `values` are the words that belong to it, `inline` is what stands after `=` in its own.
    """

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
        return self.word.location

    @property
    def note(self) -> str | None:
        """An explaining comment beside the flag or its value."""
        return next((w.note for w in (self.word, *self.words) if w.note), None)

    @property
    def condition(self) -> str | None:
        """The shell condition under which the flag is passed."""
        return next((w.condition for w in (self.word, *self.words) if w.condition), None)


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
    """The flag or override that a word begins, or None for a value."""
    match = _FLAG.match(word.text)
    if match:
        spelled, rest = match[0], word.text[match.end() :]
        if not rest and word.known:
            return FlagUse(plain_name(spelled), spelled, word)
        cut = word.partition("=") if rest.startswith("=") else None
        return FlagUse(plain_name(spelled), spelled, cut[0], (), cut[1]) if cut else None
    match = _OVERRIDE.match(word.text)
    cut = word.partition("=") if match else None
    if match and cut and not word.text.startswith(("/", ".", "http")):
        return FlagUse(plain_name(match[1]), match[1], cut[0], (), cut[1], override=True)
    return None
