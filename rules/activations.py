"""Bytes of activations that the backward pass waits for, per GPU.

Counted op by op from what autograd keeps in the Hugging Face decoder layers (transformers 5
modeling files): each kept tensor once, in the format it is kept in. Checked against
`torch.autograd.graph.saved_tensors_hooks` (tests/rules/test_activations.py). Counts are per
token unless said otherwise; multiply by micro batch times sequence length.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pitstop.rules.architecture import Architecture, LatentAttention


class Running(enum.StrEnum):
    """How the forward pass is computed.

    FP32: no mixing. PURE: weights and activations 16-bit (also ZeRO, FSDP mixed precision and
    Megatron). AUTOCAST: fp32 weights and residual stream, 16-bit matrix products.
    """

    FP32 = "fp32"
    PURE = "pure"
    AUTOCAST = "autocast"

    @property
    def element(self) -> int:
        """Bytes of an activation that a matrix product reads or writes."""
        return 4 if self is Running.FP32 else 2

    @property
    def residual(self) -> int:
        """Bytes of an element of the residual stream."""
        return 2 if self is Running.PURE else 4


class Attention(enum.StrEnum):
    """FUSED keeps inputs, output and one number per row (FlashAttention, arXiv 2205.14135,
    algorithm 1; SDPA alike); EAGER keeps the score matrices as well."""

    FUSED = "fused"
    EAGER = "eager"


ACTIVATION_TENSORS = {
    "relu": 1,
    "silu": 2,
    "gelu": 2,
    "gelu_pytorch_tanh": 2,
    "gelu_python": 3,
    "gelu_fast": 5,
    "gelu_new": 5,
}
"""Tensors of the feed-forward width that a plain (not gated) block keeps: the activation's input,
its output (the next product's input) and, where it is written in Python (transformers
activations.py), its parts. An activation not named here counts as one kernel."""


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """Bytes per token that one layer keeps, by part; `scores` is per token and per token of the
    sequence it attends to (0 with fused attention)."""

    norms: float
    attention: float
    mlp: float
    scores: float = 0.0

    def total(self, sequence: int) -> float:
        """Bytes per token for sequences of a length in tokens."""
        return self.norms + self.attention + self.mlp + self.scores * sequence


def layer_bytes(
    model: Architecture,
    running: Running,
    attention: Attention = Attention.FUSED,
    *,
    tensor: int = 1,
    fused_kernels: bool = False,
    moe: bool | None = None,
) -> LayerBytes:
    """What one decoder layer keeps per token without checkpointing or dropout.

    `tensor` divides everything (sequence parallelism on, as with Megatron's tensor
    parallelism); `fused_kernels` are Liger's RMSNorm and SwiGLU, which recompute. `moe` picks
    the kind of layer in a model that has both.
    """
    sparse = model.moe if moe is None else moe
    eager = attention is Attention.EAGER
    feed_forward = _experts if sparse else _dense
    return LayerBytes(
        norms=_norms(model, running, fused=fused_kernels) / tensor,
        attention=_attention(model, running, eager=eager) / tensor,
        mlp=feed_forward(model, running, fused=fused_kernels) / tensor,
        scores=_scores(model, running) * model.heads / tensor if eager else 0.0,
    )


def _norms(model: Architecture, running: Running, *, fused: bool) -> float:
    """The normalisations themselves, and the inputs of the products behind them.

    Under autocast each product casts its fp32 input for itself; otherwise products that read
    the same tensor share it.
    """
    size, width = running.element, model.hidden
    readers = [1 if model.fused_qkv else 3, 2 if model.gated and not model.fused_gate else 1]
    copies = sum(readers) if running is Running.AUTOCAST else 2
    if model.norms == 1 and running is not Running.AUTOCAST:
        copies = 1  # attention and feed-forward read one output
    kept = model.norms * _norm(model, running, width, fused=fused) + copies * size * width
    if model.parallel and model.norms == 2:
        kept -= running.residual * width  # both normalise the same input, kept once
    return kept


def _norm(model: Architecture, running: Running, width: int, *, fused: bool) -> float:
    """What one normalisation keeps for itself, without its output."""
    stream, statistics = running.residual * width, 4.0
    if model.norm == "layer":
        return stream + 2 * statistics
    if model.norm == "layer_fp32":
        return 4 * width + 2 * statistics
    if model.norm == "layer_python":
        return 3 * 4 * width + statistics
    if fused:
        return stream + statistics
    # the input in fp32, and the normalised input in fp32 or in the stream's own format
    return 4 * width + (4 * width if model.norm == "rms_fp32" else stream) + statistics


def _attention(model: Architecture, running: Running, *, eager: bool) -> float:
    """Queries, keys, values and output of the kernel, and a logarithm per head."""
    size = running.element
    if model.latent:
        return _latent_attention(model, model.latent, running)
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    if eager:
        return size * (2 * q + 2 * q)  # keys and values repeated for every head
    kept = 2 * q + 2 * kv
    if model.fused_qkv and model.positions == 0:
        kept += q + kv  # values are a view that keeps the whole product alive
    if model.partial_rotary:
        kept += q  # the output comes in another layout and is copied
    total = size * kept + 4.0 * model.heads
    if model.qk_norm != "none":
        # input and normalised values; the output is not kept, since the rotary embedding
        # multiplies by constants
        normalised = 4 if model.norm == "rms_fp32" else size
        total += (4 + normalised) * (q + kv) + _qk_statistics(model)
    return total


def _qk_statistics(model: Architecture) -> float:
    return 4.0 * (model.heads + model.kv_heads if model.qk_norm == "head" else 2)


def _latent_attention(model: Architecture, mla: LatentAttention, running: Running) -> float:
    """Multi-head latent attention: compressed queries and keys, their norms, and full heads."""
    size = running.element
    per_head = mla.nope + mla.rope
    heads = model.heads * (2 * per_head + 2 * mla.value)
    ranks = (mla.q_rank or 0) + mla.kv_rank
    return size * (heads + ranks) + (4 + size) * ranks + 4.0 * model.heads


def _scores(model: Architecture, running: Running) -> float:
    """Eager attention per pair of tokens and head: softmax in fp32, its 16-bit copy, and the
    soft cap's tanh."""
    softmax = 4.0 if running is Running.FP32 else 6.0
    return softmax + running.element * model.softcap


