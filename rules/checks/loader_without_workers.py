"""A training DataLoader without worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Fix, Priority, Safety
from pitstop.rules.loaders import training_loaders
from pitstop.rules.rows import shown
from pitstop.rules.rule import Bad, Check, Good

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts


class LoaderWithoutWorkers(Check):
    """Batches are loaded in turn with the training steps.

    ## What it finds

    A `DataLoader` that a training loop takes its batches from, with `num_workers` absent or 0.

    ## Why it costs

    Without workers the process that drives the GPU reads, decodes and collates each batch itself,
    between two steps. The GPU idles meanwhile.

    ## When it is right

    The data are tensors in memory, or already on the GPU; the data set cannot be pickled; or it
    calls CUDA, which forked workers must not do.

    ## Fix

    Give it 4 to 8 workers per GPU, no more than the cores at hand, with
    `persistent_workers=True` and `pin_memory=True`.

    ## Fix safety

    verify: the same batches in the same order, but the data set is copied to other processes.
    """

    id = "GEN-F01"
    name = "loader-without-workers"
    category = "data"
    priority = Priority.MEDIUM
    safety = Safety.VERIFY
    cost = "Up to half of the time that the GPU waits for data; 10 to 30 % when loading is heavy."
    sources = (
        "https://docs.pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    )
    bad = (
        Bad(
            {
                "train.py": """\
import torch
from torch.utils.data import DataLoader
from project import dataset, model, optimizer

loader = DataLoader(dataset, batch_size=64, shuffle=True, pin_memory=True)
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
        Bad(
            {
                "train.py": """\
import argparse
import torch
from torch.utils.data import DataLoader
from project import dataset, model, optimizer

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()

train_loader = DataLoader(dataset, batch_size=64, num_workers=args.workers, pin_memory=True)
for images, labels in train_loader:
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
from project import dataset, model, optimizer, valid

options = {"num_workers": 8, "pin_memory": True}
train_loader = DataLoader(dataset, batch_size=64, shuffle=True, **options)
valid_loader = DataLoader(valid, batch_size=64)
for images, labels in train_loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
            },
            "the workers come from a dictionary, and the other loader is for validation",
        ),
        Good(
            {
                "train.py": """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from project import model, optimizer, x, y

loader = DataLoader(TensorDataset(x, y), batch_size=64)
for images, labels in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
            },
            "slicing tensors in memory needs no process",
        ),
        Good(
            {
                "run.sh": "torchrun --nproc_per_node 8 train.py --workers 8\n",
                "train.py": """\
import argparse
import torch
from torch.utils.data import DataLoader
from project import dataset, model, optimizer

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()

train_loader = DataLoader(dataset, batch_size=64, num_workers=args.workers, pin_memory=True)
for images, labels in train_loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
""",
            },
            "the command line asks for eight",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Training loaders whose deciding setting is zero workers."""
        for loader in training_loaders(facts):
            setting = loader.setting("dataloader.workers", "num_workers", 5)
            if setting is None or setting.value != 0 or isinstance(setting.value, bool):
                continue
            yield self.info.finding(
                setting.where or loader.call.location,
                f"{shown(setting)}: the training loop waits for each batch to be loaded.",
                fix=Fix.set_knob(
                    "dataloader.workers",
                    4,
                    safety=self.safety,
                    text="let four processes load batches",
                ),
                deciding=setting,
                jobs=(loader.job.id,),
            )
