"""A training run as numbers, and which tensors of its model it trains."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

from pitstop.rules.activations import Attention, Running
from pitstop.rules.architecture import Architecture
from pitstop.rules.memory import Formats, Keeping, Layout
from pitstop.rules.ranges import Range
from pitstop.rules.tensors import Tensor, tensors


class Method(enum.StrEnum):
    """Which weights are trained."""

    FULL = "full"
    LORA = "lora"
    FREEZE = "freeze"


NONE = Range.exact(0.0)
ALL_LINEAR = frozenset({"q", "k", "v", "o", "gate", "up", "down"})


@dataclass(frozen=True, slots=True)
class Setup:
    """A training run as numbers.

    `micro_batch` samples of `sequence` tokens per GPU and forward pass. `rank`, `adapted` and
    `magnitudes` (DoRA) describe adapters; `trained_layers` counts those that freezing leaves
    alone; `frozen_bits` and `gradient_bytes` are as in `memory.formats`. `projection` is the
    rank of GaLore and APOLLO. `buckets` are bytes of communication buffers. `kept_gradients`
    says that gradients live through the forward pass (accumulation, contiguous buffers).
    `references` counts frozen copies of the whole model.
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
    adapted: frozenset[str] = ALL_LINEAR
    magnitudes: bool = False
    trained_layers: int = 2
    frozen_bits: int = 16
    gradient_bytes: float | None = None
    projection: int = 128
    buckets: Range = NONE
    kept_gradients: bool = False
    references: int = 0

    @property
    def tokens_per_step(self) -> int:
        """Tokens per optimizer step over all GPUs, padding included."""
        return self.micro_batch * self.sequence * self.accumulation * self.layout.data


def trained_linears(model: Architecture) -> list[Tensor]:
    """The linear modules inside the layers: what is quantised, and what may be adapted."""
    return [t for t in tensors(model) if t.kind == "linear" and t.name != "router"]


def trained_tensors(setup: Setup) -> list[Tensor]:
    """What is trained: everything, the adapters (arXiv 2106.09685: two matrices of the rank
    each; DoRA a vector more), or the layers left free."""
    model = setup.model
    if setup.method is Method.FULL:
        return list(tensors(model))
    if setup.method is Method.FREEZE:
        kept = min(setup.trained_layers, model.layers)
        ends = ("embedding", "head")
        return list(_layers_of(model, kept / model.layers, ends))
    return list(_adapters(setup))


def _layers_of(model: Architecture, share: float, without: tuple[str, ...]) -> Iterator[Tensor]:
    """The tensors of some of the layers."""
    for tensor in tensors(model):
        count = round(tensor.count * share)
        if count and tensor.kind not in without and tensor.count >= model.layers:
            yield Tensor(tensor.kind, tensor.shape, count, tensor.name)


def _adapters(setup: Setup) -> Iterator[Tensor]:
    fused = {"qkv": {"q", "k", "v", "qkv"}, "gate_up": {"gate", "up", "gate_up"}}
    for tensor in trained_linears(setup.model):
        if not fused.get(tensor.name, {tensor.name}) & setup.adapted:
            continue
        rows, columns = tensor.shape
        yield Tensor("linear", (setup.rank, columns), tensor.count)
        yield Tensor("linear", (rows, setup.rank), tensor.count)
        if setup.magnitudes:
            yield Tensor("vector", (rows,), tensor.count)


def frozen_bytes(setup: Setup, kept: Formats) -> float:
    """Bytes of the whole frozen model: quantisation reaches the linear modules of layers and
    experts, not embeddings, head and norms."""
    if setup.frozen_bits >= 16:
        return kept.frozen * setup.model.parameters
    inner = sum(t.total for t in tensors(setup.model) if t.kind in ("linear", "expert"))
    return kept.frozen * inner + 2.0 * (setup.model.parameters - inner)
