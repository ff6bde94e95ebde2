"""Gradients freed instead of zeroed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pitstop.rules.pysource import Call, PyModule
from pitstop.rules.versions import meets
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Op, Replace


class ZeroGradToNone(Recipe):
    """Free gradients instead of filling them with zeros.

    `zero_grad(set_to_none=False)` becomes `zero_grad()`, which frees them since PyTorch 2.0 (for
    older ones `set_to_none=True` is written). The first backward pass then writes gradients
    instead of adding to zeros.

    Refused where the file reads `.grad`, which may then be None. Parameters that get no gradient
    in a step are skipped by the optimizer, where zeros still decayed them: measure once.
    """

    id = "zero-grad-to-none"
    numerics = Numerics.EXACT
    requires = ("torch>=1.7",)
    answers = ("GEN-K07",)
    sources = (
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",
    )
    examples = (
        Example(
            """\
import torch
from torch import nn

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for _ in range(6):
    optimizer.zero_grad(set_to_none=False)
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
            """\
import torch
from torch import nn

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for _ in range(6):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
        ),
    )
    refuses = (
        Refusal(
            """\
from project import loader, model, optimizer

for batch in loader:
    optimizer.zero_grad(set_to_none=False)
    model(batch).backward()
    norm = sum(p.grad.norm() for p in model.parameters())
    optimizer.step()
""",
            ".grad",
        ),
        Refusal(
            """\
import torch
from project import loader, model, optimizer

graph = torch.cuda.CUDAGraph()
for batch in loader:
    optimizer.zero_grad(set_to_none=False)
    model(batch).backward()
    optimizer.step()
""",
            "CUDA graph",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """Every call that asks for zeros by a literal."""
        calls = [c for c in case.module.calls if _asks_for_zeros(c)]
        reason = _reason(case.module)
        for call in calls:
            if not case.concerns(call.location.span):
                continue
            if reason:
                yield Refused(reason)
                continue
            old = meets(case.versions, "torch>=2.0") is False
            owner = case.module.raw(call.node.func)
            yield Replace(call.node, f"{owner}({'set_to_none=True' if old else ''})")


def _asks_for_zeros(call: Call) -> bool:
    func = call.node.func
    if not isinstance(func, ast.Attribute) or func.attr != "zero_grad":
        return False
    given = call.argument("set_to_none", 0)
    return given is not None and given.origin == "literal" and given.value is False


def _reason(module: PyModule) -> str | None:
    for node in module.nodes(ast.Attribute):
        word = node.attr if isinstance(node, ast.Attribute) else ""
        if word == "grad":
            return "the file reads .grad, which would be None"
        if word in ("CUDAGraph", "make_graphed_callables"):
            return "a CUDA graph needs gradients that stay where they are"
    return None
