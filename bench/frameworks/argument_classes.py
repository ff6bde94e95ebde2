"""A framework's own arguments, read from its source without importing it.

Dataclass fields and `add_argument` calls give names, defaults and allowed words. A value that no
literal, constant, `Literal[...]` or field of another class says is NOT_READ, and nothing is made
of it.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final


class NotRead(enum.Enum):
    """The type of NOT_READ: a value that the source does not say plainly."""

    NOT_READ = "not read"


NOT_READ: Final = NotRead.NOT_READ
_DEPTH = 8
"""How far constants and references are followed."""

Words = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument: its name with underscores, where it stands, its default, and the words that
    it takes (None: any)."""

    name: str
    at: str
    default: object = NOT_READ
    choices: Words | None = None


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed file: its classes and the values of its constants."""

    path: str
    tree: ast.Module
    classes: Mapping[str, ast.ClassDef]
    constants: Mapping[str, ast.expr]


@dataclass(frozen=True, slots=True)
class Source:
    """The parsed files of a framework. Names are looked up in the module first, then anywhere:
    argument modules import their words from each other."""

    modules: tuple[Module, ...]
    classes: Mapping[str, tuple[Module, ast.ClassDef]] = field(repr=False)
    constants: Mapping[str, ast.expr] = field(repr=False)


def read_source(root: Path, patterns: Iterable[str]) -> Source:
    """Parse the files below `root` that fit the patterns. Files that do not parse are left out."""
    modules: list[Module] = []
    for path in sorted({found for pattern in patterns for found in root.glob(pattern)}):
        try:
            tree = ast.parse(path.read_text("utf-8"))
        except (SyntaxError, ValueError):
            continue
        name = path.relative_to(root).as_posix()
        modules.append(Module(name, tree, dict(_classes(tree)), dict(_constants(tree))))
    return Source(
        tuple(modules),
        {name: (m, node) for m in modules for name, node in m.classes.items()},
        {name: node for m in modules for name, node in m.constants.items()},
    )


def _classes(tree: ast.Module) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, node


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        target: ast.expr | None = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.expr):
            yield target.id, value


# --- arguments -------------------------------------------------------------------------------


def arguments(
    source: Source, classes: Iterable[str], options: Iterable[str]
) -> Mapping[str, Argument]:
    """By name: the fields of the classes, given as "path pattern:name pattern", with their other
    spellings, and the options added in the files that fit `options`. Of several places of one
    name each gives what the ones before it leave open."""
    found: dict[str, Argument] = {}
    wanted = [word.rpartition(":")[::2] for word in classes]
    for module in source.modules:
        for name, node in module.classes.items():
            if any(fnmatchcase(module.path, p) and fnmatchcase(name, c) for p, c in wanted):
                _add(found, _fields(source, module, node))
    for module in source.modules:
        if any(fnmatchcase(module.path, pattern) for pattern in options):
            _add(found, _options(source, module))
    return found


def _add(found: dict[str, Argument], more: Iterable[Argument]) -> None:
    for one in more:
        known = found.get(one.name, one)
        default = one.default if known.default is NOT_READ else known.default
        choices = one.choices if known.choices is None else known.choices
        found[one.name] = Argument(one.name, known.at, default, choices)


def _fields(source: Source, module: Module, node: ast.ClassDef) -> Iterator[Argument]:
    for line in node.body:
        if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
            continue
        name = line.target.id
        if name.startswith("_") or "ClassVar" in ast.dump(line.annotation):
            continue
        if _keyword(line.value, "init") is not None:
            continue
        at = f"{module.path}:{line.lineno}"
        default = NOT_READ if line.value is None else _value(source, module, line.value)
        choices = _choices(source, module, line.annotation)
        for spelled in (name, *_spellings(line.annotation)):
            yield Argument(spelled, at, default, choices)


def _spellings(annotation: ast.expr) -> Iterator[str]:
    """`Annotated[T, Arg(aliases=["--model"], cli_name="--x")]`."""
    for call in ast.walk(annotation):
        for keyword in call.keywords if isinstance(call, ast.Call) else ():
            if keyword.arg in ("aliases", "cli_name"):
                for node in ast.walk(keyword.value):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield _plain(node.value)


def _options(source: Source, module: Module) -> Iterator[Argument]:
    for call in ast.walk(module.tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if call.func.attr != "add_argument":
            continue
        default, words = _keyword(call, "default"), _keyword(call, "choices")
        for node in call.args:
            if isinstance(node, ast.Constant) and str(node.value).startswith("-"):
                yield Argument(
                    _plain(str(node.value)),
                    f"{module.path}:{call.lineno}",
                    NOT_READ if default is None else _value(source, module, default),
                    None if words is None else _words(source, module, words),
                )


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _keyword(node: ast.expr | None, name: str) -> ast.expr | None:
    keywords = node.keywords if isinstance(node, ast.Call) else ()
    return next((keyword.value for keyword in keywords if keyword.arg == name), None)


# --- values ----------------------------------------------------------------------------------


def _value(source: Source, module: Module, node: ast.expr, depth: int = 0) -> object:
    """What a default expression says: a literal, a constant, `field(default=...)`, a field of
    another class."""
    if depth > _DEPTH:
        return NOT_READ
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        pass
    if isinstance(node, ast.Name):
        known = module.constants.get(node.id, source.constants.get(node.id))
        return NOT_READ if known is None else _value(source, module, known, depth + 1)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return _of_class(source, node.value.id, node.attr, depth)
    if isinstance(node, ast.Call):
        given = _keyword(node, "default")
        if given is not None:
            return _value(source, module, given, depth + 1)
        match node.args:  # get_field(Class, "name")
            case [ast.Name(id=owner), ast.Constant(value=str(name))]:
                return _of_class(source, owner, name, depth)
    return NOT_READ


def _of_class(source: Source, name: str, attribute: str, depth: int) -> object:
    if name not in source.classes:
        return NOT_READ
    module, node = source.classes[name]
    for line in node.body:
        match line:
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value):
                if found == attribute:
                    return _value(source, module, value, depth + 1)
    return NOT_READ


def _choices(source: Source, module: Module, node: ast.expr) -> Words | None:
    """The words of an annotation that takes nothing else; None where other words may do."""
    for call in ast.walk(node):
        given = _keyword(call, "choices") if isinstance(call, ast.Call) else None
        if given is not None:
            return _words(source, module, given)
    return _literal(source, module, node)


def _literal(source: Source, module: Module, node: ast.expr, depth: int = 0) -> Words | None:
    if depth > _DEPTH:
        return None
    if isinstance(node, ast.Constant):
        return () if node.value is None else _quoted(source, module, str(node.value), depth)
    if isinstance(node, ast.Name):
        known = module.constants.get(node.id, source.constants.get(node.id))
        return None if known is None else _literal(source, module, known, depth + 1)
    if isinstance(node, ast.BinOp):
        return _united((node.left, node.right), source, module, depth)
    if not isinstance(node, ast.Subscript):
        return None
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    head = ast.unparse(node.value).rpartition(".")[2]
    if head == "Literal":
        return _words(source, module, node.slice)
    if head in ("Optional", "Union"):
        return _united(parts, source, module, depth)
    return _literal(source, module, parts[0], depth + 1) if head in ("A", "Annotated") else None


def _quoted(source: Source, module: Module, text: str, depth: int) -> Words | None:
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    return _literal(source, module, node, depth + 1)


def _united(parts: Iterable[ast.expr], source: Source, module: Module, depth: int) -> Words | None:
    found = [_literal(source, module, part, depth + 1) for part in parts]
    if None in found:
        return None
    return tuple(word for words in found for word in words or ())


def _words(source: Source, module: Module, node: ast.expr) -> Words | None:
    if not isinstance(node, ast.Tuple | ast.List | ast.Set):
        value = _value(source, module, node)
        if isinstance(value, list | tuple | set | frozenset):
            return tuple(value)
        return None if value is NOT_READ else (value,)
    found: list[object] = []
    for part in node.elts:
        if isinstance(part, ast.Subscript | ast.Name):  # a Literal inside a Literal
            inner = _literal(source, module, part)
            if inner is None:
                return None
            found += inner
            continue
        value = _value(source, module, part)
        if value is NOT_READ:
            return None
        found.append(value)
    return tuple(found)
