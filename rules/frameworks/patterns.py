"""Many patterns of names held against a name at once."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from fnmatch import fnmatchcase

_SPECIAL = frozenset("*?[")


class Patterns:
    """A set of patterns (`*` as in file names). A name is tried only on those that are equal to
    it or begin with its first part (up to the first dot); those that begin with a wildcard are
    few."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._plain: set[str] = set()
        self._by_first: dict[str, list[str]] = {}
        for pattern in dict.fromkeys(patterns):
            first = pattern.partition(".")[0]
            if not _SPECIAL & set(pattern):
                self._plain.add(pattern)
            else:
                key = "" if _SPECIAL & set(first) else first
                self._by_first.setdefault(key, []).append(pattern)
        self.fitting = functools.lru_cache(maxsize=100_000)(self._fitting)

    def _fitting(self, name: str) -> tuple[str, ...]:
        """The patterns that a name fits."""
        plain = (name,) if name in self._plain else ()
        first = name.partition(".")[0]
        tried = [*self._by_first.get("", ()), *(self._by_first.get(first, ()) if first else ())]
        return (*plain, *(pattern for pattern in tried if fnmatchcase(name, pattern)))
