"""No waiting for the GPU in every step."""

from __future__ import annotations

from collections.abc import Iterator

from pitstop.transforms.hot_loop import without_calls
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Op

_CALLS = ("torch.cuda.synchronize", "torch.accelerator.synchronize")
_CLOCKS = ("time.", "timeit.", "torch.cuda.Event", "torch.Event", ".elapsed_time", ".record")


class DropSynchronize(Recipe):
    """Let the host run ahead of the GPU.

    `torch.cuda.synchronize()` is removed where it runs in every training step.

    Refused where the file reads a clock: the call then makes a time right. Refused too where a
    comment above the call gives its reason, or the block would be empty.
    """

    id = "drop-synchronize"
    numerics = Numerics.EXACT
    answers = ("GEN-K04",)
    sources = (
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization",
    )
    examples = (
        Example(
            """\
import torch
from torch import nn

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(6):
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    torch.cpu.synchronize()
    if torch.cuda.is_available():
        print("done")
        torch.cuda.synchronize()
    optimizer.step()
    optimizer.zero_grad()
print(loss.item())
""",
            """\
import torch
from torch import nn

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(6):
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    torch.cpu.synchronize()
    if torch.cuda.is_available():
        print("done")
    optimizer.step()
    optimizer.zero_grad()
print(loss.item())
""",
        ),
    )
    refuses = (
        Refusal(
            """\
import time
import torch
from project import loader, model, optimizer

for batch in loader:
    start = time.perf_counter()
    model(batch).backward()
    optimizer.step()
    torch.cuda.synchronize()
    print(time.perf_counter() - start)
""",
            "clock",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """Every such statement of a step."""
        found = list(without_calls(case, _CALLS))
        if found and any(call.name.startswith(_CLOCKS) for call in case.module.calls):
            yield Refused("the file reads a clock, which the synchronisation may serve")
        else:
            yield from found
