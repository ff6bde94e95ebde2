"""From what the probe saw to what may be compared: the kept steps of runs, and rates of work.

Warm-up is dropped alike from all runs that are compared. What cannot be compared says why.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pitstop.runners.probing import ProbeRun
from pitstop.runners.verify import Pair, warm_up_of

Work = Literal["samples", "tokens", "useful_tokens"]

UNEVEN = 0.02
"""Steps whose work differs by more than this from the usual differ by design."""

SLOW, SLOW_SHARE, STALLED = 2.0, 0.10, 10.0
"""Times the median from which a step is slow, the share of such steps that makes a run unsteady,
and times the median from which a second step does so alone."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure of one state of a job: `runs` holds its samples, one tuple a run, after the
    first `dropped` steps of each."""

    metric: str
    unit: str
    runs: tuple[tuple[float, ...], ...]
    dropped: int

    @property
    def median(self) -> float:
        """Over all samples of all runs."""
        return statistics.median([value for run in self.runs for value in run])

    @property
    def text(self) -> str:
        """For people: `412.3 samples/s (3 runs of 25 steps)`."""
        steps = min(map(len, self.runs))
        return f"{self.median:,.4g} {self.unit} ({len(self.runs)} runs of {steps} steps)"


def step_time(runs: Sequence[ProbeRun], dropped: int) -> Measurement | None:
    """Seconds of a step, of the slowest rank; None when a run kept none."""
    return _measured("step time", "s", [run.step_seconds()[dropped:] for run in runs], dropped)


def throughput(runs: Sequence[ProbeRun], dropped: int, work: Work) -> Measurement | None:
    """Work a second, summed over ranks, in each step; None when a run could not count it.

    Ranks that share a batch (tensor, context or pipeline parallel) count it once each: compare
    such figures only with those of the same layout.
    """
    rates = []
    for run in runs:
        times, done = run.step_seconds(), work_done(run, work)
        if done is None:
            return None
        pairs = zip(times[dropped:], done[dropped + 1 :], strict=False)  # a tick ends its step
        rates.append(tuple(count / seconds for seconds, count in pairs if seconds > 0))
    unit = work.replace("_", " ")
    return _measured(f"{unit} per second", f"{unit}/s", rates, dropped)


def _measured(
    metric: str, unit: str, runs: Sequence[tuple[float, ...]], dropped: int
) -> Measurement | None:
    return Measurement(metric, unit, tuple(runs), dropped) if runs and all(runs) else None


def work_done(run: ProbeRun, work: Work) -> tuple[int, ...] | None:
    """What all ranks together worked on in each step; None when a step was not counted by one.

    A step without a batch counts as 0 where others have one: loaders may be a batch ahead.
    """
    counted = [getattr(rank, work) for rank in run.ranks if rank.host_ticks]
    if not counted or not all(any(value is not None for value in rank) for rank in counted):
        return None
    return tuple(sum(value or 0 for value in step) for step in zip(*counted, strict=False))


def uneven(run: ProbeRun, dropped: int) -> bool:
    """Whether steps have different amounts of work by design: most are not as the usual one."""
    done = work_done(run, "tokens") or work_done(run, "samples")
    kept = done[dropped + 1 :] if done else ()
    if not kept:
        return False
    usual = statistics.median(kept)
    others = sum(abs(count - usual) > UNEVEN * usual for count in kept)
    return others > len(kept) / 2


def kept_pairs(runs: Sequence[tuple[ProbeRun, ProbeRun]], least: int) -> list[Pair]:
    """Step times of runs made next to each other, before and after: the same first steps are
    dropped from every run, at least `least` and on until the slowest has settled, or half of the
    shortest is gone: steps that come in bursts never settle. All runs of one arm are as long as its
    shortest, and where equal steps are compared, so are both arms."""
    times = [(a.step_seconds(), b.step_seconds()) for a, b in runs]
    drop = max((warm_up_of(one, least) for pair in times for one in pair), default=least)
    ends = [min(map(len, arm)) for arm in zip(*times, strict=True)] or [0, 0]
    drop = min(drop, max(least, min(ends) // 2), max(0, min(ends) - 1))
    matched = bool(runs) and all(uneven(run, drop) for pair in runs for run in pair)
    first, second = (min(ends), min(ends)) if matched else ends
    return [Pair(before[drop:first], after[drop:second], matched) for before, after in times]


def unsteady(times: Sequence[float]) -> str | None:
    """Why kept steps are not of one kind (compilations, collections of garbage, ends of epochs);
    None when they are."""
    if not times:
        return None
    usual = statistics.median(times)
    slow = sum(time > SLOW * usual for time in times)
    stalled = sum(time > STALLED * usual for time in times)
    if slow > SLOW_SHARE * len(times):
        return f"{slow} of {len(times)} steps took more than twice the usual time"
    if stalled > 1:
        return f"{stalled} steps took more than ten times the usual time"
    return None


def void(pair: Pair) -> str | None:
    """Why a pair of runs says nothing: one run was unsteady and the other was not. Steps that
    are slow in both belong to the job. None when it may be judged."""
    if pair.matched:
        return None
    before, after = unsteady(pair.before), unsteady(pair.after)
    if (before is None) == (after is None):
        return None
    return f"{'before' if before else 'after'} the change, {before or after}"


def overhead(run: ProbeRun) -> float:
    """The largest share of its time that a rank spent inside the probe's own hooks; NaN when no
    rank made two steps."""
    shares = [
        rank.hook_seconds / (rank.host_ticks[-1] - rank.host_ticks[0])
        for rank in run.ranks
        if len(rank.host_ticks) > 1 and rank.host_ticks[-1] > rank.host_ticks[0]
    ]
    return max(shares, default=math.nan)
