"""A job's predicted memory, for rules: whether it fits, and the breakdown in a sentence."""

from __future__ import annotations

from dataclasses import dataclass

from pitstop.rules.estimate import Estimates, Fit, estimates, fit_of, largest
from pitstop.rules.job import TrainingJob
from pitstop.rules.memory import GIB
from pitstop.rules.ranges import Range
from pitstop.rules.setup import Unsized, setup_of
from pitstop.rules.trained import Setup


@dataclass(frozen=True, slots=True)
class JobMemory:
    """The estimates of a job, the setup that needs most, and its GPU's bytes (None: unknown)."""

    found: Estimates
    most: Setup
    capacity: int | None
    complete: bool

    @property
    def total(self) -> Range:
        """Memory at the peak, whatever is unknown."""
        return self.found.total

    @property
    def fit(self) -> Fit:
        """Whether it fits."""
        return fit_of(self.total, self.capacity)


def memory_of(job: TrainingJob) -> JobMemory | None:
    """What a job needs; None when it cannot be sized. `complete`: nothing was unknown."""
    sized = setup_of(job)
    if isinstance(sized, Unsized):
        return None
    most = largest(sized.setups)
    return JobMemory(estimates(sized.setups), most, job.hardware.memory, not sized.missing)


def breakdown(found: Estimates, parts: int = 4) -> str:
    """The largest parts at the peak in words: `weights 14.2, optimizer state 56.7 GiB`."""
    rows = sorted(found.most.peak.parts, key=lambda part: -part.size.high)[:parts]
    words = ", ".join(f"{part.name} {part.size.high / GIB:.1f}" for part in rows)
    return f"{words} GiB {found.most.peak.name}"
