"""No emptying of the allocator's cache in every step."""

from __future__ import annotations

from collections.abc import Iterator

from pitstop.transforms.hot_loop import imports_left_over, without_calls
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Op, Remove

_CALLS = ("torch.cuda.empty_cache", "torch.cuda.memory.empty_cache", "gc.collect")


class DropCacheEmptying(Recipe):
    """Keep the allocator's cache between steps.

    `torch.cuda.empty_cache()` and `gc.collect()` are removed where they run in every training
    step; `import gc` goes with the last use. What runs now and then, at the end of an epoch, or
    after an error stays.

    Refused where a comment above the call gives its reason, or the block would be empty. Watch
    the peak of reserved memory once.
    """

    id = "drop-cache-emptying"
    numerics = Numerics.EXACT
    answers = ("GEN-C07",)
    sources = ("https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management",)
    examples = (
        Example(
            """\
import gc
import torch
from torch import nn

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(6):
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    gc.collect()
    torch.cuda.empty_cache()  # keeps memory low
    print(loss.item())
torch.cuda.empty_cache()
""",
            """\
import torch
from torch import nn

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(6):
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
torch.cuda.empty_cache()
""",
        ),
    )
    refuses = (
        Refusal(
            """\
import torch
from project import loader, model, optimizer

for batch in loader:
    model(batch).backward()
    optimizer.step()
    # the inference engine next door needs the room
    torch.cuda.empty_cache()
""",
            "comment",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """Every such statement of a step, and the import that nothing needs any more."""
        found = list(without_calls(case, _CALLS))
        yield from found
        removed = [op for op in found if isinstance(op, Remove)]
        yield from imports_left_over(case.module, "gc", removed)
