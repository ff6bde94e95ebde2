"""Tensors printed or logged in every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Fix, Priority, Safety, Severity
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.step_code import each_step, gpu_modules, losses, printer

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts


class PrintEachStep(Check):
    """The loss is printed in every step.

    ## What it finds

    `print`, a logger or a progress bar that is given the loss in the body of the training step,
    without a condition that makes it rare.

    ## Why it costs

    To turn the loss into text the host waits until the GPU is done, and writes a line besides.
    A rank test does not help: all ranks wait for that one at the next collective.

    ## When it is right

    A step lasts many seconds.

    ## Fix

    Put it under `if step % 50 == 0:`.

    ## Fix safety

    verify: the same numbers in fewer lines.
    """

    id = "GEN-K02"
    name = "print-each-step"
    category = "hot loop"
    severity = Severity.INFO
    priority = Priority.LOW
    safety = Safety.VERIFY
    cost = "One wait for the GPU and one write per step; a few per cent, most for small models."
    sources = (
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization",
    )
    bad = (
        Bad(
            {
                "train.py": """\
import torch
from project import loader, model, optimizer

for step, (images, labels) in enumerate(loader):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
    print(f"step {step}: {loss.item():.3f}")
"""
            },
            "train.py",
            9,
        ),
    )
    good = (
        Good(
            {
                "train.py": """\
import torch
from project import loader, model, optimizer

for step, (images, labels) in enumerate(loader):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: {loss.item():.3f}")
"""
            },
            "every fiftieth step",
        ),
        Good(
            {
                "train.py": """\
import torch
from project import loader, model, optimizer

for step, (images, labels) in enumerate(loader):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
    print(f"step {step}")
"""
            },
            "a counter is on the host",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Printing calls in what runs each step, whose arguments hold a loss."""
        for module in gpu_modules(facts):
            names = losses(module)
            for call in module.calls if names else ():
                if not printer(module, call.node) or not each_step(module, call.node):
                    continue
                if any(_names(argument) & names for argument in _given(call.node)):
                    yield self.info.finding(
                        call.location,
                        "The loss is turned into text in every step.",
                        fix=Fix(
                            "log-now-and-then", {"every": 50}, self.safety, "print every 50 steps"
                        ),
                    )


def _given(node: ast.Call) -> tuple[ast.expr, ...]:
    return (*node.args, *(keyword.value for keyword in node.keywords))


def _names(node: ast.expr) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
