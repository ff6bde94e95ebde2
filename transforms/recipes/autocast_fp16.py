"""fp16 for the forward pass and the loss, with a gradient scaler."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pitstop.rules.pysource import PyModule
from pitstop.rules.step_code import ancestors
from pitstop.rules.versions import meets
from pitstop.transforms.layout import raw
from pitstop.transforms.mixed_precision import autocast_region, chooses_precision
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Insert, Op, Replace, Wrap
from pitstop.transforms.training_step import (
    Step,
    block_of,
    device_type,
    inner,
    training_steps,
    updates,
    used_names,
)

_LOOPS = ast.For | ast.AsyncFor | ast.While
_PARTS = """\
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(6)]
"""


class AutocastFp16(Recipe):
    """Compute the forward pass and the loss in fp16 with scaled gradients.

    For GPUs that have fp16 but no bf16 (compute capability 7.x). The forward pass and the loss
    go under `torch.autocast`; a `GradScaler` made before the loops scales the loss, so that small
    gradients survive, and unscales them before they are clipped and used.

    Refused where the scaler could not outlive the epochs, where several optimizers step, or
    where gradients are read otherwise than by clipping.
    """

    id = "autocast-fp16"
    numerics = Numerics.PRECISION
    requires = ("torch>=1.10",)
    capability = (7, 0)
    answers = ("GEN-C01",)
    sources = (
        "https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling",
        "https://docs.pytorch.org/docs/stable/notes/amp_examples.html",
    )
    examples = (
        Example(
            f"""\
import torch
from torch import nn

{_PARTS}
for epoch in range(2):
    for images, labels in batches:
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
print(loss.item())
""",
            f"""\
import torch
from torch import nn

{_PARTS}
scaler = torch.amp.GradScaler(device.type)
for epoch in range(2):
    for images, labels in batches:
        with torch.autocast(device.type, dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
print(loss.item())
""",
        ),
    )
    refuses = (
        Refusal(
            """\
def train_one_epoch(model, loader, optimizer):
    for inputs, labels in loader:
        loss = model(inputs, labels)
        loss.backward()
        optimizer.step()
""",
            "must outlive",
        ),
        Refusal(
            """\
from project import loader, model, optimizer

for inputs, labels in loader:
    loss = model(inputs, labels)
    loss.backward()
    norm = model.weight.grad.norm()
    optimizer.step()
""",
            "gradients are read",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """Autocast, and the scaler around the backward pass and the optimizer."""
        if chooses_precision(case.module):
            return
        for step in training_steps(case):
            if isinstance(step, Refused):
                yield step
                continue
            region = autocast_region(step)
            if isinstance(region, Refused):
                yield region
            else:
                yield from _scaled(case, step, region)


def _scaled(case: Case, step: Step, region: tuple[ast.stmt, ...]) -> Iterator[Op | Refused]:
    module, device = case.module, device_type(case.module)
    outer = _outermost(module, step)
    found = updates(step)
    clips = _clips(step)
    if isinstance(outer, Refused):
        yield outer
    elif any("fsdp" in name.lower() for name in module.imports.values()):
        yield Refused("FSDP needs a gradient scaler of its own")
    elif len(found) != 1 or not found[0].plain:
        yield Refused("the step does not have exactly one plain optimizer step")
    elif _reads_gradients(step):
        yield Refused("gradients are read in the step, which would be scaled")
    elif any(clip not in block_of(module, found[0].statement) for clip in clips):
        yield Refused("gradients are clipped in another block than the optimizer steps")
    elif "scaler" in used_names(module):
        yield Refused("the name scaler is taken")
    else:
        (update,) = found
        old = meets(case.versions, "torch>=2.3") is False
        made = "torch.cuda.amp.GradScaler()" if old else f"torch.amp.GradScaler({device})"
        yield Insert(outer, f"scaler = {made}")
        yield Wrap(region, f"with torch.autocast({device}, dtype=torch.float16):")
        yield Replace(step.root, f"scaler.scale({raw(module, step.root)})")
        if clips:
            yield Insert(clips[0], f"scaler.unscale_({update.optimizer})")
        assert isinstance(update.statement, ast.Expr)  # noqa: S101 - it is plain
        yield Replace(update.statement.value, f"scaler.step({update.optimizer})")
        yield Insert(update.statement, "scaler.update()", after=True)


def _outermost(module: PyModule, step: Step) -> ast.stmt | Refused:
    """The loop before which the scaler is made."""
    if not isinstance(step.home, _LOOPS):
        return Refused("the step is a function of its own, and a scaler must outlive it")
    outer: ast.stmt = step.home
    for parent in ancestors(module, step.home):
        if isinstance(parent, _LOOPS):
            outer = parent
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            calls = [c.node for c in module.calls if ast.unparse(c.node.func) == parent.name]
            repeated = any(isinstance(a, _LOOPS) for c in calls for a in ancestors(module, c))
            if len(calls) != 1 or repeated:
                return Refused(f"{parent.name}() may run often, and a scaler must outlive it")
            break
    return outer


def _clips(step: Step) -> list[ast.stmt]:
    """The statements of the step that clip gradients."""
    return [
        node
        for node in inner(step.home)
        if isinstance(node, ast.Expr | ast.Assign)
        and isinstance(node.value, ast.Call)
        and (step.module.qualified(node.value.func) or "").startswith("torch.nn.utils.clip_grad")
    ]


def _reads_gradients(step: Step) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in inner(step.home))
