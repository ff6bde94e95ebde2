"""Hydra's `defaults:` list, followed inside the repository.

https://hydra.cc/docs/advanced/defaults_list/ : the list is merged in its order, the file's own
values last unless `_self_` says where. What only a run can know (overrides on the command
line, search paths outside the repository) is reported as unread.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pitstop.rules.configs import ConfigFile, Entry, Path, Section
from pitstop.rules.configs_yaml import read_yaml
from pitstop.rules.finding import Unknown, Unread
from pitstop.rules.tree import RepoTree, SourceFile, UnreadableError, normalise

_PACKAGE = re.compile(r"^#\s*@package[ \t]+(\S+)", re.MULTILINE)
_MAX_FILES = 60
_MAX_DEPTH = 15


@dataclass(slots=True)
class _Composition:
    tree: RepoTree
    root: str
    found: dict[Path, Entry] = field(default_factory=dict)
    sections: dict[Path, Section] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    files: int = 0


@dataclass(frozen=True, slots=True)
class _Default:
    """One line of a defaults list. `path` is a configuration without extension, relative to the
    root; `group` its group; `package` where it goes, None for the usual place."""

    path: str | None
    group: str
    package: str | None
    optional: bool
    line: int
    own: bool = False


def compose(file: SourceFile, tree: RepoTree) -> ConfigFile:
    """The composed configuration, interpolations still as written."""
    config = read_yaml(file)
    if not config.has("defaults"):
        return config
    root = posixpath.dirname(file.path)
    composition = _Composition(tree, root)
    _merge(composition, config, (), "", 0)
    return ConfigFile(
        file.path,
        "yaml",
        tuple(composition.found.values()),
        tuple(composition.sections.values()),
        config.duplicates,
        (*config.unread, *composition.unread),
    )


def _merge(into: _Composition, config: ConfigFile, package: Path, group: str, depth: int) -> None:
    """The defaults of one file, and the file's own values at their turn."""
    defaults = list(_defaults(config, group))
    if not any(d.own for d in defaults):
        defaults.append(_Default(None, group, None, False, 1, own=True))
    for default in defaults:
        if default.own:
            _own(into, config, package)
        elif depth >= _MAX_DEPTH or into.files >= _MAX_FILES:
            into.unread.append(Unread(config.path, "too many configurations", default.line))
            return
        else:
            _follow(into, config, default, package, depth)


def _own(into: _Composition, config: ConfigFile, package: Path) -> None:
    for section in config.sections:
        if section.document == 0 and section.path[:1] != ("defaults",):
            path = (*package, *section.path)
            into.sections[path] = dataclasses.replace(section, path=path)
    for entry in config.entries:
        if entry.document or entry.path[:1] == ("defaults",):
            continue
        path = (*package, *entry.path)
        items = tuple(dataclasses.replace(i, path=(*package, *i.path)) for i in entry.items)
        for old in [p for p in into.found if p[: len(path)] == path]:
            del into.found[old]
        into.found.pop(path, None)
        into.found[path] = dataclasses.replace(entry, path=path, items=items)


def _follow(
    into: _Composition, config: ConfigFile, default: _Default, package: Path, depth: int
) -> None:
    if default.path is None:
        into.unread.append(
            Unread(config.path, "a default that only a run can choose", default.line)
        )
        return
    source = _find(into, default.path)
    if source is None:
        if not default.optional:
            reason = f"the configuration {default.path} is not in the repository"
            into.unread.append(Unread(config.path, reason, default.line))
        return
    into.files += 1
    try:
        inner = read_yaml(source)
    except UnreadableError as error:
        into.unread.append(Unread(source.path, str(error)))
        return
    _merge(into, inner, _package(default, source, package), default.group, depth + 1)


def _find(into: _Composition, name: str) -> SourceFile | None:
    for suffix in (".yaml", ".yml"):
        path = normalise(posixpath.join(into.root, name + suffix))
        if path is not None and path in into.tree.paths:
            try:
                return into.tree.read(path)
            except UnreadableError:
                return None
    return None


def _package(default: _Default, source: SourceFile, outer: Path) -> Path:
    """Where a configuration's values go: `@package` in the list, in the file, or its group."""
    head = _PACKAGE.search(source.text[:500])
    word = default.package or (head.group(1) if head else "_group_")
    if word == "_global_":
        return ()
    if word == "_here_":
        return outer
    if word == "_group_":
        return tuple(default.group.split("/")) if default.group else ()
    return (*outer, *word.removeprefix("_global_.").split("."))


def _defaults(config: ConfigFile, group: str) -> Iterator[_Default]:
    """The list's lines that name something to merge, in order."""
    plain = config.get("defaults")
    rows = list(plain.items) if plain else [*config.find("defaults")]
    for entry in sorted(rows, key=lambda e: e.value_at.span.start):
        line = entry.value_at.line
        if len(entry.path) == 2:  # - base, - _self_, - group/name
            if entry.value == "_self_":
                yield _Default(None, group, None, False, line, own=True)
            elif isinstance(entry.value, str):
                name, _, package = entry.value.partition("@")
                path = _absolute(name, group)
                yield _Default(path, posixpath.dirname(path), package or None, False, line)
            continue
        yield from _group_default(entry, group, line)


def _group_default(entry: Entry, group: str, line: int) -> Iterator[_Default]:
    """`- model: llama`, `- optional db@backup: mysql`, `- data: [a, b]`."""
    words = str(entry.path[2]).split()
    if "override" in words[:-1]:
        return
    name, _, package = (words[-1] if words else "").partition("@")
    folder = _absolute(name, group)
    optional = "optional" in words[:-1]
    if entry.value is None:
        return
    values = entry.value if isinstance(entry.value, tuple) else (entry.value,)
    for value in values:
        known = isinstance(value, str) and value != "???" and "${" not in value
        path = f"{folder}/{value}" if known and not isinstance(entry.value, Unknown) else None
        yield _Default(path, folder, package or None, optional, line)


def _absolute(name: str, group: str) -> str:
    """A name relative to its list's group; a leading slash means the root."""
    return name.lstrip("/") if name.startswith("/") or not group else f"{group}/{name}"
