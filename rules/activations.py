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
from pitstop.rules.ranges import Range


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
    "quick_gelu": 3,
    "gelu_python": 3,
    "gelu_fast": 5,
    "gelu_new": 5,
}
"""Tensors of the feed-forward width that a plain (not gated) block keeps: the activation's input,
its output (the next product's input) and, where it is written in Python (transformers
activations.py), its parts. An activation not named here counts as one kernel."""


@dataclass(frozen=True, slots=True)
class Adapters:
    """Low-rank adapters beside frozen weights: the modules that have one (q, k, v, o, gate, up,
    down), their rank, and whether they have magnitudes too (DoRA, arXiv 2402.09353)."""

    modules: frozenset[str] = frozenset()
    rank: int = 8
    magnitudes: bool = False

    def has(self, *names: str) -> bool:
        """Whether one of these modules is adapted."""
        return bool(self.modules & set(names))


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """Bytes per token that one layer keeps, by part; `scores` is per token and per token of the
    sequence it attends to (0 with fused attention)."""

    norms: float
    attention: float
    mlp: float
    scores: float = 0.0

    def total(self, sequence: float) -> float:
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
    adapters: Adapters | None = None,
) -> LayerBytes:
    """What one decoder layer keeps per token without checkpointing or dropout.

    `tensor` divides everything (sequence parallelism on, as with Megatron's tensor
    parallelism); `fused_kernels` are Liger's RMSNorm and SwiGLU, which recompute. `moe` picks
    the kind of layer in a model that has both. With `adapters` the weights are frozen: inputs
    of products are kept only where an adapter needs them.
    """
    sparse = model.moe if moe is None else moe
    eager = attention is Attention.EAGER
    layer = _Layer(model, running, fused_kernels, adapters)
    return LayerBytes(
        norms=layer.norms() / tensor,
        attention=layer.attention(eager=eager) / tensor,
        mlp=(layer.experts() if sparse else layer.dense()) / tensor,
        scores=layer.scores() * model.heads / tensor if eager else 0.0,
    )


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer's bytes per token, part by part."""

    model: Architecture
    running: Running
    fused: bool
    adapters: Adapters | None

    def norms(self) -> float:
        """The normalisations themselves, and the inputs of the products behind them.

        Under autocast each product casts its fp32 input for itself; otherwise products that
        read the same tensor share it.
        """
        model, width = self.model, self.model.hidden
        kept = model.norms * self._norm(width) + self._inputs() * self.running.element * width
        if model.parallel and model.norms == 2:
            kept -= self.running.residual * width  # both normalise the same input, kept once
        return kept

    def _inputs(self) -> int:
        """Copies of normalised tensors that attention's and the feed-forward's products keep."""
        model, adapters = self.model, self.adapters
        attention = adapters is None or adapters.has("q", "k", "v", "qkv")
        feed_forward = adapters is None or adapters.has("gate", "up", "gate_up")
        readers = [1 if model.fused_qkv else 3, 2 if model.gated and not model.fused_gate else 1]
        if self.running is Running.AUTOCAST:
            return readers[0] * attention + readers[1] * feed_forward
        if model.norms == 1:  # attention and feed-forward read one output
            return int(attention or feed_forward)
        return attention + feed_forward

    def _norm(self, width: int) -> float:
        """What one normalisation keeps for itself, without its output."""
        kind, frozen = self.model.norm, self.adapters is not None
        stream, statistics = self.running.residual * width, 4.0
        if kind == "layer":
            return stream + 2 * statistics
        if kind == "layer_fp32":
            return 4 * width + 2 * statistics
        if kind == "layer_python":
            return (2 if frozen else 3) * 4 * width + statistics
        if self.fused:
            return stream + statistics
        # the input in fp32, and for the weight's gradient the normalised input
        normalised = 4 * width if kind == "rms_fp32" else stream
        return 4 * width + (0 if frozen else normalised) + statistics

    def attention(self, *, eager: bool) -> float:
        """Queries, keys, values and output of the kernel, and a logarithm per head."""
        model, size = self.model, self.running.element
        extra = self._adapter_bytes("q", "k", "v", "qkv", "o")
        if model.latent:
            return self._latent(model.latent) + extra
        q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
        if eager:
            return size * (2 * q + 2 * q) + extra  # keys, values repeated for every head
        kept = 2 * q + 2 * kv
        if model.fused_qkv and model.positions == 0:
            kept += q + kv  # values are a view that keeps the whole product alive
        if model.partial_rotary and (self.adapters is None or self.adapters.has("o")):
            kept += q  # the output comes in another layout and is copied
        total = size * kept + 4.0 * model.heads
        if model.qk_norm != "none":
            # input and normalised values; the output is not kept, since the rotary embedding
            # multiplies by constants
            normalised = 4 if model.norm == "rms_fp32" else size
            each = 4 + (0 if self.adapters is not None else normalised)
            total += each * (q + kv) + self._qk_statistics()
        return total + extra

    def _qk_statistics(self) -> float:
        model = self.model
        return 4.0 * (model.heads + model.kv_heads if model.qk_norm == "head" else 2)

    def _latent(self, mla: LatentAttention) -> float:
        """Multi-head latent attention: compressed queries and keys, their norms, full heads."""
        size, heads = self.running.element, self.model.heads
        kept = heads * (2 * (mla.nope + mla.rope) + 2 * mla.value)
        ranks = (mla.q_rank or 0) + mla.kv_rank
        normalised = 0 if self.adapters is not None else size
        inputs = 0 if self.adapters is not None else size * ranks
        return size * kept + inputs + (4 + normalised) * ranks + 4.0 * heads

    def scores(self) -> float:
        """Eager attention per pair of tokens and head: softmax in fp32, its 16-bit copy, and
        the soft cap's tanh."""
        softmax = 4.0 if self.running is Running.FP32 else 6.0
        return softmax + self.running.element * self.model.softcap

    def dense(self) -> float:
        """A dense feed-forward block."""
        extra = self._adapter_bytes("gate", "up", "gate_up", "down")
        return self._block(self.model.intermediate, adapted=True) + extra

    def experts(self) -> float:
        """Each of the top-k experts takes its own copy of the token and gives one back; the
        router keeps its probabilities in fp32. Adapters sit on shared experts only."""
        model, size = self.model, self.running.element
        routed = model.top_k * self._block(model.expert_intermediate, adapted=False)
        shared = self._block(model.shared, adapted=True) if model.shared else 0.0
        if model.extra_per_layer >= model.hidden:
            shared += size * model.hidden  # the shared expert's output, scaled by its gate
        copies = 1 if self.adapters is not None else 2
        dispatch = model.top_k * copies * size * model.hidden + 2 * 4 * model.experts
        return routed + shared + dispatch + self._adapter_bytes("gate", "up", "gate_up", "down")

    def _block(self, width: int, *, adapted: bool) -> float:
        """Gated: gate, its activation, up, and their product; a fused kernel keeps gate and up
        and recomputes (Liger-Kernel ops/swiglu.py). The product is the next product's input."""
        model, size = self.model, self.running.element
        tensors = ACTIVATION_TENSORS.get(model.activation, 2)
        if model.gated:
            tensors = 3 if self.fused else 4
        if self.adapters is not None and not (adapted and self.adapters.has("down")):
            tensors -= 1
        return size * width * tensors

    def _adapter_bytes(self, *names: str) -> float:
        """What adapters add: the low-rank product, and with magnitudes the two outputs that
        the magnitudes scale (peft tuners/lora/dora.py)."""
        adapters = self.adapters
        if adapters is None:
            return 0.0
        found = outputs(self.model)
        present = [name for name in names if name in adapters.modules and name in found]
        kept = adapters.rank * len(present)
        if adapters.magnitudes:
            kept += 2 * sum(found[name] for name in present)
        return float(self.running.element * kept)

    def working(self, sparse: bool) -> float:
        """Gradients of activations alive at once in a layer's backward pass: three of the
        feed-forward's width and two of the residual stream, about."""
        model, size = self.model, self.running.element
        width = model.intermediate
        if sparse:
            width = model.top_k * model.expert_intermediate + model.shared
        return 3 * size * width + 2 * self.running.residual * model.hidden


