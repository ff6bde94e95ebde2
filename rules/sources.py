"""Every file of a tree read at most once, by whichever reader asks first."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from pitstop.rules.finding import Unread
from pitstop.rules.tree import RepoTree, SourceFile, UnreadableError, normalise

if TYPE_CHECKING:
    from pitstop.rules.configs import ConfigFile
    from pitstop.rules.job_modules import Program
    from pitstop.rules.pysource import PyModule
    from pitstop.rules.shell import Script
    from pitstop.rules.understood import Understood

CONFIG_SUFFIXES = (".yaml", ".yml", ".json", ".toml")

_T = TypeVar("_T")


class Sources:
    """A tree and what has been read of it so far. A file that cannot be read is None, and its
    reason is in `unread` once.

    `like` are the sources of another state of the same tree: of files that are equal in both, what
    stands in them alone (modules and configs, not what scripts follow) is read once.
    """

    def __init__(self, tree: RepoTree, like: Sources | None = None) -> None:
        self.tree = tree
        self._like = like
        self.modules: dict[str, PyModule] = {}
        self.configs: dict[str, ConfigFile] = {}
        self.scripts: dict[str, Script] = {}
        self.jobfiles: dict[str, tuple[Script, ...]] = {}
        self.programs: dict[str, Program] = {}
        self._understood: dict[PyModule, Understood] = like._understood if like else {}
        self._files: dict[str, SourceFile | None] = {}
        self._unread: dict[Unread, None] = {}

    @functools.cached_property
    def paths(self) -> frozenset[str]:
        """Every path of the tree."""
        return frozenset(self.tree.paths)

    @functools.cached_property
    def folders(self) -> frozenset[str]:
        """Every folder that holds a file, "" for the root."""
        found = {""}
        for path in self.tree.paths:
            while "/" in path and (path := path.rpartition("/")[0]) not in found:
                found.add(path)
        return frozenset(found)

    @functools.cached_property
    def by_name(self) -> Mapping[str, tuple[str, ...]]:
        """File name to the paths that end in it."""
        found: dict[str, list[str]] = {}
        for path in self.tree.paths:
            found.setdefault(path.rpartition("/")[2], []).append(path)
        return {name: tuple(paths) for name, paths in found.items()}

    @property
    def unread(self) -> tuple[Unread, ...]:
        """What could not be read so far, with the reason."""
        return tuple(self._unread)

    def note(self, unread: Iterable[Unread]) -> None:
        """Remember something that a reader could not understand."""
        self._unread.update(dict.fromkeys(unread))

    def file(self, path: str) -> SourceFile | None:
        """A file's text; binary and oversized files are not worth a word unless asked for."""
        if path not in self._files:
            try:
                self._files[path] = self.tree.read(path)
            except UnreadableError as error:
                self._files[path] = None
                self.note((Unread(path, str(error)),))
        return self._files[path]

    def mentions(self, path: str, words: Iterable[str]) -> bool:
        """A cheap test before parsing: one of the words stands in the text."""
        file = self.file(path)
        return file is not None and any(word in file.text for word in words)

    def module(self, path: str) -> PyModule | None:
        """A Python file, parsed."""
        from pitstop.rules.pysource import read_module

        return self._once(
            path, self.modules, read_module, self._like.modules if self._like else None
        )

    def understood(self, module: PyModule) -> Understood:
        """What frameworks may understand of a module."""
        from pitstop.rules.understood import Understood

        if module not in self._understood:
            self._understood[module] = Understood(module)
        return self._understood[module]

    def config(self, path: str) -> ConfigFile | None:
        """A YAML, JSON or TOML file, read."""
        from pitstop.rules.configs import read_config

        return self._once(
            path, self.configs, read_config, self._like.configs if self._like else None
        )

    def script(self, path: str) -> Script | None:
        """A shell script, read with what it follows."""
        from pitstop.rules.shell import read_script

        return self._once(path, self.scripts, lambda file: read_script(file, self.tree))

    def jobfile(self, path: str) -> tuple[Script, ...]:
        """A Makefile, Dockerfile, workflow or scheduler file as the scripts that it holds."""
        from pitstop.rules.jobfiles import read_jobfile

        found = self._once(path, self.jobfiles, lambda file: read_jobfile(file, self.tree))
        return found or ()

    def _once(
        self,
        path: str,
        cache: dict[str, _T],
        read: Callable[[SourceFile], _T],
        others: Mapping[str, _T] | None = None,
    ) -> _T | None:
        if path in cache:
            return cache[path]
        file = self.file(path)
        if file is None:
            return None
        if others is not None and path in others and self._is_alike(file):
            cache[path] = others[path]
            return cache[path]
        try:
            cache[path] = read(file)
        except UnreadableError as error:
            self._files[path] = None
            self.note((Unread(path, str(error), _line(str(error))),))
            return None
        return cache[path]

    def _is_alike(self, file: SourceFile) -> bool:
        other = self._like.file(file.path) if self._like else None
        return other is not None and other.text == file.text

    def resolve(self, text: str, *folders: str) -> str | None:
        """A path as written in a command or config: relative to the first folder that has it,
        then to the root. An absolute or outside path is None."""
        if not text or text.startswith("~"):
            return None
        for folder in dict.fromkeys((*folders, "")):
            path = normalise(f"{folder}/{text}" if folder else text)
            if path in self.paths:
                return path
        return None


def _line(reason: str) -> int | None:
    """The number in "line 7: ...", where a reader gives one."""
    word, _, _ = reason.removeprefix("line ").partition(":")
    return int(word) if reason.startswith("line ") and word.isdigit() else None


def folder_of(path: str) -> str:
    """The folder of a path, "" for the root."""
    return path.rpartition("/")[0]


def parts(path: str) -> Iterator[str]:
    """The folders of a path, lower case, without the file's name."""
    yield from (part.lower() for part in PurePosixPath(path).parts[:-1])
