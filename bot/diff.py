"""What a pull request changes, as the lines on which GitHub accepts a comment.

Reads `git diff` output (any size, line by line) and the patches of GitHub's compare API. Lines
are those of the new version of a file (RIGHT), from 1, and end at LF as git counts them; paths
are decoded as `pitstop.rules.tree` does.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace


class Status(enum.StrEnum):
    """What happened to a file."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    RENAMED = "renamed"
    COPIED = "copied"


@dataclass(frozen=True, slots=True)
class Hunk:
    """A stretch of shown lines of the new version; `added` are those of them that are new."""

    lines: range
    added: tuple[range, ...] = ()

    def holds(self, first: int, last: int) -> bool:
        """True when all of these lines are shown here."""
        return self.lines.start <= first <= last < self.lines.stop


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file's change. Deleted, binary and submodule entries have no hunks, nor has a file
    whose name or mode alone changed."""

    path: str
    status: Status = Status.MODIFIED
    old_path: str | None = None
    hunks: tuple[Hunk, ...] = ()
    binary: bool = False
    submodule: bool = False

    def hunk_at(self, first: int, last: int | None = None) -> Hunk | None:
        """The hunk that shows all of these lines."""
        return next((h for h in self.hunks if h.holds(first, last or first)), None)

    def first_added(self, lines: range) -> int | None:
        """The first of these lines that the change wrote."""
        parts = (_overlap(part, lines) for hunk in self.hunks for part in hunk.added)
        return next((part.start for part in parts if part), None)

    def first_shown(self, lines: range) -> int | None:
        """The first of these lines that the diff shows."""
        parts = (_overlap(hunk.lines, lines) for hunk in self.hunks)
        return next((part.start for part in parts if part), None)


@dataclass(frozen=True, slots=True)
class Diff:
    """All changed files by their new path (a deleted one by its old)."""

    files: Mapping[str, FileDiff] = field(default_factory=dict)

    @property
    def renames(self) -> Mapping[str, str]:
        """New path to old path."""
        return {
            path: file.old_path
            for path, file in self.files.items()
            if file.old_path and file.status is Status.RENAMED
        }


class DiffError(ValueError):
    """The text is not a diff that git writes; the message says where."""


_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_MODES = (b"index ", b"new file mode ", b"deleted file mode ", b"new mode ")


def parse(lines: Iterable[bytes]) -> Diff:
    """A whole `git diff` with its prefixes a/ and b/. Raises DiffError."""
    files: dict[str, FileDiff] = {}
    reader = _Lines(lines)
    while (line := reader.take()) is not None:
        if line.startswith(b"diff --git "):
            file = _file(line, reader)
            # A changed type is written as a deletion and an addition of one path.
            if not (file.status is Status.DELETED and file.path in files):
                files[file.path] = file
        elif line.strip():
            raise DiffError(f"line {reader.number}: neither a file nor a hunk begins here")
    return Diff(files)


def parse_patch(patch: str) -> tuple[Hunk, ...]:
    """The hunks of one file as the API gives them, without any header."""
    # JSON may hold any half of a surrogate pair; those of undecodable bytes become these again.
    try:
        data = patch.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = patch.encode("utf-8", "replace")
    lines = data.split(b"\n")
    return tuple(_hunks(_Lines(lines)))


class _Lines:
    """Lines with one of look-ahead, without their LF."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)
        self._next: bytes | None = None
        self.number = 0

    def peek(self) -> bytes | None:
        if self._next is None:
            line = next(self._lines, None)
            self._next = None if line is None else line.removesuffix(b"\n")
        return self._next

    def take(self) -> bytes | None:
        line = self.peek()
        self._next = None
        self.number += 1
        return line


def _file(header: bytes, reader: _Lines) -> FileDiff:
    old, new = _header_names(header)
    status, binary, submodule = Status.MODIFIED, False, False
    while (line := reader.peek()) is not None and not line.startswith((b"@@ ", b"diff --git ")):
        reader.take()
        if line.startswith(b"new file"):
            status = Status.ADDED
        elif line.startswith(b"deleted file"):
            status = Status.DELETED
        elif line.startswith((b"rename from ", b"copy from ")):
            status = Status.RENAMED if line.startswith(b"rename") else Status.COPIED
            old = _name(line.split(b" from ", 1)[1])
        elif line.startswith((b"rename to ", b"copy to ")):
            new = _name(line.split(b" to ", 1)[1])
        elif line.startswith(b"--- ") and line != b"--- /dev/null":
            old = _name(line[4:].removesuffix(b"\t"))[2:]
        elif line.startswith(b"+++ ") and line != b"+++ /dev/null":
            new = _name(line[4:].removesuffix(b"\t"))[2:]
        elif line.startswith((b"Binary files ", b"GIT binary patch")):
            binary = True
        submodule |= line.startswith(_MODES) and line.endswith(b" 160000")
    path = (old if status is Status.DELETED else new) or new or old
    if not path:
        raise DiffError(f"line {reader.number}: the file's name is missing")
    hunks = tuple(_hunks(reader))
    if status is Status.DELETED or submodule:
        hunks = ()
    return FileDiff(
        path, status, old if status is not Status.ADDED else None, hunks, binary, submodule
    )


