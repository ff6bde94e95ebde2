"""Comments that explain a choice: what an author decided on purpose is not an oversight."""

from __future__ import annotations

import re

from pitstop.rules.tree import SourceFile

_REASONS = re.compile(
    r"""\b(?: note | nb | because | since | intentional(?:ly)? | deliberate(?:ly)? | on\s+purpose
        | don['’]?t | do\s+not | required? | requires | must | needed | necessary | avoids?
        | work-?around | work\s+around | otherwise )\b
    | 因为 | 必须 | 不要 | 避免 | 故意 | 注意 | 需要""",
    re.IGNORECASE | re.VERBOSE,
)
_MAX_LINES_ABOVE = 20


def comment_text(comment: str) -> str:
    """A comment without its markers (`#`, `//`, `/* */`) and outer white space."""
    return comment.strip().lstrip("#/*;").rstrip("*/").strip()


def explains(comment: str) -> bool:
    """True when the words give a reason (NOTE, because, required, workaround, don't ...) and do
    not merely describe."""
    return _REASONS.search(comment) is not None


def note_beside(file: SourceFile, line: int, end: int, marker: str = "#") -> str | None:
    """The explaining comment of what is written on `line` (from 1) and ends at offset `end`.

    That is the comment after it on the line where it ends, or else the unbroken block of
    comment lines directly above.
    """
    last = file.position(end)[0]
    tail = file.line_text(last)[file.position(end)[1] - 1 :].lstrip(" \t,]})")
    if tail.startswith(marker) and explains(tail):
        return comment_text(tail)
    above: list[str] = []
    for number in range(line - 1, max(0, line - 1 - _MAX_LINES_ABOVE), -1):
        text = file.line_text(number).strip()
        if not text.startswith(marker):
            break
        above.append(comment_text(text))
    block = " ".join(reversed(above))
    return block if explains(block) else None
