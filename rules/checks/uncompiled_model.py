"""A model of many layers that is trained without the compiler."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Confidence, Finding, Fix, Priority, Safety, Severity
from pitstop.rules.fp32_loops import heavy, program_of
from pitstop.rules.loaders import TrainingLoader, loops_over, training_loaders
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.step_code import libraries, managed
from pitstop.rules.versions import meets

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.pysource import PyModule

_WHOLE = re.compile(r"^(torchvision\.models\.|timm\.create_model|torch\.hub\.load)")
"""Calls that make a model of many layers."""
_OPTIMIZER = re.compile(r"^torch\.optim\.(?:\w+\.)?[A-Z]\w*$")
_LAYERS = 8
"""Layers written out from which a model has enough kernels to fuse."""
_SPEAKS = re.compile(r"(?<![a-z])(compile[dr]?|dynamo|inductor|cuda_?graph|jit)(?![a-z])", re.I)
_VARIES = re.compile(
    r"pad_sequence|pack_padded|collate|bucket|tokeniz|max_len|variable|(?<![a-z])graph", re.I
)
_CHANGES_EACH_STEP = re.compile(
    r"^torch\.nn\.(RNN|LSTM|GRU)|^torch\.autograd\.(Function|set_detect)"
)
_FUSED_ALREADY = frozenset(
    {"megatron", "transformer_engine", "apex", "liger_kernel", "unsloth", "xformers", "flash_attn"}
    | {
        "torch_geometric",
        "dgl",
        "detectron2",
        "mmcv",
        "mmengine",
        "torch_xla",
        "torchrec",
        "triton",
    }
    | {"transformers", "diffusers", "spconv", "MinkowskiEngine"}
)

_TRAIN = """\
import torch
import torchvision
from torch.utils.data import DataLoader
from project import dataset

model = torchvision.models.resnet50().cuda()
{more}optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
loader = DataLoader(dataset, batch_size=64, num_workers=8, pin_memory=True{loader})
for images, labels in loader:
    images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


class UncompiledModel(Check):
    """A model of many layers is trained without the compiler.

    ## What it finds

    One optimizer and a loop of the project's own over a loader that stacks samples of one shape,
    with a model of torchvision or timm or at least eight layers of products, in a program that
    nowhere speaks of compiling, of CUDA graphs or of samples that vary in size.

    ## Why it costs

    Each elementwise operation is a kernel of its own that reads and writes whole activations.
    `torch.compile` fuses them, and launches fewer.

    ## When it is right

    Runs of a few minutes, which the compilation would eat up; shapes that change from step to
    step; code that branches on values.

    ## Fix

    Call `model.compile()` where the model is finished, behind the move to the GPU and behind
    DDP. It compiles in place, so that checkpoints keep their names.

    ## Fix safety

    verify: the same mathematics in another order of rounding; the first steps take minutes.
    """

    id = "GEN-D02"
    name = "uncompiled-model"
    category = "compute"
    severity = Severity.INFO
    priority = Priority.MEDIUM
    confidence = Confidence.MEDIUM
    safety = Safety.VERIFY
    cost = "PyTorch's own benchmark of 163 models trains 43 % faster on an A100."
    sources = (
        "https://docs.pytorch.org/get-started/pytorch-2-x/",
        "https://docs.pytorch.org/docs/stable/generated/torch.compile.html",
    )
    bad = (
        Bad(
            {"train.py": _TRAIN.format(more="", loader="")},
            "train.py",
            7,
            {"train.py": _TRAIN.format(more="model.compile()\n", loader="")},
        ),
    )
    good = (
        Good({"train.py": _TRAIN.format(more="model.compile()\n", loader="")}, "it is compiled"),
        Good(
            {"train.py": _TRAIN.format(more="", loader=", collate_fn=None")},
            "batches are put together by code of the project's own",
        ),
        Good(
            {
                "train.py": _TRAIN.format(more="", loader="").replace(
                    "torchvision.models.resnet50()", "torch.nn.Linear(784, 4096)"
                )
            },
            "one layer has nothing to fuse",
        ),
        Good(
            {"train.py": _TRAIN.format(more="", loader=""), "requirements.txt": "torch==2.0.1\n"},
            "this release cannot compile in place",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """The first loop of each program, where nothing speaks against it."""
        seen: set[str] = set()
        if meets(facts.versions, "torch>=2.2") is False:
            return
        for loader in training_loaders(facts):
            module = loader.call.module
            trained = [call for call in module.calls if _OPTIMIZER.match(call.name)]
            if module.path in seen or len(trained) != 1 or not _same_shapes(loader):
                continue
            program = (module, *program_of(module, facts))
            if managed(module) or any(map(_excluded, program)) or not _many_layers(program):
                continue
            seen.add(module.path)
            yield self.info.finding(
                trained[0].location,
                "The model whose parameters this optimizer gets is not compiled.",
                fix=Fix("compile-model", {}, self.safety, "compile the model in place"),
                jobs=(loader.job.id,),
            )


def _same_shapes(loader: TrainingLoader) -> bool:
    """Whether a step loop of the file goes over batches that are samples stacked by PyTorch
    itself, so of one shape each."""
    call = loader.call
    given = (call.argument("collate_fn", 6), call.argument("batch_sampler", 4))
    stacked = not call.open_ended and given == (None, None)
    return stacked and any(True for _ in loops_over(call.module, call, loader.names))


def _many_layers(program: tuple[PyModule, ...]) -> bool:
    calls = [call for part in program for call in part.calls]
    if any(_WHOLE.match(call.name) for call in calls):
        return True
    return sum(heavy(call) for call in calls) >= _LAYERS


def _excluded(module: PyModule) -> bool:
    """Whether a module speaks of compiling, of sizes that vary, or uses what does not compile."""
    if libraries(module) & _FUSED_ALREADY:
        return True
    if any(_CHANGES_EACH_STEP.match(call.name) for call in module.calls):
        return True
    words = {w for node in module.nodes(*_NAMED) for w in _words(node)}
    return any((_SPEAKS.search(w) or _VARIES.search(w)) and w != "re.compile" for w in words)


_NAMED = (ast.Name, ast.Attribute, ast.keyword, ast.arg, ast.alias, ast.Constant)


def _words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield "re.compile" if ast.unparse(node) == "re.compile" else node.attr
    elif isinstance(node, ast.keyword | ast.arg):
        yield node.arg or ""
    elif isinstance(node, ast.alias):
        yield node.name
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 40:
        yield node.value
