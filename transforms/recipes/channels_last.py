"""Images with their channels last in memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pitstop.rules.pysource import Call, PyModule
from pitstop.rules.step_code import ancestors
from pitstop.transforms.convolutions import convolutional
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Insert, Keyword, Op
from pitstop.transforms.trained_model import TrainedModel, trained_models
from pitstop.transforms.training_step import home_of

_FORMAT = "torch.channels_last"


class ChannelsLast(Recipe):
    """Keep images and convolution weights in channels-last order.

    The model is put into `torch.channels_last` where it is finished, and the images that it is
    called with where they are moved to the device. Tensor cores read this order directly; with
    the usual one, cuDNN transposes around each convolution.

    Refused where the images are not moved by one `.to(...)` or `.cuda()` in the training loop, for
    one- and three-dimensional convolutions, and where `.view(` may depend on the order.
    """

    id = "channels-last"
    numerics = Numerics.EQUIVALENT
    requires = ("torch>=1.5",)
    capability = (7, 0)
    answers = ("GEN-D13",)
    sources = ("https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html",)
    examples = (
        Example(
            """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = [(torch.randn(8, 3, 8, 8), torch.randint(0, 4, (8,))) for _ in range(4)]
for images, labels in batches:
    images, labels = images.to(device), labels.to(device)
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
""",
            """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 4)).to(device)
model.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = [(torch.randn(8, 3, 8, 8), torch.randint(0, 4, (8,))) for _ in range(4)]
for images, labels in batches:
    images, labels = images.to(device, memory_format=torch.channels_last), labels.to(device)
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
""",
        ),
    )
    refuses = (
        Refusal(
            """\
import torch
from torch import nn
from project import loader

model = nn.Conv2d(3, 4, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for batch in loader:
    model(batch["image"]).mean().backward()
    optimizer.step()
""",
            "not moved",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """The model where it is finished, its images where they are moved."""
        module = case.module
        mentioned = {n.attr for n in module.nodes(ast.Attribute) if isinstance(n, ast.Attribute)}
        if not module.train_loops or not convolutional(module) or "channels_last" in mentioned:
            return
        if "view" in mentioned:
            yield Refused(".view() may depend on the order in memory")
            return
        for model in trained_models(case):
            if isinstance(model, Refused):
                yield model
                continue
            moves = list(_moves(module, model))
            if not moves:
                yield Refused("the images are not moved to the device by a call in the loop")
                continue
            yield Insert(model.ready, f"{model.name}.to(memory_format={_FORMAT})", after=True)
            for call in moves:
                yield Keyword(call.node, "memory_format", _FORMAT)


def _moves(module: PyModule, model: TrainedModel) -> Iterator[Call]:
    """The calls that move what the model is called with in a training step."""
    wanted = {
        call.node.args[0].id
        for call in module.calls
        if ast.unparse(call.node.func) == model.name
        and module.in_step_scope(call.node)
        and len(call.node.args) == 1
        and isinstance(call.node.args[0], ast.Name)
    }
    for call in module.calls:
        func = call.node.func
        if not isinstance(func, ast.Attribute) or func.attr not in ("to", "cuda"):
            continue
        loop = home_of(module, call.node)
        inside = any(parent is loop for parent in ancestors(module, call.node))
        named = isinstance(func.value, ast.Name) and func.value.id in wanted
        if named and inside and module.in_step_scope(call.node):
            yield call
