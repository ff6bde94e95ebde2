"""A loader or its iterator that is made anew in every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Priority
from pitstop.rules.loaders import LOADERS, bound_names
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.step_code import each_step, gpu_modules

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.pysource import Call, PyModule


class LoaderRebuiltEachStep(Check):
    """A loader starts anew for every step.

    ## What it finds

    `next(iter(loader))` or a `DataLoader(...)` call in the body of the training step.

    ## Why it costs

    Each `iter` starts all worker processes, waits for a first batch and throws the prefetched
    rest away. The start is paid in every step instead of once per epoch.

    ## When it is right

    The data set is replaced on purpose, and rarely.

    ## Fix

    Make the loader and its iterator once before the loop; on StopIteration make a new iterator.

    ## Fix safety

    never: the order of the samples changes when the loader shuffles.
    """

    id = "GEN-F15"
    name = "loader-rebuilt-each-step"
    category = "data"
    priority = Priority.MEDIUM
    cost = "The start of all workers per step, often longer than the step itself."
    sources = ("https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading",)
    bad = (
        Bad(
            {
                "train.py": """\
import torch
from torch.utils.data import DataLoader
from project import dataset, model, optimizer

loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=8, pin_memory=True)
for step in range(10000):
    images, labels = next(iter(loader))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
            },
            "train.py",
            7,
        ),
    )
    good = (
        Good(
            {
                "train.py": """\
import torch
from torch.utils.data import DataLoader
from project import dataset, model, optimizer

loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=8, pin_memory=True)
batches = iter(loader)
for step in range(10000):
    images, labels = next(batches)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
            },
            "one iterator serves all steps",
        ),
        Good(
            {
                "train.py": """\
import torch
from torch.utils.data import DataLoader
from project import dataset, model, optimizer

loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=8, pin_memory=True)
batches = iter(loader)
for step in range(10000):
    try:
        images, labels = next(batches)
    except StopIteration:
        batches = iter(loader)
        images, labels = next(batches)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
            },
            "a new iterator only when the old one has ended",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Loaders made, or iterated from the start, in what runs each step."""
        for module in gpu_modules(facts):
            loaders = {
                name
                for call in module.calls_of(*LOADERS)
                for name in bound_names(module, call.node)
            }
            for call in module.calls:
                if not each_step(module, call.node):
                    continue
                if call.name in LOADERS:
                    yield self.info.finding(call.location, "Every step makes a new loader.")
                elif _restarts(module, call, loaders):
                    yield self.info.finding(
                        call.location,
                        f"`{module.raw(call.node)}` starts the loader anew in every step.",
                    )


def _restarts(module: PyModule, call: Call, loaders: set[str]) -> bool:
    """`next(iter(x))` where x is a loader by its making or its name."""
    if call.name != "next" or not call.node.args:
        return False
    inner = call.node.args[0]
    if not isinstance(inner, ast.Call) or module.qualified(inner.func) != "iter" or not inner.args:
        return False
    source = ast.unparse(inner.args[0])
    return source in loaders or "loader" in source.lower()
