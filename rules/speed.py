"""How fast a training run could be on a GPU: the bound that nothing beats, for comparing setups.

Not a prediction: real steps reach 30 to 60 % of it. Times are seconds, sizes bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pitstop.rules.activations import Running
from pitstop.rules.estimate import states_of
from pitstop.rules.hardware import Gpu
from pitstop.rules.memory import Sharding, formats, local_parameters
from pitstop.rules.throughput import (
    StepBound,
    Volume,
    pipeline_bubble,
    sharding_volume,
    step_bound,
    step_flops,
    tensor_volume,
)
from pitstop.rules.trained import Method, Setup, trained_tensors

PCIE = 25e9
"""Bytes per second in one direction that a PCI Express 4.0 x16 slot really moves."""

NETWORK = 25e9
"""Bytes per second per GPU between machines: a 200 Gb/s link for each, where nothing is known."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The bound of a step, and tokens per second of the whole job at that bound."""

    bound: StepBound
    tokens_per_second: float

    @property
    def limited_by(self) -> str:
        """What takes the largest part of the time."""
        return self.bound.limited_by


def speed_of(setup: Setup, gpu: Gpu, gpus_per_node: int | None = None) -> Speed | None:
    """The bound for a setup on a GPU; None when the table has no rate for its number format."""
    rate = gpu.tflops.get("fp32" if setup.running is Running.FP32 else "bf16")
    if setup.running is not Running.FP32:
        rate = rate or gpu.tflops.get("fp16")
    if not rate:
        return None
    layout = setup.layout
    link = _link(setup, gpu, gpus_per_node)
    compute = _compute(setup, rate * 1e12, gpu.bandwidth)
    bubble = pipeline_bubble(layout.pipeline, setup.accumulation) if layout.pipeline > 1 else 0.0
    bound = step_bound(
        flops=compute * rate * 1e12,
        peak_flops=rate * 1e12,
        state_traffic=_state_traffic(setup, gpu.bandwidth),
        bandwidth=gpu.bandwidth,
        volume=volume_of(setup),
        link=link,
        bubble=bubble,
    )
    return Speed(bound, setup.tokens_per_step / bound.overlapped)


def _compute(setup: Setup, rate: float, bandwidth: float) -> float:
    """Seconds of products in one step on one GPU: each micro batch takes at least the time in
    which the weights it uses are read three times."""
    layout, model = setup.layout, setup.model
    split = layout.tensor * layout.pipeline * layout.context
    share = 1.0
    if setup.method is not Method.FULL:
        share = min(1.0, sum(t.total for t in trained_tensors(setup)) / model.parameters)
    tokens = setup.micro_batch * setup.sequence
    flops = step_flops(
        model, tokens, setup.sequence, trained_share=share, checkpointing=setup.checkpointing
    )
    reads = (2 + share) * setup.running.element * model.active_parameters
    each = max(flops / rate, reads / bandwidth) / split
    eager = 0.0
    if setup.attention.value == "eager":  # score matrices are written and read
        scores = 6.0 * 4 * model.heads * model.layers * tokens * setup.sequence
        eager = scores / bandwidth / split
    return (each + eager) * setup.accumulation


def _state_traffic(setup: Setup, bandwidth: float) -> float:
    """Bytes that the optimizer step reads and writes; what is offloaded crosses the slower bus
    (gradients down, weights up) and counts by its time."""
    states, sharding = states_of(setup), setup.layout.sharding
    weights, gradients = states.weights, states.gradients
    if sharding.shards_optimizer and not sharding.shards_weights:
        weights /= setup.layout.shards  # each rank steps its share only
    if sharding.shards_optimizer and not sharding.shards_gradients:
        gradients /= setup.layout.shards
    traffic = 2 * (weights + states.master + states.optimizer) + gradients
    if setup.layout.offload_optimizer or setup.layout.offload_weights:
        moved = states.host / 4 if setup.layout.offload_optimizer else states.host
        traffic += 2 * moved * bandwidth / PCIE
    return traffic


def volume_of(setup: Setup) -> Volume:
    """What one GPU sends in a step."""
    layout = setup.layout
    kept = formats(setup.keeping, frozen_bits=setup.frozen_bits)
    local = local_parameters(setup.model, layout)
    ranks = layout.shards if layout.sharding is not Sharding.NONE else layout.data
    found = sharding_volume(
        local,
        layout.sharding,
        ranks,
        element=kept.gathered if layout.sharding.shards_weights else kept.gradient,
        micro_batches=setup.accumulation,
    )
    if setup.method is not Method.FULL:
        share = sum(t.total for t in trained_tensors(setup)) / setup.model.parameters
        found = Volume(gradients=found.gradients * share, weights=found.weights)
        if not layout.sharding.shards_weights:
            found = Volume(gradients=found.gradients, weights=found.weights * share)
    tokens = setup.micro_batch * setup.sequence * setup.accumulation / layout.context
    tensor = tensor_volume(setup.model, tokens, layout.tensor, pipeline=layout.pipeline)
    return Volume(gradients=found.gradients, weights=found.weights, tensor=tensor.tensor)


def _link(setup: Setup, gpu: Gpu, gpus_per_node: int | None) -> float:
    """Bytes per second in one direction of the slowest link that data-parallel ranks use."""
    inside = gpu.link / 2 or PCIE
    if setup.layout.gpus == 1:
        return 0.0
    if gpus_per_node is not None and setup.layout.gpus > gpus_per_node:
        return min(inside, NETWORK)
    return inside
