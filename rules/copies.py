"""Copies of batches to the GPU in a training loop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from pitstop.rules.finding import Unknown
from pitstop.rules.pysource import Call, PyModule
from pitstop.rules.step_code import ancestors

_DEVICE = re.compile(r"device|gpu|rank|cuda", re.IGNORECASE)


def waiting_copies(module: PyModule, loop: ast.AST) -> Iterator[Call]:
    """The copies to a GPU of what a loop takes from its loader, for which the host waits: the
    call says nothing of `non_blocking`."""
    target = getattr(loop, "target", None)
    names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)} if target else set()
    for call in module.calls:
        func = call.node.func
        if not isinstance(func, ast.Attribute) or func.attr not in ("to", "cuda"):
            continue
        owner = func.value
        while isinstance(owner, ast.Subscript):
            owner = owner.value
        ours = isinstance(owner, ast.Name) and owner.id in names
        if not ours or not _directly_in(module, call.node, loop) or call.open_ended:
            continue
        if call.argument("non_blocking", 2 if func.attr == "to" else 1) is None and _to_gpu(call):
            yield call


def _directly_in(module: PyModule, node: ast.AST, loop: ast.AST) -> bool:
    """Whether no other training loop or function stands between a node and the loop."""
    loops = {one.node for one in module.train_loops}
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    home = (p for p in ancestors(module, node) if p in loops or isinstance(p, kinds))
    return next(home, None) is loop


def _to_gpu(call: Call) -> bool:
    """Whether a copy has a device for its first argument, and not the host."""
    if isinstance(call.node.func, ast.Attribute) and call.node.func.attr == "cuda":
        return True
    given = call.argument("device", 0)
    if given is None or len(call.node.args) > 1:
        return False
    if isinstance(given.value, Unknown):
        at = given.used_at.span
        return bool(_DEVICE.search(call.module.file.text[at.start : at.end]))
    return isinstance(given.value, str) and given.value.startswith("cuda")
