"""Text that is read as shell, and where each of its characters is written.

A script is its file. A YAML block, a Makefile recipe or the quoted argument of `bash -c` is put
together from pieces of a file; positions in it lead back to the file.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from pitstop.rules.finding import Location
from pitstop.rules.tree import SourceFile


@dataclass(frozen=True, slots=True)
class Segment:
    """`length` characters from offset `at` of the text stand at `start` of `file`, unchanged."""

    at: int
    length: int
    file: SourceFile
    start: int


@dataclass(frozen=True, slots=True)
class Mark:
    """What else is known of a range of a text that was put together from variables: the
    condition under which it is there, the author's reason, why it could not be resolved."""

    start: int
    end: int
    condition: str | None = None
    note: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class ShellText:
    """A text with its origin. Characters outside every segment were made up or rewritten;
    `home` is the range of a file to show for them."""

    text: str
    segments: tuple[Segment, ...]
    home: tuple[SourceFile, int, int]
    marks: tuple[Mark, ...] = ()
    _starts: list[int] = field(default_factory=list, repr=False, compare=False)

    @staticmethod
    def of_file(file: SourceFile) -> ShellText:
        """A whole file; a byte order mark reads as a blank."""
        size = len(file.text)
        text = " " + file.text[1:] if file.text.startswith("\ufeff") else file.text
        return ShellText(text, (Segment(0, size, file, 0),), (file, 0, size))

    @property
    def path(self) -> str:
        """The file to which most of it belongs."""
        return self.home[0].path

    def place(self, start: int, end: int) -> tuple[Location, bool]:
        """The location of a half-open range, and whether the file has these very characters
        there, all together."""
        if len(self.segments) == 1:
            (only,) = self.segments
            if only.at <= start <= end <= only.at + only.length:
                begin = only.start + start - only.at
                return only.file.location(begin, begin + end - start), True
        first, last = self._segment(start), self._segment(max(start, end - 1))
        if first is None or last is None:
            file, a, b = self.home
            return file.location(a, b), False
        begin = first.start + min(start - first.at, first.length)
        stop = last.start + min(end - last.at, last.length)
        if first.file is not last.file or stop < begin:
            return first.file.location(begin, first.start + first.length), False
        inside = start < first.at + first.length and end <= last.at + last.length
        exact = (inside or start == end) and stop - begin == end - start
        exact = exact and (first is last or self._joined(start, end))
        return first.file.location(begin, stop), exact

    def _segment(self, offset: int) -> Segment | None:
        """The segment that holds a character, or ends just before it."""
        if not self._starts:
            self._starts.extend(s.at for s in self.segments)
        index = bisect.bisect_right(self._starts, offset) - 1
        if index < 0:
            return None
        segment = self.segments[index]
        return segment if offset <= segment.at + segment.length else None

    def _joined(self, start: int, end: int) -> bool:
        """True when the segments of a range follow each other without a gap, in both texts."""
        low = bisect.bisect_right(self._starts, start) - 1
        high = bisect.bisect_right(self._starts, max(start, end - 1)) - 1
        return all(
            a.at + a.length == b.at and a.start + a.length == b.start and a.file is b.file
            for a, b in zip(self.segments[low:high], self.segments[low + 1 : high + 1], strict=True)
        )

    def slice(self, start: int, end: int) -> ShellText:
        """A part of the text as a text of its own."""
        parts: list[Segment] = []
        if not self._starts:
            self._starts.extend(s.at for s in self.segments)
        first = max(0, bisect.bisect_right(self._starts, start) - 1)
        for s in itertools.takewhile(lambda s: s.at < end, self.segments[first:]):
            low, high = max(s.at, start), min(s.at + s.length, end)
            if low < high:
                parts.append(Segment(low - start, high - low, s.file, s.start + low - s.at))
        marks = tuple(
            replace(m, start=max(m.start, start) - start, end=min(m.end, end) - start)
            for m in self.marks
            if m.start < end and start < m.end
        )
        return ShellText(self.text[start:end], tuple(parts), self._home_of(start, end), marks)

    def stretches(self, start: int, end: int) -> Iterator[tuple[int, int, Mark | None]]:
        """A range cut where marks begin and end, each part with its mark."""
        for mark in self.marks:
            if mark.end <= start or end <= mark.start:
                continue
            if start < mark.start:
                yield start, mark.start, None
            yield max(start, mark.start), min(end, mark.end), mark
            start = min(end, mark.end)
        if start < end or not self.marks:
            yield start, end, None

    def _home_of(self, start: int, end: int) -> tuple[SourceFile, int, int]:
        where, _ = self.place(start, end)
        first = self._segment(start)
        return (first.file if first else self.home[0], where.span.start, where.span.end)


class TextBuilder:
    """Puts a ShellText together, piece by piece."""

    def __init__(self, file: SourceFile, start: int, end: int) -> None:
        self._home = (file, start, end)
        self._out: list[str] = []
        self._segments: list[Segment] = []
        self._marks: list[Mark] = []
        self.size = 0

    def copy(self, source: ShellText, start: int, end: int) -> None:
        """Add a range of another text, origin and marks included."""
        part = source.slice(start, end)
        self._segments += (
            Segment(s.at + self.size, s.length, s.file, s.start) for s in part.segments
        )
        self._marks += (
            replace(m, start=m.start + self.size, end=m.end + self.size) for m in part.marks
        )
        self._add(part.text)

    def mark(self, start: int, mark: Mark) -> None:
        """Say something of what was added from `start` on, over what its source said."""
        if start < self.size:
            self._marks = [m for m in self._marks if m.start < start]
            self._marks.append(replace(mark, start=start, end=self.size))

    def take(self, start: int, end: int) -> None:
        """Add a range of the home file."""
        file = self._home[0]
        if start < end:
            self._segments.append(Segment(self.size, end - start, file, start))
            self._add(file.text[start:end])

    def invent(self, text: str) -> None:
        """Add characters that stand nowhere."""
        self._add(text)

    def _add(self, text: str) -> None:
        self._out.append(text)
        self.size += len(text)

    def build(self) -> ShellText:
        """The text so far."""
        text = "".join(self._out)
        return ShellText(text, _merged(self._segments), self._home, tuple(self._marks))


def _merged(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    out: list[Segment] = []
    for s in segments:
        last = out[-1] if out else None
        if (
            last is not None
            and last.file is s.file
            and last.at + last.length == s.at
            and last.start + last.length == s.start
        ):
            out[-1] = Segment(last.at, last.length + s.length, s.file, last.start)
        else:
            out.append(s)
    return tuple(out)
