"""One kernel for the optimizer step."""

from __future__ import annotations

from collections.abc import Iterator

from pitstop.rules.pysource import Call
from pitstop.rules.step_code import managed
from pitstop.rules.versions import meets
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Keyword, Op
from pitstop.transforms.trained_model import optimizer_calls, trained_models

_CLASSES = ("Adam", "AdamW", "SGD")
_ANSWERED = ("fused", "foreach", "differentiable")


class FusedOptimizer(Recipe):
    """Update the parameters with the fused optimizer.

    `fused=True` is passed to Adam, AdamW and SGD whose parameters are on a GPU when the optimizer
    is made: one kernel then updates many tensors, where the default runs one for each operation.

    Refused where the model is not seen to be moved before, where the call already chooses an
    implementation through `**`, and for sparse gradients.
    """

    id = "fused-optimizer"
    numerics = Numerics.EQUIVALENT
    requires = ("torch>=2.0",)
    answers = ("GEN-D11", "GEN-D06")
    sources = ("https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html",)
    examples = (
        Example(
            """\
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(16, 4).to(device)
optimizer = torch.optim.AdamW(
    model.parameters(),
    lr=1e-2,  # from the paper
    weight_decay=0.1,
)
for _ in range(6):
    loss = model(torch.randn(8, 16, device=device)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
""",
            """\
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(16, 4).to(device)
optimizer = torch.optim.AdamW(
    model.parameters(),
    lr=1e-2,  # from the paper
    weight_decay=0.1,
    fused=True,
)
for _ in range(6):
    loss = model(torch.randn(8, 16, device=device)).square().mean()
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
from project import Net

model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.cuda()
""",
            "not seen to be on a GPU",
        ),
        Refusal(
            """\
import torch
from project import Net, options

model = Net().cuda()
optimizer = torch.optim.AdamW(model.parameters(), **options)
""",
            "**",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """The keyword in each call whose parameters are on a GPU."""
        open_calls = [c for c in optimizer_calls(case, *_CLASSES) if not _answered(c)]
        if not open_calls or managed(case.module):
            return
        if any(call.argument("sparse") is not None for call in case.module.calls):
            yield Refused("embeddings with sparse gradients have no fused optimizer")
            return
        for model in trained_models(case, *_CLASSES):
            if isinstance(model, Refused):
                yield model
            elif model.optimizer in open_calls:
                yield _keyword(case, model.optimizer, moved=model.moved)


def _keyword(case: Case, call: Call, *, moved: bool) -> Op | Refused:
    if call.open_ended:
        return Refused("the arguments behind ** may choose an implementation already")
    if not moved:
        return Refused("the parameters are not seen to be on a GPU when the optimizer is made")
    if call.name.endswith("SGD") and meets(case.versions, "torch>=2.3") is False:
        return Refused("SGD is fused since torch 2.3")
    return Keyword(call.node, "fused", "True")


def _answered(call: Call) -> bool:
    return any(call.argument(keyword) is not None for keyword in _ANSWERED)
