"""Hydra's `defaults:` list, followed inside the repository.

https://hydra.cc/docs/advanced/defaults_list/ : the list is merged in its order, the file's own
values last unless `_self_` says where. What only a run can know (`???`, search paths outside
the repository) is reported as unread.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pitstop.rules.configs import MAX_ENTRIES, ConfigFile, Entry, Path, Section
from pitstop.rules.configs_yaml import read_yaml
from pitstop.rules.finding import Unread
from pitstop.rules.tree import RepoTree, SourceFile, UnreadableError, normalise

_PACKAGE = re.compile(r"^#\s*@package[ \t]+(\S+)", re.MULTILINE)
_MAX_FILES = 60
_MAX_DEPTH = 15
_MAX_PASSES = 4


@dataclass(frozen=True, slots=True)
class _Default:
    """One line of a defaults list. `path` is a configuration relative to the root, without
    extension (None when only a run can choose it), `group` the one it is in, `package` where its
    values go."""

    path: str | None
    group: str
    package: Path
    line: int
    optional: bool = False
    own: bool = False
    named: bool = False  # the list says the package, so that the file's header does not count


@dataclass(slots=True)
class _Composition:
    """What has been merged so far. `choices` are the options that an override or the command
    line chooses, by group; the first to choose wins."""

    tree: RepoTree
    paths: frozenset[str]
    root: str
    choices: dict[str, str]
    found: dict[Path, Entry] = field(default_factory=dict)
    inner: set[Path] = field(default_factory=set)  # every path above an entry
    sections: dict[Path, Section] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    files: int = 0

    def merge(self, config: ConfigFile, package: Path, group: str, depth: int) -> None:
        """One file: its defaults, and its own values at their turn."""
        for key, option in _overrides(config, group):
            self.choices.setdefault(key, option)
        defaults = list(_defaults(config, group, package, self.choices))
        if not any(d.own for d in defaults):
            defaults.append(_Default(None, group, package, 1, own=True))
        for default in defaults:
            if default.own:
                self._own(config, package)
            elif depth >= _MAX_DEPTH or self.files >= _MAX_FILES:
                self._report(config, default, "too many configurations to follow")
                return
            else:
                self._follow(config, default, depth)

    def _follow(self, config: ConfigFile, default: _Default, depth: int) -> None:
        if default.path is None:
            self._report(config, default, "a default that only a run can choose")
            return
        source = self._find(default.path)
        if source is None:
            if not default.optional:
                reason = f"the configuration {default.path} is not in the repository"
                self._report(config, default, reason)
            return
        self.files += 1
        try:
            inner = read_yaml(source)
        except UnreadableError as error:
            self.unread.append(Unread(source.path, str(error)))
            return
        package = default.package if default.named else _header(source, default.package)
        self.merge(inner, package, default.group, depth + 1)

    def _report(self, config: ConfigFile, default: _Default, reason: str) -> None:
        self.unread.append(Unread(config.path, reason, default.line))

    def _find(self, name: str) -> SourceFile | None:
        stem = name.removesuffix(".yaml").removesuffix(".yml")
        for suffix in (".yaml", ".yml"):
            path = normalise(posixpath.join(self.root, stem + suffix))
            if path is not None and path in self.paths:
                try:
                    return self.tree.read(path)
                except UnreadableError:
                    return None
        return None

    def _own(self, config: ConfigFile, package: Path) -> None:
        """A file's own values, over what is there."""
        for section in config.sections:
            if section.document == 0 and section.path[:1] != ("defaults",):
                path = (*package, *section.path)
                self.sections[path] = dataclasses.replace(section, path=path)
                if section.kind == "sequence":  # lists are replaced, not merged
                    self._clear(path)
        for entry in config.entries:
            if entry.document == 0 and entry.path[:1] != ("defaults",):
                self._put(_moved(entry, package))

    def _put(self, entry: Entry) -> None:
        if entry.value == () and entry.raw.startswith("{") and entry.path in self.inner:
            return  # an empty mapping adds nothing
        if len(self.found) >= MAX_ENTRIES:
            raise UnreadableError("more values than a configuration has")
        self._clear(entry.path)
        for end in range(1, len(entry.path)):
            self.found.pop(entry.path[:end], None)
            self.inner.add(entry.path[:end])
        self.found[entry.path] = entry

    def _clear(self, path: Path) -> None:
        self.found.pop(path, None)
        if path in self.inner:
            for old in [p for p in self.found if p[: len(path)] == path]:
                del self.found[old]
            self.inner.discard(path)


