"""TF32 for the matrix products that stay in fp32."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pitstop.rules.pysource import PyModule
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Insert, Op
from pitstop.transforms.top_level import end_of_imports

_OLD = ("allow_tf32", "fp32_precision")


class Tf32(Recipe):
    """Compute fp32 matrix products in TF32.

    `torch.set_float32_matmul_precision("high")` is called once, behind the imports. TF32 keeps
    the range of fp32 with 10 bits of mantissa; convolutions use it by default already.

    Refused where the file computes in double precision or asks for determinism or for another
    precision by the older switches, with which this call must not be mixed.
    """

    id = "tf32"
    numerics = Numerics.PRECISION
    requires = ("torch>=1.12",)
    capability = (8, 0)
    answers = ("GEN-D09",)
    sources = (
        "https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices",
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
    optimizer.step()
    optimizer.zero_grad()
print(loss.item())
""",
            """\
import torch
from torch import nn

torch.set_float32_matmul_precision("high")

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(6):
    loss = model(torch.randn(8, 16)).square().mean()
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
from project import loader, model, optimizer

torch.backends.cuda.matmul.allow_tf32 = False
for batch in loader:
    model(batch).mean().backward()
    optimizer.step()
""",
            "allow_tf32",
        ),
        Refusal(
            """\
import torch
from project import loader, model, optimizer

torch.use_deterministic_algorithms(True)
for batch in loader:
    model(batch).mean().backward()
    optimizer.step()
""",
            "deterministic",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """One call behind the imports of a file that trains."""
        module = case.module
        if not module.train_loops or any(module.calls_of("torch.set_float32_matmul_precision")):
            return
        reason = _reason(module)
        anchor = end_of_imports(module)
        if reason or anchor is None:
            yield Refused(reason or "the file imports nothing at its top level")
            return
        yield Insert(anchor, 'torch.set_float32_matmul_precision("high")', after=True, apart=True)


def _reason(module: PyModule) -> str | None:
    for node in module.nodes(ast.Attribute):
        word = node.attr if isinstance(node, ast.Attribute) else ""
        if word in _OLD:
            return f"the file sets {word}, which must not be mixed with this call"
        if word in ("float64", "double"):
            return "the file computes in double precision"
        if word in ("deterministic", "use_deterministic_algorithms"):
            return "the file asks for deterministic results"
    return None
