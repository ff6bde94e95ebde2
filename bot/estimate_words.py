"""How sizes and predicted effects are said, the same in the terminal and in documents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pitstop.bot.effects import Effect
from pitstop.rules.memory import GIB
from pitstop.rules.ranges import Range


@dataclass(frozen=True, slots=True)
class ToldEffect:
    """An effect in words."""

    title: str
    memory_before: str
    memory_after: str
    tokens_before: str
    tokens_after: str
    consequences: str


def told_effects(effects: Iterable[Effect]) -> tuple[ToldEffect, ...]:
    """Each effect as a row of a table."""
    return tuple(
        ToldEffect(
            title=effect.title,
            memory_before=gib_range(effect.before.memory),
            memory_after=gib_range(effect.after.memory),
            tokens_before=count_range(effect.before.tokens_per_step),
            tokens_after=count_range(effect.after.tokens_per_step),
            consequences="; ".join(effect.consequences),
        )
        for effect in effects
    )


def gib(size: float) -> str:
    """Bytes as GiB with one digit."""
    return f"{size / GIB:.1f}"


def gib_range(size: Range) -> str:
    """`12.3` where both ends agree, else `12.3 to 14.5`."""
    low, high = gib(size.low), gib(size.high)
    return low if low == high else f"{low} to {high}"


def count_range(count: Range) -> str:
    """`65,536`, or `8,192 to 262,144`."""
    low, high = f"{count.low:,.0f}", f"{count.high:,.0f}"
    return low if low == high else f"{low} to {high}"


def rounded(value: float) -> str:
    """Three digits that count, with thousands set apart."""
    digits = max(0, len(f"{value:.0f}") - 3)
    return f"{round(value, -digits):,.0f}"
