"""Matrix products in full fp32 on GPUs that have TF32."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Fix, Location, Priority, Safety, Severity
from pitstop.rules.fp32_loops import fp32_loops
from pitstop.rules.rule import Bad, Check, Good

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.pysource import PyModule

_TF32 = (8, 0)  # the compute capability since which GPUs have it
_SWITCHES = frozenset({"set_float32_matmul_precision", "allow_tf32", "fp32_precision"})
_EXACT = frozenset({"use_deterministic_algorithms", "deterministic"})

_LOOP = """\
model = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for images, labels in loader:
    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
_HEAD = "import torch\nfrom torch import nn\nfrom project import loader\n\n"
_RUN = "#!/bin/bash\n#SBATCH --gres=gpu:{gpu}:1\npython train.py\n"
_HIGH = 'torch.set_float32_matmul_precision("high")\n\n'


class Fp32Products(Check):
    """Matrix products run in full fp32 although the GPU has TF32.

    ## What it finds

    A program that trains in fp32 with matrix products worth a tensor core, on a GPU that is known
    to be Ampere or newer, and never says which precision fp32 products shall have.

    ## Why it costs

    PyTorch computes fp32 matrix products without tensor cores unless it is told otherwise; only
    convolutions use TF32 by themselves.

    ## When it is right

    Results must have all 24 bits of mantissa: solvers, physics, reference runs.

    ## Fix

    Call `torch.set_float32_matmul_precision("high")` once, behind the imports. Autocast to bf16
    is faster still and halves the activations; TF32 is for what has to stay in fp32.

    ## Fix safety

    verify: products keep 10 bits of mantissa; compare the loss curves.
    """

    id = "GEN-D09"
    name = "fp32-products"
    category = "precision"
    severity = Severity.INFO
    priority = Priority.MEDIUM
    safety = Safety.VERIFY
    cost = "PyTorch's notes name about 7x for one large fp32 product on an A100."
    sources = (
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices",
        "https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html",
    )
    bad = (
        Bad(
            {"train.py": _HEAD + _LOOP, "run.sh": _RUN.format(gpu="a100")},
            "train.py",
            7,
            {"train.py": _HEAD + _HIGH + _LOOP},
        ),
    )
    good = (
        Good(
            {"train.py": _HEAD + _LOOP, "run.sh": _RUN.format(gpu="v100")},
            "the GPU has no TF32",
        ),
        Good({"train.py": _HEAD + _LOOP}, "which GPU it is is not known"),
        Good(
            {
                "train.py": _HEAD + "torch.backends.cuda.matmul.allow_tf32 = False\n" + _LOOP,
                "run.sh": _RUN.format(gpu="a100"),
            },
            "the program has decided",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Programs in fp32 whose every known GPU has TF32."""
        for module, head, program in fp32_loops(facts):
            known = [
                job.hardware.capability
                for job in facts.jobs
                if module.path in job.files and job.hardware.capability is not None
            ]
            if known and all(c >= _TF32 for c in known) and not any(map(_decides, program)):
                yield self._finding(head)

    def _finding(self, head: Location) -> Finding:
        return self.info.finding(
            head,
            "Nothing lets fp32 matrix products run on the tensor cores of this GPU.",
            fix=Fix("tf32", {}, self.safety, "compute fp32 matrix products in TF32"),
        )


def _decides(module: PyModule) -> bool:
    """Whether a module says how exact fp32 products are, or asks for exact results."""
    words = {node.attr for node in module.nodes(ast.Attribute) if isinstance(node, ast.Attribute)}
    return not words.isdisjoint(_SWITCHES | _EXACT)
