"""torch.compile for the trained model."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pitstop.rules.loaders import LOADERS
from pitstop.rules.pysource import PyModule
from pitstop.rules.step_code import managed
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Insert, Op
from pitstop.transforms.trained_model import TrainedModel, trained_models

_DDP = "torch.nn.parallel.DistributedDataParallel"
_FSDP1 = "torch.distributed.fsdp.FullyShardedDataParallel"


class CompileModel(Recipe):
    """Compile the trained model.

    `model.compile()` is called where the model is finished: moved to its device and wrapped in
    DDP, whose buckets the compiler then respects. It compiles in place, so that the names in
    checkpoints stay the same. `mode="reduce-overhead"` adds CUDA graphs, and is given only where
    every batch has the same shape.

    Refused for FSDP without `use_orig_params=True`, for `fully_shard` (compile each block before
    it is sharded), under DeepSpeed and other libraries that own the model, and with anomaly
    detection.
    """

    id = "compile-model"
    numerics = Numerics.EQUIVALENT
    requires = ("torch>=2.2",)
    capability = (7, 0)
    answers = ("GEN-D02",)
    arguments = {"mode": None}  # noqa: RUF012 - as its annotation in the base says
    sources = (
        "https://docs.pytorch.org/docs/stable/generated/torch.compile.html",
        "https://docs.pytorch.org/docs/stable/torch.compiler_faq.html",
    )
    examples = (
        Example(
            """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 4))
model.to("cuda" if torch.cuda.is_available() else "cpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(loss.item())
""",
            """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 4))
model.to("cuda" if torch.cuda.is_available() else "cpu")
model.compile()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(loss.item())
""",
        ),
        Example(
            """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from project import Net, data, rank, world

def main():
    loader = DataLoader(data, batch_size=32, drop_last=True)
    model = Net().to(rank)
    optimizer = torch.optim.AdamW(model.parameters())
    if world > 1:
        model = DDP(model, device_ids=[rank])  # after the move
    for batch in loader:
        model(batch.to(rank)).backward()
        optimizer.step()
""",
            """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from project import Net, data, rank, world

def main():
    loader = DataLoader(data, batch_size=32, drop_last=True)
    model = Net().to(rank)
    optimizer = torch.optim.AdamW(model.parameters())
    if world > 1:
        model = DDP(model, device_ids=[rank])  # after the move
    model.compile(mode="reduce-overhead")
    for batch in loader:
        model(batch.to(rank)).backward()
        optimizer.step()
""",
            {"mode": "reduce-overhead"},
            runs=False,
        ),
    )
    refuses = (
        Refusal(
            """\
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from project import Net, loader

model = FSDP(Net().cuda())
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(batch).backward()
    optimizer.step()
""",
            "use_orig_params",
        ),
        Refusal(
            """\
import torch
from torch.utils.data import DataLoader
from project import Net, data

model = Net().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader(data, batch_size=32):
    model(batch).backward()
    optimizer.step()
""",
            "same shape",
            {"mode": "reduce-overhead"},
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """One call for each trained model."""
        module = case.module
        if _compiles(module):
            return
        reason = _reason(module, case.args["mode"])
        for model in trained_models(case):
            if isinstance(model, Refused):
                yield model
                continue
            if reason or not _wrapped_here(module, model):
                yield Refused(reason or f"{model.name} is wrapped in another function")
                continue
            mode = case.args["mode"]
            given = f'mode="{mode}"' if mode else ""
            yield Insert(model.ready, f"{model.name}.compile({given})", after=True)


def _wrapped_here(module: PyModule, model: TrainedModel) -> bool:
    """Whether every wrapper of the file is seen among the statements that make the model."""
    inside = {id(node) for statement in model.made for node in ast.walk(statement)}
    return all(id(call.node) in inside for call in module.calls_of(_DDP, _FSDP1))


def _compiles(module: PyModule) -> bool:
    """Whether something is compiled already."""
    return any(
        call.name == "torch.compile"
        or (isinstance(call.node.func, ast.Attribute) and call.node.func.attr == "compile"
            and not call.name.startswith("re."))
        for call in module.calls
    )  # fmt: skip


def _reason(module: PyModule, mode: object) -> str | None:
    """What speaks against compiling in this file."""
    if managed(module):
        return "a library owns the model"
    for call in module.calls:
        if call.name == _FSDP1:
            given = call.argument("use_orig_params")
            if given is None or given.value is not True:
                return "FSDP needs use_orig_params=True to be compiled"
        if call.name.endswith("fully_shard"):
            return "compile each block before it is sharded, not the whole"
        if call.name in ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel"):
            return "DataParallel copies the model in every step"
        if call.name.endswith("set_detect_anomaly"):
            return "anomaly detection and the compiler exclude each other"
    if mode == "reduce-overhead" and not _fixed(module):
        return "not every batch is seen to have the same shape (drop_last=True, no collate_fn)"
    return None


def _fixed(module: PyModule) -> bool:
    loaders = list(module.calls_of(*LOADERS))
    return bool(loaders) and all(
        (last := call.argument("drop_last", 8)) is not None
        and last.value is True
        and call.argument("collate_fn", 6) is None
        for call in loaders
    )
