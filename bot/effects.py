"""What a change does to a job's memory and to the work of a step, as predicted. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pitstop.rules.estimate import Fit, estimates, fit_of, largest
from pitstop.rules.hardware import gpus
from pitstop.rules.job import TrainingJob
from pitstop.rules.memory import GIB
from pitstop.rules.ranges import Range
from pitstop.rules.setup import Unsized, setup_of
from pitstop.rules.speed import speed_of

NOTABLE = 0.02
"""Share by which a figure must move to be told."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """One side. `memory` is bytes per GPU at the peak, `seconds_per_token` the bound of the
    whole job where the GPU is known."""

    memory: Range
    tokens_per_step: Range
    capacity: int | None = None
    seconds_per_token: float | None = None

    @property
    def fit(self) -> Fit:
        """Whether it fits into the job's GPU."""
        return fit_of(self.memory, self.capacity)


@dataclass(frozen=True, slots=True)
class Effect:
    """Both sides of one job, and what follows in sentences."""

    job: str
    title: str
    before: Footprint
    after: Footprint
    consequences: tuple[str, ...] = ()


def footprint(job: TrainingJob) -> Footprint | None:
    """A job's predicted memory and work; None when it cannot be sized."""
    sized = setup_of(job)
    if isinstance(sized, Unsized):
        return None
    found = estimates(sized.setups)
    most = largest(sized.setups)
    gpu = gpus().get(job.hardware.gpu or "")
    speed = speed_of(most, gpu, job.hardware.gpus_per_node) if gpu else None
    tokens = [float(setup.tokens_per_step) for setup in sized.setups]
    return Footprint(
        found.total,
        Range(min(tokens), max(tokens)),
        job.hardware.memory,
        1 / speed.tokens_per_second if speed else None,
    )


def effects(before: Iterable[TrainingJob], after: Iterable[TrainingJob]) -> tuple[Effect, ...]:
    """Every job of both sides whose predicted memory or work differs notably."""
    old = {job.id: job for job in before}
    found = []
    for job in after:
        was = old.get(job.id)
        if was is None or job.purpose != "train" or was.settings == job.settings:
            continue
        one, other = footprint(was), footprint(job)
        if one is None or other is None or not _differ(one, other):
            continue
        words = tuple(_consequences(one, other))
        found.append(Effect(job.id, job.title, one, other, words))
    return tuple(found)


def _differ(before: Footprint, after: Footprint) -> bool:
    return (
        _moved(before.memory.high, after.memory.high)
        or _moved(before.memory.low, after.memory.low)
        or before.tokens_per_step != after.tokens_per_step
        or _slower(before, after) not in (None, 0)
    )


def _moved(before: float, after: float) -> bool:
    return abs(after - before) > NOTABLE * max(before, after)


def _slower(before: Footprint, after: Footprint) -> int | None:
    """Percent by which the least time per token grows; None when it is not known."""
    if not before.seconds_per_token or not after.seconds_per_token:
        return None
    share = after.seconds_per_token / before.seconds_per_token - 1
    return round(100 * share) if abs(share) > NOTABLE else 0


def _consequences(before: Footprint, after: Footprint) -> Iterator[str]:
    if before.capacity == after.capacity and before.capacity is not None:
        size = f"{before.capacity / GIB:.1f} GiB"
        if after.fit is Fit.DOES_NOT_FIT and before.fit is not Fit.DOES_NOT_FIT:
            yield f"no longer fits in {size}"
        elif after.fit is Fit.TIGHT and before.fit is Fit.FITS:
            yield f"may no longer fit in {size}"
        elif before.fit is Fit.DOES_NOT_FIT and after.fit is not Fit.DOES_NOT_FIT:
            yield f"fits in {size} now" if after.fit is Fit.FITS else f"may fit in {size} now"
    slower = _slower(before, after)
    if slower:
        word = "longer" if slower > 0 else "shorter"
        yield f"the least time per token is {abs(slower)} % {word}"
    if before.tokens_per_step != after.tokens_per_step:
        yield "another number of tokens per step: the learning rate may have to follow"