def _header_names(header: bytes) -> tuple[str, str]:
    """Both names of `diff --git a/X b/X`; they are equal unless later lines say otherwise,
    and without such lines only this one names the file."""
    rest = header[len(b"diff --git ") :]
    if rest.startswith(b'"'):
        end = re.match(rb'"(?:[^"\\]|\\.)*"', rest)
        names = (rest[: end.end()], rest[end.end() + 1 :]) if end else (b"", b"")
    else:
        half = (len(rest) - 1) // 2
        names = (rest[:half], rest[half + 1 :])
    old, new = (_name(name)[2:] for name in names)
    return (old, new) if old == new else ("", "")


_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED = {ord(letter): code for letter, code in zip("abfnrtv", b"\a\b\f\n\r\t\v", strict=True)}


def _name(name: bytes) -> str:
    """A path as git writes it: plain, or in double quotes with C escapes."""
    if len(name) >= 2 and name.startswith(b'"') and name.endswith(b'"'):
        name = _ESCAPE.sub(_unescape, name[1:-1])
    return name.decode("utf-8", "surrogateescape")


def _unescape(match: re.Match[bytes]) -> bytes:
    text = match[1]
    if len(text) == 3:
        return bytes((int(text, 8) & 0xFF,))
    return bytes((_ESCAPED.get(text[0], text[0]),))


def _hunks(reader: _Lines) -> Iterator[Hunk]:
    while (line := reader.peek()) is not None and line.startswith(b"@@ "):
        reader.take()
        match = _HUNK.match(line)
        if not match:
            raise DiffError(f"line {reader.number}: not a hunk header")
        old, start, new = int(match[1] or 1), int(match[2]), int(match[3] or 1)
        added = tuple(_added(reader, old, start, start + new))
        while (line := reader.peek()) is not None and line.startswith(b"\\"):
            reader.take()  # "\ No newline at end of file"
        yield Hunk(range(start, start + new), added)


def _added(reader: _Lines, old: int, at: int, stop: int) -> Iterator[range]:
    """Runs of added lines in one hunk's body, which is consumed to its end by its own counts,
    so that no content can be taken for a header."""
    first: int | None = None
    while old or at < stop:
        line = reader.take()
        if line is None:
            raise DiffError(f"line {reader.number}: the hunk ends too early")
        sign = line[:1] or b" "  # an editor or API may have stripped an empty context line
        if sign == b"\\":
            continue
        if sign == b"+":
            first = at if first is None else first
        elif first is not None:
            yield range(first, at)
            first = None
        old -= sign in (b" ", b"-")
        at += sign in (b" ", b"+")
        if sign not in (b" ", b"-", b"+") or old < 0 or at > stop:
            raise DiffError(f"line {reader.number}: the hunk does not match its header")
    if first is not None:
        yield range(first, at)


def confirmed(diff: Diff, shown: Mapping[str, tuple[Hunk, ...] | None], complete: bool) -> Diff:
    """The diff without the lines that GitHub itself does not show.

    `shown` are the hunks of GitHub's own comparison (None: it gives no patch for that file,
    which says nothing); with `complete`, a file that is not in it has not changed for GitHub.
    Git and GitHub may cut hunks differently, and a line outside makes GitHub refuse the whole
    review.
    """
    return Diff(
        {
            path: _confirmed_file(file, shown.get(path))
            for path, file in diff.files.items()
            if path in shown or not complete
        }
    )


def _confirmed_file(file: FileDiff, theirs: tuple[Hunk, ...] | None) -> FileDiff:
    if theirs is None:
        return file
    common = (_common(ours, other) for ours in file.hunks for other in theirs)
    return replace(file, hunks=tuple(hunk for hunk in common if hunk.lines))


def _common(ours: Hunk, theirs: Hunk) -> Hunk:
    lines = _overlap(ours.lines, theirs.lines)
    parts = (_overlap(_overlap(a, b), lines) for a in ours.added for b in theirs.added)
    return Hunk(lines, tuple(part for part in parts if part))


def _overlap(a: range, b: range) -> range:
    return range(max(a.start, b.start), max(min(a.stop, b.stop), max(a.start, b.start)))
