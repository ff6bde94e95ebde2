"""Attention that is written out, computed by the fused function."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pitstop.rules.pysource import Call, PyModule
from pitstop.rules.versions import meets
from pitstop.transforms.attention_chain import attention_of
from pitstop.transforms.layout import call_text
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Op, Remove, Replace

_FUNCTION = "torch.nn.functional.scaled_dot_product_attention"
_FUSED = re.compile(r"scaled_dot_product|flash_?attn|flex_attention|xformers|memory_efficient")
_HEAD = """\
import math
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, length, heads):
        super().__init__()
        self.heads = heads
        self.mix = nn.Linear(width, 3 * width)
        self.drop = nn.Dropout(0.0)
        self.register_buffer("bias", torch.tril(torch.ones(length, length))[None, None])

    def forward(self, x):
        B, T, C = x.size()
        heads = self.mix(x).view(B, T, 3, self.heads, C // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
"""
_TAIL = """\
        return y.transpose(1, 2).reshape(B, T, C)


model = Attention(16, 8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    loss = model(torch.randn(2, 8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
"""


class FusedAttention(Recipe):
    """Compute attention with scaled_dot_product_attention.

    A product of queries and transposed keys, scaled, masked, put through softmax and multiplied
    with the values becomes one call, which never stores the matrix of scores. A lower-triangular
    buffer becomes `is_causal=True`, another mask that fills with minus infinity `attn_mask`,
    dropout on the weights `dropout_p` (it then draws other random numbers).

    Refused where the weights are used elsewhere, a mask is added or fills with a finite number,
    the scale may be a tensor, or anything else stands between the steps.
    """

    id = "fused-attention"
    numerics = Numerics.EQUIVALENT
    requires = ("torch>=2.0",)
    answers = ("GEN-D01",)
    sources = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
    )
    examples = (
        Example(
            f"""\
{_HEAD}        # causal self-attention
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.drop(att)
        y = att @ v  # (B, heads, T, C // heads)
{_TAIL}""",
            f"""\
{_HEAD}        # causal self-attention
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.drop.p if self.training else 0.0, is_causal=True
        )  # (B, heads, T, C // heads)
{_TAIL}""",
        ),
        Example(
            f"""\
{_HEAD}        mask = self.bias[0, 0]
        scores = torch.matmul(q, k.transpose(-2, -1)) / 4.0
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -math.inf)
        y = torch.matmul(torch.softmax(scores.float(), dim=-1).type_as(q), v)
{_TAIL}""",
            f"""\
{_HEAD}        mask = self.bias[0, 0]
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask != 0 if mask is not None else None, scale=1.0 / 4.0
        )
{_TAIL}""",
        ),
    )
    refuses = (
        Refusal(
            f"{_HEAD}        att = F.softmax(q @ k.transpose(-2, -1) * 0.25, dim=-1)\n"
            f"        self.shown = att\n        y = att @ v\n{_TAIL}",
            "used",
        ),
        Refusal(
            f"{_HEAD}        att = q @ k.transpose(-2, -1) * 0.25\n"
            "        att = att.masked_fill(self.bias == 0, -1e9)\n"
            f"        y = F.softmax(att, dim=-1) @ v\n{_TAIL}",
            "minus infinity",
        ),
        Refusal(
            f"{_HEAD}        att = q @ k.transpose(-2, -1) * 0.25 + self.bias\n"
            f"        y = F.softmax(att, dim=-1) @ v\n{_TAIL}",
            "added",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """One call for each softmax that is attention."""
        module = case.module
        for call in module.calls:
            if not call.name.lower().endswith("softmax"):
                continue
            if not case.concerns(call.location.span) or _chooses(module, call):
                continue
            found = attention_of(module, call)
            if found is None:
                continue
            if isinstance(found, Refused):
                yield found
            elif found.scaled and meets(case.versions, "torch>=2.1") is False:
                yield Refused("the fused function takes a scale since torch 2.1")
            else:
                for statement in found.before:
                    yield Remove(statement)
                short = len("F.scaled_dot_product_attention")
                yield Replace(
                    found.output,
                    call_text(module, found.output, _FUNCTION, found.arguments, spelled=short),
                )


def _chooses(module: PyModule, call: Call) -> bool:
    """Whether the same function has a fused way already, for which this is the fallback."""
    function = module.enclosing_function(call.node)
    return any(
        _FUSED.search(other.name) and module.enclosing_function(other.node) is function
        for other in module.calls
    )
