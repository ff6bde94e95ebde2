"""Settings made by statements: attributes and elements that are assigned, variables of the
environment that are set."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.rules.pydicts import KeywordDict, read_dict
from pitstop.rules.pyindex import Index
from pitstop.rules.pynames import Names

_ENVIRONMENT = "os.environ"


@dataclass(frozen=True, slots=True)
class Store:
    """`target` (with `key` in brackets, if any) becomes `value`; `weak`: unless it is set."""

    target: str
    key: str | None
    value: ast.expr
    node: ast.AST
    weak: bool = False


def stores(index: Index, names: Names) -> Iterator[Store]:
    """Every such statement, in no useful order."""
    for node in index.all(ast.Assign, ast.AnnAssign):
        if node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from _stored(target, node.value, node, names)
    for call in index.all(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in _SETTERS:
            yield from _environment(call, index, names)


_SETTERS = frozenset({"setdefault", "update", "putenv"})


def _stored(target: ast.expr, value: ast.expr, node: ast.AST, names: Names) -> Iterator[Store]:
    key = None
    base = target
    if isinstance(target, ast.Subscript):
        if not isinstance(target.slice, ast.Constant) or not isinstance(target.slice.value, str):
            return
        key, base = target.slice.value, target.value
    elif not isinstance(target, ast.Attribute):
        return
    name = names.qualified(base) or dotted(base)
    if name:
        yield Store(name, key, value, node)


def _environment(call: ast.Call, index: Index, names: Names) -> Iterator[Store]:
    """`os.environ.setdefault(k, v)`, `os.putenv(k, v)`, `os.environ.update(...)`."""
    name = names.qualified(call.func)
    if name in (f"{_ENVIRONMENT}.setdefault", "os.putenv") and len(call.args) == 2:
        key = call.args[0]
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield Store(_ENVIRONMENT, key.value, call.args[1], call, name.endswith("setdefault"))
    elif name == f"{_ENVIRONMENT}.update":
        for argument in call.args:
            found = read_dict(argument, names, index, call) or KeywordDict()
            for word, item in found.items.items():
                if item.value is not None:
                    yield Store(_ENVIRONMENT, word, item.value, call)
        for keyword in call.keywords:
            if keyword.arg:
                yield Store(_ENVIRONMENT, keyword.arg, keyword.value, call)


def dotted(node: ast.AST) -> str:
    """`model.config` as written; `.config` when it hangs on a call or an element."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "")
    return ".".join(reversed(parts))
