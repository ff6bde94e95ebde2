"""Configuration files as a list of leaves, each with the exact place where it is written.

Nothing is constructed from a file but scalars: tags that name a type are `Unknown`. Values are
what the training frameworks see: PyYAML's YAML 1.1 words (`yes`, `on`, `0o17`), and `1e-4`,
which PyYAML leaves a string, as the number that its consumer makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from pitstop.rules.finding import Location, Unread, Value
from pitstop.rules.tree import RepoTree, SourceFile, UnreadableError

Path = tuple[str | int, ...]
Kind = Literal["yaml", "json", "toml"]

MAX_DEPTH = 60
"""Levels of nesting; real configurations have fewer than ten."""
MAX_ENTRIES = 10_000
"""Leaves after aliases are expanded; files with more are data, not configuration."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One leaf: a scalar, or a sequence of scalars (or an empty collection) as a tuple.

    `value_at` covers exactly the characters of the value with its quotes or brackets, and is
    empty where nothing is written (`key:`). `raw` is that text. `key_at` covers the key, None
    in a sequence. `items` are the members of a tuple. `shared` says that the leaf was reached
    through an alias or a merge, so that an edit of it changes other places too. `note` is the
    text of an explaining comment beside it.
    """

    path: Path
    value: Value
    raw: str
    value_at: Location
    key_at: Location | None
    document: int = 0
    shared: bool = False
    note: str | None = None
    items: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping, or a sequence that holds collections. `at` runs from its first to its last
    character that is not white space or comment; `key_at` is its key, None at the top."""

    path: Path
    at: Location
    key_at: Location | None
    style: Literal["block", "flow"]
    kind: Literal["mapping", "sequence"]
    document: int = 0
    shared: bool = False


@dataclass(frozen=True, slots=True)
class DuplicateKey:
    """A key that stands twice in one mapping; the loaders silently keep the second."""

    path: Path
    first: Location
    second: Location


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """One file, read. `entries` keep the order of the file; of a duplicate key only the one
    that counts is an entry. `documents` is 1 except for YAML with several."""

    path: str
    kind: Kind
    entries: tuple[Entry, ...]
    sections: tuple[Section, ...] = ()
    duplicates: tuple[DuplicateKey, ...] = ()
    unread: tuple[Unread, ...] = ()
    documents: int = 1
    _index: dict[tuple[int, Path], Entry] = field(default_factory=dict, repr=False, compare=False)

    def get(self, *path: str | int, document: int = 0) -> Entry | None:
        """The leaf at a path (an index reaches into a sequence), or None."""
        if not self._index:
            self._index.update(_indexed(self.entries))
        return self._index.get((document, path))

    def has(self, *path: str | int, document: int = 0) -> bool:
        """True when a leaf or a section stands at the path."""
        if self.get(*path, document=document) is not None:
            return True
        return any(s.path == path and s.document == document for s in self.sections)

    def keys(self, *path: str | int, document: int = 0) -> tuple[str, ...]:
        """The keys of the mapping at a path (default: the top), in order."""
        depth = len(path)
        parts: tuple[Section | Entry, ...] = (*self.sections, *self.entries)
        places: dict[str, int] = {}
        for part in parts:
            if part.document == document and len(part.path) > depth and part.path[:depth] == path:
                at = (part.key_at or (part.value_at if isinstance(part, Entry) else part.at)).span
                name = str(part.path[depth])
                places[name] = min(at.start, places.get(name, at.start))
        return tuple(sorted(places, key=lambda name: places[name]))

    def find(self, *prefix: str | int, document: int = 0) -> tuple[Entry, ...]:
        """Every leaf below a path, in the file's order."""
        depth = len(prefix)
        return tuple(e for e in self.entries if e.document == document and e.path[:depth] == prefix)

    def section(self, *path: str | int, document: int = 0) -> Section | None:
        """The mapping or sequence at a path, or None."""
        for section in self.sections:
            if section.path == path and section.document == document:
                return section
        return None


def _indexed(entries: tuple[Entry, ...]) -> Iterator[tuple[tuple[int, Path], Entry]]:
    for entry in entries:
        yield (entry.document, entry.path), entry
        for item in entry.items:
            yield (item.document, item.path), item


def kind_of(path: str) -> Kind | None:
    """The kind of configuration a file's name says, or None."""
    name = path.lower()
    if name.endswith((".yaml", ".yml")):
        return "yaml"
    if name.endswith((".json", ".jsonc", ".json5")):
        return "json"
    return "toml" if name.endswith(".toml") else None


def read_config(file: SourceFile, kind: Kind | None = None) -> ConfigFile:
    """The file's leaves, interpolations (`${a.b}`) resolved inside it.

    `kind` defaults to what the name says. Raises UnreadableError("line 3: ...") when the text is
    not of that kind or is beyond a limit.
    """
    kind = kind or kind_of(file.path)
    if kind == "yaml":
        from pitstop.rules.configs_yaml import read_yaml
        from pitstop.rules.interpolation import interpolated

        return interpolated(read_yaml(file))
    if kind == "json":
        from pitstop.rules.configs_json import read_json

        return read_json(file)
    if kind == "toml":
        from pitstop.rules.configs_toml import read_toml

        return read_toml(file)
    raise UnreadableError("not a configuration file: the name ends in none of yaml, json, toml")


def resolve_hydra(
    file: SourceFile, tree: RepoTree, choices: Mapping[str, str] = MappingProxyType({})
) -> ConfigFile:
    """A Hydra configuration with its `defaults:` list followed inside the repository.

    `choices` are the options that a command line chooses, by group (`model=llama`).
    Each entry keeps the path of the file that defines it. What the list names but the repository
    does not have is in `unread`. A file without `defaults:` is read as `read_config` reads it.
    """
    from pitstop.rules.hydra import compose
    from pitstop.rules.interpolation import interpolated

    return interpolated(compose(file, tree, choices))
