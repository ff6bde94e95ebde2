"""A PyTorch optimizer without its fused implementation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Fix, Priority, Safety, Severity
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.step_code import ancestors, gpu_modules, managed, setting_of
from pitstop.rules.versions import allows

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.pysource import Call, PyModule

_CALLS = ("torch.optim.Adam", "torch.optim.AdamW", "torch.optim.SGD")
_DEVICE = re.compile(r"cuda|device|rank|gpu", re.IGNORECASE)
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
        Good(
            {
                "train.py": """\
import torch
from project import Trainer, loader, net

model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
for images, labels in loader:
    model = model.cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
            },
            "the parameters are on the CPU when the optimizer is made",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Optimizers of training modules that leave the implementation open."""
        if allows(facts.versions.get("torch", ""), ">=2.0") is False:
            return
        for module in gpu_modules(facts):
            if managed(module) or _sparse(module):
                continue
            for call in module.calls_of(*_CALLS):
                if call.open_ended or _answered(call) or module.in_eval_scope(call.node):
                    continue
                if not _on_gpu(module, call):
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
    spoken = "sparse" in module.file.text
    return spoken and any(call.argument("sparse") is not None for call in module.calls)


def _on_gpu(module: PyModule, call: Call) -> bool:
    """Whether the parameters that the optimizer gets are on a GPU already: their owner was moved
    there earlier in the same function."""
    owner = _owner(call)
    if owner is None:
        return False
    function = module.enclosing_function(call.node)
    for other in module.calls:
        func = other.node.func
        if not isinstance(func, ast.Attribute) or func.attr not in ("cuda", "to"):
            continue
        earlier = other.node.lineno <= call.node.lineno
        here = module.enclosing_function(other.node) is function
        if earlier and here and _names_a_gpu(other) and _moves(module, other.node, owner):
            return True
    return False


def _owner(call: Call) -> str | None:
    """`model` of `AdamW(model.parameters())`, as text."""
    first = call.node.args[0] if call.node.args else None
    if isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute):
        return ast.unparse(first.func.value) if first.func.attr == "parameters" else None
    return None


def _names_a_gpu(call: Call) -> bool:
    """`.cuda()`, or `.to(...)` of what is a device by its text rather than a number format."""
    if isinstance(call.node.func, ast.Attribute) and call.node.func.attr == "cuda":
        return True
    given = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
    return any(_DEVICE.search(ast.unparse(argument)) for argument in given)


def _moves(module: PyModule, moved: ast.Call, owner: str) -> bool:
    """Whether a moving call is about the owner: `owner.cuda()`, or what is assigned to it."""
    assert isinstance(moved.func, ast.Attribute)  # noqa: S101 - the caller has looked
    if owner in (ast.unparse(moved.func.value), ast.unparse(moved)):
        return True
    for parent in ancestors(module, moved):
        if isinstance(parent, ast.Assign):
            return any(ast.unparse(target) == owner for target in parent.targets)
        if isinstance(parent, ast.stmt):
            return False
    return False
