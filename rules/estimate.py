"""Will it fit: where the bytes of a training run go, on its worst GPU.

`estimate` is arithmetic over a Setup in which everything is a number; `pitstop.rules.setup`
makes Setups of a job. Memory has its peak at one of a few moments of a step, and the estimate
says at which. Figures are ranges where the truth depends on what cannot be read (allocator,
libraries); bytes throughout.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pitstop.rules.activations import ActivationBytes, Adapters, activation_bytes
from pitstop.rules.memory import (
    GIB,
    Formats,
    LocalParameters,
    States,
    formats,
    gathered,
    local_parameters,
    second_copy,
    training_states,
)
from pitstop.rules.optimizers import OPTIMIZERS, state_bytes
from pitstop.rules.ranges import Range
from pitstop.rules.trained import (
    NONE,
    Method,
    Setup,
    frozen_bytes,
    trained_linears,
    trained_tensors,
)


class Fit(enum.StrEnum):
    """Whether the estimate stays below a GPU's memory: TIGHT when only its lower end does."""

    FITS = "fits"
    TIGHT = "may not fit"
    DOES_NOT_FIT = "does not fit"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Part:
    """One row of the table: bytes on the worst GPU, and how they come about."""

    name: str
    size: Range
    how: str = ""


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment of a step and what is in memory then."""

    name: str
    parts: tuple[Part, ...]

    @property
    def total(self) -> Range:
        """All parts together."""
        return Range.total(part.size for part in self.parts)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Where the bytes go at each moment. `host` is bytes of main memory per GPU for offloaded
    state."""

    moments: tuple[Moment, ...]
    host: float
    tokens_per_step: int

    @property
    def peak(self) -> Moment:
        """The moment at which most memory is in use."""
        return max(self.moments, key=lambda moment: moment.total.high)

    @property
    def total(self) -> Range:
        """Memory at the peak."""
        totals = [moment.total for moment in self.moments]
        return Range(max(t.low for t in totals), max(t.high for t in totals))

    def fit(self, memory: int | None) -> Fit:
        """The verdict for a GPU of `memory` bytes; UNKNOWN without one."""
        return fit_of(self.total, memory)


def fit_of(total: Range, memory: int | None) -> Fit:
    """Whether a range of bytes stays below a GPU's memory."""
    if memory is None:
        return Fit.UNKNOWN
    if total.high <= memory:
        return Fit.FITS
    return Fit.TIGHT if total.low <= memory else Fit.DOES_NOT_FIT


CONTEXT = Range(0.4 * GIB, 1.2 * GIB)
"""CUDA context with the kernels of PyTorch and its libraries, and NCCL's own buffers."""

FRAGMENTATION = Range(0.01, 0.12)
"""Share of allocated memory that the caching allocator cannot use again: what it reserves beyond
what is in use, seen in published runs (docs/memory.md)."""

ACTIVATION_SPREAD = Range(0.95, 1.1)
"""Around the counted activations, which are exact for the families that tests measure: dropout
masks, attention masks and temporaries of single kernels come on top."""


def estimate(setup: Setup) -> Estimate:
    """The memory of a run on its worst GPU."""
    kept = formats(setup.keeping, gradient=setup.gradient_bytes, frozen_bits=setup.frozen_bits)
    whole = local_parameters(setup.model, setup.layout)
    states, frozen, brought = _states(setup, whole, kept)
    activations = activations_of(setup)
    table = _Table(setup, kept, states, frozen, brought, activations)
    return Estimate(table.moments(), states.host, setup.tokens_per_step)


def states_of(setup: Setup) -> States:
    """What a run keeps of the weights that it trains."""
    kept = formats(setup.keeping, gradient=setup.gradient_bytes, frozen_bits=setup.frozen_bits)
    return _states(setup, local_parameters(setup.model, setup.layout), kept)[0]


def activations_of(setup: Setup) -> ActivationBytes:
    """The activations of a run."""
    adapters = None
    if setup.method is Method.LORA:
        adapters = Adapters(setup.adapted, setup.rank, setup.magnitudes)
    layout = setup.layout
    return activation_bytes(
        setup.model,
        setup.running,
        micro_batch=setup.micro_batch,
        sequence=setup.sequence,
        attention=setup.attention,
        checkpointing=setup.checkpointing,
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        context=layout.context,
        fused_kernels=setup.fused_kernels,
        fused_loss=setup.fused_loss,
        adapters=adapters,
    )