def compose(
    file: SourceFile, tree: RepoTree, choices: Mapping[str, str] = MappingProxyType({})
) -> ConfigFile:
    """The composed configuration, interpolations still as written. `choices` are options chosen
    on the command line, by group (`model=llama`)."""
    config = read_yaml(file)
    if not config.has("defaults"):
        return config
    root = posixpath.dirname(file.path)
    paths = frozenset(tree.paths)
    chosen = dict(choices)
    for _ in range(_MAX_PASSES):  # an inner override may change what was merged before it
        before = len(chosen)
        composition = _Composition(tree, paths, root, chosen)
        composition.merge(config, (), "", 0)
        if len(chosen) == before:
            break
    return ConfigFile(
        file.path,
        "yaml",
        tuple(composition.found.values()),
        tuple(composition.sections.values()),
        config.duplicates,
        (*config.unread, *dict.fromkeys(composition.unread)),
    )


def _moved(entry: Entry, package: Path) -> Entry:
    items = tuple(dataclasses.replace(i, path=(*package, *i.path)) for i in entry.items)
    return dataclasses.replace(entry, path=(*package, *entry.path), items=items)


def _header(source: SourceFile, package: Path) -> Path:
    """Where the file itself says that it goes: `# @package _global_`; absolute."""
    head = _PACKAGE.search(source.text[:500])
    word = head.group(1) if head else "_group_"
    if word == "_group_":
        return package
    return tuple(p for p in word.removeprefix("_global_").split(".") if p)


def _defaults(
    config: ConfigFile, group: str, package: Path, choices: Mapping[str, str]
) -> Iterator[_Default]:
    """The list's lines that merge something, in order."""
    for entry in _rows(config):
        line = entry.value_at.line
        if len(entry.path) == 2:  # - base, - _self_, - group/name
            if entry.value == "_self_":
                yield _Default(None, group, package, line, own=True)
            elif isinstance(entry.value, str):
                name, _, at = entry.value.partition("@")
                folder = posixpath.dirname(name.lstrip("/"))
                where = _package(at, folder, package)
                path = _absolute(name, group)
                inside = posixpath.dirname(path)
                yield _Default(path, inside, where, line, named=bool(at))
        elif len(entry.path) == 3:
            yield from _group_default(entry, group, package, choices)


def _group_default(
    entry: Entry, group: str, package: Path, choices: Mapping[str, str]
) -> Iterator[_Default]:
    """`- model: llama`, `- optional db@backup: mysql`, `- data: [a, b]`."""
    words = str(entry.path[2]).split()
    if not words or "override" in words[:-1]:
        return
    name, _, at = words[-1].partition("@")
    folder = _absolute(name, group)
    where = _package(at, name.lstrip("/"), package)
    choice = f"{folder}@{at}" if at else folder
    optional = "optional" in words[:-1]
    value = choices.get(choice, entry.value)
    line = entry.value_at.line
    for option in value if isinstance(value, tuple) else (value,):
        if option is None or option == "null":
            continue
        known = isinstance(option, str) and option != "???" and "${" not in option
        path = f"{folder}/{option}" if known else None
        yield _Default(path, folder, where, line, optional, named=bool(at))


def _overrides(config: ConfigFile, group: str) -> Iterator[tuple[str, str]]:
    """`- override /model: llama` as (group, option)."""
    for entry in _rows(config):
        if len(entry.path) == 3:
            words = str(entry.path[2]).split()
            if "override" in words[:-1]:
                name, _, at = words[-1].partition("@")
                folder = _absolute(name, group)
                yield f"{folder}@{at}" if at else folder, str(entry.value)


def _rows(config: ConfigFile) -> list[Entry]:
    plain = config.get("defaults")
    rows = plain.items if plain else config.find("defaults")
    return sorted(rows, key=lambda e: e.value_at.span.start)


def _package(at: str, folder: str, outer: Path) -> Path:
    """Where values go: what the list says after `@`, else the group; relative to the outer
    configuration's package unless it begins with `_global_`."""
    group = tuple(folder.split("/")) if folder else ()
    if not at or at == "_group_":
        return (*outer, *group)
    if at == "_here_":
        return outer
    parts = tuple(at.split("."))
    return parts[1:] if parts[0] == "_global_" else (*outer, *parts)


def _absolute(name: str, group: str) -> str:
    """A name relative to its list's group; a leading slash means the root."""
    return name.lstrip("/") if name.startswith("/") or not group else f"{group}/{name}"
