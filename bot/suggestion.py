"""A patch as the lines that GitHub's *Commit suggestion* button would write. Pure.

A suggestion replaces whole lines, all within one hunk. It is offered only where pressing the
button gives exactly the patched file: one file, one kind of line end, nothing that a comment's
text cannot carry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pitstop.bot.diff import FileDiff
from pitstop.bot.markdown import visible
from pitstop.rules.tree import SourceFile
from pitstop.transforms.patch import Patch, StaleEditError, apply_edits

MAX_LINES = 20
"""A longer range is shown as a diff, which is easier to judge."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Lines `first` to `last` (from 1, both included, counted at LF) become `text`, which has
    no line end after its last line."""

    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class _Change:
    """The lines `start:stop` (from 0) of the old text become `text`, a list of lines."""

    start: int
    stop: int
    text: tuple[str, ...]


def suggest(patch: Patch, file: SourceFile, diff: FileDiff, line: int) -> Suggestion | None:
    """The suggestion that makes this patch from a comment near `line`, None where there is none.

    The range takes in `line` when that is within the same hunk and near enough, so that the
    comment stands where the finding is.
    """
    if patch.new_files or patch.paths != (file.path,):
        return None
    try:
        after = apply_edits(file, patch.edits)
    except (StaleEditError, IndexError):
        return None
    end = _line_end(file.text, after)
    if end is None:
        return None
    old, new = file.text.split(end), after.split(end)
    change = _difference(old, new)
    if change is None:
        return None
    for grown in (_grown(change, old, new, line), _grown(change, old, new, None)):
        if grown is not None and _fits(grown, old, new, diff):
            text = "\n".join(grown.text)
            return Suggestion(grown.start + 1, grown.stop, text)
    return None


def _line_end(*texts: str) -> str | None:
    """The one line end of all these texts (LF when they have none), None when they mix."""
    found = {match[0] for text in texts for match in re.finditer("\r\n|\r|\n", text)}
    if found - {"\n", "\r\n"} or len(found) > 1:
        return None
    return found.pop() if found else "\n"


def _difference(old: list[str], new: list[str]) -> _Change | None:
    """The smallest stretch of whole lines that differs, None when nothing does."""
    if old == new:
        return None
    shorter = min(len(old), len(new))
    start = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = next((i for i in range(shorter - start) if old[-1 - i] != new[-1 - i]), shorter - start)
    return _Change(start, len(old) - tail, tuple(new[start : len(new) - tail]))


def _grown(change: _Change, old: list[str], new: list[str], line: int | None) -> _Change | None:
    """The change with unchanged lines around it: up to `line`, and one more where there would be
    no line to comment on or nothing but blank text to suggest."""
    start, stop = change.start, change.stop
    if line is not None:
        if not 1 <= line <= len(old):
            return None
        start, stop = min(start, line - 1), max(stop, line)
    added = len(new) - len(old)
    if start == stop or not any(part.strip() for part in new[start : stop + added]):
        start, stop = (start - 1, stop) if start > 0 else (start, stop + 1)
    if start < 0 or stop > len(old):
        return None
    return _Change(start, stop, tuple(new[start : stop + added]))


def _fits(change: _Change, old: list[str], new: list[str], diff: FileDiff) -> bool:
    if change.stop - change.start > MAX_LINES or len(change.text) > MAX_LINES:
        return False
    # What follows the last line end is a line without one: what the button makes of its end is
    # not documented, and if it is empty it is no line at all.
    if change.stop >= len(old) or not any(part.strip() for part in change.text):
        return False
    if not all(map(_plain, change.text)):
        return False
    return diff.hunk_at(change.start + 1, change.stop) is not None


def _plain(line: str) -> bool:
    """False when something in the line would be lost or unseen in a comment."""
    shown = line.replace("\t", " ")
    return visible(shown) == shown