@dataclass(frozen=True, slots=True)
class _Table:
    """The rows of each moment."""

    setup: Setup
    kept: Formats
    states: States
    frozen: float
    brought: Range
    activations: ActivationBytes

    def moments(self) -> tuple[Moment, ...]:
        """A step from the loss to the optimizer."""
        acts, states = self.activations, self.states
        layers = ACTIVATION_SPREAD * acts.layers
        early = states.gradients if self.setup.kept_gradients else 0.0
        casts = Range.exact(states.casts)
        whole = Range.exact(states.gradients)
        recomputed = casts
        if self.setup.checkpointing:  # the casts die as the backward pass begins: with the loss
            # stand either they or the second gradient of the logits, a sixth of those
            casts = Range.exact(max(0.0, states.casts - acts.logits.low / 6))
            recomputed = NONE
        return (
            self._moment("at the loss", Range.exact(early), casts, layers, logits=acts.logits),
            self._moment(
                "early in the backward pass",
                Range.exact(max(early, self._heads_gradient())),
                recomputed,
                layers,
                work=ACTIVATION_SPREAD * (acts.start - acts.layers),
            ),
            self._moment(
                "late in the backward pass",
                Range.exact(max(early, self._but_the_first_layers_gradient())),
                NONE,
                NONE,
                work=ACTIVATION_SPREAD * acts.end,
            ),
            self._moment("in the optimizer step", whole, NONE, NONE, step=states.scratch),
        )

    def _heads_gradient(self) -> float:
        """Bytes of the gradient of the head's weight, which comes first."""
        model = self.setup.model
        rows = 0.0 if self.setup.method is Method.LORA else model.vocabulary
        return min(self.states.gradients, self.kept.gradient * model.hidden * rows)

    def _but_the_first_layers_gradient(self) -> float:
        """Bytes of gradients when the backward pass reaches the first layer: its own and, unless
        it is the head's too, that of the embedding are still to come."""
        model, whole = self.setup.model, self.states.gradients
        left = model.largest_layer + (0 if model.tied else model.embedding_parameters)
        return whole * max(0.0, 1 - left / model.parameters)

    def _moment(
        self,
        name: str,
        gradients: Range,
        casts: Range,
        layers: Range,
        *,
        logits: Range = NONE,
        work: Range = NONE,
        step: float | None = None,
    ) -> Moment:
        states, kept = self.states, self.kept
        rows = [
            Part("frozen weights", Range.exact(self.frozen), f"{kept.frozen:.3g} bytes each"),
            Part("weights", Range.exact(states.weights), f"{kept.weight:.3g} bytes each"),
            Part("reference model", Range.exact(self._references()), "frozen copies"),
            Part("gathered weights", self.brought if step is None else NONE, "of layers at work"),
            Part("16-bit casts", casts, "autocast's copies of fp32 weights"),
            Part("gradients", gradients, f"{kept.gradient:.3g} bytes each"),
            Part("fp32 copy", Range.exact(states.master), f"{kept.master:.3g} bytes each"),
            Part("optimizer state", Range.exact(states.optimizer), self.setup.optimizer),
            Part("optimizer's scratch", Range.exact(step or 0.0), "while it steps"),
            Part("DDP buckets", Range.exact(states.buckets), "a copy of the gradients"),
            Part("communication buffers", self.setup.buckets, "reduction and gathering"),
            Part("activations", layers, self._tokens()),
            Part("logits and loss", logits, "per token and word of the vocabulary"),
            Part("layer at work", work, "its activations and their gradients"),
        ]
        allocated = Range.total(row.size for row in rows)
        slack = Range(FRAGMENTATION.low * allocated.low, FRAGMENTATION.high * allocated.high)
        rows.append(Part("fragmentation", slack, "1 to 12 % of what is allocated"))
        rows.append(Part("CUDA context and NCCL", CONTEXT, "outside PyTorch's allocator"))
        return Moment(name, tuple(row for row in rows if row.size.high > 0))

    def _references(self) -> float:
        setup, layout = self.setup, self.setup.layout
        whole = setup.references * setup.running.element * setup.model.parameters
        spread = layout.tensor * layout.pipeline
        return whole / spread / (layout.shards if layout.sharding.shards_weights else 1)

    def _tokens(self) -> str:
        tokens = f"{self.setup.micro_batch} x {self.setup.sequence} tokens"
        kind = "inputs of layers" if self.setup.checkpointing else "all layers"
        return f"{tokens}, {kind}"


