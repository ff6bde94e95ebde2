"""What a file's syntax tree must be after a change: the same operations made on the tree itself,
by other code than that which writes the text."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pitstop.rules.tree import SourceFile, UnreadableError
from pitstop.transforms import python_text
from pitstop.transforms.syntax_ops import Insert, Keyword, Op, Remove, Replace, Wrap

_BLOCKS = ("body", "orelse", "finalbody")


def flaw(file: SourceFile, tree: ast.Module, ops: Iterable[Op], text: str) -> str | None:
    """Why `text` is not the file with exactly these operations; None when it is."""
    ops = tuple(ops)
    after = SourceFile(file.path, text)
    try:
        found = python_text.parse(after)
        wanted = _changed(python_text.parse(file), tree, ops)
    except UnreadableError as error:
        return f"{file.path} would not parse after the change: {error}"
    if not python_text.same(found, wanted):
        return "the change would mean something else than intended"
    lost = Counter(python_text.comments(file)) - Counter(python_text.comments(after))
    removed = [_lines(file, op.statement) for op in ops if isinstance(op, Remove)]
    if any(not any(comment in text for text in removed) for comment in lost):
        return "the change would swallow a comment"
    return None


def _lines(file: SourceFile, statement: ast.stmt) -> str:
    """The lines of a statement that hold code; a comment on a line of its own must survive."""
    last = statement.end_lineno or statement.lineno
    lines = (file.line_text(line) for line in range(statement.lineno, last + 1))
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


def _changed(fresh: ast.Module, tree: ast.Module, ops: Sequence[Op]) -> ast.Module:
    """A fresh parse of the file with the operations, which speak of `tree`, made on it."""
    twins = {id(a): b for a, b in zip(ast.walk(tree), ast.walk(fresh), strict=True)}
    swaps: dict[int, ast.AST] = {}
    for op in ops:
        if isinstance(op, Replace):
            swaps[id(twins[id(op.node)])] = _expression(op)
        elif isinstance(op, Keyword):
            call = twins[id(op.call)]
            assert isinstance(call, ast.Call)  # noqa: S101 - the same walk over the same text
            _set_keyword(call, op.name, ast.parse(op.text, mode="eval").body)
    _swap(fresh, swaps)
    for node in list(ast.walk(fresh)):
        for name in _BLOCKS:
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, _block(block, ops, twins))
    return fresh


def _expression(op: Replace) -> ast.expr:
    """The new expression, as a target where the old one was."""
    if isinstance(getattr(op.node, "ctx", None), ast.Store):
        (statement,) = ast.parse(f"{op.text} = 0").body
        assert isinstance(statement, ast.Assign)  # noqa: S101 - written so
        return statement.targets[0]
    return ast.parse(op.text, mode="eval").body


def _set_keyword(call: ast.Call, name: str, value: ast.expr) -> None:
    for keyword in call.keywords:
        if keyword.arg == name:
            keyword.value = value
            return
    call.keywords.append(ast.keyword(arg=name, value=value))


def _swap(tree: ast.Module, swaps: Mapping[int, ast.AST]) -> None:
    for parent in ast.walk(tree):
        for name, child in ast.iter_fields(parent):
            if isinstance(child, list):
                child[:] = [swaps.get(id(item), item) for item in child]
            elif id(child) in swaps:
                setattr(parent, name, swaps[id(child)])


def _block(
    block: list[ast.stmt], ops: Sequence[Op], twins: Mapping[int, ast.AST]
) -> list[ast.stmt]:
    """A block's statements after the operations on them."""
    wraps = {id(twins[id(op.statements[0])]): op for op in ops if isinstance(op, Wrap)}
    out: list[ast.stmt] = []
    at = 0
    while at < len(block):
        wrap = wraps.get(id(block[at]))
        count = len(wrap.statements) if wrap else 1
        inner = [
            s for statement in block[at : at + count] for s in _expanded(statement, ops, twins)
        ]
        if wrap:
            (outer,) = ast.parse(f"{wrap.header}\n    pass").body
            outer.body = inner  # type: ignore[attr-defined]
            inner = [outer]
        out += inner
        at += count
    return out


def _expanded(
    statement: ast.stmt, ops: Sequence[Op], twins: Mapping[int, ast.AST]
) -> list[ast.stmt]:
    """A statement with what is inserted around it, or without itself."""
    inserts = [op for op in ops if isinstance(op, Insert) and twins[id(op.anchor)] is statement]
    removed = any(isinstance(op, Remove) and twins[id(op.statement)] is statement for op in ops)
    before = [s for op in inserts if not op.after for s in ast.parse(op.text).body]
    after = [s for op in inserts if op.after for s in ast.parse(op.text).body]
    return [*before, *([] if removed else [statement]), *after]
