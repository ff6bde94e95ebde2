"""The vocabulary of knobs: what can be set, its type and its canonical words (knobs.yaml)."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pitstop.rules.data import load_data
from pitstop.rules.finding import Scalar

TYPES = ("bool", "int", "float", "str", "enum", "list")


@dataclass(frozen=True, slots=True)
class Requirement:
    """What another knob must be for a value (other than false) to be accepted or to have an
    effect: at least a number, or one value. `remedy` is what may be set with it, None where
    that is nobody's business but the user's."""

    at_least: float | None = None
    equals: Scalar = None
    remedy: Scalar = None

    def met(self, value: Scalar) -> bool:
        """True when the other knob's value will do."""
        if self.at_least is not None:
            return isinstance(value, int | float) and value >= self.at_least
        return value == self.equals and isinstance(value, bool) == isinstance(self.equals, bool)


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing that can be set. `values` are the canonical words of an enum; `unit` is "" for
    a plain number or word; `text` names the knob to a person; `requires` maps other knobs to
    what they must be."""

    name: str
    type: str
    text: str
    values: tuple[str, ...] = ()
    unit: str = ""
    requires: Mapping[str, Requirement] = field(default_factory=dict)


@functools.cache
def knobs() -> Mapping[str, Knob]:
    """Every knob by name. Raises ValueError when the shipped table is malformed (our bug)."""
    rows: dict[str, dict[str, Any]] = load_data("pitstop.rules", "knobs.yaml")
    return {name: _knob(name, row) for name, row in rows.items()}


def _knob(name: str, row: Mapping[str, Any]) -> Knob:
    unknown = set(row) - {"type", "values", "unit", "text", "requires"}
    if unknown or row.get("type") not in TYPES or not row.get("text"):
        raise ValueError(f"knobs.yaml: {name}: malformed row {row}")
    if (row["type"] == "enum") != bool(row.get("values")):
        raise ValueError(f"knobs.yaml: {name}: an enum has values, nothing else has")
    values = tuple(str(word) for word in row.get("values", ()))
    requires = {other: Requirement(**need) for other, need in row.get("requires", {}).items()}
    return Knob(name, row["type"], row["text"], values, row.get("unit", ""), requires)


def closest(word: str, words: Iterable[str]) -> str | None:
    """The most similar of `words`, or None when nothing is near."""
    found = difflib.get_close_matches(word, list(words), n=1, cutoff=0.72)
    return found[0] if found else None
