"""A training DataLoader whose batches lie in pageable memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.copies import waiting_copies
from pitstop.rules.finding import Finding, Fix, Priority, Safety, Severity
from pitstop.rules.loaders import TrainingLoader, loops_over, training_loaders
from pitstop.rules.rows import shown
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.step_code import managed

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts

_TRAIN = """\
import torch
from torch.utils.data import DataLoader
from project import dataset, model, optimizer

loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=8)
for images, labels in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""


class UnpinnedLoader(Check):
    """A loader hands out batches in pageable memory.

    ## What it finds

    A `DataLoader` with workers that feeds training on a GPU, with `pin_memory` absent or false.

    ## Why it costs

    The driver copies pageable memory through a buffer of its own while the host waits. From
    page-locked memory the copy is faster and can run beside the computation.

    ## When it is right

    Batches are already on the GPU, are custom objects without a `pin_memory` method, or host
    memory is short.

    ## Fix

    Give it `pin_memory=True`, and copy with `non_blocking=True`.

    ## Fix safety

    safe: only where the batch waits differs.
    """

    id = "GEN-F03b"
    name = "unpinned-loader"
    category = "data"
    severity = Severity.INFO
    priority = Priority.MEDIUM
    safety = Safety.SAFE
    cost = "A few per cent of a step; more when batches are large, as with images or video."
    sources = (
        "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
        "https://docs.pytorch.org/docs/stable/data.html#memory-pinning",
    )
    bad = (
        Bad(
            {"train.py": _TRAIN},
            "train.py",
            5,
            {
                "train.py": _TRAIN.replace("workers=8", "workers=8, pin_memory=True").replace(
                    ".cuda()", ".cuda(non_blocking=True)"
                )
            },
        ),
    )
    good = (
        Good(
            {
                "train.py": """\
import torch
from torch.utils.data import DataLoader
from project import dataset, model, optimizer

use_cuda = torch.cuda.is_available()
loader = DataLoader(dataset, batch_size=64, num_workers=8, pin_memory=use_cuda)
for images, labels in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
            },
            "it is pinned where there is a GPU",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Training loaders whose deciding setting is not to pin."""
        for loader in training_loaders(facts):
            setting = loader.setting("dataloader.pin_memory", "pin_memory", 7)
            if setting is None or setting.value is not False or not _has_workers(loader):
                continue
            yield self.info.finding(
                setting.where or loader.call.location,
                f"{shown(setting)}: batches are copied to the GPU from pageable memory.",
                fix=self._fix(loader),
                deciding=setting,
                jobs=(loader.job.id,),
            )

    def _fix(self, loader: TrainingLoader) -> Fix:
        """Pin, and where copies wait in a loop over one plain name, let them go on, too."""
        copies = (
            copy
            for loop in loops_over(loader.call.module, loader.call, loader.names)
            for copy in waiting_copies(loader.call.module, loop)
        )
        pinned = loader.call.argument("pin_memory", 7)
        plain = len(loader.names) == 1 and loader.names[0].isidentifier()
        plain = plain and not managed(loader.call.module)
        if plain and (pinned is None or pinned.origin == "literal") and any(True for _ in copies):
            text = "load batches into page-locked memory, and copy them without waiting"
            return Fix("non-blocking-copies", {}, self.safety, text)
        text = "load batches into page-locked memory"
        return Fix.set_knob("dataloader.pin_memory", True, safety=self.safety, text=text)


def _has_workers(loader: TrainingLoader) -> bool:
    """A loader without workers has a greater fault, which has a rule of its own."""
    workers = loader.setting("dataloader.workers", "num_workers", 5)
    return workers is None or workers.value != 0
