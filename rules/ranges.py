"""A number known within bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """Two ends of what may be true; equal where it is known."""

    low: float
    high: float

    @staticmethod
    def exact(value: float) -> Range:
        """A known value."""
        return Range(value, value)

    @staticmethod
    def total(parts: Iterable[Range]) -> Range:
        """The sum of independent ranges."""
        low = high = 0.0
        for part in parts:
            low, high = low + part.low, high + part.high
        return Range(low, high)

    @staticmethod
    def around(parts: Iterable[Range]) -> Range:
        """The smallest range that holds all of them (at least one)."""
        found = list(parts)
        return Range(min(p.low for p in found), max(p.high for p in found))

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, factor: float) -> Range:
        return Range(self.low * factor, self.high * factor)

    @property
    def middle(self) -> float:
        """Halfway."""
        return (self.low + self.high) / 2
