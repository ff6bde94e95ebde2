"""A repository as a read-only map from path to text: from a folder, a git commit or a dict.

Readers see only this. Nothing is executed, symbolic links are never followed out of the tree,
and everything has a limit; what was not read is reported with its reason.
"""

from __future__ import annotations

import bisect
import functools
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

from pitstop.rules.finding import Location, Span, Unread, UserError

MAX_FILE_BYTES = 2_000_000
"""Larger files are data, not configuration or code."""

SKIPPED_FOLDERS = frozenset(
    {
        ".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", "node_modules", "__pycache__",
        "site-packages", "dist-packages", ".mypy_cache", ".ruff_cache", ".pytest_cache",
        "build", "dist", ".eggs", "wandb", "mlruns",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file's text, exactly: line ends and a byte order mark are kept, bytes that are not
    UTF-8 survive as surrogates. Offsets count characters of `text`."""

    path: str
    text: str
    _lines: list[int] = field(default_factory=list, repr=False, compare=False)

    @property
    def line_starts(self) -> list[int]:
        """Offset of the first character of each line (LF, CRLF and lone CR end a line)."""
        if not self._lines:
            self._lines.extend(_line_starts(self.text))
        return self._lines

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, of a character offset."""
        starts = self.line_starts
        line = bisect.bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """Character offset of a line and column, both from 1."""
        return self.line_starts[line - 1] + column - 1

    def location(self, start: int, end: int) -> Location:
        """The Location of a half-open range of offsets."""
        starts = self.line_starts
        line = last = bisect.bisect_right(starts, start)
        if end < start or (line < len(starts) and end >= starts[line]):
            last = bisect.bisect_right(starts, end)
        columns = (start - starts[line - 1] + 1, end - starts[last - 1] + 1)
        return Location(self.path, Span(start, end), line, columns[0], last, columns[1])

    def line_text(self, line: int) -> str:
        """The text of a line (from 1) without its line end; "" past the end."""
        starts = self.line_starts
        if not 1 <= line <= len(starts):
            return ""
        end = starts[line] if line < len(starts) else len(self.text)
        return self.text[starts[line - 1] : end].rstrip("\r\n")


def _line_starts(text: str) -> Iterator[int]:
    yield 0
    at = 0
    while True:
        found = _next_line_end(text, at)
        if found < 0:
            return
        at = found
        yield at


def _next_line_end(text: str, at: int) -> int:
    lf = text.find("\n", at)
    cr = text.find("\r", at, lf if lf >= 0 else len(text))
    if cr >= 0:
        return cr + 2 if text.startswith("\r\n", cr) else cr + 1
    return lf + 1 if lf >= 0 else -1


class UnreadableError(Exception):
    """A path that is not text for us; the message is the reason."""


class RepoTree(Protocol):
    """What readers may ask of a repository. Paths are POSIX, relative, sorted."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file, without skipped folders."""

    @property
    def unread(self) -> tuple[Unread, ...]:
        """What could not even be listed."""

    def read(self, path: str) -> SourceFile:
        """The file's text; raises UnreadableError with the reason."""


def decode(path: str, data: bytes) -> SourceFile:
    """Bytes to SourceFile; raises UnreadableError for binary or oversized data."""
    if len(data) > MAX_FILE_BYTES:
        raise UnreadableError(f"larger than {MAX_FILE_BYTES // 1_000_000} MB")
    if b"\0" in data:
        raise UnreadableError("binary")
    return SourceFile(path, data.decode("utf-8", "surrogateescape"))


def normalise(path: str) -> str | None:
    """`a/./b/../c` to `a/c`; None when the path leaves the tree or is absolute."""
    if path.startswith("/") or "\0" in path:
        return None
    parts: list[str] = []
    for part in PurePosixPath(path).parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


class DictTree:
    """A tree in memory, for examples and tests."""

    def __init__(self, files: Mapping[str, str | bytes]) -> None:
        self._files = {
            path: data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape")
            for path, data in files.items()
        }

    @functools.cached_property
    def paths(self) -> tuple[str, ...]:
        """Every file."""
        return tuple(sorted(self._files))

    @property
    def unread(self) -> tuple[Unread, ...]:
        """Nothing: what is in memory can be listed."""
        return ()

    def read(self, path: str) -> SourceFile:
        """The file's text."""
        if path not in self._files:
            raise UnreadableError("no such file")
        return decode(path, self._files[path])


class FolderTree:
    """A tree on disk, as it is now (for a git checkout: tracked and untracked files)."""

    def __init__(self, root: Path) -> None:
        if not root.exists():
            raise UserError(f"{root}: no such file or folder; give the path of a repository.")
        self.root = root.resolve()
        self._unread: list[Unread] = []

    @functools.cached_property
    def paths(self) -> tuple[str, ...]:
        """Every regular file, and symbolic links to files that stay inside the tree."""
        found: list[str] = []
        seen: set[tuple[int, int]] = set()
        self._walk(self.root, "", found, seen)
        return tuple(sorted(found))

    def _walk(
        self, folder: Path, prefix: str, found: list[str], seen: set[tuple[int, int]]
    ) -> None:
        try:
            entries = sorted(os.scandir(folder), key=lambda e: e.name)
            stat = folder.stat()
        except OSError as error:
            self._unread.append(Unread(prefix or ".", f"folder not readable: {error.strerror}"))
            return
        if (stat.st_dev, stat.st_ino) in seen:
            return
        seen.add((stat.st_dev, stat.st_ino))
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED_FOLDERS:
                    self._walk(Path(entry.path), path + "/", found, seen)
            elif entry.is_file(follow_symlinks=False) or self._inside(entry):
                found.append(path)

    def _inside(self, entry: os.DirEntry[str]) -> bool:
        """A link to a file (never to a folder) whose target lies inside the tree."""
        if not entry.is_symlink():
            return False
        try:
            target = Path(entry.path).resolve(strict=True)
        except (OSError, RuntimeError):
            return False
        return target.is_file() and target.is_relative_to(self.root)

    @property
    def unread(self) -> tuple[Unread, ...]:
        """Folders that could not be listed."""
        _ = self.paths
        return tuple(self._unread)

    def read(self, path: str) -> SourceFile:
        """The file's text; a link that leaves the tree is refused."""
        target = self.root / path
        try:
            if not target.resolve(strict=True).is_relative_to(self.root):
                raise UnreadableError("symbolic link out of the tree")
            if target.stat().st_size > MAX_FILE_BYTES:
                raise UnreadableError(f"larger than {MAX_FILE_BYTES // 1_000_000} MB")
            return decode(path, target.read_bytes())
        except FileNotFoundError as error:
            raise UnreadableError("no such file") from error
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "symbolic link loop"
            raise UnreadableError(f"not readable: {reason}") from error


class GitTree:
    """A commit of a git repository, read from its object store; the work tree is not needed."""

    def __init__(self, repository: Path, revision: str) -> None:
        self.repository = repository
        self.revision = revision
        self._blobs: dict[str, tuple[str, int]] = {}
        listing = self._git("ls-tree", "-r", "-z", "-l", "--full-tree", revision, "--")
        for row in listing.split(b"\0"):
            self._list(row)
        self._reader: subprocess.Popen[bytes] | None = None

    def _list(self, row: bytes) -> None:
        if not row:
            return
        meta, name = row.split(b"\t", 1)
        mode, kind, blob, size = meta.split()
        path = name.decode("utf-8", "surrogateescape")
        if kind == b"blob" and mode != b"120000" and not _skipped(path):
            self._blobs[path] = (blob.decode(), int(size))

    def _git(self, *args: str) -> bytes:
        try:
            run = subprocess.run(
                ["git", "-C", str(self.repository), *args], capture_output=True, check=False
            )
        except FileNotFoundError as error:
            raise UserError("git is not installed; install it to read a revision.") from error
        if run.returncode:
            text = run.stderr.decode(errors="replace").strip().splitlines()
            raise UserError(
                f"{self.repository}: cannot read revision {self.revision!r}"
                f" ({text[-1] if text else 'git failed'}); check the name and fetch it first."
            )
        return run.stdout

    @functools.cached_property
    def paths(self) -> tuple[str, ...]:
        """Every blob of the commit that is not a link or a submodule."""
        return tuple(sorted(self._blobs))

    @property
    def unread(self) -> tuple[Unread, ...]:
        """Nothing: a commit can always be listed."""
        return ()

    def read(self, path: str) -> SourceFile:
        """The file's text at the commit."""
        if path not in self._blobs:
            raise UnreadableError("no such file")
        blob, size = self._blobs[path]
        if size > MAX_FILE_BYTES:
            raise UnreadableError(f"larger than {MAX_FILE_BYTES // 1_000_000} MB")
        return decode(path, self._cat(blob))

    def _cat(self, blob: str) -> bytes:
        if self._reader is None:
            self._reader = subprocess.Popen(
                ["git", "-C", str(self.repository), "cat-file", "--batch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        assert self._reader.stdin is not None and self._reader.stdout is not None  # noqa: S101
        self._reader.stdin.write(blob.encode() + b"\n")
        self._reader.stdin.flush()
        header = self._reader.stdout.readline().split()
        if len(header) != 3:
            raise UnreadableError("missing from the object store")
        data = self._reader.stdout.read(int(header[2]))
        self._reader.stdout.read(1)
        return data

    def close(self) -> None:
        """End the reading process; the tree can be read again, which starts a new one."""
        if self._reader is not None:
            self._reader.communicate()
            self._reader = None


def _skipped(path: str) -> bool:
    return any(part in SKIPPED_FOLDERS for part in PurePosixPath(path).parts[:-1])


def matching(paths: Iterable[str], *suffixes: str) -> Iterator[str]:
    """The paths that end in one of the suffixes, letter case ignored."""
    for path in paths:
        if path.lower().endswith(suffixes):
            yield path
