"""DDP without a second copy of the gradients."""

from __future__ import annotations

from collections.abc import Iterator

from pitstop.rules.pysource import Call, PyModule
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Keyword, Op

_PARTS = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
"""
_TAIL = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
print(loss.item())
"""


class DdpBucketViews(Recipe):
    """Let gradients be views of DDP's buckets.

    `gradient_as_bucket_view=True` saves the copy of all gradients between `.grad` and the
    buckets that are reduced: their size in memory, and two copies in each step. With the
    argument `static_graph`, `static_graph=True` is passed too, for models that use the same
    parameters in the same order in every step.

    Refused where gradients are detached in place or zeroed with `set_to_none=False`, which
    views forbid, and for `static_graph` together with a search for unused parameters.
    """

    id = "ddp-bucket-views"
    numerics = Numerics.EXACT
    requires = ("torch>=1.7",)
    answers = ("GEN-E08", "GEN-E09")
    arguments = {"static_graph": False}  # noqa: RUF012 - as its annotation in the base says
    sources = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
    )
    examples = (
        Example(
            f"{_PARTS}model = DDP(nn.Linear(16, 4))\n{_TAIL}",
            f"{_PARTS}model = DDP(nn.Linear(16, 4), gradient_as_bucket_view=True)\n{_TAIL}",
        ),
        Example(
            f"{_PARTS}model = DDP(\n    nn.Linear(16, 4)\n)\n{_TAIL}",
            f"{_PARTS}model = DDP(\n    nn.Linear(16, 4),\n    gradient_as_bucket_view=True,"
            f"\n    static_graph=True\n)\n{_TAIL}",
            {"static_graph": True},
        ),
    )
    refuses = (
        Refusal(
            """\
from torch.nn.parallel import DistributedDataParallel
from project import net, optimizer

model = DistributedDataParallel(net)
optimizer.zero_grad(set_to_none=False)
""",
            "set_to_none",
        ),
        Refusal(
            """\
from torch.nn.parallel import DistributedDataParallel
from project import net, options

model = DistributedDataParallel(net, **options)
""",
            "**",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """The keywords in each wrapping call."""
        wanted = ["gradient_as_bucket_view"]
        wanted += ["static_graph"] if case.args["static_graph"] else []
        for call in case.module.calls_of("torch.nn.parallel.DistributedDataParallel"):
            if not case.concerns(call.location.span):
                continue
            missing = [name for name in wanted if call.argument(name) is None]
            reason = _reason(case.module, call, wanted) if missing else None
            if reason:
                yield Refused(reason)
                continue
            for name in missing:
                yield Keyword(call.node, name, "True")


def _reason(module: PyModule, call: Call, wanted: list[str]) -> str | None:
    if call.open_ended:
        return "the arguments behind ** may decide already"
    searches = call.argument("find_unused_parameters", 7)
    if "static_graph" in wanted and searches is not None and searches.value is not False:
        return "static_graph and a search for unused parameters exclude each other"
    for other in module.calls:
        if other.name.endswith("detach_"):
            return "gradients that are views cannot be detached in place"
        given = other.argument("set_to_none", 0) if other.name.endswith("zero_grad") else None
        if given is not None and given.value is not True:
            return "zero_grad(set_to_none=False) detaches gradients in place, which views forbid"
    return None
