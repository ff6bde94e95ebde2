"""A running sum or list of losses that still hang on their autograd graphs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Fix, Priority, Safety
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.step_code import gpu_modules, losses, tensor_names

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.pysource import PyModule


class LossKeptWithItsGraph(Check):
    """The running loss keeps every step's graph.

    ## What it finds

    `total += loss` or `history.append(loss)` in the training step, where `loss` is the tensor whose
    backward pass runs, without `.detach()`, `.item()` or `float(...)`.

    ## Why it costs

    The sum refers to the loss, the loss to the autograd graph of its step, and the graph to
    whatever it holds. None of it is freed while the sum lives, so memory grows with every step
    and the run ends in an out-of-memory error after hours.

    ## When it is right

    The sum itself gets a backward pass later.

    ## Fix

    `total += loss.detach()`: the value stays on the GPU and nothing waits. Turn it into a
    number only where it is logged.

    ## Fix safety

    safe: the same numbers.
    """

    id = "GEN-C12"
    name = "loss-kept-with-its-graph"
    category = "memory"
    priority = Priority.HIGH
    safety = Safety.SAFE
    resource = "memory"
    cost = "Memory that grows with every step, until the run ends out of memory."
    sources = (
        "https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",
    )
    bad = (
        Bad(
            {
                "train.py": """\
import torch

def main(model, loader, optimizer):
    total = 0.0
    for batch in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(batch)
        loss.backward()
        optimizer.step()
        total += loss
    return total

if __name__ == "__main__":
    from project import parts
    main(*parts())
"""
            },
            "train.py",
            10,
        ),
    )
    good = (
        Good(
            {
                "train.py": """\
import torch

def main(model, loader, optimizer):
    total, history = 0.0, []
    for batch in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(batch)
        loss.backward()
        optimizer.step()
        total += loss.detach()
        history.append(loss.detach())
    return total

if __name__ == "__main__":
    from project import parts
    main(*parts())
"""
            },
            "detached values hold no graph",
        ),
        Good(
            {
                "train.py": """\
import torch

def main(model, loader, heads, optimizer):
    for batch in loader:
        total = 0.0
        with torch.autocast("cuda", dtype=torch.bfloat16):
            for head in heads:
                loss = head(model(batch))
                total += loss
        total.backward()
        optimizer.step()

if __name__ == "__main__":
    from project import parts
    main(*parts())
"""
            },
            "the sum of several losses gets the backward pass",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Sums and lists of loss tensors in training steps."""
        for module in gpu_modules(facts):
            names = losses(module)
            if not names:
                continue
            for node, kept, value in _kept(module):
                if (
                    module.in_step_scope(node)
                    and not module.in_eval_scope(node)
                    and kept not in names
                    and tensor_names(value, _undetached(module, node, names))
                ):
                    yield self.info.finding(
                        module.location(node),
                        f"`{module.raw(node)}` keeps the autograd graph of every step.",
                        fix=Fix("detached-loss", {}, self.safety, "keep the value, not its graph"),
                    )


def _kept(module: PyModule) -> Iterator[tuple[ast.stmt, str, ast.expr]]:
    """(statement, name of the sum or list, what is added) of `a += b` and `a.append(b)`."""
    for node in module.nodes(ast.AugAssign, ast.Expr):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            yield node, _root(node.target), node.value
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            func, args = node.value.func, node.value.args
            if isinstance(func, ast.Attribute) and func.attr == "append" and len(args) == 1:
                yield node, _root(func.value), args[0]


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _undetached(module: PyModule, node: ast.AST, names: frozenset[str]) -> frozenset[str]:
    """The loss names that nothing in the same function rebinds to a detached value."""
    function = module.enclosing_function(node) or module.tree
    rebound = {
        target.id
        for statement in ast.walk(function)
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
        and target.id in names
        and not tensor_names(statement.value, names)
        and any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(statement.value))
    }
    return names - rebound
