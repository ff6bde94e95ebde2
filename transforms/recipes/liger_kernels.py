"""Liger's fused kernels for a loaded language model."""

from __future__ import annotations

from collections.abc import Iterator

from pitstop.rules.pysource import PyModule
from pitstop.rules.step_code import libraries
from pitstop.transforms.patch import Refused
from pitstop.transforms.pretrained import loaded_in, mentions
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Op, Replace
from pitstop.transforms.trained_model import trained_models

_AUTO = "transformers.AutoModelForCausalLM.from_pretrained"
_LIGER = "liger_kernel.transformers.AutoLigerKernelForCausalLM.from_pretrained"


class LigerKernels(Recipe):
    """Load the trained language model with Liger's kernels.

    `AutoLigerKernelForCausalLM.from_pretrained` stands for that of transformers: norms, rotary
    embedding, activation and the loss over the vocabulary run fused, and the full logits are never
    stored. Architectures that Liger does not know load unchanged.

    Refused where logits are read (they are not computed then), with Unsloth, which has kernels
    of its own, and with `device_map`.
    """

    id = "liger-kernels"
    numerics = Numerics.EQUIVALENT
    requires = ("liger-kernel>=0.5", "torch>=2.1.2", "transformers>=4.46")
    capability = (7, 0)
    answers = ("GEN-D05", "GEN-D18")
    sources = ("https://github.com/linkedin/Liger-Kernel",)
    examples = (
        Example(
            """\
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B").cuda()
optimizer = torch.optim.AdamW(model.parameters())
""",
            """\
import torch
from liger_kernel.transformers import AutoLigerKernelForCausalLM
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B")
model = AutoLigerKernelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B").cuda()
optimizer = torch.optim.AdamW(model.parameters())
""",
            runs=False,
        ),
    )
    refuses = (
        Refusal(
            """\
import torch
from transformers import AutoModelForCausalLM
from project import batch, divergence

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B").cuda()
optimizer = torch.optim.AdamW(model.parameters())
loss = divergence(model(**batch).logits)
""",
            "logits",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """The class that loads each trained model."""
        module = case.module
        if "liger_kernel" in libraries(module) or "transformers" not in libraries(module):
            return
        for model in trained_models(case):
            if isinstance(model, Refused):
                yield model
                continue
            loaded = loaded_in(module, model.made)
            if loaded is None or loaded[1].name != _AUTO:
                continue
            reason = _reason(module)
            yield Refused(reason) if reason else Replace(loaded[1].node.func, _LIGER)


def _reason(module: PyModule) -> str | None:
    if mentions(module, "logits"):
        return "logits are read, which the fused loss does not compute"
    if "unsloth" in libraries(module):
        return "Unsloth has kernels of its own"
    if mentions(module, "device_map"):
        return "the model is spread over GPUs by device_map"
    return None
