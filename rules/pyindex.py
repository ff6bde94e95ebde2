"""One walk over a syntax tree: who is whose parent, and the nodes that readers ask for."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Iterator
from typing import Any, TypeVar, overload

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.expr
_One = TypeVar("_One", bound=ast.AST)
_Two = TypeVar("_Two", bound=ast.AST)
_Three = TypeVar("_Three", bound=ast.AST)

_ATOMS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
_PLAIN = frozenset(
    {"ctx", "op", "ops", "type_comment", "type_ignores", "id", "attr", "arg", "module", "level"}
    | {"asname", "kind", "conversion", "simple", "is_async", "rest", "kwd_attrs"}
)
"""Fields that never hold a node worth visiting."""
_LEAVES = (ast.Name, ast.Constant, ast.alias, ast.Global, ast.Nonlocal)
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)


def _inner(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a class of nodes that hold nodes; its lists hold nothing else (or None)."""
    plain = _PLAIN | {"name"} if issubclass(kind, _NAMED) else _PLAIN
    return () if issubclass(kind, _LEAVES) else tuple(f for f in kind._fields if f not in plain)


_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    kind: _inner(kind)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST) and kind not in _ATOMS
}
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (
    ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, *COMPREHENSIONS,
)  # fmt: skip


class Index:
    """The nodes of a module. `parents` has every node but the root, in no useful order."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.parents: dict[ast.AST, ast.AST] = {}
        self._groups: dict[type[ast.AST], list[ast.AST]] = {}
        self._walk()
        self._unsorted = {kind for kind in self._groups if "lineno" in kind._attributes}
        self._mixed: dict[tuple[type[ast.AST], ...], list[ast.AST]] = {}
        self._scopes: dict[ast.AST, ast.AST] = {}

    def _walk(self) -> None:
        parents, groups = self.parents, self._groups
        stack: list[ast.AST] = [self.tree]
        pop, push, AST = stack.pop, stack.append, ast.AST  # noqa: N806 - as ast names it
        while stack:
            node = pop()
            kind = node.__class__
            if kind in groups:
                groups[kind].append(node)
            else:
                groups[kind] = [node]
            for name in _FIELDS[kind]:
                value = getattr(node, name, None)
                if value.__class__ is list:
                    for item in value:
                        if item is not None:  # a `**` of a dictionary has no key
                            parents[item] = node
                            push(item)
                elif isinstance(value, AST):
                    parents[value] = node
                    push(value)

    @overload
    def all(self, one: type[_One], /) -> list[_One]: ...
    @overload
    def all(self, one: type[_One], two: type[_Two], /) -> list[_One | _Two]: ...
    @overload
    def all(
        self, one: type[_One], two: type[_Two], three: type[_Three], /
    ) -> list[_One | _Two | _Three]: ...
    def all(self, *kinds: type[Any]) -> list[Any]:
        """The nodes of these exact classes, in the order of the text."""
        if len(kinds) > 1:
            if kinds not in self._mixed:
                found = [node for kind in kinds for node in self._groups.get(kind, ())]
                self._mixed[kinds] = sorted(found, key=place)
            return self._mixed[kinds]
        if kinds[0] in self._unsorted:
            self._groups[kinds[0]].sort(key=_PLACE)
            self._unsorted.discard(kinds[0])
        return self._groups.get(kinds[0], [])

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The parents of a node, innermost first, up to the module."""
        parent = self.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The innermost statement that a node is or stands in."""
        current: ast.AST | None = node
        while current is not None and not isinstance(current, ast.stmt):
            current = self.parents.get(current)
        return current

    def enclosing_function(self, node: ast.AST) -> Function | None:
        """The innermost `def` around a node (not the node itself)."""
        for parent in self.ancestors(node):
            if isinstance(parent, Function):
                return parent
        return None

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The class whose body holds a node, methods included."""
        for parent in self.ancestors(node):
            if isinstance(parent, ast.ClassDef):
                return parent
        return None

    def scope(self, node: ast.AST) -> ast.AST:
        """The scope in which a node's names are looked up: a module, function, lambda, class or
        comprehension. Defaults, decorators and annotations belong to the scope outside."""
        child = node
        found: ast.AST | None = None
        passed: list[ast.AST] = []
        parent = self.parents.get(child)
        while parent is not None and found is None:
            if isinstance(child, ast.stmt):
                found = self._scopes.get(child)
                passed.append(child)
            if found is None and isinstance(parent, SCOPES) and not _outside(parent, child):
                found = parent
            child, parent = parent, self.parents.get(parent)
        found = found or self.tree
        self._scopes.update(dict.fromkeys(passed, found))
        return found

    @functools.cached_property
    def functions(self) -> dict[str, list[Function]]:
        """Every `def` by its bare name."""
        found: dict[str, list[Function]] = {}
        for function in self.all(ast.FunctionDef, ast.AsyncFunctionDef):
            found.setdefault(function.name, []).append(function)
        return found

    @functools.cached_property
    def loads(self) -> dict[str, list[ast.Name]]:
        """Every reading of a name."""
        found: dict[str, list[ast.Name]] = {}
        for name in self.all(ast.Name):
            if isinstance(name.ctx, ast.Load):
                found.setdefault(name.id, []).append(name)
        return found


_PLACE = operator.attrgetter("lineno", "col_offset")


def place(node: ast.AST) -> tuple[int, int]:
    """Line and byte column, for ordering."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def in_block(child: ast.AST, block: list[ast.stmt]) -> bool:
    """Whether a child of the block's owner is one of its statements, told by the place: asking
    the list costs its length each time."""
    return bool(block) and place(block[0]) <= place(child) <= place(block[-1])


def _outside(scope: ast.AST, child: ast.AST) -> bool:
    """True when a child of a scope's node is evaluated before the scope exists."""
    if isinstance(scope, ast.Lambda):
        return child is scope.args
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return not isinstance(child, ast.stmt)
    return False
