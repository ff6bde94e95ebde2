"""Which loader of a file feeds which training loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pitstop.rules.job_code import for_evaluation
from pitstop.rules.loaders import LOADERS
from pitstop.rules.pysource import Call, PyModule
from pitstop.transforms.training_step import inner


def training_loaders(module: PyModule) -> Iterator[Call]:
    """The loaders that are not of data held out, in a file that trains."""
    if module.trains:
        for call in module.calls_of(*LOADERS):
            if not for_evaluation(call):
                yield call


def loader_of(module: PyModule, loop: ast.AST) -> Call | None:
    """The only loader that a loop may go over: its iterable is the call, or a name that the file
    binds to one call (a parameter of the same name is taken for it)."""
    if not isinstance(loop, ast.For | ast.AsyncFor):
        return None
    calls = {call.node: call for call in module.calls_of(*LOADERS)}
    for node in inner(loop.iter):
        if isinstance(node, ast.Call) and node in calls:
            return calls[node]
        if isinstance(node, ast.Name):
            found = [calls[value] for value in _bound(module, node.id) if value in calls]
            if len(found) == 1 and len(_bound(module, node.id)) == 1:
                return found[0]
    return None


def _bound(module: PyModule, name: str) -> list[ast.expr]:
    return [
        node.value
        for node in module.nodes(ast.Assign)
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
