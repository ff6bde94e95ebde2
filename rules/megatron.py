"""Memory of training with Megatron-LM's parallelism, as Relax and others run it.

States come from `pitstop.rules.memory`: Megatron shards optimizer state over data-parallel ranks
and keeps gradients in one fp32 buffer. Activations follow arXiv 2205.05198 for its fused layers;
logits are counted as the reinforcement-learning losses of Relax hold them. Sizes are bytes per
GPU. docs/memory.md compares them with Megatron's own estimator
(megatron/training/theoretical_memory_usage.py).
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from pitstop.rules.architecture import Architecture
from pitstop.rules.memory import (
    Keeping,
    Layout,
    Sharding,
    States,
    formats,
    local_parameters,
    training_states,
)


class Recompute(enum.StrEnum):
    """Which activations are computed again: none (selective recomputation leaves as much with
    FlashAttention, which stores no scores), all layers one by one, or the first few of a stage."""

    NONE = "none"
    FULL = "full"
    BLOCK = "block"


class Loss(enum.StrEnum):
    """What the loss holds per token and word: `policy` keeps log-probabilities and entropy."""

    POLICY = "policy"
    NEXT_TOKEN = "next_token"  # noqa: S105
    CHUNKED = "chunked"


LOGIT_BYTES = {Loss.POLICY: 18, Loss.NEXT_TOKEN: 12, Loss.CHUNKED: 12}
"""bf16 output and fp32 copy 6; policy: log-softmax and its gradient, entropy's copy and softmax."""

CHUNK = 1024
"""Rows of logits at a time with a chunked loss."""


@dataclass(frozen=True, slots=True)
class MegatronRun:
    """A run. `tokens` are the most that a GPU holds in one micro batch (a sample may span the
    context-parallel ranks), `micro_batches` per step, `chunks` virtual pipeline stages per GPU,
    `blocks` layers that are recomputed with Recompute.BLOCK, `offloaded` the share of optimizer
    state on the host."""

    model: Architecture
    layout: Layout
    tokens: int
    recompute: Recompute = Recompute.NONE
    blocks: int = 0
    loss: Loss = Loss.POLICY
    micro_batches: int = 1 << 10
    chunks: int = 1
    gradient_bytes: float = 4.0
    offloaded: float = 0.0
    sequence_parallel: bool = True


def megatron_layout(
    gpus: int,
    *,
    tensor: int = 1,
    pipeline: int = 1,
    context: int = 1,
    expert: int = 1,
    expert_tensor: int | None = None,
) -> Layout:
    """A layout with the distributed optimizer. Raises ValueError when the sizes do not divide
    the GPUs."""
    split = tensor * pipeline * context
    experts = pipeline * expert * (expert_tensor or tensor)
    if gpus % split or gpus % experts:
        raise ValueError(f"{gpus} GPUs are no multiple of {split} (dense) and {experts} (experts)")
    return Layout(
        data=gpus // split,
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        expert=expert,
        expert_tensor=expert_tensor,
        sharding=Sharding.ZERO1,
        bucket_view=True,
    )


def megatron_states(run: MegatronRun) -> States:
    """Weights, gradients and optimizer state of the worst stage."""
    kept = formats(Keeping.MASTER, gradient=run.gradient_bytes)
    return training_states(local_parameters(run.model, run.layout), kept, run.layout, state=8.0)


def per_token(run: MegatronRun) -> float:
    """Bytes per token of one layer without recomputation, on one GPU: 18 h + 4 F, for experts
    of the top k and the shared ones, and 4 h for each copy sent to an expert."""
    model, tensor = run.model, run.layout.tensor
    width = float(model.intermediate)
    copies = 0.0
    if model.moe:
        width = model.top_k * model.expert_intermediate + model.shared
        copies = 4.0 * model.top_k * model.hidden
    if run.sequence_parallel:
        return (18 * model.hidden + 4 * width + copies) / tensor
    # what tensor parallelism alone leaves whole: the inputs of norms and dropout
    return 10 * model.hidden + (8 * model.hidden + 4 * width + copies) / tensor


