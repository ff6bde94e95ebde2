"""Worker processes and pinned memory for training loaders."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from pitstop.rules.finding import Scalar
from pitstop.rules.job import HardwareFacts
from pitstop.rules.pysource import Call, PyModule
from pitstop.transforms.loaders_of import training_loaders
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Keyword, Op, Replace

_PARTS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.full((16,), float(index)) / 32


model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
"""
_TAIL = """\
for epoch in range(2):
    for batch in loader:
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(loss.item())
"""


class LoaderArguments(Recipe):
    """Load batches in worker processes and from pinned memory.

    Training loaders that load in the main process get `num_workers` (CPU cores for each GPU, at
    least 2 and at most 8; 4 where the cores are unknown) and `pin_memory=True`; where epochs follow
    each other and the order does not come from PyTorch's own generator, `persistent_workers=True`
    too (with `shuffle=True` the second epoch would draw another order). The order of the samples
    stays; random augmentation draws other numbers, since each worker has its own generator.

    Refused for iterable data sets, which every worker would read whole, for data sets that use
    the GPU, and where `**` may pass the arguments.
    """

    id = "loader-arguments"
    numerics = Numerics.EQUIVALENT
    answers = ("GEN-F01", "GEN-F03", "GEN-F12")
    arguments = {"cpus": 0, "gpus": 0, "workers": 0}  # noqa: RUF012 - as in the base
    sources = (
        "https://docs.pytorch.org/docs/stable/data.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    )
    examples = (
        Example(
            f"{_PARTS}loader = DataLoader(Numbers(), batch_size=8, shuffle=True)\n{_TAIL}",
            f"{_PARTS}loader = DataLoader(Numbers(), batch_size=8, shuffle=True, num_workers=2,"
            f" pin_memory=True)\n{_TAIL}",
            {"cpus": 16, "gpus": 8},
        ),
        Example(
            f"{_PARTS}loader = DataLoader(Numbers(), batch_size=8)  # in order\n{_TAIL}",
            f"{_PARTS}loader = DataLoader(Numbers(), batch_size=8,\n"
            f"                    num_workers=4,\n"
            f"                    pin_memory=True,\n"
            f"                    persistent_workers=True)  # in order\n{_TAIL}",
            runs=False,
        ),
    )
    refuses = (
        Refusal(
            """\
import torch
from torch.utils.data import DataLoader, IterableDataset
from project import model, optimizer, rows

class Rows(IterableDataset):
    def __iter__(self):
        return iter(rows)

for batch in DataLoader(Rows(), batch_size=8):
    model(batch).backward()
    optimizer.step()
""",
            "iterable",
        ),
        Refusal(
            """\
from torch.utils.data import DataLoader
from project import data, model, optimizer, options

for batch in DataLoader(data, **options):
    model(batch).backward()
    optimizer.step()
""",
            "**",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """The missing arguments of each training loader."""
        module = case.module
        workers = _workers(case.args, case.hardware)
        for call in training_loaders(module):
            if not case.concerns(call.location.span):
                continue
            given = call.argument("num_workers", 5)
            literal = given is None or given.origin == "literal"
            if given is not None and not (literal and given.value == 0):
                continue
            reason = _reason(module, call)
            if reason:
                yield Refused(reason)
                continue
            if given is not None and given.node is not None and not given.name:
                yield Replace(given.node, str(workers))
            else:
                yield Keyword(call.node, "num_workers", str(workers))
            if _absent(call, "pin_memory", 7):
                yield Keyword(call.node, "pin_memory", "True")
            epochs = any(loop.kind == "epoch" for loop in module.train_loops)
            if epochs and _absent(call, "persistent_workers") and not _shuffles(call):
                yield Keyword(call.node, "persistent_workers", "True")


def _workers(args: Mapping[str, Scalar], hardware: HardwareFacts) -> int:
    if args["workers"]:
        return int(args["workers"])
    cpus = int(args["cpus"] or 0)
    gpus = int(args["gpus"] or hardware.gpus_per_node or 1)
    return min(8, max(2, cpus // gpus)) if cpus else 4


def _shuffles(call: Call) -> bool:
    """Whether the order comes from PyTorch's own generator, or may."""
    given = call.argument("shuffle", 2)
    return given is not None and given.value is not False and call.argument("generator") is None


def _absent(call: Call, name: str, position: int | None = None) -> bool:
    given = call.argument(name, position)
    return given is None or (
        given.origin == "literal" and given.value is False and given.name != ""
    )


def _reason(module: PyModule, call: Call) -> str | None:
    if call.open_ended:
        return "the arguments behind ** may decide already"
    for node in module.nodes(ast.ClassDef):
        assert isinstance(node, ast.ClassDef)  # noqa: S101 - the reader groups nodes by class
        bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        if "IterableDataset" in bases:
            return "an iterable data set is read whole by every worker unless it shares the work"
        if any(base.endswith("Dataset") for base in bases) and _on_gpu(node):
            return "the data set uses the GPU, which worker processes must not"
    return None


def _on_gpu(node: ast.ClassDef) -> bool:
    words = (getattr(part, "attr", None) for part in ast.walk(node))
    return any(word == "cuda" for word in words)
