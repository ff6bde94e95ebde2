"""What holds a job up: bottlenecks with the share of a step that each costs, and the evidence."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pitstop.rules.data import load_data
from pitstop.runners.probing import ProbeRun, RankRun
from pitstop.runners.profile import Profile, slowest_of, straggling

ELEMENTWISE = ("elementwise", "reduction", "normalisation")


@functools.cache
def thresholds() -> Mapping[str, Any]:
    """The shipped table."""
    data: dict[str, Any] = load_data("pitstop.runners", "thresholds.yaml")
    return data


@dataclass(frozen=True, slots=True)
class Evidence:
    """A measured value against its threshold; `source` names the measurement."""

    metric: str
    value: float
    threshold: float
    source: str
    share: bool = True

    @property
    def text(self) -> str:
        """For people: `data wait 31.0% (counts from 5%; probe)`."""
        if self.share:
            return (
                f"{self.metric} {self.value:.1%} (counts from {self.threshold:.0%}; {self.source})"
            )
        return f"{self.metric} {self.value:.0f} (counts from {self.threshold:.0f}; {self.source})"


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
        limits = thresholds()
        if self.share >= limits["high"]:
            return "high"
        return "medium" if self.share >= limits["medium"] else "low"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Bottlenecks, the costliest first. `basis` is what it rests on, `doubts` what to distrust,
    `breakdown` the shares of the window (compute, communication, copies, idle)."""

    bottlenecks: tuple[Bottleneck, ...] = ()
    basis: str = "the probe's counters"
    doubts: tuple[str, ...] = ()
    breakdown: tuple[tuple[str, float], ...] = ()


def diagnose(run: ProbeRun | None, profiles: Sequence[Profile] = ()) -> Diagnosis:
    """The diagnosis from traces where there are any with GPU work, else from the probe's counters
    alone: what the host can see."""
    traced = slowest_of(one for one in profiles if one.kernels)
    if traced is None:
        return _from_probe(run, profiles)
    found = [*_of_profile(traced), *_of_memory(run)]
    late = straggling(profiles)
    if late >= thresholds()["kinds"]["STRAGGLER"]["from"]:
        found.append(_bottleneck("STRAGGLER", late, late))
    ordered = sorted(found, key=lambda one: -one.share)
    shares = (
        ("compute", traced.compute),
        ("communication", traced.communication),
        ("copies", traced.copies),
        ("idle", traced.idle),
    )
    return Diagnosis(tuple(ordered), f"a trace of {traced.steps} steps", traced.doubts, shares)


def _from_probe(run: ProbeRun | None, profiles: Sequence[Profile]) -> Diagnosis:
    if run is None or not any(rank.host_ticks for rank in run.ranks):
        return Diagnosis(basis="no run", doubts=("the job was not measured",))
    found = [*_of_rank(run.ranks[0]), *_of_memory(run)]
    on_gpu = any(rank.device_steps for rank in run.ranks)
    doubts = ("without a GPU trace, waits beside a busy GPU cannot be told from waits that cost",)
    basis = "the probe's counters and a trace of the host" if profiles else "the probe's counters"
    ordered = sorted(found, key=lambda one: -one.share)
    return Diagnosis(tuple(ordered), basis, doubts if on_gpu else ())


def _bottleneck(
    kind: str, value: float, share: float, *more: Evidence, notes: tuple[str, ...] = ()
) -> Bottleneck:
    row = thresholds()["kinds"][kind]
    first = Evidence(row["text"], value, row["from"], "trace")
    return Bottleneck(kind, share, (first, *more), notes)


def _of_profile(profile: Profile) -> Iterator[Bottleneck]:
    """Every kind whose signal is over its threshold, and whose share is worth a name."""
    least = thresholds()["least_step"]
    for kind, value, share, more in _signals(profile):
        if value >= thresholds()["kinds"][kind]["from"] and share >= least:
            yield _bottleneck(kind, value, share, *more)
    limit = thresholds()["kinds"]["COMPUTE_BOUND"]["from"]
    if profile.compute >= limit:
        yield _bottleneck("COMPUTE_BOUND", profile.compute, 0.0)


