"""The folder that an optimization works in: a copy of the project, its history, its reports.

The original is only ever read. `original_checksums.txt` holds what it was before; the same is
worked out again at the end. Nothing of ours is written into the copied project: its history is a
git directory beside it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pitstop.bot.optimize.history import source_files
from pitstop.rules.finding import UserError

FICLONE = 0x40049409
"""ioctl that shares a file's blocks with another's until one of them is written (linux/fs.h)."""

LEFT_BEHIND = frozenset({".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
LINKED_FROM = 1 << 20
"""With `--link-data`, files of at least so many bytes are linked instead of copied."""

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """Where everything of one optimization lies."""

    root: Path
    original: Path

    @property
    def project(self) -> Path:
        """The copy that is changed and run."""
        return self.root / "project"

    @property
    def reports(self) -> Path:
        """What people read."""
        return self.root / "reports"

    @property
    def runs(self) -> Path:
        """One JSON file for each run of the job: every reported number comes from there."""
        return self.reports / "runs"

    @property
    def scratch(self) -> Path:
        """Outputs, caches and logs of runs; nothing in it is needed afterwards."""
        return self.root / "scratch"

    @property
    def history(self) -> Path:
        """Git directory of the copy: the baseline and one commit for each transform."""
        return self.root / "history.git"


@dataclass(frozen=True, slots=True)
class Copied:
    """What copying did. `checksums` maps a path to its sha256 in the original; `sizes` to size
    and modification time (ns) in the copy. `linked` are data files that were not copied."""

    files: int
    bytes: int
    checksums: Mapping[str, str]
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    linked: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()


def open_work(original: Path, out: Path | None) -> WorkFolder:
    """The work folder beside the project, empty but for reports of an earlier run.

    An unfinished run of before starts clean: its copy is removed, its reports are kept under
    `earlier-N`. Raises UserError when the folder is somebody else's, or lies in the project.
    """
    original = original.resolve()
    root = (out or original.parent / f"{original.name}_optimized").resolve()
    if root == original or original in root.parents or root in original.parents:
        raise UserError(f"{root}: the work folder must lie beside the project, not in or around it")
    work = WorkFolder(root, original)
    if root.exists() and any(root.iterdir()) and not work.reports.is_dir():
        raise UserError(f"{root} has other things in it; give an empty folder with --out")
    try:
        _set_aside(work)
        for folder in (work.project, work.scratch, work.history):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (work.project, work.runs, work.scratch):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{root}: {error.strerror}; give another folder with --out") from error
    return work


def _set_aside(work: WorkFolder) -> None:
    """Reports of an earlier run move to `earlier-1`, `earlier-2`, ..."""
    if not work.reports.is_dir():
        return
    old = [path for path in work.reports.iterdir() if not path.name.startswith("earlier-")]
    if not old:
        return
    taken = [
        int(path.name[8:]) for path in work.reports.glob("earlier-*") if path.name[8:].isdigit()
    ]
    target = work.reports / f"earlier-{max(taken, default=0) + 1}"
    target.mkdir()
    for path in old:
        path.rename(target / path.name)


def survey(original: Path) -> tuple[tuple[str, ...], int]:
    """Paths of all files that would be copied, and their bytes."""
    paths, total = [], 0
    for path, entry in _files(original):
        paths.append(path)
        with contextlib.suppress(OSError):
            total += entry.stat().st_size
    return tuple(sorted(paths)), total


def copy_project(work: WorkFolder, limit: int, *, link_data: bool = False) -> Copied:
    """Copy the project, sharing blocks where the file system can.

    Raises UserError when more than `limit` bytes would have to be copied, or a file cannot be
    read, or the copy has not the same files as the original.
    """
    paths, total = survey(work.original)
    if total > limit and not link_data:
        raise UserError(
            f"{work.original}: {total / 2**30:.1f} GiB would be copied, more than --copy-limit"
            f" ({limit / 2**30:.1f} GiB); use --runner docker, which mounts data read-only, or"
            " --link-data, which links large files (nothing stops a script from writing through a"
            " link)"
        )
    checksums, sizes, linked = {}, {}, []
    for path in paths:
        source, target = work.original / path, work.project / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if link_data and source.stat().st_size >= LINKED_FROM:
                target.symlink_to(source.resolve())
                linked.append(path)
                continue
            checksums[path] = _copy_file(source, target)
            at = target.stat()
            sizes[path] = (at.st_size, at.st_mtime_ns)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; it cannot be copied") from error
    for name in _environments(work.original):
        (work.project / name).symlink_to(work.original / name)
    found = sum(1 for _ in _files(work.project, follow=False))
    if found != len(paths):
        raise UserError(f"the copy has {found} files instead of {len(paths)}: did they change?")
    left = tuple(sorted(p.name for p in work.original.iterdir() if p.name in LEFT_BEHIND))
    return Copied(len(paths), total, checksums, sizes, tuple(linked), left)


def _files(root: Path, follow: bool = True) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every file below a folder, links to files and folders outside followed once, without what
    no run needs and without virtual environments."""
    seen: set[tuple[int, int]] = set()
    stack = [("", root)]
    while stack:
        prefix, folder = stack.pop()
        with contextlib.suppress(OSError):
            at = folder.stat()
            if (at.st_dev, at.st_ino) in seen:
                continue
            seen.add((at.st_dev, at.st_ino))
            with os.scandir(folder) as entries:
                for entry in entries:
                    path = prefix + entry.name
                    if entry.name in LEFT_BEHIND or _is_environment(Path(entry.path)):
                        continue
                    if entry.is_dir(follow_symlinks=follow):
                        stack.append((path + "/", Path(entry.path)))
                    elif entry.is_file() or (not follow and entry.is_symlink()):
                        yield path, entry


