"""The single tensors that a model's parameters are: what optimizers, quantisation and adapters
look at one by one. Shapes as transformers 5 builds them (tests/rules/test_tensors.py compares).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.rules.architecture import NORM_VECTORS, Architecture, LatentAttention


@dataclass(frozen=True, slots=True)
class Tensor:
    """`count` equal tensors. `kind` is embedding, head, linear, expert or vector (norms and
    biases); `name` is the usual short name of a linear module (q, k, v, o, gate, up, down,
    qkv, gate_up, router, ...), else "". `shape` is output by input for a linear module."""

    kind: str
    shape: tuple[int, ...]
    count: int = 1
    name: str = ""

    @property
    def elements(self) -> int:
        """Elements of one of them."""
        return math.prod(self.shape)

    @property
    def total(self) -> int:
        """Elements of all of them."""
        return self.elements * self.count


def tensors(model: Architecture) -> tuple[Tensor, ...]:
    """Every parameter tensor of a model; their elements add up to `model.parameters`."""
    found = [
        *_ends(model),
        *_layers(model),
    ]
    rest = model.parameters - sum(tensor.total for tensor in found)
    if rest > 0:  # what a family has besides: further norms, or parameters only counted
        even = rest % model.hidden == 0
        found.append(Tensor("vector", (model.hidden if even else rest,), _times(rest, even, model)))
    return tuple(tensor for tensor in found if tensor.count and tensor.elements)


def _times(rest: int, even: bool, model: Architecture) -> int:
    return rest // model.hidden if even else 1


def _ends(model: Architecture) -> Iterator[Tensor]:
    yield Tensor("embedding", (model.vocabulary, model.hidden))
    if model.positions:
        yield Tensor("embedding", (model.positions, model.hidden))
    if not model.tied:
        yield Tensor("head", (model.vocabulary, model.hidden))
    if model.bias_head:
        yield Tensor("vector", (model.vocabulary,))
    yield Tensor("vector", (model.hidden,), NORM_VECTORS[model.norm])


def _layers(model: Architecture) -> Iterator[Tensor]:
    layers = model.layers
    yield Tensor("vector", (model.hidden,), layers * model.norms * NORM_VECTORS[model.norm])
    yield from _attention(model)
    yield from _feed_forward(model, model.intermediate, layers - model.moe_layers, model.bias_mlp)
    if not model.moe:
        return
    experts, width = model.experts, model.expert_intermediate
    yield Tensor("linear", (experts, model.hidden), model.moe_layers, "router")
    up = (experts, (2 if model.gated else 1) * width, model.hidden)
    yield Tensor("expert", up, model.moe_layers, "gate_up")
    yield Tensor("expert", (experts, model.hidden, width), model.moe_layers, "down")
    if model.bias_router:
        yield Tensor("vector", (experts,), model.moe_layers)
    if model.bias_mlp:
        yield Tensor("expert", (experts, (2 if model.gated else 1) * width), model.moe_layers)
        yield Tensor("expert", (experts, model.hidden), model.moe_layers)
    if model.shared:
        yield from _feed_forward(model, model.shared, model.moe_layers, biased=False)
    if model.extra_per_layer == model.hidden:
        yield Tensor("linear", (1, model.hidden), model.moe_layers, "shared_gate")


def _attention(model: Architecture) -> Iterator[Tensor]:
    if model.latent:
        yield from _latent(model, model.latent)
        return
    hidden, layers = model.hidden, model.layers
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    if model.fused_qkv:
        yield from _linear("qkv", q + 2 * kv, hidden, layers, model.bias_qkv)
    else:
        yield from _linear("q", q, hidden, layers, model.bias_qkv)
        yield from _linear("k", kv, hidden, layers, model.bias_qkv)
        yield from _linear("v", kv, hidden, layers, model.bias_qkv)
    yield from _linear("o", hidden, q, layers, model.bias_o)
    if model.qk_norm == "head":
        yield Tensor("vector", (model.head_dim,), 2 * layers)
    elif model.qk_norm == "full":
        yield Tensor("vector", (q,), layers)
        yield Tensor("vector", (kv,), layers)


def _latent(model: Architecture, mla: LatentAttention) -> Iterator[Tensor]:
    hidden, heads, layers = model.hidden, model.heads, model.layers
    q = heads * (mla.nope + mla.rope)
    if mla.q_rank:
        yield Tensor("linear", (mla.q_rank, hidden), layers, "q_a")
        yield Tensor("vector", (mla.q_rank,), layers)
    yield Tensor("linear", (q, mla.q_rank or hidden), layers, "q_b" if mla.q_rank else "q")
    yield Tensor("linear", (mla.kv_rank + mla.rope, hidden), layers, "kv_a")
    yield Tensor("vector", (mla.kv_rank,), layers)
    yield Tensor("linear", (heads * (mla.nope + mla.value), mla.kv_rank), layers, "kv_b")
    yield Tensor("linear", (hidden, heads * mla.value), layers, "o")


def _feed_forward(model: Architecture, width: int, count: int, biased: bool) -> Iterator[Tensor]:
    if not count or not width:
        return
    if model.gated and model.fused_gate:
        yield from _linear("gate_up", 2 * width, model.hidden, count, biased)
    else:
        if model.gated:
            yield from _linear("gate", width, model.hidden, count, biased)
        yield from _linear("up", width, model.hidden, count, biased)
    yield from _linear("down", model.hidden, width, count, biased)


def _linear(name: str, rows: int, columns: int, count: int, biased: bool) -> Iterator[Tensor]:
    yield Tensor("linear", (rows, columns), count, name)
    if biased:
        yield Tensor("vector", (rows,), count)
