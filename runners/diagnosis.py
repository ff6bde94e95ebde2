"""What holds a job up: bottlenecks with the share of a step that each costs, and the evidence."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.runners.probing import ProbeRun, RankRun

HIGH, MEDIUM, LOW = 0.20, 0.08, 0.03
"""Shares of step time from which a bottleneck is severe; below LOW it is not named."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A measured value against its threshold; `source` names the measurement."""

    metric: str
    value: float
    threshold: float
    source: str

    @property
    def text(self) -> str:
        """For people: `data wait 31 % of a step (from 5 %)`."""
        return f"{self.metric} {self.value:.1%} of a step (counts from {self.threshold:.0%})"


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """`kind` is a word of the plans (DATA, SYNC, ...), `share` the part of step time that could
    be won at most, `notes` what makes the figure uncertain."""

    kind: str
    share: float
    evidence: tuple[Evidence, ...]
    notes: tuple[str, ...] = ()

    @property
    def severity(self) -> str:
        """high, medium or low, by the share."""
        if self.share >= HIGH:
            return "high"
        return "medium" if self.share >= MEDIUM else "low"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Bottlenecks, the costliest first. `basis` is what it rests on, `doubts` what to distrust."""

    bottlenecks: tuple[Bottleneck, ...] = ()
    basis: str = "the probe's counters"
    doubts: tuple[str, ...] = ()


def diagnose(run: ProbeRun | None) -> Diagnosis:
    """The diagnosis from the probe's counters alone: what the host can see without a trace."""
    if run is None or not any(rank.host_ticks for rank in run.ranks):
        return Diagnosis(basis="no run", doubts=("the job was not measured",))
    found = [one for rank in run.ranks[:1] for one in _of_rank(rank)]
    ordered = sorted(found, key=lambda one: -one.share)
    doubts = ("without a GPU trace, waits beside a busy GPU cannot be told from waits that cost",)
    on_gpu = any(rank.device_steps for rank in run.ranks)
    return Diagnosis(tuple(ordered), doubts=doubts if on_gpu else ())


def _of_rank(rank: RankRun) -> Iterator[Bottleneck]:
    data = data_wait_share(rank)
    if data is not None and data >= 0.05:
        yield Bottleneck("DATA", data, (Evidence("data wait", data, 0.05, "probe: loader"),))
    padding = padding_share(rank)
    if padding is not None and padding > 0.20:
        share = 0.8 * padding
        yield Bottleneck("PADDING", share, (Evidence("padding", padding, 0.20, "probe: masks"),))
    if rank.alloc_retries:
        evidence = Evidence("allocator retries", float(rank.alloc_retries), 0.0, "PyTorch")
        yield Bottleneck("MEMORY_PRESSURE", LOW, (evidence,))


def data_wait_share(rank: RankRun) -> float | None:
    """The part of a step that the training loop waits for its loader: median wait over median
    step; None when no loader of PyTorch was seen."""
    times = rank.step_seconds()
    waits = rank.data_wait[1:]
    if not times or not any(waits):
        return None
    return min(1.0, statistics.fmean(waits) / statistics.fmean(times))


def padding_share(rank: RankRun) -> float | None:
    """The part of all tokens that is padding; None where that was not counted."""
    known = [
        (tokens, useful)
        for tokens, useful in zip(rank.tokens, rank.useful_tokens, strict=False)
        if tokens and useful is not None
    ]
    if not known:
        return None
    return 1 - sum(useful for _, useful in known) / sum(tokens for tokens, _ in known)
