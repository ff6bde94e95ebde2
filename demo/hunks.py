"""Reads `git diff` into files, hunks and lines, and says where a comment may stand.

Written from the format of git's own output (git-diff, "GENERATING PATCH TEXT WITH -P" and "RAW
OUTPUT FORMAT"); shares no code with the program under test, which it judges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Side = Literal["LEFT", "RIGHT"]

STATUSES = {
    "A": "added",
    "D": "removed",
    "M": "modified",
    "T": "modified",
    "R": "renamed",
    "C": "copied",
}
HEADER = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
SUBMODULE = "160000"
NULL_SHA = "0" * 40

# docs.github.com, "Repository limits": a single file's diff may not exceed these.
LARGEST_PATCH_LINES = 20_000
LARGEST_PATCH_BYTES = 500_000


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a hunk: " ", "+", "-" or "\\" (no newline at end of file), numbers from 1."""

    kind: str
    old: int | None
    new: int | None
    text: str
    position: int


@dataclass(frozen=True, slots=True)
class Hunk:
    """A hunk: its @@ line and the lines below it."""

    header: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A commentable line: which hunk, its position below the first @@, and the hunk's text down
    to it, which GitHub shows above the comment."""

    hunk: int
    position: int
    excerpt: str


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file's changes."""

    path: str
    previous: str | None
    status: str
    sha: str | None
    mode: str
    binary: bool
    hunks: tuple[Hunk, ...]

    @property
    def additions(self) -> int:
        """Lines added."""
        return sum(line.kind == "+" for hunk in self.hunks for line in hunk.lines)

    @property
    def deletions(self) -> int:
        """Lines removed."""
        return sum(line.kind == "-" for hunk in self.hunks for line in hunk.lines)

    @property
    def patch(self) -> str | None:
        """The text below the file's headers, or None where the API leaves it out."""
        lines = [text for hunk in self.hunks for text in _hunk_text(hunk)]
        text = "\n".join(lines)
        if not lines or len(lines) > LARGEST_PATCH_LINES or len(text) > LARGEST_PATCH_BYTES:
            return None
        return text

    def place(self, line: int, side: Side) -> Place | None:
        """The place of a line on a side, or None when it is not part of the diff."""
        if self.mode == SUBMODULE or self.patch is None:
            return None
        for index, hunk in enumerate(self.hunks):
            for at, entry in enumerate(hunk.lines):
                number = entry.new if side == "RIGHT" else entry.old
                if number == line and entry.kind != "\\":
                    above = [hunk.header, *(f"{e.kind}{e.text}" for e in hunk.lines[: at + 1])]
                    return Place(index, entry.position, "\n".join(above))
        return None

    def at_position(self, position: int) -> tuple[int, Side] | None:
        """The line and side of a position counted from the first @@, or None."""
        for hunk in self.hunks:
            for line in hunk.lines:
                if line.position == position and line.kind != "\\":
                    if line.new is not None:
                        return line.new, "RIGHT"
                    if line.old is not None:
                        return line.old, "LEFT"
        return None


def read_diff(output: bytes) -> list[FileDiff]:
    """The files of a `git diff --raw -z --patch --full-index`, in git's order."""
    records, patches = _split(output)
    bodies = list(_patches(patches))
    files = []
    for status, mode, sha, previous, path in records:
        # A change of type is one raw record but two patches: the old file goes, the new comes.
        taken = 2 if status == "T" else 1
        mine, bodies = bodies[:taken], bodies[taken:]
        binary = any(body.binary for body in mine)
        hunks = tuple(hunk for body in mine for hunk in body.hunks)
        files.append(
            FileDiff(
                path=path,
                previous=previous,
                status=STATUSES.get(status, "changed"),
                sha=None if sha == NULL_SHA else sha,
                mode=mode,
                binary=binary,
                hunks=hunks,
            )
        )
    return files


def follow_line(file: FileDiff | None, line: int) -> int | None:
    """Where an old line of a file is in the new version: None when it was changed or removed.
    `file` is the diff between both versions without context, None when nothing changed."""
    if file is None:
        return line
    shift = 0
    for hunk in file.hunks:
        old_start, old_count, new_start, new_count = _range(hunk.header.encode())
        # An empty range names the line before it.
        first = old_start if old_count else old_start + 1
        if line < first:
            break
        if line < first + old_count:
            return None
        shift = (new_start + new_count + (not new_count)) - (first + old_count)
    return line + shift


@dataclass(frozen=True, slots=True)
class _Body:
    binary: bool
    hunks: tuple[Hunk, ...]


def _split(output: bytes) -> tuple[list[tuple[str, str, str, str | None, str]], bytes]:
    """The raw records (status letter, new mode, new blob, old path, path), and the rest."""
    records = []
    at = 0
    while output[at : at + 1] == b":":
        end = output.index(b"\0", at)
        _, mode, _, sha, status = output[at + 1 : end].decode().split(" ")
        names = 2 if status[0] in "RC" else 1
        paths = []
        at = end + 1
        for _ in range(names):
            end = output.index(b"\0", at)
            paths.append(output[at:end].decode("utf-8", "surrogateescape"))
            at = end + 1
        records.append((status[0], mode, sha, paths[0] if names == 2 else None, paths[-1]))
    return records, output[at:].removeprefix(b"\0")


def _patches(text: bytes) -> Iterator[_Body]:
    """The body of each `diff --git` section. Counts lines by the @@ headers, because a line of
    code may itself look like a header."""
    lines = text.split(b"\n")
    at = 0
    while at < len(lines):
        if not lines[at].startswith(b"diff --git "):
            at += 1
            continue
        at += 1
        binary, position = False, 0
        hunks: list[Hunk] = []
        while at < len(lines) and not lines[at].startswith(b"diff --git "):
            if lines[at].startswith((b"Binary files ", b"GIT binary patch")):
                binary = True
            if HEADER.match(lines[at]):
                hunk, at, position = _hunk(lines, at, position + bool(hunks))
                hunks.append(hunk)
            else:
                at += 1
        yield _Body(binary, tuple(hunks))


def _hunk(lines: list[bytes], at: int, position: int) -> tuple[Hunk, int, int]:
    header = lines[at]
    old, old_left, new, new_left = _range(header)
    found = []
    at += 1
    while at < len(lines) and (old_left or new_left or lines[at].startswith(b"\\")):
        kind, text = chr(lines[at][0]), lines[at][1:].decode("utf-8", "replace")
        position += 1
        has_old, has_new = kind in " -", kind in " +"
        entry = Line(kind, old if has_old else None, new if has_new else None, text, position)
        found.append(entry)
        old, old_left = old + has_old, old_left - has_old
        new, new_left = new + has_new, new_left - has_new
        at += 1
    return Hunk(header.decode("utf-8", "replace"), tuple(found)), at, position


def _range(header: bytes) -> tuple[int, int, int, int]:
    match = HEADER.match(header)
    if match is None:
        raise ValueError(f"not a hunk header: {header!r}")
    old, old_count, new, new_count = match.groups(default=b"1")
    return int(old), int(old_count), int(new), int(new_count)


def _hunk_text(hunk: Hunk) -> Iterator[str]:
    yield hunk.header
    for line in hunk.lines:
        yield f"{line.kind}{line.text}"
