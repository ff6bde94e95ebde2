"""Sets of time, as sorted lists of intervals that do not touch. Any unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time without overlaps, in order. Empty and reversed intervals fall out."""
    found: list[Interval] = []
    for start, end in sorted(pair for pair in intervals if pair[1] > pair[0]):
        if found and start <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def length(intervals: Sequence[Interval]) -> float:
    """The time of a union."""
    return sum(end - start for start, end in intervals)


def intersection(one: Sequence[Interval], two: Sequence[Interval]) -> list[Interval]:
    """The time that is in both unions."""
    found: list[Interval] = []
    i = j = 0
    while i < len(one) and j < len(two):
        start, end = max(one[i][0], two[j][0]), min(one[i][1], two[j][1])
        if start < end:
            found.append((start, end))
        if one[i][1] < two[j][1]:
            i += 1
        else:
            j += 1
    return found


def difference(one: Sequence[Interval], two: Sequence[Interval]) -> list[Interval]:
    """The time that is in the first union and not in the second."""
    found: list[Interval] = []
    j = 0
    for start, end in one:
        at = start
        while j < len(two) and two[j][1] <= at:
            j += 1
        k = j
        while k < len(two) and two[k][0] < end:
            if two[k][0] > at:
                found.append((at, two[k][0]))
            at = max(at, two[k][1])
            k += 1
        if at < end:
            found.append((at, end))
    return found


def clipped(intervals: Iterable[Interval], start: float, end: float) -> list[Interval]:
    """The parts that lie in a window."""
    return [(max(a, start), min(b, end)) for a, b in intervals if b > start and a < end]
