"""How fast a step could be: compute, memory traffic and communication, against the hardware.

Pure arithmetic. Times are seconds, rates operations or bytes per second, sizes bytes. These are
lower bounds of the time (nothing here predicts a measured step): a run that is far from them has
something to gain.
"""

from __future__ import annotations

from dataclasses import dataclass

from pitstop.rules.architecture import Architecture
from pitstop.rules.memory import LocalParameters, Sharding


def forward_flops(model: Architecture, tokens: float, sequence: int) -> float:
    """Floating-point operations of one forward pass over `tokens`, in sequences of `sequence`
    tokens: two per active parameter and token, and causal attention's two products over half
    of the positions (arXiv 2205.05198, appendix A, halved for the causal mask).

    Embedding look-ups multiply nothing; the head does, also when it shares the weights.
    """
    matrices = model.active_parameters - model.embedding_parameters
    if model.tied:
        matrices += model.vocabulary * model.hidden
    attention = 2 * model.layers * model.heads * model.head_dim * sequence
    return tokens * (2.0 * matrices + attention)


def step_flops(
    model: Architecture,
    tokens: float,
    sequence: int,
    *,
    trained_share: float = 1.0,
    checkpointing: bool = False,
) -> float:
    """Operations of forward and backward. The backward pass has one product for the input's
    gradient and, for the `trained_share` of weights, one for their own; checkpointing adds a
    forward pass."""
    passes = 1.0 + 1.0 + trained_share + (1.0 if checkpointing else 0.0)
    return passes * forward_flops(model, tokens, sequence)


def model_flops_utilisation(
    useful_flops: float, seconds: float, peak_flops: float, gpus: int = 1
) -> float:
    """MFU (arXiv 2204.02311, appendix B): useful operations (no recomputation) per second over
    what the GPUs could do; between 0 and 1 for a measured step."""
    if min(seconds, peak_flops, gpus) <= 0:
        raise ValueError("time, peak rate and number of GPUs must be positive")
    return useful_flops / seconds / (peak_flops * gpus)


@dataclass(frozen=True, slots=True)
class Volume:
    """Bytes that one GPU sends per optimizer step, by purpose."""

    gradients: float = 0.0
    weights: float = 0.0
    tensor: float = 0.0
    pipeline: float = 0.0
    context: float = 0.0
    experts: float = 0.0

    @property
    def total(self) -> float:
        """Bytes sent in all."""
        return (
            self.gradients
            + self.weights
            + self.tensor
            + self.pipeline
            + self.context
            + self.experts
        )


def sharding_volume(
    local: LocalParameters,
    sharding: Sharding,
    ranks: int,
    *,
    element: float = 2.0,
    micro_batches: int = 1,
    synchronise_each: bool = False,
) -> Volume:
    """What sharing training state among `ranks` costs per optimizer step.

    Ring collectives send (n-1)/n of the data; an all-reduce is a reduce-scatter and an
    all-gather (arXiv 1910.02054, section 7). Stages 0 to 2 reduce gradients once per step when
    accumulation is left local (stage 2 and FSDP grad-op reduce each micro batch), stage 3
    gathers weights in forward and backward of every micro batch.
    """
    if ranks <= 1:
        return Volume()
    part = (ranks - 1) / ranks * local.total * element
    every = micro_batches if synchronise_each or sharding.shards_gradients else 1
    if sharding is Sharding.NONE:
        return Volume(gradients=2 * part * every)
    if sharding in (Sharding.ZERO1, Sharding.ZERO2):
        return Volume(gradients=part * every, weights=part)
    if sharding is Sharding.FSDP_GRAD_OP:
        return Volume(gradients=part * every, weights=part * micro_batches)
    return Volume(gradients=part * every, weights=2 * part * micro_batches)


def tensor_volume(
    model: Architecture, tokens: float, tensor: int, *, pipeline: int = 1, element: float = 2.0
) -> Volume:
    """Tensor parallelism: two all-reduces per layer in each direction (arXiv 1909.08053,
    section 3; with sequence parallelism the same bytes as all-gather and reduce-scatter)."""
    if tensor <= 1:
        return Volume()
    one = 2 * (tensor - 1) / tensor * tokens * model.hidden * element
    return Volume(tensor=4 * one * model.layers / pipeline)


def pipeline_bubble(stages: int, micro_batches: int, interleaving: int = 1) -> float:
    """Share of a step that a pipeline stage idles: (p-1)/(m v + p-1) for 1F1B with v model
    chunks per stage (arXiv 2104.04473, section 2.2)."""
    if min(stages, micro_batches, interleaving) < 1:
        raise ValueError("stages, micro batches and chunks are at least 1")
    return (stages - 1) / (micro_batches * interleaving + stages - 1)


def padding_waste(lengths: list[int], batch: int, longest: int | None = None) -> float:
    """Share of computed tokens that is padding when `lengths` come in this order in batches
    padded to their longest (`longest`: always to that). Lengths in tokens."""
    if batch < 1:
        raise ValueError("a batch holds at least one sample")
    real = computed = 0
    for start in range(0, len(lengths), batch):
        chunk = lengths[start : start + batch]
        if longest is not None:
            chunk = [min(length, longest) for length in chunk]
        real += sum(chunk)
        computed += (longest if longest is not None else max(chunk)) * len(chunk)
    return 1 - real / computed if computed else 0.0


@dataclass(frozen=True, slots=True)
class StepBound:
    """The least time of an optimizer step on one GPU, in seconds, by what limits it."""

    compute: float
    optimizer: float
    communication: float
    bubble: float

    @property
    def overlapped(self) -> float:
        """Communication hidden behind compute, then the idle share of the pipeline, then the
        optimizer."""
        busy = max(self.compute, self.communication)
        return busy / (1 - self.bubble) + self.optimizer

    @property
    def limited_by(self) -> str:
        """compute, communication or optimizer: the largest part."""
        parts = {
            "compute": self.compute,
            "communication": self.communication,
            "optimizer": self.optimizer,
        }
        return max(parts, key=lambda name: parts[name])


def step_bound(
    *,
    flops: float,
    peak_flops: float,
    state_traffic: float,
    bandwidth: float,
    volume: Volume,
    link: float,
    bubble: float = 0.0,
) -> StepBound:
    """The roofline of a step on one GPU.

    `flops` of this GPU, `state_traffic` bytes that the optimizer reads and writes, `link` bytes
    per second in one direction (0: nothing is sent or the link is not known).
    """
    return StepBound(
        compute=flops / peak_flops,
        optimizer=state_traffic / bandwidth,
        communication=volume.total / link if link else 0.0,
        bubble=bubble,
    )
