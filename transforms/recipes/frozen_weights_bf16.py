"""Frozen models loaded in bf16."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pitstop.rules.pysource import Call, PyModule
from pitstop.rules.versions import meets
from pitstop.transforms.patch import Refused
from pitstop.transforms.pretrained import loading_calls
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Keyword, Op

_CHOSEN = ("dtype", "torch_dtype", "quantization_config", "load_in_8bit", "load_in_4bit")
_CASTS = ("half", "bfloat16", "float", "double")


class FrozenWeightsBf16(Recipe):
    """Load models that are not trained in bf16.

    A teacher, reference or reward model that is put into evaluation mode and given to no
    optimizer is loaded with `torch_dtype=torch.bfloat16` (`dtype` since transformers 5): half the
    memory of the fp32 that older versions load.

    Refused where the model is trained as well, or cast afterwards.
    """

    id = "frozen-weights-bf16"
    numerics = Numerics.PRECISION
    requires = ("torch>=1.10",)
    capability = (8, 0)
    answers = ("GEN-C10",)
    sources = ("https://huggingface.co/docs/transformers/main_classes/model",)
    examples = (
        Example(
            """\
from transformers import AutoModelForCausalLM
from project import distil, loader, optimizer, student

teacher = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B").cuda()
teacher.eval()
for batch in loader:
    distil(student, teacher(batch)).backward()
    optimizer.step()
""",
            """\
import torch
from transformers import AutoModelForCausalLM
from project import distil, loader, optimizer, student

teacher = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype=torch.bfloat16).cuda()
teacher.eval()
for batch in loader:
    distil(student, teacher(batch)).backward()
    optimizer.step()
""",
            runs=False,
        ),
    )
    refuses = (
        Refusal(
            """\
from transformers import AutoModelForCausalLM
from project import loader, optimizer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B")
model.eval()
model.train()
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
""",
            "trained",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """The keyword of each call that loads a frozen model."""
        module = case.module
        if not module.trains or meets(case.versions, "transformers>=5") is True:
            return  # of inference alone nothing is known; "auto" is the default since 5
        for call in loading_calls(case):
            name = _name(module, call)
            if name is None or call.open_ended or any(call.argument(word) for word in _CHOSEN):
                continue
            methods = _methods(module, name)
            if "eval" not in methods and "requires_grad_" not in methods:
                continue
            if methods & {"train", "parameters", "named_parameters"}:
                yield Refused(f"{name} may be trained as well")
            elif methods & set(_CASTS):
                yield Refused(f"{name} is cast afterwards")
            else:
                yield Keyword(call.node, "torch_dtype", "torch.bfloat16")


def _name(module: PyModule, call: Call) -> str | None:
    """The variable that holds what is loaded."""
    node: ast.AST = call.node
    while not isinstance(node, ast.stmt):
        node = module.parents[node]
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    return ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else None


def _methods(module: PyModule, name: str) -> set[str]:
    """The methods that the file calls on a variable."""
    return {
        call.node.func.attr
        for call in module.calls
        if isinstance(call.node.func, ast.Attribute) and ast.unparse(call.node.func.value) == name
    }