def _signals(profile: Profile) -> Iterator[tuple[str, float, float, tuple[Evidence, ...]]]:
    """(kind, value against its threshold, share of a step to be won, further evidence)."""
    kinds, idle = thresholds()["kinds"], profile.idle_causes
    data = idle.get("data", 0.0)
    wait = Evidence("the loop in its loader", profile.data_wait, 0.05, "trace")
    yield "DATA", data, data, (wait,)
    waits, calls = idle.get("sync", 0.0), kinds["SYNC"]["calls"]
    if profile.syncs_per_step > calls:
        counted = Evidence("waits in a step", profile.syncs_per_step, calls, "trace", share=False)
        yield "SYNC", waits, waits, (counted,)
    yield from _launching(profile, kinds["LAUNCH"])
    hidden = profile.overlap or 0.0
    wins = kinds["COMM"]["wins_unhidden"] if hidden < 0.5 else kinds["COMM"]["wins"]
    yield "COMM", profile.communication, wins * profile.communication, ()
    compute = profile.compute
    elementwise = sum(profile.families.get(name, 0.0) for name in ELEMENTWISE)
    for kind, share in (
        ("PRECISION", profile.fp32_products),
        ("ATTENTION", profile.unfused_attention),
        ("ELEMENTWISE", elementwise),
        ("LOSS_HEAD", profile.families.get("softmax and loss", 0.0) - profile.unfused_attention),
        ("LAYOUT", profile.layout_changes),
    ):
        yield kind, share, kinds[kind]["wins"] * share * compute, ()
    many = kinds["OPTIMIZER"]["launches"]
    if profile.optimizer_launches > many:
        counted = Evidence("launches", profile.optimizer_launches, many, "trace", share=False)
        yield "OPTIMIZER", profile.optimizer, 0.5 * profile.optimizer, (counted,)
    copies = max(profile.copies, profile.pageable_copies)
    yield "H2D", copies, copies, ()
    yield "MEMORY_PRESSURE", idle.get("alloc", 0.0), idle.get("alloc", 0.0), ()


def _launching(
    profile: Profile, row: Mapping[str, Any]
) -> Iterator[tuple[str, float, float, tuple[Evidence, ...]]]:
    idle = profile.idle_causes.get("launch", 0.0) + profile.idle_causes.get("optimizer", 0.0)
    many = profile.small_kernels > row["small"] or profile.kernels_per_step > row["kernels"]
    if profile.busy < row["busy_below"] and many:
        small = Evidence("kernels under 10 us", profile.small_kernels, row["small"], "trace")
        yield "LAUNCH", idle, row["wins"] * idle, (small,)


def _of_rank(rank: RankRun) -> Iterator[Bottleneck]:
    """What the probe alone shows."""
    data = data_wait_share(rank)
    if data is not None and data >= 0.05:
        yield Bottleneck("DATA", data, (Evidence("data wait", data, 0.05, "probe"),))
    padding = padding_share(rank)
    if padding is not None and padding > 0.20:
        evidence = Evidence("padding", padding, 0.20, "probe")
        yield Bottleneck("PADDING", 0.8 * padding, (evidence,))


def _of_memory(run: ProbeRun | None) -> Iterator[Bottleneck]:
    retries = max((rank.alloc_retries for rank in run.ranks), default=0) if run else 0
    if retries:
        evidence = Evidence("allocations tried again", retries, 1, "PyTorch", share=False)
        yield Bottleneck("MEMORY_PRESSURE", thresholds()["least_step"], (evidence,))


def data_wait_share(rank: RankRun) -> float | None:
    """The part of a step that the training loop waits for its loader: mean wait over mean step;
    None when no loader of PyTorch was seen."""
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
