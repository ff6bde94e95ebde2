"""Gradient accumulation under DDP that reduces gradients in every micro step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Fix, Priority, Safety
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.step_code import ancestors, gpu_modules, managed

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.pysource import PyModule

_WRAPPERS = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel",
)
_HOLDS_BACK = frozenset(
    {"no_sync", "require_backward_grad_sync", "set_requires_gradient_sync", "accumulate", "join"}
)


class ReductionEachMicroStep(Check):
    """Gradients are reduced in every micro step of an accumulation.

    ## What it finds

    A loop that runs `backward()` every time and the optimizer only every n-th time, with a model
    in DistributedDataParallel or FSDP and without `no_sync()`.

    ## Why it costs

    DDP averages the gradients over all ranks after each backward pass. Only the last one before
    the optimizer step is needed; the others send the same bytes for nothing.

    ## When it is right

    Memory is so short that FSDP must not keep unsharded gradients, or parameters are unused in
    some micro steps.

    ## Fix

    Run forward and backward of all but the last micro step under `model.no_sync()`; the forward
    pass must be inside as well.

    ## Fix safety

    verify: sums are rounded in another order.
    """

    id = "GEN-E06"
    name = "reduction-each-micro-step"
    category = "communication"
    priority = Priority.MEDIUM
    safety = Safety.VERIFY
    cost = "n times the gradient traffic; 10 to 30 % of a step on slow links."
    sources = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    )
    bad = (
        Bad(
            {
                "train.py": """\
import torch
from torch.nn.parallel import DistributedDataParallel
from project import loader, net, optimizer

model = DistributedDataParallel(net.cuda())
accumulation = 8
for step, batch in enumerate(loader):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(batch) / accumulation
    loss.backward()
    if (step + 1) % accumulation == 0:
        optimizer.step()
        optimizer.zero_grad()
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
import contextlib
import torch
from torch.nn.parallel import DistributedDataParallel
from project import loader, net, optimizer

model = DistributedDataParallel(net.cuda())
accumulation = 8
for step, batch in enumerate(loader):
    last = (step + 1) % accumulation == 0
    with contextlib.nullcontext() if last else model.no_sync():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(batch) / accumulation
        loss.backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
"""
            },
            "only the last micro step reduces",
        ),
        Good(
            {
                "train.py": """\
import torch
from project import loader, net, optimizer

model = net.cuda()
accumulation = 8
for step, batch in enumerate(loader):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(batch) / accumulation
    loss.backward()
    if (step + 1) % accumulation == 0:
        optimizer.step()
        optimizer.zero_grad()
"""
            },
            "one process reduces nothing",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Backward passes of accumulation loops in modules that never hold the reduction back."""
        for module in gpu_modules(facts):
            if managed(module) or not any(module.calls_of(*_WRAPPERS)):
                continue
            if any(n.attr in _HOLDS_BACK for n in _attributes(module)) or _searches(module):
                continue
            for loop in module.train_loops:
                backward = _backward(module, loop.node)
                if loop.kind == "step" and backward and _steps_seldom(module, loop.node):
                    yield self.info.finding(
                        module.location(backward),
                        "Every micro step reduces all gradients, though the optimizer runs only"
                        " now and then.",
                        fix=Fix("no-sync", {}, self.safety, "reduce before the optimizer steps"),
                    )


def _attributes(module: PyModule) -> Iterator[ast.Attribute]:
    return (node for node in module.nodes(ast.Attribute) if isinstance(node, ast.Attribute))


def _searches(module: PyModule) -> bool:
    """Unused parameters are expected: then holding back needs more care than this rule knows."""
    return any(
        call.argument("find_unused_parameters", 7) is not None
        for call in module.calls_of(*_WRAPPERS)
    )


def _backward(module: PyModule, loop: ast.AST) -> ast.Call | None:
    """The backward pass that runs in each turn of a loop."""
    for node in ast.walk(loop):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "backward"
            and not module.guarded(node)
        ):
            return node
    return None


def _steps_seldom(module: PyModule, loop: ast.AST) -> bool:
    """Whether the optimizer runs under a test of `count % n` where n is known and above one."""
    for node in ast.walk(loop):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = ast.unparse(node.func.value).lower()
        if node.func.attr != "step" or not ("optim" in owner or "scaler" in owner):
            continue
        for parent in ancestors(module, node):
            if parent is loop:
                break
            if isinstance(parent, ast.If) and _counts_above_one(module, parent.test):
                return True
    return False


def _counts_above_one(module: PyModule, test: ast.expr) -> bool:
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            value = module.value(node.right).value
            if isinstance(value, int) and not isinstance(value, bool) and value > 1:
                return True
    return False
