"""Constants made on the GPU instead of copied to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pitstop.rules.finding import Safety
from pitstop.rules.pysource import Call
from pitstop.rules.step_code import each_step
from pitstop.transforms.layout import raw
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Op, Replace

_SAFE = ("zeros", "ones", "full", "empty", "arange", "eye", "linspace", "tensor")
_RANDOM = ("rand", "randn", "randint", "randperm")


class TensorsOnDevice(Recipe):
    """Make tensors on the device where they are used.

    `torch.zeros(n).to(device)` in a training step or a forward pass becomes
    `torch.zeros(n, device=device)`: no copy, and no wait for it.

    Refused for random factories, which would draw other numbers on the GPU than on the host.
    """

    id = "tensors-on-device"
    safety = Safety.SAFE
    numerics = Numerics.EXACT
    answers = ("GEN-K08",)
    sources = (
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#create-tensors-directly-on-the-target-device",
    )
    examples = (
        Example(
            """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(16, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    inputs = torch.full((8, 16), 0.5).to(device)
    weights = torch.arange(4, dtype=torch.float32).to(device=device)  # by class
    loss = (model(inputs) * weights).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
""",
            """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(16, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    inputs = torch.full((8, 16), 0.5, device=device)
    weights = torch.arange(4, dtype=torch.float32, device=device)  # by class
    loss = (model(inputs) * weights).square().mean()
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
from project import device, loader, model, optimizer

for batch in loader:
    noise = torch.randn(8, 16).to(device)
    model(batch, noise).backward()
    optimizer.step()
""",
            "other numbers",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """Every factory call that is moved at once."""
        module = case.module
        made = {call.node: call for call in module.calls}
        for call in module.calls:
            func = call.node.func
            if not isinstance(func, ast.Attribute) or func.attr not in ("to", "cuda"):
                continue
            factory = made.get(func.value) if isinstance(func.value, ast.Call) else None
            if factory is None or not case.concerns(call.location.span):
                continue
            home, _, name = factory.name.rpartition(".")
            if home != "torch" or name not in (*_SAFE, *_RANDOM):
                continue
            if not each_step(module, call.node, forward=True):
                continue
            device = _device(call)
            if device is None or factory.open_ended or factory.argument("device") is not None:
                continue
            if name in _RANDOM:
                yield Refused(f"torch.{name} draws other numbers on the GPU")
                continue
            text = raw(module, factory.node)
            inside = text[:-1].rstrip()
            comma = "" if inside.endswith(("(", ",")) else ","
            text = f"{inside}{comma} device={device})".replace("( device", "(device")
            yield Replace(call.node, text)


def _device(call: Call) -> str | None:
    """The device that a call moves to, as written; None when it does something else too."""
    given = call.argument("device", 0)
    node = call.node
    if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
        return '"cuda"' if not node.args and not node.keywords else None
    if given is None or len(node.args) + len(node.keywords) != 1:
        return None
    if isinstance(given.value, str) and given.value.startswith("torch."):
        return None  # a number format
    at = given.used_at.span
    text = call.module.file.text[at.start : at.end]
    return text if "device" in text or "cuda" in text or "rank" in text else None