def _dense(model: Architecture, running: Running, *, fused: bool) -> float:
    return _block(model, running.element, model.intermediate, fused=fused)


def _experts(model: Architecture, running: Running, *, fused: bool) -> float:
    """Each of the top-k experts takes its own copy of the token and gives one back; the router
    keeps its probabilities in fp32."""
    size = running.element
    routed = model.top_k * _block(model, size, model.expert_intermediate, fused=fused)
    shared = _block(model, size, model.shared, fused=fused) if model.shared else 0.0
    if model.extra_per_layer >= model.hidden:
        shared += size * model.hidden  # the shared expert's output, scaled by its gate
    dispatch = model.top_k * 2 * size * model.hidden + 2 * 4 * model.experts
    return routed + shared + dispatch


def _block(model: Architecture, size: int, width: int, *, fused: bool) -> float:
    """Gated: gate, its activation, up, and their product; a fused kernel keeps gate and up and
    recomputes (Liger-Kernel ops/swiglu.py), and the product is still the next product's input."""
    if model.gated:
        return size * width * (3 if fused else 4)
    return size * width * ACTIVATION_TENSORS.get(model.activation, 2)


@dataclass(frozen=True, slots=True)
class ActivationBytes:
    """Bytes per GPU: what all layers keep, the layer being recomputed, and logits with loss."""

    layers: float
    recomputed: float
    logits: float

    @property
    def peak(self) -> float:
        """The highest point: at the loss everything kept and the logits; later in the backward
        pass everything kept and one layer recomputed."""
        return self.layers + max(self.recomputed, self.logits)


def activation_bytes(
    model: Architecture,
    running: Running,
    *,
    micro_batch: int,
    sequence: int,
    attention: Attention = Attention.FUSED,
    checkpointing: bool = False,
    tensor: int = 1,
    pipeline: int = 1,
    context: int = 1,
    in_flight: int | None = None,
    fused_kernels: bool = False,
    fused_loss: bool = False,
) -> ActivationBytes:
    """Activations of one training step on the worst GPU.

    `sequence` is in tokens before context parallelism. `in_flight` micro batches are alive at
    once on the first pipeline stage (1F1B: as many as there are stages).
    """
    tokens = micro_batch * sequence / context
    alive = in_flight if in_flight is not None else pipeline
    dense = layer_bytes(
        model, running, attention, tensor=tensor, fused_kernels=fused_kernels,
        moe=False,
    ).total(sequence)  # fmt: skip
    sparse = dense
    if model.moe:
        sparse = layer_bytes(
            model, running, attention, tensor=tensor, fused_kernels=fused_kernels,
            moe=True,
        ).total(sequence)  # fmt: skip
    share = model.moe_layers / model.layers
    average = share * sparse + (1 - share) * dense
    count = model.layers / pipeline
    if checkpointing:
        kept = running.residual * model.hidden / tensor * count * tokens * alive
        recomputed = max(dense, sparse) * tokens
    else:
        kept, recomputed = average * count * tokens * alive, 0.0
    return ActivationBytes(
        kept, recomputed, logits_bytes(model, running, tokens, tensor, fused_loss)
    )


def logits_bytes(
    model: Architecture, running: Running, tokens: float, tensor: int = 1, fused: bool = False
) -> float:
    """Logits and cross-entropy at their peak, in bytes.

    Unfused: the head's output, its fp32 copy, the log-softmax that the loss keeps, and the
    gradient in fp32 (transformers loss/loss_utils.py upcasts first). Fused (Liger-Kernel
    ops/fused_linear_cross_entropy.py): one chunk of tokens at a time, with the head's gradient
    kept in full by the caller.
    """
    vocabulary = model.vocabulary / tensor
    if fused:
        chunk = max(1.0, model.hidden * tokens / max(model.vocabulary, 1))
        return min(tokens, chunk) * vocabulary * (running.element + 4)
    upcast = 0 if running is Running.FP32 else running.element
    return tokens * vocabulary * (upcast + 4 + 4 + 4)
