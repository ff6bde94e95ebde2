"""Activations recomputed in the backward pass, or kept."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pitstop.rules.step_code import libraries
from pitstop.transforms.hot_loop import explained
from pitstop.transforms.patch import Refused
from pitstop.transforms.pretrained import loaded_in
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Insert, Op, Remove
from pitstop.transforms.trained_model import trained_models
from pitstop.transforms.training_step import block_of, statement_of

_METHOD = "gradient_checkpointing_enable"
_ON = f'{_METHOD}(gradient_checkpointing_kwargs={{"use_reentrant": False}})'
_HEAD = """\
import tempfile
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2
)
folder = tempfile.mkdtemp()
LlamaForCausalLM(config).save_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
"""
_TAIL = """\
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(3):
    tokens = torch.randint(0, 64, (2, 16))
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
"""


class ActivationCheckpointing(Recipe):
    """Recompute the activations of a loaded model, or keep them.

    With `enabled` (the default) `gradient_checkpointing_enable` is called, not reentrant, behind
    the loading of the model that is trained, and its cache for generation is turned off: memory
    falls to about a layer's activations, a step takes some 20 to 30 % longer. With `enabled` false
    the call is removed, where memory suffices without.

    Refused for models that transformers did not load, and with adapters, whose inputs then need
    gradients of their own.
    """

    id = "activation-checkpointing"
    numerics = Numerics.EXACT
    requires = ("transformers>=4.35,<6",)  # 6 renames the method
    answers = ("GEN-C03", "GEN-C16")
    arguments = {"enabled": True}  # noqa: RUF012 - as its annotation in the base says
    sources = (
        "https://huggingface.co/docs/transformers/perf_train_gpu_one#gradient-checkpointing",
        "https://docs.pytorch.org/docs/stable/checkpoint.html",
    )
    examples = (
        Example(
            f"{_HEAD}{_TAIL}",
            f"{_HEAD}model.{_ON}\nmodel.config.use_cache = False\n{_TAIL}",
        ),
        Example(
            f"{_HEAD}model.{_METHOD}()  # saves memory\n{_TAIL}",
            f"{_HEAD}{_TAIL}",
            {"enabled": False},
        ),
    )
    refuses = (
        Refusal(
            """\
import torch
import transformers
from project import Net

model = Net(transformers.AutoConfig.from_pretrained("Qwen/Qwen2.5-7B")).cuda()
optimizer = torch.optim.AdamW(model.parameters())
""",
            "not loaded by transformers",
        ),
        Refusal(
            """\
import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM
from project import lora

model = get_peft_model(AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B"), lora)
optimizer = torch.optim.AdamW(model.parameters())
""",
            "adapters",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """The call behind the loading, or its removal."""
        module = case.module
        calls = [
            call
            for call in module.calls
            if isinstance(call.node.func, ast.Attribute) and call.node.func.attr == _METHOD
        ]
        if not case.args["enabled"]:
            for call in calls:
                if case.concerns(call.location.span):
                    yield _removed(case, statement_of(module, call.node), call.node)
            return
        if calls or "transformers" not in libraries(module):
            return
        for model in trained_models(case):
            if isinstance(model, Refused):
                yield model
                continue
            loaded = loaded_in(module, model.made)
            if loaded is None:
                yield Refused(f"{model.name} is not loaded by transformers in this function")
            elif "peft" in libraries(module):
                yield Refused("adapters need gradients for their inputs as well")
            else:
                text = f"{model.name}.{_ON}\n{model.name}.config.use_cache = False"
                yield Insert(loaded[0], text, after=True)


def _removed(case: Case, statement: ast.stmt, call: ast.Call) -> Op | Refused:
    if not isinstance(statement, ast.Expr) or statement.value is not call:
        return Refused("the call is part of a larger statement")
    if len(block_of(case.module, statement)) == 1:
        return Refused("the call is the only statement of its block")
    if explained(case.module, statement):
        return Refused("a comment above the call gives its reason")
    return Remove(statement)
