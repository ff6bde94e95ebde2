"""Will it fit: where the bytes of a training run go, on its worst GPU.

`estimate` is arithmetic over a Setup in which everything is a number; `pitstop.rules.setup`
makes a Setup of a job. Figures are ranges where the truth depends on what cannot be read
(allocator, libraries); bytes throughout.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from pitstop.rules.activations import Attention, Running, activation_bytes
from pitstop.rules.architecture import Architecture
from pitstop.rules.memory import (
    GIB,
    OPTIMIZERS,
    Formats,
    Keeping,
    Layout,
    LocalParameters,
    States,
    formats,
    local_parameters,
    training_states,
)


class Method(enum.StrEnum):
    """Which weights are trained."""

    FULL = "full"
    LORA = "lora"
    FREEZE = "freeze"


class Fit(enum.StrEnum):
    """Whether the estimate stays below a GPU's memory: TIGHT when only its lower end does."""

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does not fit"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Range:
    """Two ends of what may be true; equal where it is known."""

    low: float
    high: float

    @staticmethod
    def exact(value: float) -> Range:
        """A known value."""
        return Range(value, value)

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    @property
    def middle(self) -> float:
        """Halfway."""
        return (self.low + self.high) / 2


@dataclass(frozen=True, slots=True)
class Setup:
    """A training run as numbers.

    `micro_batch` samples of `sequence` tokens per GPU and forward pass; `rank` and
    `adapted` (names of `LINEARS`) describe LoRA; `frozen_layers` counts those that freezing
    leaves alone; `frozen_bits` and `gradient_bytes` as in `memory.formats`. `buckets` are
    elements of communication buffers alive at once.
    """

    model: Architecture
    micro_batch: int
    sequence: int
    accumulation: int = 1
    method: Method = Method.FULL
    keeping: Keeping = Keeping.MASTER
    running: Running = Running.PURE
    optimizer: str = "adamw"
    layout: Layout = field(default_factory=Layout)
    attention: Attention = Attention.FUSED
    checkpointing: bool = False
    fused_kernels: bool = False
    fused_loss: bool = False
    rank: int = 8
    adapted: tuple[str, ...] = ("q", "k", "v", "o", "gate", "up", "down")
    trained_layers: int | None = None
    frozen_bits: int = 16
    gradient_bytes: float | None = None
    buckets: float = 0.0

    @property
    def tokens_per_step(self) -> int:
        """Tokens per optimizer step over all GPUs, padding included."""
        return self.micro_batch * self.sequence * self.accumulation * self.layout.data


@dataclass(frozen=True, slots=True)
class Part:
    """One row of the table: bytes on the worst GPU, and how they come about."""

    name: str
    size: Range
    how: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """Where the bytes go. `host` is bytes of main memory per GPU for offloaded state."""

    parts: tuple[Part, ...]
    host: float
    tokens_per_step: int

    @property
    def total(self) -> Range:
        """All parts together."""
        total = Range.exact(0.0)
        for part in self.parts:
            total = total + part.size
        return total

    def fit(self, memory: int | None) -> Fit:
        """The verdict for a GPU of `memory` bytes; UNKNOWN without one."""
        if memory is None:
            return Fit.UNKNOWN
        if self.total.high <= memory:
            return Fit.FITS
        return Fit.TIGHT if self.total.low <= memory else Fit.DOES_NOT_FIT


CONTEXT = Range(0.4 * GIB, 1.2 * GIB)
"""CUDA context with the kernels of PyTorch and its libraries, and one NCCL communicator."""

FRAGMENTATION = (0.02, 0.08)
"""Share of allocated memory that the caching allocator cannot use again."""

ACTIVATION_SPREAD = (0.9, 1.15)
"""Around the counted activations: counted on what autograd keeps (exact for the families that
tests measure); below where frozen weights keep less, above for temporaries of single kernels."""


