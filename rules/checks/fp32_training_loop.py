"""A training loop of the project's own that computes in fp32."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Fix, Priority, Safety, Severity
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.step_code import gpu_modules, imported, libraries, managed

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.pysource import Call, PyModule

_CHOOSES = re.compile(
    r"(?<![a-z])(amp|fp16|bf16|fp8|half|autocast|bfloat16|float16|mixed_?precision|precision"
    r"|gradscaler|grad_scaler)(?![a-z])",
    re.IGNORECASE,
)
_BF16 = (8, 0)  # the compute capability since which GPUs have it
_SMALL = 65_536  # weights: below this a product costs less than its launch
_EXACT = frozenset({"float64", "double", "DoubleTensor", "complex64", "complex128"})
_HEAVY = re.compile(
    r"^(torch\.nn\.(Linear|Conv\d?d|ConvTranspose\d?d|MultiheadAttention|Transformer\w*|LSTM|GRU"
    r"|Bilinear)|torch\.nn\.functional\.(linear|conv\d?d|scaled_dot_product_attention)"
    r"|torchvision\.models\..+|timm\.create_model|transformers\..+\.from_(pretrained|config)"
    r"|torch\.hub\.load|diffusers\..+)$"
)
_OWN_PRECISION = ("apex", "transformer_engine", "megatron", "fairscale", "torch_xla", "paddle")


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
        for module in gpu_modules(facts):
            loop = next((one for one in module.train_loops if one.kind == "step"), None)
            if loop is None or managed(module):
                continue
            program = (module, *_program(module, facts))
            if any(_speaks_of_precision(part) for part in program):
                continue
            if any(_heavy(call) for part in program for call in part.calls):
                head = module.file.location(loop.location.span.start, _head_end(module, loop.node))
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


def _program(module: PyModule, facts: ProjectFacts) -> list[PyModule]:
    """The modules that run with this one: those of its jobs, and what it imports."""
    paths = {path for job in facts.jobs if module.path in job.files for path in job.files}
    found = {path: part for path in sorted(paths) if (part := facts.modules.get(path))}
    found |= {part.path: part for part in imported(module, facts)}
    found.pop(module.path, None)
    return list(found.values())


def _speaks_of_precision(module: PyModule) -> bool:
    """Whether a module names a 16-bit or 64-bit type, autocast, or a library of that kind."""
    if libraries(module) & set(_OWN_PRECISION):
        return True
    kinds = (ast.Name, ast.Attribute, ast.keyword, ast.arg, ast.alias, ast.Constant)
    for node in module.nodes(*kinds):
        word = ""
        if isinstance(node, ast.Name):
            word = node.id
        elif isinstance(node, ast.Attribute):
            word = node.attr
        elif isinstance(node, ast.keyword | ast.arg):
            word = node.arg or ""
        elif isinstance(node, ast.alias):
            word = node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            word = node.value if len(node.value) < 40 else ""
        if word and (_CHOOSES.search(word) or word in _EXACT):
            return True
    return False


def _heavy(call: Call) -> bool:
    """A layer whose products are worth a tensor core; a linear one of known size only if large."""
    if not _HEAVY.match(call.name):
        return False
    if call.name != "torch.nn.Linear":
        return True
    sides = [call.argument("in_features", 0), call.argument("out_features", 1)]
    sizes = [side.value for side in sides if side is not None and isinstance(side.value, int)]
    return len(sizes) < 2 or sizes[0] * sizes[1] >= _SMALL


def _head_end(module: PyModule, loop: ast.AST) -> int:
    """Where the loop's first line ends."""
    at = module.location(loop)
    return at.span.start + len(module.file.line_text(at.line)) - at.column + 1
