"""What a person's own git says about the change in their working tree."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pitstop.rules.finding import UserError
from pitstop.rules.tree import DictTree, GitTree, RepoTree


@dataclass(frozen=True, slots=True)
class Base:
    """The state before the change: a tree below the audited folder, the commit it belongs to,
    and for each renamed file the path that it had there."""

    tree: RepoTree
    revision: str
    renames: Mapping[str, str] = field(default_factory=dict)


def base_of(folder: Path, revision: str) -> Base:
    """Where the working tree's change began: the merge base of HEAD and `revision`.

    Raises UserError when the folder is not in a git repository or the revision is unknown.
    """
    prefix = _prefix(folder)
    commit = _verify(folder, revision + "^{commit}")
    if commit is None:
        raise UserError(
            f"{revision}: no such revision in {folder}; check the name and fetch it first."
        )
    start = (_git(folder, "merge-base", "HEAD", commit) or commit).strip()
    at = f"{start}:{prefix.rstrip('/')}" if prefix else start
    was_there = not prefix or _verify(folder, at) is not None
    tree = GitTree(folder, at) if was_there else DictTree({})
    return Base(tree, start, _renames(folder, start))


def tree_at(folder: Path, revision: str) -> RepoTree:
    """The folder as it was at a revision. Raises UserError when there is no such thing."""
    prefix = _prefix(folder)
    commit = _verify(folder, revision + "^{commit}")
    if commit is None:
        raise UserError(
            f"{revision}: no such revision in {folder}; check the name and fetch it first."
        )
    at = f"{commit}:{prefix.rstrip('/')}" if prefix else commit
    return GitTree(folder, at) if not prefix or _verify(folder, at) else DictTree({})


def revision_of(folder: Path) -> str | None:
    """The commit of a working tree without changes; None where there is no such thing."""
    if _git(folder, "status", "--porcelain", "-z") != "":
        return None
    return _verify(folder, "HEAD")


_HARMLESS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
"""The audited repository's own git configuration must not start programs."""


def _prefix(folder: Path) -> str:
    if shutil.which("git") is None:
        raise UserError("git is not installed; install it to use --base.")
    prefix = _git(folder, "rev-parse", "--show-prefix")
    if prefix is None:
        raise UserError(
            f"{folder} is not in a git repository; --base compares with a git revision,"
            " so leave it out or run in a clone."
        )
    return prefix.removesuffix("\n")


def _renames(folder: Path, start: str) -> dict[str, str]:
    options = ("--relative", "--diff-filter=R", "--find-renames", "--name-status", "-z")
    listing = _git(folder, "diff", "--no-ext-diff", "--no-textconv", *options, start, "--")
    words = (listing or "").split("\0")
    return {new: old for _, old, new in zip(words[::3], words[1::3], words[2::3], strict=False)}


def _verify(folder: Path, name: str) -> str | None:
    """The object id that a name stands for."""
    found = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
    return found.strip() if found else None


def _git(folder: Path, *args: str) -> str | None:
    """What git prints; None when it fails or is not installed."""
    try:
        run = subprocess.run(
            ["git", "-C", str(folder), *_HARMLESS, *args],
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return None if run.returncode else run.stdout.decode("utf-8", "surrogateescape")
