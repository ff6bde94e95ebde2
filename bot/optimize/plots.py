"""Figures of the report as SVG, without any library or outside host.

A figure is a string of SVG that also stands inside HTML. Colours hold on white and on black.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 40
BEFORE, AFTER, DROPPED, INK = "#8a8f98", "#2f81f7", "#d29922", "#6e7681"


@dataclass(frozen=True, slots=True)
class Series:
    """One line or one set of dots: values in the figure's unit, by step."""

    name: str
    values: tuple[float, ...]
    colour: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar from `low` to `high`, with the text at its end."""

    name: str
    low: float
    high: float
    text: str
    colour: str


def lines(title: str, unit: str, series: Sequence[Series], x: str = "step") -> str:
    """Values over steps, one line for each series."""
    kept = [one for one in series if one.values]
    low, high = _range([value for one in kept for value in one.values])
    most = max((len(one.values) for one in kept), default=1)
    parts = [_axes(title, unit, low, high, x, most)]
    for index, one in enumerate(kept):
        points = " ".join(
            f"{_x(step, most):.1f},{_y(value, low, high):.1f}"
            for step, value in enumerate(one.values)
        )
        parts.append(
            f'<polyline fill="none" stroke="{one.colour}" stroke-width="1.8" points="{points}"/>'
        )
        parts.append(_legend(index, one))
    return _svg(title, parts)


def spread(title: str, unit: str, series: Sequence[Series]) -> str:
    """Every value as a dot, in one row for each series, with a mark at the median."""
    kept = [one for one in series if one.values]
    low, high = _range([value for one in kept for value in one.values])
    parts = [_head(title)]
    room = (HEIGHT - TOP - BOTTOM) / max(1, len(kept))
    for row, one in enumerate(kept):
        middle = TOP + room * (row + 0.5)
        for index, value in enumerate(one.values):
            jitter = ((index * 7919) % 17 - 8) / 8 * room * 0.28
            parts.append(
                f'<circle cx="{_across(value, low, high):.1f}" cy="{middle + jitter:.1f}" r="2.2"'
                f' fill="{one.colour}" fill-opacity="0.45"/>'
            )
        at = _across(sorted(one.values)[len(one.values) // 2], low, high)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{middle - room * 0.4:.1f}"'
            f' y2="{middle + room * 0.4:.1f}" stroke="{one.colour}" stroke-width="2.5"/>'
        )
        parts.append(_text(8, middle + 4, one.name))
    for value in _marks(low, high):
        parts.append(_text(_across(value, low, high), HEIGHT - 20, _number(value), "middle"))
    parts.append(_text(WIDTH - RIGHT, HEIGHT - 4, unit, "end"))
    return _svg(title, parts)


def bars(title: str, unit: str, found: Sequence[Bar], start: float = 0.0) -> str:
    """Bars under one another, such as the effect of each change; `start` is the neutral value."""
    values = [start, *(one.low for one in found), *(one.high for one in found)]
    low, high = _range(values)
    height = TOP + BOTTOM + 26 * max(1, len(found))
    parts = [_head(title)]
    wide = 190

    def place(value: float) -> float:
        return wide + (value - low) / (high - low) * (WIDTH - wide - 110)

    for row, one in enumerate(found):
        y = TOP + 26 * row
        left, right = sorted((place(one.low), place(one.high)))
        parts.append(
            f'<rect x="{left:.1f}" y="{y + 4}" width="{max(1.5, right - left):.1f}" height="14"'
            f' rx="2" fill="{one.colour}"/>'
        )
        parts.append(_text(wide - 8, y + 16, _short(one.name, 30), "end"))
        parts.append(_text(right + 6, y + 16, one.text))
    neutral = place(start)
    parts.append(
        f'<line x1="{neutral:.1f}" x2="{neutral:.1f}" y1="{TOP}" y2="{height - BOTTOM}"'
        f' stroke="{INK}" stroke-dasharray="3 3"/>'
    )
    parts.append(_text(WIDTH - RIGHT, height - 8, unit, "end"))
    return _svg(title, parts, height)


def _svg(title: str, parts: Sequence[str], height: int = HEIGHT) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{escape(title, quote=True)}" font-family="system-ui,sans-serif"'
        f' font-size="12">{"".join(parts)}</svg>'
    )


def _axes(title: str, unit: str, low: float, high: float, x: str, most: int) -> str:
    parts = [_head(title)]
    for value in _marks(low, high):
        y = _y(value, low, high)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{INK}"'
            ' stroke-opacity="0.25"/>'
        )
        parts.append(_text(LEFT - 6, y + 4, _number(value), "end"))
    parts.append(_text(LEFT, HEIGHT - 8, f"{x} 1 to {most}"))
    parts.append(_text(WIDTH - RIGHT, HEIGHT - 8, unit, "end"))
    return "".join(parts)


def _head(title: str) -> str:
    return f'<text x="{LEFT}" y="18" fill="{INK}" font-weight="600">{escape(title)}</text>'


def _legend(index: int, one: Series) -> str:
    x = WIDTH - RIGHT - 150 * (index + 1)
    return (
        f'<rect x="{x}" y="8" width="10" height="10" fill="{one.colour}"/>'
        f'<text x="{x + 15}" y="18" fill="{INK}">{escape(_short(one.name, 20))}</text>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{INK}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _range(values: Sequence[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return low - room, high + room


def _marks(low: float, high: float) -> list[float]:
    """Three to six round values between two bounds."""
    step = 10.0 ** math.floor(math.log10((high - low) / 3))
    for factor in (1, 2, 5, 10):
        if (high - low) / (step * factor) <= 6:
            step *= factor
            break
    first = math.ceil(low / step)
    return [round((first + n) * step, 12) for n in range(8) if (first + n) * step <= high]


def _number(value: float) -> str:
    return f"{value:.4g}"


def _x(step: int, most: int) -> float:
    return LEFT + step / max(1, most - 1) * (WIDTH - LEFT - RIGHT)


def _y(value: float, low: float, high: float) -> float:
    share = (min(max(value, low), high) - low) / (high - low) if math.isfinite(value) else 1.0
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _across(value: float, low: float, high: float) -> float:
    share = (min(max(value, low), high) - low) / (high - low) if math.isfinite(value) else 1.0
    return LEFT + 30 + share * (WIDTH - LEFT - RIGHT - 60)