def outputs(model: Architecture) -> dict[str, int]:
    """Output size of a layer's linear modules by the usual name."""
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    width = model.shared if model.moe else model.intermediate
    found = {"q": q, "k": kv, "v": kv, "o": model.hidden, "up": width, "down": model.hidden}
    return {**found, "gate": width} if model.gated else found


@dataclass(frozen=True, slots=True)
class ActivationBytes:
    """Bytes per GPU: what all layers keep, one layer in full (recomputed with checkpointing),
    what the backward pass of one layer works with, and logits with loss."""

    layers: float
    layer: float
    working: float
    logits: Range
    checkpointing: bool

    @property
    def loss(self) -> Range:
        """At the loss: everything kept and the logits."""
        return Range.exact(self.layers) + self.logits

    @property
    def start(self) -> float:
        """As the backward pass reaches the last layer: everything kept, one layer recomputed."""
        return self.layers + self.working + (self.layer if self.checkpointing else 0.0)

    @property
    def end(self) -> float:
        """As it reaches the first layer: one layer's activations."""
        return self.layer + self.working


def activation_bytes(
    model: Architecture,
    running: Running,
    *,
    micro_batch: float,
    sequence: float,
    attention: Attention = Attention.FUSED,
    checkpointing: bool = False,
    tensor: int = 1,
    pipeline: int = 1,
    context: int = 1,
    in_flight: int | None = None,
    fused_kernels: bool = False,
    fused_loss: bool = False,
    adapters: Adapters | None = None,
) -> ActivationBytes:
    """Activations of one training step on the worst GPU.

    `sequence` is in tokens before context parallelism. `in_flight` micro batches are alive at
    once on the first pipeline stage (1F1B: as many as there are stages).
    """
    tokens = micro_batch * sequence / context
    alive = in_flight if in_flight is not None else pipeline
    kinds = (False, True) if model.moe else (False,)
    per_token = {
        moe: layer_bytes(
            model, running, attention, tensor=tensor, fused_kernels=fused_kernels, moe=moe,
            adapters=adapters,
        ).total(sequence)
        for moe in kinds
    }  # fmt: skip
    sparse = per_token[max(kinds)]
    share = model.moe_layers / model.layers
    average = share * sparse + (1 - share) * per_token[False]
    biggest = max(per_token.values()) if share < 1 else sparse
    kept = running.residual * model.hidden / tensor if checkpointing else average
    layer = _Layer(model, running, fused_kernels, adapters)
    return ActivationBytes(
        layers=kept * model.layers / pipeline * tokens * alive,
        layer=biggest * tokens,
        working=layer.working(model.moe) / tensor * tokens,
        logits=logits_bytes(model, running, tokens, tensor, fused_loss),
        checkpointing=checkpointing,
    )


def logits_bytes(
    model: Architecture, running: Running, tokens: float, tensor: int = 1, fused: bool = False
) -> Range:
    """Logits and cross-entropy at their peak, in bytes.

    Unfused, at the start of the backward pass: the log-softmax that the loss keeps and two
    gradients of it, in fp32 (transformers loss/loss_utils.py upcasts first); above that, the
    head's output where the program still holds it. Fused (Liger-Kernel
    ops/fused_linear_cross_entropy.py): one chunk of tokens at a time.
    """
    vocabulary = model.vocabulary / tensor
    if fused:
        chunk = min(tokens, max(1.0, model.hidden * tokens / max(model.vocabulary, 1)))
        gradient = tokens * model.hidden * running.element
        return Range.exact(chunk * vocabulary * (running.element + 4) + gradient)
    return Range(12.0, 12.0 + running.element) * (tokens * vocabulary)
