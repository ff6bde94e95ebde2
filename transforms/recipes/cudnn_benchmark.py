"""The fastest convolution kernels for fixed sizes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pitstop.rules.pysource import PyModule
from pitstop.transforms.convolutions import convolutional
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Insert, Op
from pitstop.transforms.top_level import end_of_imports

_FIXED = ("Resize", "RandomResizedCrop", "CenterCrop", "RandomCrop")


class CudnnBenchmark(Recipe):
    """Let cuDNN try its kernels once for each size.

    `torch.backends.cudnn.benchmark = True` behind the imports of a file that trains a
    convolutional network on images of one size: a resize or crop to constants stands in the
    file, or the argument `fixed` says so. The first batch of each size then takes longer.

    Refused without convolutions, for images of varying size, and where results must be
    deterministic.
    """

    id = "cudnn-benchmark"
    numerics = Numerics.EQUIVALENT
    answers = ("GEN-D10",)
    arguments = {"fixed": False}  # noqa: RUF012 - as its annotation in the base says
    sources = (
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#enable-cudnn-auto-tuner",
    )
    examples = (
        Example(
            '''\
"""Trains a small classifier."""
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    loss = model(torch.randn(8, 3, 8, 8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
''',
            '''\
"""Trains a small classifier."""
import torch
from torch import nn

torch.backends.cudnn.benchmark = True

model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    loss = model(torch.randn(8, 3, 8, 8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
''',
            {"fixed": True},
        ),
    )
    refuses = (
        Refusal(
            """\
import torch
from torch import nn
from project import loader, optimizer

torch.backends.cudnn.deterministic = True
model = nn.Conv2d(3, 4, 3)
for batch in loader:
    model(batch).mean().backward()
    optimizer.step()
""",
            "deterministic",
            {"fixed": True},
        ),
        Refusal(
            """\
import torch
from torch import nn
from project import loader, optimizer

model = nn.Conv2d(3, 4, 3)
for batch in loader:
    model(batch).mean().backward()
    optimizer.step()
""",
            "one size",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """One statement behind the imports."""
        module = case.module
        if not module.train_loops or not convolutional(module):
            return
        words = {n.attr for n in module.nodes(ast.Attribute) if isinstance(n, ast.Attribute)}
        anchor = end_of_imports(module)
        if any(one.target.endswith("cudnn.benchmark") for one in module.assignments):
            return
        if words & {"deterministic", "use_deterministic_algorithms"}:
            yield Refused("the file asks for deterministic results")
        elif not case.args["fixed"] and not _one_size(module):
            yield Refused("images are not seen to have one size")
        elif anchor is None:
            yield Refused("the file imports nothing at its top level")
        else:
            yield Insert(anchor, "torch.backends.cudnn.benchmark = True", after=True, apart=True)


def _one_size(module: PyModule) -> bool:
    """Whether images are cut to a constant size: a number alone resizes one side only, so that a
    crop or a pair is needed."""
    for call in module.calls:
        name = call.name.rpartition(".")[2]
        size = call.argument("size", 0)
        if name in _FIXED and size is not None and size.node is not None:
            pair = isinstance(size.node, ast.Tuple | ast.List)
            known = pair or isinstance(size.value, int)
            if known and (pair or name != "Resize"):
                return True
    return False