def _states(setup: Setup, whole: LocalParameters, kept: Formats) -> tuple[States, float, Range]:
    """State of what is trained, bytes of frozen weights, and what is gathered for use."""
    optimizer = OPTIMIZERS[setup.optimizer]
    trained = trained_tensors(setup)
    count = sum(tensor.total for tensor in trained)
    state = state_bytes(optimizer, trained, kept.stepped, setup.projection)
    local = _trained_locally(setup, whole, count)
    if optimizer.by_block:
        return _by_block(whole, kept, state / count), 0.0, Range.exact(0.0)
    states = training_states(
        local,
        kept,
        setup.layout,
        state=state / max(1, count),
        scratch=optimizer.scratch * kept.stepped,
        fused_backward=optimizer.fused_backward,
    )
    if setup.method is Method.FULL:
        return states, 0.0, states.gathered
    layout = setup.layout
    frozen = (
        frozen_bytes(setup, kept)
        * (whole.total - _share(setup, whole, count))
        / max(1.0, float(setup.model.parameters))
    )
    brought = gathered(whole, 2.0, layout)
    if layout.sharding.shards_weights:
        frozen /= layout.shards
    if setup.frozen_bits < 16:
        widest = max(tensor.elements for tensor in trained_linears(setup.model))
        brought = brought + Range.exact(2.0 * widest / layout.tensor)  # one matrix, unpacked
    return states, frozen + second_copy(whole, layout), brought


def _by_block(whole: LocalParameters, kept: Formats, state: float) -> States:
    """BAdam: 16-bit weights, and gradient, fp32 copy and state of one layer at a time."""
    one = whole.layer
    return States(
        weights=2 * whole.total,
        gradients=4 * one,
        master=4 * one,
        optimizer=state * one,
        gathered=Range.exact(0.0),
        casts=0.0,
        buckets=0.0,
        scratch=0.0,
    )


def _share(setup: Setup, whole: LocalParameters, count: float) -> float:
    """Trained parameters that are the model's own, on this GPU."""
    if setup.method is Method.LORA:
        return 0.0
    return whole.total * count / setup.model.parameters


def _trained_locally(setup: Setup, whole: LocalParameters, count: float) -> LocalParameters:
    if setup.method is Method.FULL:
        return whole
    share = count / setup.model.parameters
    if setup.method is Method.FREEZE:
        return LocalParameters(whole.dense * share, whole.experts * share, whole.layer)
    spread = setup.layout.tensor * setup.layout.pipeline
    return LocalParameters(count / spread, 0.0, count / spread / setup.model.layers)


@dataclass(frozen=True, slots=True)
class Estimates:
    """The estimates of every setup that a job may be: the one that needs least, the one that
    needs most (whose table is shown), and the range between."""

    least: Estimate
    most: Estimate

    @property
    def total(self) -> Range:
        """Memory at the peak, whatever is unknown."""
        return Range(self.least.total.low, self.most.total.high)

    @property
    def exact(self) -> bool:
        """True when nothing was unknown."""
        return self.least == self.most


def estimates(setups: tuple[Setup, ...]) -> Estimates:
    """The bounds over alternatives (at least one)."""
    found = [estimate(setup) for setup in setups]
    return Estimates(
        min(found, key=lambda one: one.total.low), max(found, key=lambda one: one.total.high)
    )


def largest(setups: tuple[Setup, ...]) -> Setup:
    """Of alternatives, the one that needs most."""
    return max(setups, key=lambda setup: estimate(setup).total.high)
