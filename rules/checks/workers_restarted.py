"""A DataLoader that several epochs go over and whose workers end with each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Fix, Priority, Safety, Severity
from pitstop.rules.loaders import training_loaders
from pitstop.rules.rows import shown
from pitstop.rules.rule import Bad, Check, Good

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts


class WorkersRestarted(Check):
    """Loader workers end with every epoch.

    ## What it finds

    A `DataLoader` with worker processes that an epoch loop goes over again and again, without
    `persistent_workers`.

    ## Why it costs

    The workers are ended when the loader is exhausted. The next epoch starts them, imports
    everything and opens the data set again, while the GPU waits for the first batch.

    ## When it is right

    Workers grow in memory over time, or the data set object changes between epochs.

    ## Fix

    Give it `persistent_workers=True`.

    ## Fix safety

    verify: from the second epoch a shuffled loader without a generator of its own goes through
    the data in another order; workers keep their state between epochs.
    """

    id = "GEN-F12"
    name = "workers-restarted"
    category = "data"
    severity = Severity.INFO
    priority = Priority.LOW
    safety = Safety.VERIFY
    cost = "The start of all workers per epoch: seconds, or minutes for a large data set."
    sources = ("https://docs.pytorch.org/docs/stable/data.html",)
    bad = (
        Bad(
            {
                "train.py": """\
import torch
from torch.utils.data import DataLoader
from project import dataset, model, optimizer

loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=8, pin_memory=True)
for epoch in range(90):
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
from torch.utils.data import DataLoader
from project import dataset, model, optimizer

loader = DataLoader(dataset, batch_size=64, num_workers=8, pin_memory=True)
for images, labels in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
            },
            "one pass starts them once",
        ),
        Good(
            {
                "train.py": """\
import torch
from torch.utils.data import DataLoader
from project import dataset, model, optimizer

loader = DataLoader(dataset, num_workers=8, pin_memory=True, persistent_workers=True)
for epoch in range(90):
    for images, labels in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
"""
            },
            "they are kept",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Repeated training loaders with workers that are not persistent."""
        for loader in training_loaders(facts):
            setting = loader.setting("dataloader.persistent_workers", "persistent_workers")
            workers = loader.setting("dataloader.workers", "num_workers", 5)
            if not loader.repeated or setting is None or setting.value is not False:
                continue
            if workers is None or not isinstance(workers.value, int) or workers.value < 1:
                continue
            yield self.info.finding(
                setting.where or loader.call.location,
                f"{shown(setting)} while every epoch starts {workers.value} workers anew.",
                fix=Fix.set_knob(
                    "dataloader.persistent_workers",
                    True,
                    safety=self.safety,
                    text="keep the workers between epochs",
                ),
                deciding=setting,
                jobs=(loader.job.id,),
            )
