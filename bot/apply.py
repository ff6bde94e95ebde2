"""Writes fixes to a person's own files: everything or nothing, and never over newer text."""

from __future__ import annotations

import ast
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pitstop.bot.report import ReportedFinding
from pitstop.rules.finding import Safety, Unread, UserError
from pitstop.rules.tree import FolderTree, RepoTree, SourceFile, UnreadableError
from pitstop.transforms.patch import Changed, Patch, apply_patches, unified_diff


class SnapshotTree:
    """A folder that remembers what was read, so that a fix is only written over that text."""

    def __init__(self, folder: RepoTree, root: Path | None = None) -> None:
        self.root = folder.root if isinstance(folder, FolderTree) else root or Path()
        self._folder = folder
        self._read: dict[str, SourceFile] = {}

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file, as the folder lists them."""
        return self._folder.paths

    @property
    def unread(self) -> tuple[Unread, ...]:
        """What could not be listed."""
        return self._folder.unread

    def read(self, path: str) -> SourceFile:
        """The file's text when it was first read."""
        if path not in self._read:
            self._read[path] = self._folder.read(path)
        return self._read[path]

    def changed_on_disk(self, path: str) -> bool:
        """Whether the file is no longer what was read."""
        try:
            return self._folder.read(path).text != self.read(path).text
        except UnreadableError:
            return True


@dataclass(frozen=True, slots=True)
class Applied:
    """What was written. `conflicts` are fixes left out, each with the reason."""

    diff: str
    paths: tuple[str, ...] = ()
    fixed: tuple[ReportedFinding, ...] = ()
    conflicts: tuple[tuple[ReportedFinding, str], ...] = ()


def fixable(findings: Iterable[ReportedFinding]) -> tuple[ReportedFinding, ...]:
    """The findings whose fix changes no numbers and can be made here."""
    return tuple(
        reported
        for reported in findings
        if isinstance(reported.outcome, Changed)
        and reported.finding.fix is not None
        and reported.finding.fix.safety is Safety.SAFE
    )


def apply_safe(tree: SnapshotTree, findings: Iterable[ReportedFinding]) -> Applied:
    """Write every safe fix. Raises UserError, with nothing written, when a file has changed
    since it was read or cannot be written."""
    wanted = fixable(findings)
    patches = [_patch(reported) for reported in wanted]
    written = write_patches(tree, patches)
    reasons = {id(patch): reason for patch, reason in written.dropped}
    return Applied(
        written.diff,
        written.paths,
        tuple(r for r, p in zip(wanted, patches, strict=True) if id(p) not in reasons),
        tuple(
            (r, reasons[id(p)]) for r, p in zip(wanted, patches, strict=True) if id(p) in reasons
        ),
    )


@dataclass(frozen=True, slots=True)
class Written:
    """A diff, the files in it, and the patches that were left out, each with the reason."""

    diff: str
    paths: tuple[str, ...]
    dropped: tuple[tuple[Patch, str], ...]


def write_patches(tree: SnapshotTree, patches: Iterable[Patch], *, dry: bool = False) -> Written:
    """Write patches, the earlier of two that overlap; `dry` only says what would be written.
    Raises UserError, with nothing written, as `apply_safe` does."""
    texts, dropped = apply_patches(tree, patches)
    for path, text in texts.items():
        if path not in tree.paths and os.path.lexists(tree.root / path):
            raise UserError(f"{path} appeared while the others were read; run the command again.")
        if path in tree.paths and tree.changed_on_disk(path):
            raise UserError(f"{path} changed while it was being read; run the command again.")
        if path.endswith(".py"):
            ast.parse(text.removeprefix("\ufeff"))  # fixes that each are right must be so together
    diff = "".join(
        unified_diff(path, _before(tree, path), text, new=path not in tree.paths)
        for path, text in sorted(texts.items())
    )
    if not dry:
        write_all(tree.root, texts)
    return Written(diff, tuple(sorted(texts)), dropped)


def _patch(reported: ReportedFinding) -> Patch:
    assert isinstance(reported.outcome, Changed)  # noqa: S101
    return reported.outcome.patch


def _before(tree: SnapshotTree, path: str) -> str:
    return tree.read(path).text if path in tree.paths else ""


def write_all(root: Path, texts: Mapping[str, str]) -> None:
    """Replace files by new texts; when one cannot be replaced, put the others back.

    Every text is first written beside its file, so that a full disk or a missing permission
    shows before anything has changed. Modes are kept, links are written through.
    """
    staged: list[tuple[Path, Path, bytes | None]] = []
    done: list[tuple[Path, bytes | None]] = []
    try:
        for path, text in sorted(texts.items()):
            target = (root / path).resolve()
            old = target.read_bytes() if target.exists() else None
            staged.append((_stage(target, text), target, old))
        for temporary, target, old in staged:
            temporary.replace(target)
            done.append((target, old))
    except OSError as error:
        _put_back(done)
        name = error.filename or root
        raise UserError(
            f"{name}: cannot be written ({error.strerror}); no file was changed."
        ) from error
    finally:
        for temporary, _, _ in staged:
            temporary.unlink(missing_ok=True)


def _stage(target: Path, text: str) -> Path:
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(13, "Permission denied", str(target))
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        temporary.chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o644)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _put_back(done: Iterable[tuple[Path, bytes | None]]) -> None:
    for target, old in done:
        if old is None:
            target.unlink(missing_ok=True)
        else:
            target.write_bytes(old)
