"""Mermaid's `xychart-beta` as a picture, as GitHub shows it: lines over numbered steps."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from demo.markup import Html, tag

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 240, 64, 32, 12
COLOURS = ("#0969da", "#bc4c00", "#1a7f37")
AXIS = re.compile(r'\s*([xy])-axis "([^"]*)" (\S+) --> (\S+)\s*')
LINE = re.compile(r"\s*line \[([^\]]*)\]\s*")


def chart(code: str) -> Html | None:
    """The picture; None for another kind of diagram, or a text that is not understood."""
    lines = code.strip().splitlines()
    if not lines or lines[0].strip() != "xychart-beta":
        return None
    axes = {m[1]: m for line in lines if (m := AXIS.fullmatch(line))}
    series = [_numbers(m[1].split(",")) for line in lines if (m := LINE.fullmatch(line))]
    if set(axes) != {"x", "y"} or not series or any(len(one) < 2 for one in series):
        return None
    x_title, y_title = axes["x"][2], axes["y"][2]
    ends = _numbers([axes[name][number] for name in "xy" for number in (3, 4)])
    if len(ends) != 4 or not (ends[0] < ends[1] and ends[2] < ends[3]):
        return None
    first, last, low, high = ends
    drawn = [_line(one, low, high, number) for number, one in enumerate(series)]
    words = [
        _word(LEFT - 6, TOP + 4, f"{high:.4g}", "end"),
        _word(LEFT - 6, HEIGHT - BOTTOM, f"{low:.4g}", "end"),
        _word(LEFT, HEIGHT - 12, f"{first:g}", "middle"),
        _word(WIDTH - 8, HEIGHT - 12, f"{last:g}", "end"),
        _word((LEFT + WIDTH) // 2, HEIGHT - 12, x_title, "middle"),
        _word(LEFT - 6, (HEIGHT - BOTTOM) // 2, y_title, "end"),
    ]
    corner = f"{LEFT},{TOP} {LEFT},{HEIGHT - BOTTOM} {WIDTH - 8},{HEIGHT - BOTTOM}"
    frame = tag("polyline", points=corner, fill="none", stroke="#d1d9e0")
    return tag(
        "svg",
        frame,
        *drawn,
        *words,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        width=WIDTH,
        role="img",
        class_="chart",
    )


def _numbers(words: Sequence[str]) -> list[float]:
    try:
        found = [float(word) for word in words]
    except ValueError:
        return []
    return found if all(map(math.isfinite, found)) else []


def _line(values: Sequence[float], low: float, high: float, number: int) -> Html:
    across = (WIDTH - 8 - LEFT) / (len(values) - 1)
    down = HEIGHT - BOTTOM - TOP
    points = " ".join(
        f"{LEFT + index * across:.1f},{TOP + (high - value) / (high - low) * down:.1f}"
        for index, value in enumerate(values)
    )
    # A later line lies over an earlier one: dashes let both be seen.
    dashes = "6 5" if number else None
    return tag(
        "polyline",
        points=points,
        fill="none",
        stroke=COLOURS[number % len(COLOURS)],
        stroke_width=2,
        stroke_dasharray=dashes,
    )


def _word(x: int, y: int, text: str, anchor: str) -> Html:
    return tag("text", text, x=x, y=y, text_anchor=anchor, font_size=11, fill="#59636e")
