"""One reduction of gradients for each optimizer step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pitstop.rules.pysource import PyModule
from pitstop.rules.step_code import ancestors
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Op, Wrap
from pitstop.transforms.training_step import (
    Step,
    forward_of,
    inner,
    stores,
    training_steps,
    updates,
)

_WRAPPERS = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel",
)
_HOLDS_BACK = ("no_sync", "require_backward_grad_sync", "set_requires_gradient_sync", "join")
_PARTS = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
"""
_TAIL = """\
dist.destroy_process_group()
print(loss.item())
"""


class NoSync(Recipe):
    """Reduce gradients only before the optimizer steps.

    Forward and backward pass of every micro step but the last go under `model.no_sync()`; the
    condition is that of the optimizer step. The forward pass must be inside: it decides whether
    the backward pass reduces.

    Refused where the condition is not one `if` around one optimizer step, where it changes
    between the forward pass and that `if`, and with `find_unused_parameters`. With FSDP,
    unreduced gradients take the memory of the whole model.
    """

    id = "no-sync"
    numerics = Numerics.EQUIVALENT
    answers = ("GEN-E06",)
    sources = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync",
    )
    examples = (
        Example(
            f"""\
{_PARTS}for step in range(8):
    inputs = torch.randn(8, 16)
    # a quarter of the batch
    loss = model(inputs).square().mean() / 4
    loss.backward()
    if (step + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
{_TAIL}""",
            f"""\
import contextlib
{_PARTS}for step in range(8):
    inputs = torch.randn(8, 16)
    # a quarter of the batch
    with contextlib.nullcontext() if (step + 1) % 4 == 0 else model.no_sync():
        loss = model(inputs).square().mean() / 4
        loss.backward()
    if (step + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
{_TAIL}""",
        ),
    )
    refuses = (
        Refusal(
            """\
from torch.nn.parallel import DistributedDataParallel
from project import loader, net, optimizer

model = DistributedDataParallel(net, find_unused_parameters=True)
for step, batch in enumerate(loader):
    loss = model(batch)
    loss.backward()
    if step % 4 == 3:
        optimizer.step()
""",
            "unused parameters",
        ),
        Refusal(
            """\
from torch.nn.parallel import DistributedDataParallel
from project import loader, net, optimizer

model = DistributedDataParallel(net)
count = 0
for batch in loader:
    loss = model(batch)
    loss.backward()
    count += 1
    if count % 4 == 0:
        optimizer.step()
""",
            "changes",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """The context around each micro step of a wrapped model."""
        module = case.module
        wraps = list(module.calls_of(*_WRAPPERS))
        if not wraps or any(n.attr in _HOLDS_BACK for n in _attributes(module)):
            return
        for step in training_steps(case):
            if isinstance(step, Refused):
                yield step
                continue
            found = updates(step)
            tests = [test for u in found if (test := _test(step, u.statement)) is not None]
            if found and not tests:
                continue  # no accumulation
            if any(call.argument("find_unused_parameters", 7) is not None for call in wraps):
                yield Refused("unused parameters are expected, which needs a look at each step")
            elif len(found) != 1 or len(tests) != 1:
                yield Refused("the step does not have exactly one optimizer step under one `if`")
            else:
                yield _held_back(step, _names(module), tests[0])


def _held_back(step: Step, names: list[str], test: ast.If) -> Op | Refused:
    region = forward_of(step)
    if isinstance(region, Refused):
        return region
    if len(names) != 1:
        return Refused("which model is wrapped is not plain")
    start, end = step.block.index(region[0]), step.block.index(step.backward)
    between = step.block[start : step.block.index(test)]
    read = {n.id for n in ast.walk(test.test) if isinstance(n, ast.Name)}
    changed = sorted(name for name in read for s in between if stores(s, name))
    if changed:
        return Refused(f"{changed[0]} changes between the forward pass and the test of it")
    if any(isinstance(n, ast.Call) and not _pure(n) for n in ast.walk(test.test)):
        return Refused("the condition of the optimizer step calls something")
    text = step.module.raw(test.test)
    if "\n" in text:
        return Refused("the condition of the optimizer step takes several lines")
    choice = f"contextlib.nullcontext() if {text} else {names[0]}.no_sync()"
    return Wrap(tuple(step.block[start : end + 1]), f"with {choice}:")


def _test(step: Step, statement: ast.stmt) -> ast.If | None:
    """The `if` of the step's own block that an optimizer step stands in."""
    for parent in (statement, *ancestors(step.module, statement)):
        if parent in step.block:
            return parent if isinstance(parent, ast.If) and not parent.orelse else None
    return None


def _pure(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "len"


def _names(module: PyModule) -> list[str]:
    """The variables that hold a wrapped model."""
    found = []
    for call in module.calls_of(*_WRAPPERS):
        parent = module.parents.get(call.node)
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            found.append(ast.unparse(parent.targets[0]))
    return list(dict.fromkeys(found))


def _attributes(module: PyModule) -> Iterator[ast.Attribute]:
    return (node for node in inner(module.tree) if isinstance(node, ast.Attribute))
