"""Setups near a given one that fit into a GPU, the fastest first.

The same samples per step, sequence length and trained weights: only what changes no result, or
(a smaller micro batch with more accumulation) only rounding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pitstop.rules.estimate import Fit, estimate
from pitstop.rules.hardware import Gpu
from pitstop.rules.memory import Keeping, Sharding
from pitstop.rules.ranges import Range
from pitstop.rules.speed import Speed, speed_of
from pitstop.rules.trained import Method, Setup

MAX_CHANGES = 3


@dataclass(frozen=True, slots=True)
class Option:
    """A setup, what it changes in words, its memory and its bound of speed."""

    setup: Setup
    changes: tuple[str, ...]
    total: Range
    speed: Speed | None

    @property
    def pace(self) -> float:
        """Tokens per second at the bound; 0 when it is not known."""
        return self.speed.tokens_per_second if self.speed else 0.0


def options_that_fit(
    setup: Setup, memory: int, gpu: Gpu | None, gpus_per_node: int | None = None, most: int = 5
) -> tuple[Option, ...]:
    """The fastest few of the neighbours that fit with certainty; none is slower than another
    that changes less."""
    found = [
        option
        for candidate, changes in _neighbours(setup)
        if (option := _option(candidate, changes, gpu, gpus_per_node)).total.high <= memory
    ]
    found.sort(key=_rank)
    kept: list[Option] = []
    for option in found:
        words = set(option.changes)
        if not any(set(other.changes) <= words for other in kept):
            kept.append(option)
    return tuple(kept[:most])


def _rank(option: Option) -> tuple[int, int, int, float]:
    """Faster first (paces within a percent count as equal), then fewer changes, then larger
    micro batches, which start fewer kernels."""
    pace = round(100 * math.log(option.pace)) if option.pace else 0
    return -pace, len(option.changes), -option.setup.micro_batch, option.total.high


def faster_options(
    setup: Setup, memory: int, gpu: Gpu, gpus_per_node: int | None = None, most: int = 3
) -> tuple[Option, ...]:
    """Neighbours that fit and whose bound is at least 3 % above this setup's."""
    now = speed_of(setup, gpu, gpus_per_node)
    if now is None:
        return ()
    found = options_that_fit(setup, memory, gpu, gpus_per_node, most=most)
    return tuple(one for one in found if one.pace > 1.03 * now.tokens_per_second)


def _option(
    setup: Setup, changes: tuple[str, ...], gpu: Gpu | None, gpus_per_node: int | None
) -> Option:
    speed = speed_of(setup, gpu, gpus_per_node) if gpu else None
    return Option(setup, changes, estimate(setup).total, speed)


Change = tuple[str, dict[str, object]]


def _neighbours(setup: Setup) -> Iterator[tuple[Setup, tuple[str, ...]]]:
    """Every combination of a few changes."""
    axes = [_batches(setup), _recomputation(setup), _sharding(setup), _kernels(setup)]
    for combination in itertools.product(*axes):
        changes = tuple(words for words, _ in combination if words)
        if not 0 < len(changes) <= MAX_CHANGES:
            continue
        fields = {k: v for _, change in combination for k, v in change.items()}
        yield replace(setup, **fields), changes  # type: ignore[arg-type]


def _batches(setup: Setup) -> Iterator[Change]:
    """The micro batch halved and doubled, with as many samples per step as before."""
    yield "", {}
    samples = setup.micro_batch * setup.accumulation
    for size in (1, 2, 4, 8, 16, 32, 64):
        if size == setup.micro_batch or samples % size or size > 4 * setup.micro_batch:
            continue
        count = samples // size
        kept = setup.kept_gradients if setup.layout.bucket_view else count > 1
        yield (
            f"micro batch {size}, accumulation {count}",
            {"micro_batch": size, "accumulation": count, "kept_gradients": kept},
        )


def _recomputation(setup: Setup) -> Iterator[Change]:
    yield "", {}
    words = (
        "without activation checkpointing" if setup.checkpointing else "activation checkpointing"
    )
    yield words, {"checkpointing": not setup.checkpointing}


def _kernels(setup: Setup) -> Iterator[Change]:
    yield "", {}
    if not setup.fused_loss and setup.model.vocabulary:
        yield "fused kernels and loss (Liger)", {"fused_kernels": True, "fused_loss": True}


def _sharding(setup: Setup) -> Iterator[Change]:
    """Other stages of the same family, and optimizer state on the host."""
    yield "", {}
    layout = setup.layout
    if layout.data == 1:
        return
    if layout.sharding.fsdp:
        kinds = [("FSDP full shard", Sharding.FSDP_FULL), ("FSDP grad-op", Sharding.FSDP_GRAD_OP)]
    elif layout.pipeline > 1 or layout.tensor > 1:
        return
    else:
        kinds = [(f"ZeRO stage {n}", Sharding(f"zero{n}")) for n in (1, 2, 3)]
    for name, kind in kinds:
        for offload in (False, True):
            if (kind, offload) == (layout.sharding, layout.offload_optimizer):
                continue
            if offload and setup.method is Method.LORA:
                continue
            other = replace(
                layout, sharding=kind, offload_optimizer=offload, bucket_view=not kind.fsdp
            )
            words = f"{name}, optimizer on the host" if offload else name
            yield words, {"layout": other, **_kept_by(kind, setup)}


def _kept_by(kind: Sharding, setup: Setup) -> dict[str, object]:
    """How a sharded run keeps its weights, when it keeps them otherwise than now."""
    if setup.keeping in (Keeping.FP32, Keeping.PURE) or setup.method is Method.LORA:
        return {}
    from pitstop.rules.activations import Running

    keeping = Keeping.SHARDS if kind.fsdp else Keeping.MASTER
    return {"keeping": keeping, "running": Running.PURE}


def largest_that_fits(setup: Setup, memory: int, field: str, most: int = 1 << 20) -> int:
    """The largest value of `micro_batch` or `sequence` with which the setup fits; 0 for none."""
    low, high = 0, 1
    while high <= most and _fits(setup, memory, field, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(setup, memory, field, middle):
            low = middle
        else:
            high = middle
    return low


def _fits(setup: Setup, memory: int, field: str, value: int) -> bool:
    changed = replace(setup, **{field: value})  # type: ignore[arg-type]
    return estimate(changed).fit(memory) is Fit.FITS
