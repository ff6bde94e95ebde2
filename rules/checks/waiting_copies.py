"""Copies of pinned batches for which the host waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.copies import waiting_copies
from pitstop.rules.finding import Finding, Fix, Priority, Safety, Severity
from pitstop.rules.loaders import TrainingLoader, loops_over, training_loaders
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.step_code import managed

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.pysource import Call

_HEAD = """\
import torch
from torch.utils.data import DataLoader
from project import dataset, model, optimizer

"""
_LOOP = """\
for images, labels in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda({a})), labels.cuda({a}))
    loss.backward()
    optimizer.step()
"""
_LOADER = "loader = DataLoader(dataset, batch_size=64, num_workers=8, pin_memory={pin})\n"
_WAITS, _GOES_ON = _LOOP.format(a=""), _LOOP.format(a="non_blocking=True")


class WaitingCopies(Check):
    """Pinned batches are copied while the host waits.

    ## What it finds

    A training loop over a loader with `pin_memory=True` that copies what it takes to the GPU by
    `.to(device)` or `.cuda()` without `non_blocking=True`.

    ## Why it costs

    A copy from page-locked memory can run beside the computation, but by default the host waits
    for its end, and launches nothing meanwhile: pinning then wins half of what it could.

    ## When it is right

    The batch is changed in place on the host right after, which no loader of PyTorch does.

    ## Fix

    Copy with `non_blocking=True`. Never do so in the other direction without a wait.

    ## Fix safety

    safe: kernels that use the batch are queued behind its copy, so they see the same values.
    """

    id = "GEN-F13"
    name = "waiting-copies"
    category = "data"
    severity = Severity.INFO
    priority = Priority.LOW
    safety = Safety.SAFE
    cost = "The time of one batch's copy in each step; large for images and video."
    sources = (
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers",
        "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
    )
    bad = (
        Bad(
            {"train.py": _HEAD + _LOADER.format(pin=True) + _WAITS},
            "train.py",
            8,
            {"train.py": _HEAD + _LOADER.format(pin=True) + _GOES_ON},
        ),
    )
    good = (
        Good(
            {"train.py": _HEAD + _LOADER.format(pin=True) + _GOES_ON},
            "the copies do not wait",
        ),
        Good(
            {
                "train.py": _HEAD
                + "pin = torch.cuda.is_available()\n"
                + _LOADER.format(pin="pin")
                + _WAITS
            },
            "whether batches are pinned is decided when it runs",
        ),
        Good(
            {
                "train.py": _HEAD.replace("import torch\n", "import torch\nimport accelerate\n")
                + _LOADER.format(pin=True)
                + _WAITS
            },
            "a library may copy batches itself",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """The first such copy of each loop over a pinned loader."""
        seen: set[tuple[str, int]] = set()
        for loader in training_loaders(facts):
            copy = _first_copy(loader)
            if copy is None:
                continue
            place = (copy.location.path, copy.location.span.start)
            if place not in seen:
                seen.add(place)
                yield self.info.finding(
                    copy.location,
                    "The host waits for this copy of a batch that lies in pinned memory.",
                    fix=Fix("non-blocking-copies", {}, self.safety, "copy without waiting"),
                    jobs=(loader.job.id,),
                )


def _first_copy(loader: TrainingLoader) -> Call | None:
    module = loader.call.module
    pinned = loader.call.argument("pin_memory", 7)
    literally = pinned is not None and pinned.origin == "literal" and pinned.value is True
    if not literally or managed(module):
        return None
    copies = (
        copy
        for loop in loops_over(module, loader.call, loader.names)
        for copy in waiting_copies(module, loop)
    )
    return min(copies, key=lambda copy: copy.location.span, default=None)
