"""Which findings a review speaks of, and where each may stand in the diff. Pure.

GitHub refuses a whole review when one line of it lies outside the diff, so every place is
proved here, from the diff alone.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pitstop.bot.diff import Diff, FileDiff, Status
from pitstop.bot.markdown import is_unicode
from pitstop.bot.report import ReportedFinding
from pitstop.bot.suggestion import Suggestion, suggest
from pitstop.rules.finding import Location, Safety
from pitstop.rules.tree import RepoTree, SourceFile, UnreadableError
from pitstop.transforms.patch import Changed


class Filter(enum.StrEnum):
    """Where a finding must lie to be spoken of; each takes in the one before.

    ADDED: on a line that the change wrote, or brought in by the change though its own line
    stayed (the deciding value did not). DIFF_CONTEXT: on any line that the diff shows.
    FILE: in any changed file. NOFILTER: anywhere.
    """

    ADDED = "added"
    DIFF_CONTEXT = "diff_context"
    FILE = "file"
    NOFILTER = "nofilter"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a comment stands: lines `start` to `line` of one hunk (from 1, both included, new
    version), or the file as a whole when `line` is None. A suggestion covers exactly the lines."""

    path: str
    line: int | None = None
    start: int | None = None
    suggestion: Suggestion | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """A finding under its key, which no other finding of the report has, and its lines."""

    key: str
    reported: ReportedFinding
    file: SourceFile | None
    lines: range

    @property
    def path(self) -> str:
        """The file that the finding is in."""
        return self.reported.finding.primary.path


def locate(findings: Iterable[ReportedFinding], tree: RepoTree) -> tuple[Placed, ...]:
    """Every finding with its key and lines, the most severe first.

    Findings that look the same (one rule, one wording, two lines) are numbered from the second.
    """
    seen: Counter[str] = Counter()
    files: dict[str, SourceFile | None] = {}
    placed = []
    for reported in sorted(findings, key=_order):
        finding = reported.finding
        path = finding.primary.path
        if path not in files:
            files[path] = _read(tree, path)
        seen[finding.fingerprint] += 1
        number = seen[finding.fingerprint]
        key = finding.fingerprint if number == 1 else f"{finding.fingerprint}-{number}"
        lines = _lines(finding.primary, files[path])
        placed.append(Placed(key, reported, files[path], lines))
    return tuple(placed)


def _order(reported: ReportedFinding) -> tuple[int, Location, str]:
    finding = reported.finding
    return -finding.severity, finding.primary, finding.rule


def _read(tree: RepoTree, path: str) -> SourceFile | None:
    try:
        return tree.read(path)
    except UnreadableError:
        return None


def _lines(primary: Location, file: SourceFile | None) -> range:
    """The lines as git and GitHub count them, at LF only (a reader also ends one at a lone CR)."""
    if file is None:
        return range(primary.line, max(primary.line, primary.end_line) + 1)
    start = max(primary.span.start, 0)
    first = file.text.count("\n", 0, start) + 1
    last = first + file.text.count("\n", start, max(start, primary.span.end - 1))
    return range(first, last + 1)


def passes(placed: Placed, diff: Diff, wanted: Filter) -> bool:
    """True when a review speaks of this finding."""
    if placed.reported.introduced or wanted is Filter.NOFILTER:
        return True
    file = diff.files.get(placed.path)
    if file is None:
        return False
    if wanted is Filter.FILE or file.first_added(placed.lines) is not None:
        return True
    return wanted is Filter.DIFF_CONTEXT and file.first_shown(placed.lines) is not None


def place(placed: Placed, diff: Diff, *, suggestions: bool) -> Place | None:
    """Where the finding's comment stands, None when GitHub takes none."""
    file = diff.files.get(placed.path)
    if file is None or file.submodule or file.status is Status.DELETED:
        return None
    if not is_unicode(file.path):
        return None
    line = file.first_added(placed.lines) or file.first_shown(placed.lines)
    if suggestions and (offer := _suggestion(placed, file, line)):
        start = offer.first if offer.first != offer.last else None
        return Place(placed.path, offer.last, start, offer)
    return Place(placed.path, line)


def _suggestion(placed: Placed, file: FileDiff, line: int | None) -> Suggestion | None:
    fix, outcome = placed.reported.finding.fix, placed.reported.outcome
    if placed.file is None or fix is None or fix.safety is not Safety.SAFE:
        return None
    if not isinstance(outcome, Changed):
        return None
    return suggest(outcome.patch, placed.file, file, line or placed.lines.start)
