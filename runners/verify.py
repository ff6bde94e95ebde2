"""Whether one way of running a job is faster than another, from interleaved runs of both.

The rule: the ratio of medians of each pair (means, where steps come in bursts), their geometric
mean, an interval by a hierarchical bootstrap (pairs, and blocks of steps inside each), and a gain
that is larger than the noise between runs of the same thing. Pooling the steps of all runs would
see differences between runs as effects: that test is wrong at the null in up to a quarter of cases
where runs differ by 2 %.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

BLOCK = 5
"""Steps that are drawn together, since neighbours resemble each other."""

STUDENT = {2: 5.643, 3: 3.298, 4: 2.829, 5: 2.634}
"""By pairs of runs: Student's t that is exceeded by chance in 1.5 % of cases, with as many degrees
of freedom as the runs of both arms leave (two fewer than there are runs). Without it, equal runs
that differ by 2 % pass for faster in 5 % of comparisons (bench/verdicts.py)."""


BURST = 1.25
"""Times the median from which the mean is what a step takes: workers of a loader deliver many
batches at once, so that most steps find theirs ready and a few wait for all."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Kept step times (seconds) of one run before and one after, made next to each other.

    `matched`: steps differ by design (lengths of sequences, say), and the same step of both runs
    had the same work; then times are summed over equal steps instead of taking medians.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    matched: bool = False

    @property
    def ratio(self) -> float:
        """How many times faster the second is."""
        if self.matched:
            both = min(len(self.before), len(self.after))
            return math.fsum(self.before[:both]) / math.fsum(self.after[:both])
        before, after = self.levels
        return before / after

    @property
    def levels(self) -> tuple[float, float]:
        """Seconds that a step takes before and after: medians, which a stall does not move. Steps
        that come in bursts count with their mean, but those before only beside such steps after:
        never may a slow step before the change make the change look fast."""
        before, after = statistics.median(self.before), statistics.median(self.after)
        mean_before, mean_after = statistics.fmean(self.before), statistics.fmean(self.after)
        if mean_after <= BURST * after:
            return before, after
        return (mean_before if mean_before > BURST * before else before), mean_after


@dataclass(frozen=True, slots=True)
class Policy:
    """What counts as faster. `least_gain` is the smallest that is ever believed; `noises` times
    the spread between equal runs (see `noise`) is another bound. `draws` of the bootstrap, `seed`
    of it."""

    least_gain: float = 0.02
    noises: float = 2.0
    draws: int = 2000
    level: float = 0.95
    seed: int = 20_261


@dataclass(frozen=True, slots=True)
class Speed:
    """A speed-up with its interval: `by` 1.23 means 1.23 times as many steps a second. `needed`
    is the gain that had to be exceeded; `samples` the pairs and the steps of one run."""

    by: float
    low: float
    high: float
    needed: float
    pairs: int
    steps: int

    @property
    def text(self) -> str:
        """For people: `1.23x (95 % interval 1.19 to 1.27, 3 pairs of 25 steps)`."""
        return (
            f"{self.by:.2f}x (95 % interval {self.low:.2f} to {self.high:.2f},"
            f" {self.pairs} pairs of {self.steps} steps)"
        )


@dataclass(frozen=True, slots=True)
class Faster(Speed):
    """Surely faster, by more than the noise."""


@dataclass(frozen=True, slots=True)
class NotFaster(Speed):
    """Surely not faster by what is needed; it may be slower."""


@dataclass(frozen=True, slots=True)
class Inconclusive(Speed):
    """The runs do not say. `why` is a sentence."""

    why: str = ""


Verdict = Faster | NotFaster | Inconclusive


def judge(pairs: Sequence[Pair], policy: Policy | None = None) -> Verdict:
    """The verdict on pairs of runs. Raises ValueError when a run has no step or a step of no
    time."""
    policy = policy or Policy()
    if not pairs or any(not pair.before or not pair.after for pair in pairs):
        raise ValueError("there is nothing to compare: a run kept no step")
    if not all(0 < time < math.inf for pair in pairs for time in (*pair.before, *pair.after)):
        raise ValueError("a step took no time: the clock is not to be trusted")
    by = _mean(pairs)
    low, high = _interval(pairs, policy)
    needed = needed_gain(pairs, policy)
    steps = min(min(len(pair.before), len(pair.after)) for pair in pairs)
    common = (by, low, high, needed, len(pairs), steps)
    if low > 1 and all(pair.ratio > 1 for pair in pairs) and by >= 1 + needed:
        return Faster(*common)
    if high < 1 + needed:
        return NotFaster(*common)
    return Inconclusive(*common, why="the gain is within the noise between equal runs")