def _is_environment(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").is_file()


def _environments(original: Path) -> tuple[str, ...]:
    return tuple(p.name for p in original.iterdir() if p.is_dir() and _is_environment(p))


def _copy_file(source: Path, target: Path) -> str:
    """Copy one file with its times and mode; its sha256."""
    with source.open("rb") as read, target.open("wb") as written:
        try:
            fcntl.ioctl(written.fileno(), FICLONE, read.fileno())
            digest = _digest(read)
        except OSError:
            digest = hashlib.sha256()
            while block := read.read(_BLOCK):
                digest.update(block)
                written.write(block)
    shutil.copystat(source, target)
    target.chmod(target.stat().st_mode | stat.S_IWUSR)
    return digest.hexdigest()


def _digest(stream: BinaryIO) -> hashlib._Hash:
    digest = hashlib.sha256()
    while block := stream.read(_BLOCK):
        digest.update(block)
    return digest


def checksums_of(original: Path) -> dict[str, str]:
    """The sha256 of every file that was copied or linked, as it is now."""
    found = {}
    for path, _ in _files(original):
        try:
            with (original / path).open("rb") as stream:
                found[path] = _digest(stream).hexdigest()
        except OSError as error:
            found[path] = f"unreadable: {error.strerror}"
    return found


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Paths that are new, gone or changed, each with the word."""
    found = [f"{path}: gone" for path in before.keys() - after.keys()]
    found += [f"{path}: new" for path in after.keys() - before.keys()]
    found += [f"{p}: changed" for p in before.keys() & after.keys() if before[p] != after[p]]
    return tuple(sorted(found))


def mend_copy(work: WorkFolder, copied: Copied) -> tuple[str, ...]:
    """Bring back copied files that a run changed or deleted, tracked ones aside; which those were.

    New files stay: caches that the first run makes belong to every later one alike.
    """
    tracked = set(source_files(work.project))
    mended = []
    for path, (size, modified) in copied.sizes.items():
        target = work.project / path
        try:
            at = target.lstat()
            same = (at.st_size, at.st_mtime_ns) == (size, modified) and stat.S_ISREG(at.st_mode)
        except OSError:
            same = False
        if same or path in tracked:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(IsADirectoryError, FileNotFoundError):
            target.unlink()
        _copy_file(work.original / path, target)
        os.utime(target, ns=(modified, modified))
        mended.append(path)
    return tuple(mended)
