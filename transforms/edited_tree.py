"""Trees for looking at a change before it is made: edited, and narrowed to what a job needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from pitstop.rules.finding import Unread
from pitstop.rules.job import TrainingJob
from pitstop.rules.tree import RepoTree, SourceFile, UnreadableError
from pitstop.transforms.patch import Edit, apply_edits

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts

_PINS = re.compile(
    r"(^|/)(requirements?[^/]*|constraints?[^/]*|pyproject\.toml|setup\.(py|cfg)|Pipfile[^/]*"
    r"|environment[^/]*\.ya?ml|[^/]*\.lock)$"
)


class EditedTree:
    """A tree with edits applied to some of its files, and with new ones (path and text)."""

    def __init__(
        self, tree: RepoTree, edits: Iterable[Edit], new_files: Iterable[tuple[str, str]] = ()
    ) -> None:
        self._tree = tree
        self._new = dict(new_files)
        self._edits: dict[str, list[Edit]] = {}
        for edit in edits:
            self._edits.setdefault(edit.path, []).append(edit)

    @property
    def paths(self) -> tuple[str, ...]:
        """The same files, and the new ones."""
        return tuple(sorted({*self._tree.paths, *self._new})) if self._new else self._tree.paths

    @property
    def unread(self) -> tuple[Unread, ...]:
        """What the tree could not list."""
        return self._tree.unread

    def read(self, path: str) -> SourceFile:
        """The file's text after the edits."""
        if path in self._new:
            return SourceFile(path, self._new[path])
        file = self._tree.read(path)
        edits = self._edits.get(path)
        return SourceFile(path, apply_edits(file, edits)) if edits else file


class NarrowTree:
    """A tree of which only some files are seen."""

    def __init__(self, tree: RepoTree, paths: Collection[str]) -> None:
        self._tree = tree
        self._paths = tuple(path for path in tree.paths if path in paths)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that are seen."""
        return self._paths

    @property
    def unread(self) -> tuple[Unread, ...]:
        """Nothing: the files were all listed."""
        return ()

    def read(self, path: str) -> SourceFile:
        """The file's text."""
        if path not in self._paths:
            raise UnreadableError("no such file")
        return self._tree.read(path)


def tree_of_job(job: TrainingJob, facts: ProjectFacts) -> NarrowTree:
    """The files of a job and of those that begin in the same file, what its scripts follow, and
    what pins versions: enough to resolve the job as it was."""
    begins = job.location.path if job.location else None
    alike = [j for j in facts.jobs if j.location and j.location.path == begins]
    files = set(job.files).union(*(j.files for j in alike))
    scripts = (facts.scripts[path] for path in files if path in facts.scripts)
    followed = {path for script in scripts for path in script.followed}
    pins = {path for path in facts.tree.paths if _PINS.search(path)}
    return NarrowTree(facts.tree, {*files, *followed, *pins})
