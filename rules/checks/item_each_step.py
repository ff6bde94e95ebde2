"""Values fetched from the GPU in every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Fix, Priority, Related, Safety
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.step_code import ancestors, each_step, gpu_modules, losses, prints

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.pysource import Call, PyModule

_HOST = ("numpy", "np", "math", "random", "time")


class ItemEachStep(Check):
    """A value is fetched from the GPU in every step.

    ## What it finds

    `.item()`, or `float(loss)`, in the body of the training step, without a condition that makes
    it rare. Several in one loop are one finding.

    ## Why it costs

    The host waits until the GPU has done everything that was queued. Meanwhile it prepares
    nothing, so the queue is empty when the next step begins.

    ## When it is right

    The value steers the loop (early stopping, an adaptive algorithm), or a step lasts so long
    that one wait does not show.

    ## Fix

    Sum on the device (`running += loss.detach()`) and call `.item()` where the sum is logged.

    ## Fix safety

    verify: the same numbers; what else reads the value shows in a run.
    """

    id = "GEN-K01"
    name = "item-each-step"
    category = "hot loop"
    priority = Priority.MEDIUM
    safety = Safety.VERIFY
    cost = "One empty queue per step: 1 to 20 % of its time, most for small models."
    sources = (
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization",
    )
    bad = (
        Bad(
            {
                "train.py": """\
import torch
from project import loader, model, optimizer

total = 0.0
for images, labels in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
    total += loss.item()
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
from project import loader, model, optimizer

total = 0.0
for step, (images, labels) in enumerate(loader):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
    total += loss.detach()
    if step % 100 == 0:
        print(total.item() / 100)
"""
            },
            "once in a hundred steps",
        ),
        Good(
            {
                "train.py": """\
import torch
from project import loader, model, optimizer

for images, labels in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
    if loss.item() < 1e-3:
        break
"""
            },
            "the value steers the loop",
        ),
        Good(
            {
                "train.py": """\
import torch
from project import actors, loader, model, optimizer, rollouts

class RolloutTrainer:
    def train_step(self, samples):
        experiences = rollouts(samples.cuda())
        self.first_reward = experiences[0].reward.item()
        return actors.update(experiences)

for images, labels in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
            },
            "a round of rollouts: the step is elsewhere",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """The first fetch of each function that fetches in every step, with the others."""
        for module in gpu_modules(facts):
            homes: dict[ast.AST, list[Call]] = {}
            names = losses(module)
            for call in module.calls:
                if _fetches(module, call, names) and each_step(module, call.node):
                    home = module.enclosing_function(call.node) or module.tree
                    homes.setdefault(home, []).append(call)
            for first, *others in homes.values():
                more = f", and {len(others)} more like it" if others else ""
                yield self.info.finding(
                    first.location,
                    f"`{module.raw(first.node)}` waits for the GPU in every step{more}.",
                    fix=Fix(
                        "loss-on-device", {}, self.safety, "sum on the device, fetch when shown"
                    ),
                    related=tuple(Related(o.location, "fetched here too") for o in others),
                )


def _fetches(module: PyModule, call: Call, names: frozenset[str]) -> bool:
    node = call.node
    if _steers(module, node) or prints(module, node):
        return False
    if call.name in ("float", "int") and len(node.args) == 1:
        return isinstance(node.args[0], ast.Name) and node.args[0].id in names
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "item" or node.args:
        return False
    return _of_a_tensor(module, node.func.value)


def _of_a_tensor(module: PyModule, receiver: ast.expr) -> bool:
    """False for what is on the host: NumPy, sizes, and what the loader hands out."""
    for node in ast.walk(receiver):
        if isinstance(node, ast.Attribute) and node.attr in ("shape", "size", "numpy"):
            return False
    root = receiver
    while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
        root = root.func if isinstance(root, ast.Call) else root.value
    if not isinstance(root, ast.Name):
        return True
    named = module.qualified(root) or ""
    if named.partition(".")[0] in _HOST:
        return False
    return not _loop_target(module, receiver, root.id)


def _loop_target(module: PyModule, node: ast.AST, name: str) -> bool:
    """Whether a name is what a loop around the node hands out, and nothing rebinds it there."""
    for parent in ancestors(module, node):
        if isinstance(parent, ast.For | ast.AsyncFor):
            targets = {n.id for n in ast.walk(parent.target) if isinstance(n, ast.Name)}
            rebound = any(
                isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
                for statement in parent.body
                for n in ast.walk(statement)
            )
            if name in targets:
                return not rebound
    return False


def _steers(module: PyModule, node: ast.AST) -> bool:
    """Whether the value decides an `if`, a `while` or an assertion."""
    child = node
    for parent in ancestors(module, node):
        if isinstance(parent, ast.If | ast.While | ast.Assert | ast.IfExp):
            return child is parent.test
        if isinstance(parent, ast.stmt):
            return False
        child = parent
    return False
