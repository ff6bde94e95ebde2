"""Bytes per GPU of everything that training keeps: weights, gradients, optimizer state.

Pure arithmetic over a model's parameter groups, the number formats and the way they are spread.
All results are bytes on the worst GPU. Sources are named beside each table; activations live in
`pitstop.rules.activations`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pitstop.rules.architecture import Architecture
from pitstop.rules.ranges import Range

GIB = 2**30


class Sharding(enum.StrEnum):
    """How data-parallel ranks share training state.

    ZeRO stages: arXiv 1910.02054, section 5. FSDP strategies: torch.distributed.fsdp
    ShardingStrategy; `hybrid` shards inside a node and replicates between nodes.
    """

    NONE = "none"
    ZERO1 = "zero1"
    ZERO2 = "zero2"
    ZERO3 = "zero3"
    FSDP_FULL = "fsdp_full"
    FSDP_GRAD_OP = "fsdp_grad_op"
    FSDP_HYBRID = "fsdp_hybrid"

    @property
    def shards_weights(self) -> bool:
        """Each rank keeps its share of the weights."""
        return self in (
            Sharding.ZERO3,
            Sharding.FSDP_FULL,
            Sharding.FSDP_HYBRID,
            Sharding.FSDP_GRAD_OP,
        )

    @property
    def fsdp(self) -> bool:
        """One of PyTorch's own."""
        return self.value.startswith("fsdp")

    @property
    def shards_gradients(self) -> bool:
        """Each rank keeps the gradients of its share."""
        return self not in (Sharding.NONE, Sharding.ZERO1)

    @property
    def shards_optimizer(self) -> bool:
        """Each rank keeps the optimizer state of its share."""
        return self is not Sharding.NONE


class Keeping(enum.StrEnum):
    """In which formats an optimizer step keeps a trainable parameter.

    FP32: no mixing. AUTOCAST: fp32 weights and gradients, matrix products cast on the fly
    (torch.amp). SHARDS: fp32 shards that are gathered in 16 bits (FSDP MixedPrecision).
    MASTER: 16-bit weights beside fp32 copies (DeepSpeed, Megatron). PURE: everything in the
    16-bit format.
    """

    FP32 = "fp32"
    AUTOCAST = "autocast"
    SHARDS = "shards"
    MASTER = "master"
    PURE = "pure"


@dataclass(frozen=True, slots=True)
class Formats:
    """Bytes per trainable parameter of each kept tensor; `frozen` per frozen parameter.

    `cast` is the 16-bit copy that autocast makes of each weight in the forward pass and keeps
    until the region ends (torch/amp/autocast_mode.py, cache_enabled); `gathered` is a weight
    that sharding brings together for use.
    """

    weight: float
    gradient: float
    master: float
    cast: float
    gathered: float
    frozen: float

    @property
    def stepped(self) -> float:
        """Bytes per parameter of what the optimizer updates."""
        return 4.0 if self.master else self.weight


_FORMATS: dict[Keeping, tuple[float, float, float, float, float]] = {
    Keeping.FP32: (4, 4, 0, 0, 4),
    Keeping.AUTOCAST: (4, 4, 0, 2, 4),
    Keeping.SHARDS: (4, 4, 0, 0, 2),
    Keeping.MASTER: (2, 2, 4, 0, 2),
    Keeping.PURE: (2, 2, 0, 0, 2),
}


def formats(keeping: Keeping, *, gradient: float | None = None, frozen_bits: int = 16) -> Formats:
    """The byte sizes of a way of keeping parameters.

    `gradient` overrides the gradient's bytes (4 for fp32 accumulation in DeepSpeed and
    Megatron); `frozen_bits` is 32, 16, 8 or 4 for the frozen base of an adapter.
    """
    weight, own, master, cast, gathered = _FORMATS[keeping]
    grad = own if gradient is None else gradient
    return Formats(weight, grad, master, cast, gathered, FROZEN[frozen_bits])


