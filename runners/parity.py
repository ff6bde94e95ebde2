"""Whether a changed job still trains the same: the same work in each step, and the same losses.

Tolerances are per class of change. Rounding differs by about 1e-6 in fp32 and 1e-3 in 16 bits
within a few steps; another learning rate, data order or batch by 1e-2 and more. The limits lie
between, and the losses are reported with the verdict, not only "pass".
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pitstop.runners.probing import ProbeRun

SMALLEST = 0.01
"""Losses below this are compared absolutely: near zero a ratio says nothing."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Relative differences that a class allows: at the first step, at any, of the last mean."""

    first: float
    most: float
    last: float


TOLERANCES = {
    ("exact", False): Tolerance(0.0, 0.0, 0.0),
    ("exact", True): Tolerance(0.0, 0.0, 0.0),
    ("equivalent", False): Tolerance(1e-5, 1e-4, 1e-4),
    ("equivalent", True): Tolerance(1e-3, 5e-3, 2e-3),
    ("precision", False): Tolerance(5e-3, 1e-2, 5e-3),
    ("precision", True): Tolerance(5e-3, 1e-2, 5e-3),
}


@dataclass(frozen=True, slots=True)
class Parity:
    """How far the losses of two runs lie apart. `worst` is the largest relative difference,
    `limit` what its class allows, `noise` that between two equal runs; `step` (from 1) is the
    first over the limit. The losses themselves are kept, for the figure."""

    ok: bool
    worst: float
    limit: float
    noise: float
    text: str
    step: int | None = None
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()


def compare_losses(
    before: ProbeRun,
    after: ProbeRun,
    again: ProbeRun | None,
    numerics: str,
    *,
    half: bool = False,
) -> Parity:
    """The losses of a changed job against those of the job as it was.

    `again` is a second run of the job as it was: its own noise, three times, is allowed to every
    class, up to the limit of the precision class. `half`: the job computes in 16 bits.
    """
    one, two = before.step_losses(), after.step_losses()
    count = min(len(one), len(two))
    if not count:
        return _refused("no losses were seen, so they cannot be compared", one, two)
    if numerics == "semantics":
        return Parity(
            True,
            _worst(one, two),
            math.inf,
            0.0,
            "changes the training: losses are not compared",
            None,
            one[:count],
            two[:count],
        )
    if not all(map(math.isfinite, two[:count])):
        bad = next(i for i, loss in enumerate(two, 1) if not math.isfinite(loss))
        return _refused(f"the loss of step {bad} is not a number", one, two, bad)
    noise = _worst(one, again.step_losses()) if again is not None else 0.0
    allowed = TOLERANCES[numerics, half]
    widest = TOLERANCES["precision", half]
    most = max(allowed.most, min(3 * noise, widest.most))
    first = max(allowed.first, min(3 * noise, widest.first))
    apart = _differences(one, two)
    step = next((i for i, d in enumerate(apart, 1) if d > (first if i == 1 else most)), None)
    trend = _trend(one[:count], two[:count])
    drifts = numerics == "precision" and abs(trend) > allowed.last
    worst = max(apart)
    if step is not None:
        text = (
            f"losses differ by {worst:.1e} (allowed {most:.1e}), first at step {step}:"
            f" {one[step - 1]:.6g} and {two[step - 1]:.6g}"
        )
    elif drifts:
        text = f"losses drift: the last steps differ by {trend:+.1e} on average"
    else:
        text = f"losses of {count} steps differ by at most {worst:.1e} (allowed {most:.1e})"
    return Parity(
        step is None and not drifts, worst, most, noise, text, step, one[:count], two[:count]
    )


def _refused(
    why: str, one: Sequence[float], two: Sequence[float], step: int | None = None
) -> Parity:
    return Parity(False, math.inf, 0.0, 0.0, why, step, tuple(one), tuple(two))


def _differences(one: Sequence[float], two: Sequence[float]) -> list[float]:
    pairs = zip(one, two, strict=False)
    return [abs(a - b) / max(abs(a), SMALLEST) for a, b in pairs]


def _worst(one: Sequence[float], two: Sequence[float]) -> float:
    return max(_differences(one, two), default=0.0)


def _trend(one: Sequence[float], two: Sequence[float]) -> float:
    """The mean signed difference of the last five steps."""
    pairs = list(zip(one, two, strict=False))[-5:]
    return statistics.fmean((b - a) / max(abs(a), SMALLEST) for a, b in pairs)


def same_work(before: ProbeRun, after: ProbeRun) -> str | None:
    """Why two runs do not do the same work in a step; None when they do, as far as is known.

    Samples and tokens of a step are totals over ranks; what neither run could count is not
    compared.
    """
    if not before.ranks or not after.ranks:
        return "one of the runs was not seen by the probe"
    if len(before.ranks) != len(after.ranks):
        return f"{len(after.ranks)} processes instead of {len(before.ranks)}"
    trained = [[rank.trainable_parameters for rank in run.ranks] for run in (before, after)]
    if trained[0] != trained[1]:
        return f"{trained[1][0]} parameters are trained instead of {trained[0][0]}"
    for name in ("samples", "tokens"):
        first, second = (_per_step(run, name) for run in (before, after))
        if first and second and first != second:
            return f"a step has {second:g} {name} instead of {first:g}"
    return None


def _per_step(run: ProbeRun, name: str) -> float | None:
    """Median over steps of what all ranks together counted in a step."""
    ranks = [getattr(rank, name)[1:] for rank in run.ranks]
    steps = [step for step in zip(*ranks, strict=False) if all(v is not None for v in step)]
    return statistics.median(sum(step) for step in steps) if steps else None
