"""The vocabulary of knobs: what can be set, its type and its canonical words (knobs.yaml)."""

from __future__ import annotations

import difflib
import functools
import importlib.resources
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

TYPES = ("bool", "int", "float", "str", "enum", "list")


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing that can be set. `values` are the canonical words of an enum; `unit` is "" for
    a plain number or word; `text` names the knob to a person."""

    name: str
    type: str
    text: str
    values: tuple[str, ...] = ()
    unit: str = ""


@functools.cache
def knobs() -> Mapping[str, Knob]:
    """Every knob by name. Raises ValueError when the shipped table is malformed (our bug)."""
    from ruamel.yaml import YAML

    text = importlib.resources.files("pitstop.rules").joinpath("knobs.yaml").read_text("utf-8")
    rows: dict[str, dict[str, Any]] = YAML(typ="safe", pure=True).load(text)
    return {name: _knob(name, row) for name, row in rows.items()}


def _knob(name: str, row: Mapping[str, Any]) -> Knob:
    unknown = set(row) - {"type", "values", "unit", "text"}
    if unknown or row.get("type") not in TYPES or not row.get("text"):
        raise ValueError(f"knobs.yaml: {name}: malformed row {row}")
    if (row["type"] == "enum") != bool(row.get("values")):
        raise ValueError(f"knobs.yaml: {name}: an enum has values, nothing else has")
    values = tuple(str(word) for word in row.get("values", ()))
    return Knob(name, row["type"], row["text"], values, row.get("unit", ""))


def closest(word: str, words: Iterable[str]) -> str | None:
    """The most similar of `words`, or None when nothing is near."""
    found = difflib.get_close_matches(word, list(words), n=1, cutoff=0.72)
    return found[0] if found else None
