"""Statements and values of the training step that make the host wait for the GPU."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from pitstop.rules.pysource import Call, PyModule
from pitstop.rules.step_code import each_step
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case
from pitstop.transforms.syntax_ops import Op, Remove
from pitstop.transforms.training_step import block_of, statement_of


def without_calls(case: Case, names: Collection[str]) -> Iterator[Op | Refused]:
    """Remove the statements that are nothing but one of these calls, in every step."""
    module = case.module
    for call in module.calls_of(*names):
        if not case.concerns(call.location.span) or not each_step(module, call.node, forward=True):
            continue
        statement = statement_of(module, call.node)
        if not isinstance(statement, ast.Expr) or statement.value is not call.node:
            yield Refused(f"{call.name}() is part of a larger expression")
        elif len(block_of(module, statement)) == 1:
            yield Refused(f"{call.name}() is the only statement of its block")
        elif explained(module, statement):
            yield Refused(f"a comment stands above {call.name}()")
        else:
            yield Remove(statement)


def explained(module: PyModule, statement: ast.stmt) -> bool:
    """Whether a comment of its own stands directly above a statement."""
    return module.file.line_text(statement.lineno - 1).lstrip().startswith("#")


def imports_left_over(module: PyModule, root: str, removed: Collection[Op]) -> Iterator[Op]:
    """Remove `import root` at the top level when only what is removed used it."""
    loads = [n for n in module.nodes(ast.Name) if isinstance(n, ast.Name) and n.id == root]
    gone = {id(op.statement) for op in removed if isinstance(op, Remove)}
    left = [n for n in loads if id(statement_of(module, n)) not in gone]
    imports = [
        s
        for s in module.tree.body
        if isinstance(s, ast.Import) and [(a.name, a.asname) for a in s.names] == [(root, None)]
    ]
    exported = any(isinstance(n, ast.Name) and n.id == "__all__" for n in module.nodes(ast.Name))
    if loads and not left and len(imports) == 1 and not exported:
        yield Remove(imports[0])


def reads(function: ast.AST, name: str) -> list[ast.Name]:
    """Where a name is read in a function."""
    return [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]


def fetched_from(call: Call) -> ast.expr | None:
    """The tensor of `x.item()` or `float(x)`; None for another call."""
    node = call.node
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
        return node.func.value
    if call.name == "float" and len(node.args) == 1 and not node.keywords:
        return node.args[0]
    return None
