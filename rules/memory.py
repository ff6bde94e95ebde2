"""Bytes per GPU of everything that training keeps: weights, gradients, optimizer state.

Pure arithmetic over a model's parameter groups, the number formats and the way they are spread.
All results are bytes on the worst GPU. Sources are named beside each table; activations live in
`pitstop.rules.activations`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pitstop.rules.architecture import Architecture

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
        """Weights are gathered for use only."""
        return self in (Sharding.ZERO3, Sharding.FSDP_FULL, Sharding.FSDP_HYBRID)

    @property
    def shards_gradients(self) -> bool:
        """Each rank keeps the gradients of its share."""
        return self not in (Sharding.NONE, Sharding.ZERO1)

    @property
    def shards_optimizer(self) -> bool:
        """Each rank keeps the optimizer state of its share."""
        return self is not Sharding.NONE


class Keeping(enum.StrEnum):
    """In which formats an optimizer step keeps a trainable parameter (bytes per parameter).

    AUTOCAST: fp32 weights and gradients, matrix products cast on the fly (torch.amp).
    MASTER: 16-bit weights beside fp32 copies (DeepSpeed, Megatron; FSDP MixedPrecision keeps
    its fp32 shards the same way). PURE: everything in the 16-bit format. FP32: no mixing.
    """

    FP32 = "fp32"
    AUTOCAST = "autocast"
    MASTER = "master"
    PURE = "pure"


@dataclass(frozen=True, slots=True)
class Formats:
    """Bytes per trainable parameter of each kept tensor; `frozen` per frozen parameter.

    `cast` is the 16-bit copy that autocast makes of each weight in the forward pass and keeps
    until the region ends (torch/amp/autocast_mode.py, cache_enabled).
    """

    weight: float
    gradient: float
    master: float
    cast: float
    frozen: float


def formats(keeping: Keeping, *, gradient: float | None = None, frozen_bits: int = 16) -> Formats:
    """The byte sizes of a way of keeping parameters.

    `gradient` overrides the gradient's bytes (4 for fp32 accumulation in DeepSpeed and
    Megatron); `frozen_bits` is 32, 16, 8 or 4 for the frozen base of an adapter.
    """
    table = {
        Keeping.FP32: (4.0, 4.0, 0.0, 0.0),
        Keeping.AUTOCAST: (4.0, 4.0, 0.0, 2.0),
        Keeping.MASTER: (2.0, 2.0, 4.0, 0.0),
        Keeping.PURE: (2.0, 2.0, 0.0, 0.0),
    }
    weight, grad, master, cast = table[keeping]
    return Formats(
        weight, grad if gradient is None else gradient, master, cast, FROZEN[frozen_bits]
    )


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
class OptimizerState:
    """State of one optimizer.

    `per_parameter` bytes for every trainable element that is not factored; `factored` bytes per
    row and per column of each matrix instead; `low_rank` True keeps `per_parameter` for a
    rank-r projection of each matrix only. `follows_weight` True: state has the weight's own
    dtype, so `per_parameter` counts elements of it (2 for Adam). `paged` state may live on the
    host. `fused_backward` frees each gradient as soon as it is used.
    """

    per_parameter: float
    follows_weight: bool = False
    factored: float = 0.0
    low_rank: bool = False
    paged: bool = False
    fused_backward: bool = False
    source: str = ""


BLOCKWISE_8BIT = 2 * (1 + 4 / 256)
"""Two moments of one byte and an fp32 scale per block of 256 elements each
(bitsandbytes/optim/optimizer.py; matrices under 4,096 elements stay fp32)."""

OPTIMIZERS: dict[str, OptimizerState] = {
    "adamw": OptimizerState(2, follows_weight=True, source="torch/optim/adamw.py"),
    "adamw_fp32": OptimizerState(8, source="arXiv 1910.02054, section 3.1"),
    "adamw_8bit": OptimizerState(BLOCKWISE_8BIT, source="bitsandbytes/optim/adamw.py"),
    "paged_adamw": OptimizerState(8, paged=True, source="bitsandbytes/optim/adamw.py"),
    "paged_adamw_8bit": OptimizerState(
        BLOCKWISE_8BIT, paged=True, source="bitsandbytes/optim/adamw.py"
    ),
    "adamw_4bit": OptimizerState(2 * (0.5 + 4 / 128), source="torchao/optim/subclass_4bit.py"),
    "lion": OptimizerState(1, follows_weight=True, source="arXiv 2302.06675"),
    "lion_8bit": OptimizerState(BLOCKWISE_8BIT / 2, source="bitsandbytes/optim/lion.py"),
    "sgd": OptimizerState(0, source="torch/optim/sgd.py"),
    "sgd_momentum": OptimizerState(1, follows_weight=True, source="torch/optim/sgd.py"),
    "adafactor": OptimizerState(0, factored=4, source="arXiv 1804.04235"),
    "galore": OptimizerState(8, low_rank=True, source="arXiv 2403.03507"),
    "apollo": OptimizerState(8, low_rank=True, source="arXiv 2412.05270"),
    "muon": OptimizerState(4, source="one fp32 momentum per matrix element"),
    "lomo": OptimizerState(0, fused_backward=True, source="arXiv 2306.09782"),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """How a model is spread: sizes of each kind of parallelism, and of the group inside which
    data-parallel ranks share state (`shard_group` GPUs; None: all data-parallel ranks)."""

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    sharding: Sharding = Sharding.NONE
    shard_group: int | None = None
    offload_optimizer: bool = False
    offload_weights: bool = False

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
        """Ranks that share one copy of an expert's training state."""
        return max(1, self.shards // self.expert)


@dataclass(frozen=True, slots=True)
class LocalParameters:
    """Parameters of one GPU after tensor, pipeline and expert parallelism, before data-parallel
    sharding: elements of the worst pipeline stage."""

    dense: float
    experts: float
    layer: float
    """Largest layer: what a sharded rank gathers at once."""

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
    experts = model.routed_parameters / (layout.pipeline * layout.expert * layout.tensor)
    layer = max(model.largest_layer / layout.tensor, embedding, head)
    return LocalParameters(dense, experts, layer)


@dataclass(frozen=True, slots=True)
class States:
    """Bytes per GPU of each kept part, and bytes on the host per GPU where state is offloaded."""

    weights: float
    gradients: float
    master: float
    optimizer: float
    live: float
    """Weights gathered for the layers at work, and autocast's 16-bit copies."""
    host: float = 0.0

    @property
    def total(self) -> float:
        """Bytes on the GPU."""
        return self.weights + self.gradients + self.master + self.optimizer + self.live


def training_states(
    local: LocalParameters, kept: Formats, optimizer: OptimizerState, layout: Layout
) -> States:
    """Training state per GPU when every parameter is trained.

    ZeRO and FSDP divide each part by the ranks that share it; offloaded parts move to the host.
    """
    dense, experts = layout.shards, layout.expert_shards
    sharding = layout.sharding

    def spread(per_parameter: float, divided: bool) -> float:
        if not divided:
            return per_parameter * local.total
        return per_parameter * (local.dense / dense + local.experts / experts)

    weights = spread(kept.weight, sharding.shards_weights)
    gradients = spread(kept.gradient, sharding.shards_gradients)
    if optimizer.fused_backward:
        gradients = kept.gradient * local.layer
    master = spread(kept.master, sharding.shards_optimizer)
    state = spread(state_bytes(optimizer, kept), sharding.shards_optimizer)
    live = spread(kept.cast, divided=False)
    if sharding.shards_weights:
        live = 2 * (kept.cast or kept.weight) * local.layer  # one at work, one on its way
    host = 0.0
    if layout.offload_optimizer:
        host += master + state
        master = state = 0.0
    if layout.offload_weights:
        host += weights
        weights = 0.0
    return States(weights, gradients, master, state, live, host)


def state_bytes(optimizer: OptimizerState, kept: Formats) -> float:
    """Optimizer state in bytes per trainable parameter. With a master copy the optimizer runs
    on that copy, so its state is fp32."""
    if not optimizer.follows_weight:
        return optimizer.per_parameter
    return optimizer.per_parameter * (4.0 if kept.master else kept.weight)