def in_flight(run: MegatronRun, stage: int) -> float:
    """Micro batches alive at once on a stage (1F1B), more with virtual stages."""
    stages = run.layout.pipeline
    alive = min(run.micro_batches, stages - stage)
    if run.chunks > 1 and stages > 1:
        return alive * (1 + (stages - 1) / (stages * run.chunks))
    return float(alive)


def stage_activations(run: MegatronRun, stage: int) -> float:
    """Activations of all layers of a stage."""
    layers = run.model.layers / run.layout.pipeline
    one = per_token(run) * run.tokens
    alive = in_flight(run, stage)
    spread = run.layout.tensor if run.sequence_parallel else 1
    checkpoint = 2 * run.model.hidden * run.tokens / spread
    if run.recompute is Recompute.FULL:
        return checkpoint * layers * alive + one
    if run.recompute is Recompute.BLOCK:
        first = min(float(run.blocks), layers)
        return (checkpoint * first + one * (layers - first)) * alive + one * (first > 0)
    return one * layers * alive


def logits(run: MegatronRun) -> float:
    """Logits and loss on the last stage."""
    rows = min(run.tokens, CHUNK) if run.loss is Loss.CHUNKED else run.tokens
    return LOGIT_BYTES[run.loss] * rows * run.model.vocabulary / run.layout.tensor


@dataclass(frozen=True, slots=True)
class MegatronEstimate:
    """Bytes per GPU of the worst stage; `optimizer` is all of it, of which `optimizer_gpu` is
    on the GPU; `host` is bytes per GPU in main memory."""

    stage: int
    weights: float
    gradients: float
    optimizer: float
    optimizer_gpu: float
    activations: float
    logits: float
    host: float

    @property
    def total(self) -> float:
        """Everything on the GPU."""
        return self.weights + self.gradients + self.optimizer_gpu + self.activations + self.logits


def megatron_estimate(run: MegatronRun) -> MegatronEstimate:
    """The memory of the stage that needs most."""
    states = megatron_states(run)
    optimizer = states.master + states.optimizer
    last = run.layout.pipeline - 1
    stage, activations, loss = max(
        (
            (stage, stage_activations(run, stage), logits(run) if stage == last else 0.0)
            for stage in range(run.layout.pipeline)
        ),
        key=lambda found: found[1] + found[2],
    )
    return MegatronEstimate(
        stage=stage,
        weights=states.weights,
        gradients=states.gradients,
        optimizer=optimizer,
        optimizer_gpu=optimizer * (1 - run.offloaded),
        activations=activations,
        logits=loss,
        host=optimizer * run.offloaded + _staged_gradients(run, states),
    )


def _staged_gradients(run: MegatronRun, states: States) -> float:
    """Pinned fp32 gradients through which an offloaded optimizer is fed."""
    return 4.0 * states.weights / 2 if run.offloaded > 0 else 0.0


def scoring_pass(run: MegatronRun, tokens: int | None = None) -> float:
    """Bytes of a pass that only scores tokens (reference, teacher, old log-probabilities): no
    activations are kept, and the logits need 6 bytes each."""
    states, count = megatron_states(run), tokens or run.tokens
    optimizer = (states.master + states.optimizer) * (1 - run.offloaded)
    layer = per_token(run) * count
    scores = 6 * count * run.model.vocabulary / run.layout.tensor
    return states.weights + states.gradients + optimizer + layer + scores


def host_per_node(run: MegatronRun, gpus_per_node: int, *, weight_copies: int = 0) -> float:
    """Main memory of a node for offloaded state, staged gradients and pinned copies of the
    weights (actor, reference, teacher, ...)."""
    found = megatron_estimate(run)
    return gpus_per_node * (found.host + weight_copies * found.weights)


def padded_vocabulary(vocabulary: int, tensor: int, multiple: int = 128) -> int:
    """The vocabulary that Megatron pads to (--make-vocab-size-divisible-by times the tensor
    parallel size)."""
    step = multiple * tensor
    return math.ceil(vocabulary / step) * step
