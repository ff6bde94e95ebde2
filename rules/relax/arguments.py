"""The argument vector of a Relax launch, as its parsers read it: the last occurrence wins."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pitstop.rules.data import load_data
from pitstop.rules.job import Word

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Option:
    """What is known of one option: `type` is flag, int, float, str, list or json."""

    type: str = "str"
    default: int | float | str | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """One occurrence of an option: its own word and those of its value."""

    name: str
    flag: Word
    values: tuple[Word, ...]

    @property
    def known(self) -> bool:
        """Whether every word is what the shell would pass."""
        return all(word.known for word in (self.flag, *self.values))

    @property
    def conditional(self) -> bool:
        """Whether the words are only passed under a condition of the shell."""
        return self.flag.condition is not None

    @property
    def note(self) -> str | None:
        """A comment beside it that gives a reason."""
        return self.flag.note or next((word.note for word in self.values if word.note), None)

    @property
    def text(self) -> str:
        """As on the command line."""
        return " ".join((f"--{self.name}", *(word.text for word in self.values)))


@dataclass(frozen=True, slots=True)
class Table:
    """All options: those that rules look at, and the names of every one that is accepted."""

    options: Mapping[str, Option]
    known: frozenset[str]
    prefixes: tuple[str, ...]
    mirrored: Mapping[str, str]


@functools.cache
def table() -> Table:
    """The shipped table of options."""
    data: dict[str, Any] = load_data("pitstop.rules.relax", "flags.yaml")
    options = {
        name: Option(row["type"], row.get("default"), tuple(row.get("choices", ())))
        for name, row in data["flags"].items()
    }
    known = {name for text in data["known"].values() for name in text.split()}
    return Table(
        options, frozenset(known | options.keys()), tuple(data["prefixes"]), data["mirrored"]
    )


def is_known(name: str) -> bool:
    """Whether some parser of the launch takes an option (or an abbreviation of one)."""
    found = table()
    if name in found.known or name.startswith(found.prefixes):
        return True
    for prefix, of in found.mirrored.items():
        if name.startswith(prefix) and is_known(of + name.removeprefix(prefix)):
            return True
    bare = name.removeprefix("no-").removeprefix("disable-")
    return bare in found.known or any(other.startswith(name) for other in found.known)


MOST_EDITS = 2
"""Letters in which a misspelt option differs; what differs more may be an option of a newer
version."""


def misspelt_of(name: str) -> str | None:
    """The known option that a name is most likely meant to be, or None."""
    near = ((distance(name, other), other) for other in sorted(table().known))
    return min(((d, other) for d, other in near if d <= MOST_EDITS), default=(0, None))[1]


def distance(one: str, two: str) -> int:
    """Letters to insert, delete or replace; more than MOST_EDITS counts as one more than that."""
    if abs(len(one) - len(two)) > MOST_EDITS:
        return MOST_EDITS + 1
    row = list(range(len(two) + 1))
    for number, letter in enumerate(one, 1):
        left, row[0] = row[0], number
        for place, other in enumerate(two, 1):
            left, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, left + (letter != other)),
            )
        if min(row) > MOST_EDITS:
            return MOST_EDITS + 1
    return row[-1]


class Arguments:
    """The options of one launch. Names are without dashes in front, with dashes inside."""

    def __init__(self, words: Sequence[Word]) -> None:
        self._given: dict[str, list[Given]] = {}
        for given in _parsed(words):
            self._given.setdefault(given.name, []).append(given)

    def __iter__(self) -> Iterator[Given]:
        """Every occurrence, by name."""
        for found in self._given.values():
            yield from found

    def at(self, name: str) -> Given | None:
        """The occurrence that counts: the last that is passed in any case."""
        found = [given for given in self._given.get(name, ()) if not given.conditional]
        return found[-1] if found else None

    def given(self, name: str) -> bool:
        """Whether it is written, in any case."""
        return self.at(name) is not None

    def maybe(self, name: str) -> bool:
        """Whether it is only written under a condition."""
        return name in self._given and not self.given(name)

    def on(self, name: str) -> bool:
        """Whether a switch is surely on: given, and not taken back by `--no-`."""
        return self.given(name) and not self.given(f"no-{name}")

    def off(self, name: str) -> bool:
        """Whether a switch is surely off."""
        return not self.on(name) and not self.maybe(name)

    def value(self, name: str) -> Any:
        """The value in force, else the default; None when there is none or it is not known."""
        given, option = self.at(name), table().options.get(name, Option())
        if self.maybe(name):
            return None
        if given is None:
            return option.default
        if not given.known or not given.values:
            return None
        return _converted(given, option.type)

    def unknown(self, name: str) -> bool:
        """Whether it is written, but nobody can say with which value."""
        return self.maybe(name) or (self.given(name) and self.value(name) is None)

    def number(self, name: str) -> float | None:
        """A value as a number, or None."""
        found = self.value(name)
        return float(found) if isinstance(found, int | float) else None

    def whole(self, name: str, default: int | None = None) -> int | None:
        """A value as a whole number; `default` where the option is not written at all."""
        found = self.value(name)
        if isinstance(found, int):
            return found
        return default if not self.given(name) and not self.maybe(name) else None

    def note(self, *names: str) -> str | None:
        """The reason that somebody wrote beside one of these options."""
        found = (self.at(name) for name in names)
        return next((given.note for given in found if given is not None and given.note), None)


def _parsed(words: Sequence[Word]) -> Iterator[Given]:
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.text.startswith("--") or len(word.text) < 3:
            continue
        parts = word.partition("=")
        if parts is not None and parts[0].text.startswith("--"):
            yield Given(parts[0].text[2:].replace("_", "-"), word, (parts[1],))
            continue
        values = []
        while at < len(words) and not _is_option(words[at]):
            values.append(words[at])
            at += 1
        yield Given(word.text[2:].replace("_", "-"), word, tuple(values))


def _is_option(word: Word) -> bool:
    """A word that begins an option; a negative number does not."""
    return word.text.startswith("--") and not word.text[2:3].isdigit()


def _converted(given: Given, kind: str) -> Any:
    text = given.values[0].text.strip()
    try:
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(text)
        if kind == "list":
            return [int(word.text) if word.text.isdigit() else word.text for word in given.values]
        if kind == "json":
            return json_of(text)
    except ValueError:
        return None
    return text.strip("\"'")


def json_of(text: str) -> Any:
    """A JSON value that may stand in one more layer of quotes. Raises ValueError."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        text = text[1:-1]
    text = text.replace('\\"', '"')
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
