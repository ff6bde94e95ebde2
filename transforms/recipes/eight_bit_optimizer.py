"""Optimizer state in 8 bits."""

from __future__ import annotations

from collections.abc import Iterator

from pitstop.rules.pysource import Call
from pitstop.rules.step_code import managed
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Op, Replace
from pitstop.transforms.trained_model import optimizer_calls

_KEPT = frozenset({"params", "lr", "betas", "eps", "weight_decay", "amsgrad"})


class EightBitOptimizer(Recipe):
    """Keep the state of Adam in 8 bits.

    `torch.optim.AdamW` becomes `bitsandbytes.optim.AdamW8bit`, with the argument `paged`
    `PagedAdamW8bit`, whose state may move to the host when memory is short: 2 bytes for each
    parameter instead of 8. It rounds differently in every step, so that it is only made when asked
    for.

    Refused where the call passes what bitsandbytes does not take, under FSDP, and under
    libraries that shard the state themselves.
    """

    id = "eight-bit-optimizer"
    numerics = Numerics.PRECISION
    opt_in = True
    requires = ("bitsandbytes>=0.41",)
    capability = (7, 0)
    answers = ("GEN-C09",)
    arguments = {"paged": False}  # noqa: RUF012 - as its annotation in the base says
    sources = ("https://huggingface.co/docs/bitsandbytes/optimizers",)
    examples = (
        Example(
            """\
import torch
from project import model

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.1)
""",
            """\
import torch
from bitsandbytes.optim import AdamW8bit
from project import model

optimizer = AdamW8bit(model.parameters(), lr=1e-5, weight_decay=0.1)
""",
            runs=False,
        ),
        Example(
            """\
from torch.optim import Adam
from project import model

optimizer = Adam(model.parameters(), 1e-5)
""",
            """\
from bitsandbytes.optim import PagedAdam8bit
from torch.optim import Adam
from project import model

optimizer = PagedAdam8bit(model.parameters(), 1e-5)
""",
            {"paged": True},
            runs=False,
        ),
    )
    refuses = (
        Refusal(
            """\
import torch
from project import model

optimizer = torch.optim.AdamW(model.parameters(), fused=True)
""",
            "fused",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """The class of each optimizer."""
        if managed(case.module):
            return
        sharded = any("fsdp" in call.name.lower() for call in case.module.calls)
        for call in optimizer_calls(case, "Adam", "AdamW"):
            reason = "FSDP shards the state already" if sharded else _reason(call)
            name = call.name.rpartition(".")[2]
            paged = "Paged" if case.args["paged"] else ""
            yield (
                Refused(reason)
                if reason
                else Replace(call.node.func, f"bitsandbytes.optim.{paged}{name}8bit")
            )


def _reason(call: Call) -> str | None:
    if call.open_ended:
        return "the arguments behind ** are not known"
    for argument in call.arguments:
        if argument.name and argument.name not in _KEPT:
            return f"bitsandbytes does not take {argument.name}"
    return None if len(call.node.args) <= 2 else "arguments are passed by position"
