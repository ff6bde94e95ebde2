"""Whether a changed job still trains the same: the same work in each step, and the same losses.

Tolerances are per class of change. Rounding differs by about 1e-6 in fp32 and 1e-3 in 16 bits
within a few steps; another learning rate, data order or batch by 1e-2 and more. The limits lie
between, and the losses are reported with the verdict, not only "pass".
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pitstop.runners.probing import ProbeRun, RankRun

SMALLEST = 0.01
"""Losses below this are compared absolutely: near zero a ratio says nothing."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Relative differences that a class allows: at the first step, at any, of the last mean;
    `norms` of the gradients' norms, where None is not held to any."""

    first: float
    most: float
    last: float
    norms: float | None = None


TOLERANCES = {
    ("exact", False): Tolerance(0.0, 0.0, 0.0),
    ("exact", True): Tolerance(0.0, 0.0, 0.0),
    ("equivalent", False): Tolerance(1e-5, 1e-4, 1e-4, norms=1e-3),
    ("equivalent", True): Tolerance(1e-3, 5e-3, 2e-3),
    ("precision", False): Tolerance(5e-3, 1e-2, 5e-3, norms=0.1),
    ("precision", True): Tolerance(5e-3, 1e-2, 5e-3, norms=0.1),
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
    if not one or not two:
        return _refused("no losses were seen, so they cannot be compared", one, two)
    if numerics == "semantics":
        text = "changes the training: losses are not compared"
        return Parity(True, _worst(one, two), math.inf, 0.0, text, None, one, two)
    for losses, of in ((one, "of the job as it was"), (two, "after the change")):
        bad = next((i for i, loss in enumerate(losses, 1) if not math.isfinite(loss)), None)
        if bad is not None:
            return _refused(f"the loss {of} is not a number at step {bad}", one, two, bad)
    if len(two) < len(one):
        why = f"the changed job made {len(two)} steps instead of {len(one)}"
        return _refused(why, one, two)
    noise = _worst(one, again.step_losses()) if again is not None else 0.0
    allowed = _widened(TOLERANCES[numerics, half], TOLERANCES["precision", half], noise)
    step = _first_over(one, two, allowed)
    reason = _other_than_losses(before, after, again, numerics, allowed)
    worst = _worst(one, two)
    if step is not None:
        text = (
            f"losses differ by {worst:.1e} (allowed {allowed.most:.1e}), first at step {step}:"
            f" {one[step - 1]:.6g} and {two[step - 1]:.6g}"
        )
    else:
        text = reason or (
            f"losses of {len(one)} steps differ by at most {worst:.1e} (allowed {allowed.most:.1e})"
        )
    ok = step is None and reason is None
    return Parity(ok, worst, allowed.most, noise, text, step, one, two[: len(one)])


def _widened(own: Tolerance, widest: Tolerance, noise: float) -> Tolerance:
    """A class's tolerance, and three times the job's own noise up to that of fewer bits."""
    first = max(own.first, min(3 * noise, widest.first))
    return dataclasses.replace(own, first=first, most=max(own.most, min(3 * noise, widest.most)))


def _first_over(one: Sequence[float], two: Sequence[float], allowed: Tolerance) -> int | None:
    """The first step (from 1) whose losses lie further apart than is allowed."""
    for step, apart in enumerate(_differences(one, two), 1):
        if apart > (allowed.first if step == 1 else allowed.most):
            return step
    return None


def _other_than_losses(
    before: ProbeRun, after: ProbeRun, again: ProbeRun | None, numerics: str, allowed: Tolerance
) -> str | None:
    """What else tells that the training differs: a drift, or other gradients."""
    if numerics == "precision":
        trend = _trend(before.step_losses(), after.step_losses())
        if abs(trend) > allowed.last:
            return f"losses drift: the last steps differ by {trend:+.1e} on average"
    if allowed.norms is None:
        return None
    noise = _norms_apart(before, again) if again is not None else 0.0
    apart, most = _norms_apart(before, after), max(allowed.norms, 3 * noise)
    if apart > most:
        return f"norms of the gradients differ by {apart:.1e} (allowed {most:.1e})"
    return None


def _norms_apart(before: ProbeRun, after: ProbeRun) -> float:
    """The median over steps of how far the gradients' norms lie apart, of the worst rank; 0
    where they were not seen. A single step may pass where gradients are nearly zero."""
    ranks = zip(before.ranks, after.ranks, strict=False)
    return max((_rank_norms_apart(one, two) for one, two in ranks), default=0.0)


def _rank_norms_apart(one: RankRun, two: RankRun) -> float:
    both = [
        abs(a - b) / a
        for a, b in zip(one.grad_norms, two.grad_norms, strict=False)
        if a and b is not None and math.isfinite(a) and math.isfinite(b)
    ]
    return statistics.median(both) if both else 0.0


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
    compared. Padding is no work, so tokens without it are compared where both runs know them.
    """
    if not before.ranks or not after.ranks:
        return "one of the runs was not seen by the probe"
    if len(before.ranks) != len(after.ranks):
        return f"{len(after.ranks)} processes instead of {len(before.ranks)}"
    trained = [[rank.trainable_parameters for rank in run.ranks] for run in (before, after)]
    if trained[0] != trained[1]:
        one, two = (sum(count or 0 for count in counts) for counts in trained)
        return f"{two} parameters are trained instead of {one}"
    useful = all(_per_step(run, "useful_tokens") for run in (before, after))
    for name in ("samples", "useful_tokens" if useful else "tokens"):
        first, second = (_per_step(run, name) for run in (before, after))
        if first and second and first != second:
            return f"a step has {second:g} {name.replace('_', ' ')} instead of {first:g}"
    return None


def _per_step(run: ProbeRun, name: str) -> float | None:
    """Median over steps of what all ranks together counted in a step."""
    ranks = [getattr(rank, name)[1:] for rank in run.ranks]
    steps = [step for step in zip(*ranks, strict=False) if all(v is not None for v in step)]
    return statistics.median(sum(step) for step in steps) if steps else None