def noise(pairs: Sequence[Pair]) -> float:
    """How far runs of the same thing lie apart: the standard deviation of the logarithms of their
    levels (a fraction), pooled over the runs before and those after; 0 with a single pair."""
    if len(pairs) < 2:
        return 0.0
    arms = zip(*(pair.levels for pair in pairs), strict=True)
    return math.sqrt(
        statistics.fmean(statistics.variance([math.log(level) for level in arm]) for arm in arms)
    )


def needed_gain(pairs: Sequence[Pair], policy: Policy) -> float:
    """The gain that chance hardly reaches: the policy's bounds, and what a mean of so few ratios
    may be off by, with so little known of the noise."""
    spread = noise(pairs)
    chance = STUDENT[min(max(len(pairs), 2), max(STUDENT))] * math.sqrt(2 / len(pairs))
    return max(policy.least_gain, policy.noises * spread, chance * spread)


def _mean(pairs: Sequence[Pair]) -> float:
    return math.exp(statistics.fmean(math.log(pair.ratio) for pair in pairs))


def _interval(pairs: Sequence[Pair], policy: Policy) -> tuple[float, float]:
    """Percentiles of the speed-up over resampled pairs and resampled blocks of their steps."""
    source = random.Random(policy.seed)  # noqa: S311 - statistics, not secrets
    drawn = sorted(_drawn(pairs, source) for _ in range(policy.draws))
    tail = (1 - policy.level) / 2
    last = len(drawn) - 1
    return drawn[round(tail * last)], drawn[round((1 - tail) * last)]


def _drawn(pairs: Sequence[Pair], source: random.Random) -> float:
    total = 0.0
    for _ in pairs:
        pair = pairs[source.randrange(len(pairs))]
        first = _drawn_steps(len(pair.before), source)
        second = first if pair.matched else _drawn_steps(len(pair.after), source)
        total += math.log(_taken(pair, first, second).ratio)
    return math.exp(total / len(pairs))


def _taken(pair: Pair, first: Sequence[int], second: Sequence[int]) -> Pair:
    """A pair of the drawn steps."""
    both = min(len(pair.before), len(pair.after))
    if pair.matched:
        first = second = [step for step in first if step < both] or [0]
    return Pair(
        tuple([pair.before[step] for step in first]),
        tuple([pair.after[step] for step in second]),
        pair.matched,
    )


def _drawn_steps(count: int, source: random.Random) -> list[int]:
    """As many steps as there are, drawn in blocks that wrap around."""
    found: list[int] = []
    width = min(BLOCK, count)
    while len(found) < count:
        start = source.randrange(count)
        found += [(start + offset) % count for offset in range(width)]
    return found[:count]


# --- memory -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """Peak bytes of the most loaded rank before and after; None where nothing was measured.

    `leaner`: at least 5 % and 256 MiB less in every pair, without a loss of speed. `larger`: at
    least as much more. `of` says which memory: "GPU" or "host".
    """

    before: int | None = None
    after: int | None = None
    leaner: bool = False
    larger: bool = False
    of: str = "GPU"

    @property
    def text(self) -> str:
        """For people: `GPU memory 21.4 GiB to 15.0 GiB (-30 %)`."""
        if not self.before or self.after is None:
            return "memory was not measured"
        change = self.after / self.before - 1
        before, after = self.before / 2**30, self.after / 2**30
        return f"{self.of} memory {before:.2f} GiB to {after:.2f} GiB ({change:+.0%})"


LEAST_SHARE, LEAST_BYTES = 0.05, 256 * 2**20


def judge_memory(
    peaks: Sequence[tuple[int | None, int | None]], verdict: Verdict, of: str = "GPU"
) -> MemoryChange:
    """What pairs of peaks (bytes, before and after) say; `verdict` is that on speed."""
    known = [(b, a) for b, a in peaks if b is not None and a is not None and b > 0]
    if not known or len(known) < len(peaks):
        return MemoryChange(of=of)

    def differs(first: int, second: int) -> bool:
        return first - second >= max(LEAST_SHARE * first, LEAST_BYTES)

    leaner = verdict.low > 0.98 and all(differs(before, after) for before, after in known)
    larger = all(differs(after, before) for before, after in known)
    before, after = max(b for b, _ in known), max(a for _, a in known)
    return MemoryChange(before, after, leaner, larger, of)


# --- warm-up ----------------------------------------------------------------------------------

MOST_WARM_UP = 40


def warm_up_of(times: Sequence[float], least: int) -> int:
    """How many first steps to drop: at least `least`, and on until the median of the next five is
    within 5 % of that of the last half, at most forty (and never more than half of all)."""
    if not times:
        return least
    settled = statistics.median(times[len(times) // 2 :])
    most = min(MOST_WARM_UP, len(times) // 2)
    for start in range(min(least, most), most):
        window = times[start : start + 5]
        if window and abs(statistics.median(window) / settled - 1) <= 0.05:
            return start
    return max(least, most) if len(times) > 2 * least else least
