"""A PyTorch optimizer without its fused implementation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Fix, Priority, Safety, Severity
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.step_code import gpu_modules, managed, setting_of
from pitstop.rules.versions import allows

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.pysource import Call, PyModule

_CALLS = ("torch.optim.Adam", "torch.optim.AdamW", "torch.optim.SGD")
_ANSWERED = ("fused", "foreach", "differentiable", "capturable")


class UnfusedOptimizer(Check):
    """The optimizer updates parameters in several passes.

    ## What it finds

    `torch.optim.Adam`, `AdamW` or `SGD` over parameters on a GPU, without `fused` or `foreach`.

    ## Why it costs

    By default PyTorch groups tensors and runs one kernel per arithmetic operation. The fused
    form reads and writes parameter, gradient and moments once.

    ## When it is right

    Parameters are on the CPU or sparse, an engine replaces the optimizer, or the step is
    compiled.

    ## Fix

    Add `fused=True`.

    ## Fix safety

    verify: the same algorithm with another order of rounding.
    """

    id = "GEN-D11"
    name = "unfused-optimizer"
    category = "optimizer"
    severity = Severity.INFO
    priority = Priority.LOW
    safety = Safety.VERIFY
    cost = (
        "The optimizer step is 1.2 to 2 times slower, usually less than 5 to 10 % of the whole"
        " step; more for small models with many tensors."
    )
    sources = ("https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html",)
    bad = (
        Bad(
            {
                "train.py": """\
import torch
from project import loader, model

model = model.cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for images, labels in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
            },
            "train.py",
            5,
        ),
    )
    good = (
        Good(
            {
                "train.py": """\
import torch
from project import loader, model

model = model.cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for images, labels in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
            },
            "it is fused",
        ),
        Good(
            {
                "train.py": """\
import torch
from accelerate import Accelerator
from project import loader, model

accelerator = Accelerator(mixed_precision="bf16")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for images, labels in loader:
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    accelerator.backward(loss)
    optimizer.step()
"""
            },
            "the library may replace or move what the optimizer holds",
        ),
        Good(
            {
                "train.py": """\
import torch
from project import loader, model

optimizer = torch.optim.RMSprop(model.cuda().parameters(), lr=1e-4)
for images, labels in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
            },
            "this optimizer has no fused form",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Optimizers of training modules that leave the implementation open."""
        if allows(facts.versions.get("torch", ""), ">=2.0") is False:
            return
        for module in gpu_modules(facts):
            if managed(module) or _sparse(module) or not _moves_model(module):
                continue
            for call in module.calls_of(*_CALLS):
                if call.open_ended or _answered(call) or module.in_eval_scope(call.node):
                    continue
                yield self.info.finding(
                    call.location,
                    f"{call.name} runs without its fused implementation.",
                    fix=Fix.set_knob(
                        "optimizer.fused",
                        True,
                        safety=self.safety,
                        text="one kernel for the optimizer step",
                    ),
                    deciding=setting_of(facts, call, "optimizer.fused"),
                )


def _answered(call: Call) -> bool:
    return any(call.argument(keyword) is not None for keyword in _ANSWERED)


def _sparse(module: PyModule) -> bool:
    """Embeddings with sparse gradients, which the fused form does not take."""
    return any(call.argument("sparse") is not None for call in module.calls)


def _moves_model(module: PyModule) -> bool:
    """Whether something is moved to the GPU: the parameters are then there at construction."""
    return any(
        isinstance(call.node.func, ast.Attribute) and call.node.func.attr in ("cuda", "to")
        for call in module.calls
    )
