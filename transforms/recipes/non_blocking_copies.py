"""Batches copied to the GPU while the host goes on."""

from __future__ import annotations

from collections.abc import Iterator

from pitstop.rules.copies import waiting_copies
from pitstop.rules.finding import Safety
from pitstop.rules.pysource import Call
from pitstop.rules.step_code import managed
from pitstop.transforms.loaders_of import loader_of
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Keyword, Op

_PARTS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(32, 16), torch.randint(0, 4, (32,)))
model = nn.Linear(16, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
"""


class NonBlockingCopies(Recipe):
    """Copy batches to the GPU without waiting.

    What a training loop takes from its loader is moved with `non_blocking=True`, and the loader
    gets `pin_memory=True` where it lacks it: only copies from pinned memory overlap. Copies to
    the host are never touched, since they need a wait.

    Refused where the loader is not in the file, so that pinning cannot be seen, or where an
    option decides about pinning.
    """

    id = "non-blocking-copies"
    safety = Safety.SAFE
    numerics = Numerics.EXACT
    answers = ("GEN-F13", "GEN-F03")
    sources = (
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers",
        "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
    )
    examples = (
        Example(
            f"""\
{_PARTS}loader = DataLoader(data, batch_size=8)
for images, labels in loader:
    images = images.to(device)
    loss = nn.functional.cross_entropy(model(images), labels.to(device))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.to("cpu").item())
""",
            f"""\
{_PARTS}loader = DataLoader(data, batch_size=8, pin_memory=True)
for images, labels in loader:
    images = images.to(device, non_blocking=True)
    loss = nn.functional.cross_entropy(model(images), labels.to(device, non_blocking=True))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.to("cpu").item())
""",
        ),
    )
    refuses = (
        Refusal(
            """\
from project import loader, model, optimizer

for images, labels in loader:
    loss = model(images.cuda(), labels.cuda())
    loss.backward()
    optimizer.step()
""",
            "loader is not in this file",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """The copies of each training loop, and its loader."""
        module = case.module
        if managed(module):
            return
        for loop in module.train_loops:
            loader = loader_of(module, loop.node)
            places = [module.location(loop.node), *([loader.location] if loader else [])]
            if loop.kind != "step" or not any(case.concerns(place.span) for place in places):
                continue
            copies = list(waiting_copies(module, loop.node))
            if not copies:
                continue
            pinned = _pinned(loader)
            if isinstance(pinned, Refused):
                yield pinned
                continue
            yield from pinned
            for call in copies:
                yield Keyword(call.node, "non_blocking", "True")


def _pinned(loader: Call | None) -> list[Op] | Refused:
    """What makes a loader pin its batches; nothing where it does."""
    if loader is None:
        return Refused("the loop's loader is not in this file, so that pinning cannot be seen")
    given = loader.argument("pin_memory", 7)
    if given is None and loader.open_ended:
        return Refused("the arguments behind ** may decide about pinning")
    if given is None or (given.origin == "literal" and given.value is False and given.name):
        return [Keyword(loader.node, "pin_memory", "True")]
    return [] if given.value is True else Refused("an option decides about pinning")
