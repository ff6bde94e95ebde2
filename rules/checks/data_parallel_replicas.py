"""nn.DataParallel on the training path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Priority, Severity
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.step_code import gpu_modules, libraries

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.pysource import PyModule

_CALLS = ("torch.nn.DataParallel",)
_BETTER = frozenset(
    {"DistributedDataParallel", "FullyShardedDataParallel", "fully_shard", "DDP", "FSDP"}
)
_LIBRARIES = frozenset({"accelerate", "deepspeed", "horovod"})


class DataParallelReplicas(Check):
    """One process drives all GPUs through nn.DataParallel.

    ## What it finds

    A model that is wrapped in `torch.nn.DataParallel` by a script that trains, and no distributed
    alternative in the same script.

    ## Why it costs

    In every step one Python process copies the model to each GPU, scatters the batch, runs all
    replicas under a single interpreter lock and gathers the outputs on the first GPU, which
    needs more memory than the others. With one process per GPU the weights stay where they are
    and gradients are reduced while the backward pass still runs.

    ## When it is right

    Quick trials in a notebook, or a script that never sees more than one GPU.

    ## Fix

    Wrap the model in `DistributedDataParallel(model, device_ids=[local_rank])`, give each process
    its share of the data with a DistributedSampler, and start with
    `torchrun --nproc_per_node=<GPUs>`.

    ## Fix safety

    never: the start of the program and its data loading change.
    """

    id = "GEN-A01"
    name = "data-parallel-replicas"
    category = "parallelism"
    priority = Priority.HIGH
    severity = Severity.WARNING
    cost = (
        "PyTorch's documentation advises DistributedDataParallel even on one machine; two and"
        " more GPUs scale poorly without it, often by over 30 %."
    )
    sources = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#use-nn-parallel-distributeddataparallel-instead-of-multiprocessing-or-nn-dataparallel",
    )
    bad = (
        Bad(
            {
                "train.py": """\
import torch
from torch import nn

def main(model, loader, optimizer):
    model = nn.DataParallel(model).cuda()
    for images, labels in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()

if __name__ == "__main__":
    from project import parts
    main(*parts())
"""
            },
            "train.py",
            5,
        ),
    )
    good = (
        Good(
            {
                "train.py": """\
import torch
from torch import nn

def main(model, loader, optimizer, args):
    if args.distributed:
        model = nn.parallel.DistributedDataParallel(model.cuda())
    else:
        model = nn.DataParallel(model).cuda()
    for images, labels in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()

if __name__ == "__main__":
    from project import parts
    main(*parts())
"""
            },
            "the launch chooses, and the distributed way is there",
        ),
        Good(
            {
                "predict.py": """\
import torch
from torch import nn

def main(model, loader):
    model = nn.DataParallel(model).cuda().eval()
    with torch.no_grad():
        return [model(images.cuda()).argmax(-1).cpu() for images in loader]

if __name__ == "__main__":
    from project import parts
    main(*parts())
"""
            },
            "no job: inference only",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Calls of DataParallel in training modules without a distributed alternative."""
        for module in gpu_modules(facts):
            if not module.trains or _can_do_better(module):
                continue
            for call in module.calls_of(*_CALLS):
                if not module.in_eval_scope(call.node):
                    yield self.info.finding(
                        call.location,
                        "nn.DataParallel copies the model to every GPU in every step, from one"
                        " process.",
                    )


def _can_do_better(module: PyModule) -> bool:
    """Whether the script has a distributed way too, of PyTorch's or of a library's."""
    called = {call.name.rpartition(".")[2] for call in module.calls}
    return bool(called & _BETTER or libraries(module) & _LIBRARIES)