def estimate(setup: Setup) -> Estimate:
    """The memory of a run on its worst GPU."""
    kept = formats(setup.keeping, gradient=setup.gradient_bytes, frozen_bits=setup.frozen_bits)
    whole = local_parameters(setup.model, setup.layout)
    states, frozen = _states(setup, whole, kept)
    activations = activation_bytes(
        setup.model,
        setup.running,
        micro_batch=setup.micro_batch,
        sequence=setup.sequence,
        attention=setup.attention,
        checkpointing=setup.checkpointing,
        tensor=setup.layout.tensor,
        pipeline=setup.layout.pipeline,
        context=setup.layout.context,
        fused_kernels=setup.fused_kernels,
        fused_loss=setup.fused_loss,
    )
    low, high = ACTIVATION_SPREAD
    spread = Range(low * activations.layers, high * activations.layers)
    last = max(activations.recomputed, activations.logits)
    parts = [
        Part("frozen weights", Range.exact(frozen), f"{kept.frozen:.3g} bytes each"),
        Part("weights", Range.exact(states.weights + states.live), _weights_how(setup, kept)),
        Part("gradients", Range.exact(states.gradients), f"{kept.gradient:.3g} bytes each"),
        Part("fp32 copy", Range.exact(states.master), f"{kept.master:.3g} bytes each"),
        Part("optimizer", Range.exact(states.optimizer), setup.optimizer),
        Part("activations", spread, _activations_how(setup)),
        Part("loss or recomputed layer", Range(low * last, high * last), "the larger of the two"),
        Part("communication buffers", Range.exact(2 * setup.buckets), "16-bit elements"),
        Part("CUDA context and NCCL", CONTEXT, "outside PyTorch's allocator"),
    ]
    allocated = sum(p.size.middle for p in parts[:-1])
    slack = Range(FRAGMENTATION[0] * allocated, FRAGMENTATION[1] * allocated)
    parts.append(Part("fragmentation", slack, "2 to 8 % of what is allocated"))
    shown = tuple(part for part in parts if part.size.high > 0)
    return Estimate(shown, states.host, setup.tokens_per_step)


def _weights_how(setup: Setup, kept: Formats) -> str:
    text = f"{kept.weight:.3g} bytes each"
    return text + (", and the 16-bit casts of autocast" if kept.cast else "")


def _activations_how(setup: Setup) -> str:
    tokens = f"{setup.micro_batch} x {setup.sequence} tokens"
    return tokens + (", recomputed layer by layer" if setup.checkpointing else "")


def _states(setup: Setup, whole: LocalParameters, kept: Formats) -> tuple[States, float]:
    """State of what is trained, and the bytes of frozen weights."""
    optimizer = OPTIMIZERS[setup.optimizer]
    if setup.method is Method.FULL:
        return training_states(whole, kept, optimizer, setup.layout), 0.0
    trained = trained_parameters(setup)
    share = trained / setup.model.parameters
    part = LocalParameters(
        dense=trained / (setup.layout.tensor * setup.layout.pipeline),
        experts=0.0,
        layer=trained / max(1, setup.model.layers),
    )
    if setup.method is Method.FREEZE:
        part = LocalParameters(whole.dense * share, whole.experts * share, whole.layer)
    rest = whole.total - (part.total if setup.method is Method.FREEZE else 0.0)
    divided = setup.layout.shards if setup.layout.sharding.shards_weights else 1
    frozen = kept.frozen * rest / divided
    if setup.layout.sharding.shards_weights:
        frozen += 2 * 2.0 * whole.layer  # gathered in 16 bits: one at work, one on its way
    return training_states(part, kept, optimizer, setup.layout), frozen


def linears(model: Architecture) -> dict[str, tuple[int, int]]:
    """Input and output size of a layer's linear modules by the usual name; experts are not
    adapted (they are no linear modules in transformers 5)."""
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    found = {
        "q": (model.hidden, q),
        "k": (model.hidden, kv),
        "v": (model.hidden, kv),
        "o": (q, model.hidden),
    }
    width = model.shared if model.moe else model.intermediate
    if width:
        found["up"], found["down"] = (model.hidden, width), (width, model.hidden)
        if model.gated:
            found["gate"] = (model.hidden, width)
    return found


def trained_parameters(setup: Setup) -> float:
    """Trainable parameters of the whole model: all, the adapters' (arXiv 2106.09685: r times
    input plus output of each adapted matrix), or those of the layers left free."""
    model = setup.model
    if setup.method is Method.FULL:
        return float(model.parameters)
    if setup.method is Method.FREEZE:
        layers = model.layers if setup.trained_layers is None else setup.trained_layers
        inner = model.parameters - model.embedding_parameters - model.head_parameters
        return inner * min(layers, model.layers) / model.layers
    found = linears(model)
    per_layer = sum(setup.rank * sum(found[name]) for name in setup.adapted if name in found)
    return float(per_layer * model.layers)
