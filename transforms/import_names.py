"""Canonical names as a file spells them, and where a missing import goes.

An import counts when it stands at the top level, above the first change and under no condition;
otherwise the name is imported anew: once, behind the imports that are there, never inside `try`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator

from pitstop.rules.pysource import PyModule
from pitstop.transforms.patch import Refused
from pitstop.transforms.syntax_ops import Import, Insert, Keyword, Op, Replace, Wrap, anchor_of

LIBRARIES = frozenset({"torch", "contextlib", "itertools", "bitsandbytes", "liger_kernel"})
"""Roots of the canonical names that recipes write."""

_Anchor = tuple[ast.stmt, bool]


def spelled(module: PyModule, ops: Iterable[Op]) -> list[Op] | Refused:
    """The operations with every canonical name as this file says it, and the imports needed."""
    ops = list(ops)
    speller = _Speller(module, min((_line(op) for op in ops), default=1))
    new = [speller.spell(op) for op in ops if not isinstance(op, Import)]
    for op in ops:
        if isinstance(op, Import):
            speller.need(op.name)
    if speller.taken:
        return Refused(f"{speller.taken} is already the name of something else")
    return [*speller.imports(), *new]


def _line(op: Op) -> int:
    """The first line that a change reads names on."""
    node = anchor_of(op)
    if node is None:
        return sys.maxsize
    behind = isinstance(op, Insert) and op.after
    return (node.end_lineno or node.lineno) + 1 if behind else node.lineno


class _Speller:
    def __init__(self, module: PyModule, line: int) -> None:
        self._module = module
        self._line = line
        self._bound = dict(_bound(module.tree.body, line))
        self._other = _stored(module)
        self._needed: dict[str, None] = {}
        self.taken: str | None = None

    def spell(self, op: Op) -> Op:
        match op:
            case Replace(node=node, text=text):
                return Replace(node, self._text(text))
            case Keyword(call=call, name=name, text=text):
                return Keyword(call, name, self._text(text))
            case Insert(anchor=anchor, text=text, after=after, apart=apart):
                return Insert(anchor, self._text(text), after, apart)
            case Wrap(statements=statements, header=header):
                body = "\n    pass"
                return Wrap(statements, self._text(header + body).removesuffix(body))
            case _:
                return op

    def _text(self, text: str) -> str:
        """The text with its canonical names respelled, from the end to the beginning."""
        places = sorted(_canonical(ast.parse(text)), key=lambda n: (-n.lineno, -n.col_offset))
        lines = [line.encode() for line in text.splitlines(keepends=True)]
        for node in places:
            line, end = lines[node.lineno - 1], node.end_col_offset or 0
            new = self.name(ast.unparse(node)).encode()
            lines[node.lineno - 1] = line[: node.col_offset] + new + line[end:]
        return b"".join(lines).decode()

    def name(self, canonical: str) -> str:
        """A canonical name as the file can say it; what is missing is imported."""
        parts = canonical.split(".")
        for end in range(len(parts), 0, -1):
            for alias, meaning in self._bound.items():
                if meaning == ".".join(parts[:end]) and alias not in self._other:
                    return ".".join((alias, *parts[end:]))
        return self.need(canonical)

    def need(self, canonical: str) -> str:
        """Import a canonical name; returns how it is then said: a class by itself, everything
        else, and what PyTorch has, through its package."""
        parts = canonical.split(".")
        first = next((i for i, part in enumerate(parts) if part[:1].isupper()), 0)
        by_class = first > 1 and parts[0] != "torch"
        end = first + 1 if by_class else 1
        name, short = ".".join(parts[:end]), parts[end - 1]
        said = ".".join((short, *parts[end:]))
        if self._bound.get(short) == name and short not in self._other:
            return said
        if short in self._other or short in self._bound:
            self.taken = self.taken or short
        self._needed[name] = None
        return said

    def imports(self) -> Iterator[Insert]:
        for name in sorted(self._needed):
            anchor, after = _place(self._module.tree.body, self._line, name)
            home, _, last = name.rpartition(".")
            text = f"from {home} import {last}" if home else f"import {name}"
            yield Insert(anchor, text, after)


def _canonical(tree: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """The longest dotted names that begin with a library's."""
    root: ast.AST = tree
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(root, ast.Name) and isinstance(tree, ast.Attribute | ast.Name):
        if root.id in LIBRARIES:
            yield tree
        return
    for child in ast.iter_child_nodes(tree):
        yield from _canonical(child)


def _bound(body: Iterable[ast.stmt], line: int) -> Iterator[tuple[str, str]]:
    """(name, meaning) of the imports at the top level above a line."""
    for statement in body:
        if statement.lineno >= line:
            return
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                root = alias.name.split(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (root, root)
        elif isinstance(statement, ast.ImportFrom) and not statement.level and statement.module:
            for alias in statement.names:
                yield alias.asname or alias.name, f"{statement.module}.{alias.name}"


def _stored(module: PyModule) -> frozenset[str]:
    """Names that are bound by something else than an import."""
    found: set[str] = set()
    for node in module.nodes(
        ast.Name, ast.arg, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
    ):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
    return frozenset(found)


def _place(body: list[ast.stmt], line: int, name: str) -> _Anchor:
    """The statement beside which an import goes, and whether behind it: among those of its kind
    (standard library or not), in the order of their names."""
    imports = [s for s in body if s.lineno < line and isinstance(s, ast.Import | ast.ImportFrom)]
    future = [s for s in imports if _root(s) == "__future__"]
    imports = [s for s in imports if s not in future]
    standard = name.split(".")[0] in sys.stdlib_module_names
    alike = [s for s in imports if (_root(s) in sys.stdlib_module_names) == standard and _root(s)]
    before = [s for s in alike if _order(s) < ("." in name, name)]
    if alike:
        return (before[-1], True) if before else (alike[0], False)
    if imports:
        return (imports[0], False) if standard else (imports[-1], True)
    if future:
        return future[-1], True
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return body[0], True
    return body[0], False


def _order(statement: ast.Import | ast.ImportFrom) -> tuple[bool, str]:
    """Plain imports go before the others, each in the order of the alphabet."""
    if isinstance(statement, ast.ImportFrom):
        return True, statement.module or ""
    return False, statement.names[0].name


def _root(statement: ast.Import | ast.ImportFrom) -> str:
    if isinstance(statement, ast.ImportFrom):
        return "" if statement.level else (statement.module or "").split(".")[0]
    return statement.names[0].name.split(".")[0]