FROZEN = {
    32: 4.0,
    16: 2.0,
    # int8 values and one fp32 scale per output row (bitsandbytes LLM.int8)
    8: 1.0,
    # NF4 with double quantisation: 4 bits + 0.127 bits of scales per weight (arXiv 2305.14314, 3)
    4: (4 + 0.127) / 8,
}
"""Bytes per frozen parameter by bits; quantised formats apply to linear layers only."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a model is spread: sizes of each kind of parallelism, and of the group inside which
    data-parallel ranks share state (`shard_group` GPUs; None: all data-parallel ranks).

    `second_shards` GPUs keep a second 16-bit copy of the weights between them (ZeRO++ hpZ,
    arXiv 2306.10209, section 3.2). `expert_tensor` divides each expert (None: like `tensor`).
    `bucket_view` True: DDP's gradients live in its buckets.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int | None = None
    sharding: Sharding = Sharding.NONE
    shard_group: int | None = None
    second_shards: int | None = None
    offload_optimizer: bool = False
    offload_weights: bool = False
    bucket_view: bool = False

    def __post_init__(self) -> None:
        sizes = (self.data, self.tensor, self.pipeline, self.context, self.expert)
        if min(sizes) < 1:
            raise ValueError("a parallel size is at least 1")

    @property
    def gpus(self) -> int:
        """GPUs that take part: experts are spread over data-parallel ranks."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def shards(self) -> int:
        """Ranks that share one copy of dense training state."""
        ranks = self.data * self.context
        return min(self.shard_group, ranks) if self.shard_group else ranks

    @property
    def expert_shards(self) -> int:
        """Ranks that share one copy of an expert's training state: those of the expert's own
        data-parallel group."""
        ranks = self.shards * self.tensor
        return max(1, ranks // (self.expert * self.split_experts))

    @property
    def split_experts(self) -> int:
        """GPUs that divide one expert."""
        return self.expert_tensor or self.tensor


@dataclass(frozen=True, slots=True)
class LocalParameters:
    """Parameters of one GPU after tensor, pipeline and expert parallelism, before data-parallel
    sharding: elements of the worst pipeline stage."""

    dense: float
    experts: float
    layer: float
    """Largest layer: what a sharded rank gathers at once."""
    ends: float = 0.0
    """Embedding and head, which are in `dense` too."""

    @property
    def total(self) -> float:
        """Dense and expert parameters together."""
        return self.dense + self.experts


def local_parameters(model: Architecture, layout: Layout) -> LocalParameters:
    """A model's parameters on the worst GPU. Embedding and head sit on the first and the last
    stage; with one stage both, with tied weights a second copy where stages differ."""
    embedding = model.embedding_parameters / layout.tensor
    head = model.head_parameters / layout.tensor
    if model.tied and layout.pipeline > 1:
        head = embedding
    ends = embedding + head if layout.pipeline == 1 else max(embedding, head)
    inner = model.parameters - model.embedding_parameters - model.head_parameters
    dense = (inner - model.routed_parameters) / (layout.tensor * layout.pipeline) + ends
    experts = model.routed_parameters / (layout.pipeline * layout.expert * layout.split_experts)
    return LocalParameters(dense, experts, model.largest_layer / layout.tensor, ends)


@dataclass(frozen=True, slots=True)
class States:
    """Bytes per GPU of each kept part of what is trained, and on the host per GPU where it is
    offloaded.

    `gathered` is what sharding brings together for the layers at work; `casts` are autocast's
    16-bit copies; `buckets` are DDP's copies of the gradients; `scratch` lives in the optimizer
    step only.
    """

    weights: float
    gradients: float
    master: float
    optimizer: float
    gathered: Range
    casts: float
    buckets: float
    scratch: float
    host: float = 0.0

    @property
    def kept(self) -> float:
        """Bytes on the GPU from step to step, gradients included."""
        return self.weights + self.gradients + self.master + self.optimizer


LIVE_PARAMETERS = 1e9
"""Elements that ZeRO-3 may keep gathered (stage3_max_live_parameters, its default)."""


def training_states(
    local: LocalParameters,
    kept: Formats,
    layout: Layout,
    *,
    state: float,
    scratch: float = 0.0,
    fused_backward: bool = False,
) -> States:
    """Training state per GPU when all of `local` is trained.

    `state` is optimizer state in bytes per parameter, `scratch` what the step needs besides.
    ZeRO and FSDP divide each part by the ranks that share it; offloaded parts move to the host.
    """
    sharding = layout.sharding

    def spread(per_parameter: float, divided: bool) -> float:
        if not divided:
            return per_parameter * local.total
        return per_parameter * (local.dense / layout.shards + local.experts / layout.expert_shards)

    weights = spread(kept.weight, sharding.shards_weights)
    gradients = spread(kept.gradient, sharding.shards_gradients)
    if fused_backward:
        gradients = kept.gradient * local.layer
    master = spread(kept.master, sharding.shards_optimizer)
    optimizer = spread(state, sharding.shards_optimizer)
    step = spread(scratch, sharding.shards_optimizer)
    if kept.master and sharding is not Sharding.NONE:
        step = max(step, spread(4.0, divided=True))  # the gradients' share, cast to fp32
    replicas = layout.data * layout.context
    copied = sharding is Sharding.NONE and replicas > 1 and not layout.bucket_view
    host = 0.0
    if layout.offload_optimizer:
        host = master + optimizer
        master = optimizer = step = 0.0
        if sharding.shards_gradients:  # they follow in fp32, bucket by bucket
            host += spread(4.0, divided=True)
            gradients = 0.0
    if layout.offload_weights:
        host += weights
        weights = 0.0
    return States(
        weights=weights + second_copy(local, layout),
        gradients=gradients,
        master=master,
        optimizer=optimizer,
        gathered=gathered(local, kept.gathered, layout),
        casts=spread(kept.cast, divided=False),
        buckets=spread(kept.gradient, divided=False) if copied else 0.0,
        scratch=step,
        host=host,
    )


def second_copy(local: LocalParameters, layout: Layout) -> float:
    """Bytes of ZeRO++'s second 16-bit partition."""
    return 2 * local.total / layout.second_shards if layout.second_shards else 0.0


def gathered(local: LocalParameters, size: float, layout: Layout) -> Range:
    """Bytes of weights brought together at once, `size` each: two layers (one at work, one on
    its way) and with FSDP embedding and head, which its outermost unit holds throughout; all of
    them with FSDP's grad-op; with ZeRO-3 up to its limit of live ones."""
    if not layout.sharding.shards_weights or layout.shards == 1:
        return Range.exact(0.0)
    if layout.sharding is Sharding.FSDP_GRAD_OP:
        return Range.exact(size * local.total)
    if layout.sharding is Sharding.ZERO3:
        least = min(max(2 * local.layer, local.ends), local.total)
        return Range(size * least, size * max(least, min(local.total, LIVE_PARAMETERS)))
    return Range.exact(size * min(2 * local.layer + local.ends, local.total))
