"""The table of code changes beyond a framework's own switches, and what is done about each."""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pitstop.rules.data import load_data
from pitstop.transforms.recipe import Numerics

_FIELDS = frozenset({"change", "scope", "items", "verdict", "by", "class", "opt_in", "why"})


class Verdict(enum.StrEnum):
    """RECIPE: made by the recipe in `by`. LIBRARY: a library has it. ADVICE: said, never made."""

    RECIPE = "recipe"
    LIBRARY = "library"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class CodeChange:
    """One row. `items` are ids of the catalogues, `by` the recipe or the library."""

    change: str
    scope: str
    items: tuple[str, ...]
    verdict: Verdict
    numerics: Numerics
    why: str
    by: str = ""
    opt_in: bool = False


@functools.cache
def second_layer() -> tuple[CodeChange, ...]:
    """Every row, as written. Raises ValueError when the shipped table is malformed (our bug)."""
    data: dict[str, list[dict[str, Any]]] = load_data(
        "pitstop.transforms.recipes", "second_layer.yaml"
    )
    return tuple(_row(raw) for raw in data["rows"])


def _row(raw: Mapping[str, Any]) -> CodeChange:
    if set(raw) - _FIELDS:
        raise ValueError(f"second_layer.yaml: {raw.get('change')}: malformed row")
    return CodeChange(
        change=str(raw["change"]),
        scope=str(raw["scope"]),
        items=tuple(raw["items"]),
        verdict=Verdict(raw["verdict"]),
        numerics=Numerics(raw["class"]),
        why=str(raw["why"]),
        by=str(raw.get("by", "")),
        opt_in=bool(raw.get("opt_in", False)),
    )
