"""A training loop of the project's own that computes in fp32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Fix, Priority, Safety, Severity
from pitstop.rules.fp32_loops import fp32_loops
from pitstop.rules.rule import Bad, Check, Good

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.pysource import PyModule

_BF16 = (8, 0)  # the compute capability since which GPUs have it


class Fp32TrainingLoop(Check):
    """A training loop computes in fp32.

    ## What it finds

    A loop with a backward pass on a GPU, over a model with matrix products, convolutions or
    attention, in a program that nowhere speaks of autocast or a 16-bit type.

    ## Why it costs

    Tensor cores do 16-bit products at several times the rate of fp32 ones, and activations kept
    for the backward pass take half the memory.

    ## When it is right

    The computation needs fp32 or fp64 (physics, solvers), the GPU is older than Volta, or the
    model is so small that its products do not matter.

    ## Fix

    Put forward pass and loss under `torch.autocast("cuda", dtype=torch.bfloat16)`; on GPUs before
    Ampere take float16 with a `torch.amp.GradScaler`.

    ## Fix safety

    verify: fewer bits; compare the loss curves.
    """

    id = "GEN-C01"
    name = "fp32-training-loop"
    category = "precision"
    severity = Severity.WARNING
    priority = Priority.HIGH
    safety = Safety.VERIFY
    resource = "both"
    cost = "PyTorch's guide names up to 3x from mixed precision on Volta and newer."
    sources = (
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
        "https://docs.pytorch.org/docs/stable/amp.html",
    )
    bad = (
        Bad(
            {
                "train.py": """\
import torch
from torch import nn
from project import loader

model = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for images, labels in loader:
    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
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
from torch import nn
from project import loader

model = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for images, labels in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
            },
            "forward pass and loss are under autocast",
        ),
        Good(
            {
                "train.py": """\
import torch
from torch import nn
from engine import train_one_epoch
from project import loader

if __name__ == "__main__":
    model = nn.Linear(784, 10).cuda()
    train_one_epoch(model, loader)
""",
                "engine.py": """\
import torch
from torch import nn

def train_one_epoch(model, loader, optimizer):
    for images, labels in loader:
        with torch.amp.autocast("cuda"):
            loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
""",
            },
            "the loop's own module has it",
        ),
        Good(
            {
                "train.py": """\
import torch
from torch import nn
from project import points

torch.set_default_dtype(torch.float64)
model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x in points:
    loss = (model(x.cuda()) ** 2).mean()
    loss.backward()
    optimizer.step()
"""
            },
            "a solver in double precision",
        ),
        Good(
            {
                "train.py": """\
import argparse
import torch
from torch import nn
from project import cast, loader

parser = argparse.ArgumentParser()
parser.add_argument("--precision", default="bf16")
args = parser.parse_args()
model = cast(nn.Linear(784, 10).cuda(), args.precision)
optimizer = torch.optim.Adam(model.parameters())
for images, labels in loader:
    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
            },
            "an option chooses the precision",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """The first step loop of each program that never leaves fp32."""
        for module, head, _ in fp32_loops(facts):
            yield self.info.finding(
                head,
                "This loop trains in fp32: nothing in its program uses autocast or 16 bits.",
                fix=self._fix(module, facts),
            )

    def _fix(self, module: PyModule, facts: ProjectFacts) -> Fix:
        """bf16, or fp16 with scaled gradients where every known GPU is too old for it."""
        known = [
            job.hardware.capability
            for job in facts.jobs
            if module.path in job.files and job.hardware.capability is not None
        ]
        if known and all(capability < _BF16 for capability in known):
            text = "compute forward pass and loss in fp16, with scaled gradients"
            return Fix("autocast-fp16", {}, self.safety, text)
        return Fix("autocast-bf16", {}, self.safety, "compute forward pass and loss in bf16")
