"""A running loss without the graphs of its steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pitstop.rules.finding import Safety
from pitstop.rules.pysource import PyModule
from pitstop.rules.step_code import losses
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Op, Replace


class DetachedLoss(Recipe):
    """Keep the loss without its graph.

    `total += loss` and `losses.append(loss)` become `total += loss.detach()` and
    `losses.append(loss.detach())`: the same values, on the device as before, without the graph of
    every step behind them.

    Refused where the sum itself is given a backward pass.
    """

    id = "detached-loss"
    safety = Safety.SAFE
    numerics = Numerics.EXACT
    answers = ("GEN-C12",)
    sources = ("https://docs.pytorch.org/docs/stable/notes/faq.html",)
    examples = (
        Example(
            """\
import torch
from torch import nn

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
total, history = 0.0, []
for _ in range(6):
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total += loss * 8
    history.append(loss)
print(float(total), [value.item() for value in history])
""",
            """\
import torch
from torch import nn

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
total, history = 0.0, []
for _ in range(6):
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total += loss.detach() * 8
    history.append(loss.detach())
print(float(total), [value.item() for value in history])
""",
        ),
    )
    refuses = (
        Refusal(
            """\
from project import loader, model, optimizer

losses = []
for batch in loader:
    loss = model(batch)
    losses.append(loss)
    optimizer.step()
    sum(losses).backward()
    loss.backward()
""",
            "backward pass of its own",
        ),
        Refusal(
            """\
from project import critic, loader, model, optimizer

for batch in loader:
    loss = model(batch)
    loss.backward(retain_graph=True)
    total = critic(batch)
    total += loss
    total.backward()
    optimizer.step()
""",
            "backward pass of its own",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """Every place of a step that keeps a loss."""
        module = case.module
        names = losses(module)
        needed = _needed(module)
        for kept, expression in _keeps(case):
            found = [n for n in _tensors(expression) if n.id in names]
            if not found or kept in {n.id for n in found}:
                continue
            if kept in needed:
                yield Refused(f"{kept} has a backward pass of its own")
                continue
            for name in found:
                yield Replace(name, f"{name.id}.detach()")


def _keeps(case: Case) -> Iterator[tuple[str, ast.expr]]:
    """(what keeps, what is kept) in the training steps."""
    module = case.module
    for node in module.nodes(ast.AugAssign, ast.Call):
        if not case.concerns(module.location(node).span) or not module.in_step_scope(node):
            continue
        if module.in_eval_scope(node):
            continue
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            yield ast.unparse(node.target), node.value
        func = node.func if isinstance(node, ast.Call) and len(node.args) == 1 else None
        if isinstance(node, ast.Call) and isinstance(func, ast.Attribute) and func.attr == "append":
            yield ast.unparse(func.value), node.args[0]


def _tensors(node: ast.expr) -> Iterator[ast.Name]:
    """The names in sums and products; what calls give is something else."""
    if isinstance(node, ast.Name):
        yield node
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult | ast.Div):
        yield from _tensors(node.left)
        yield from _tensors(node.right)


def _needed(module: PyModule) -> set[str]:
    """The names whose values a backward pass may need: those in its call, and those that they are
    computed from or taken out of, the steps of the loss itself included."""
    found: set[str] = set()
    for call in module.calls:
        func = call.node.func
        if isinstance(func, ast.Attribute) and func.attr in ("backward", "manual_backward", "grad"):
            found |= _read(call.node)
    flows = [flow for node in module.nodes(*_FLOWS) for flow in _flow(node)]
    before = -1
    while len(found) > before:
        before = len(found)
        for targets, sources in flows:
            if targets & found:
                found |= sources
    return found


_FLOWS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.comprehension)


def _flow(node: ast.AST) -> Iterator[tuple[set[str], set[str]]]:
    """(names that are bound, what their values come from)"""
    source = getattr(node, "value", None) or getattr(node, "iter", None)
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    if isinstance(source, ast.expr):
        for target in targets:
            if isinstance(target, ast.expr):
                yield _read(target), _read(source)


def _read(node: ast.expr) -> set[str]:
    """The names and dotted names in an expression."""
    kinds = ast.Name | ast.Attribute
    return {ast.unparse(part) for part in ast.walk(node) if isinstance(part, kinds)}
