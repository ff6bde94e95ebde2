"""The start against the end, as rows of a table; every figure from the runs that were compared."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pitstop.bot.optimize.compare import Measured
from pitstop.rules.job import TrainingJob
from pitstop.runners.probing import ProbeRun


def rows_of(measured: Measured, planned_steps: int | None = None) -> list[dict[str, str]]:
    """Step time, throughput, memory and projected time, before and after with the change."""
    before, after = (
        statistics.median(levels)
        for levels in zip(*(pair.levels for pair in measured.pairs), strict=True)
    )
    by, low, high = (getattr(measured.verdict, name) for name in ("by", "low", "high"))
    rows = [
        _row("step time", f"{before * 1e3:.2f} ms", f"{after * 1e3:.2f} ms", _spread(by, low, high))
    ]
    for name, unit in (("samples", "samples/s"), ("tokens", "tokens/s")):
        work = _per_step(measured.probes_before, name), _per_step(measured.probes_after, name)
        if work[0] and work[1]:
            first, second = work[0] / before, work[1] / after
            change = f"{second / first - 1:+.1%}"
            rows.append(_row(unit, f"{first:,.0f}", f"{second:,.0f}", change))
    memory = measured.memory
    if memory.before and memory.after is not None:
        change = f"{memory.after / memory.before - 1:+.1%}"
        sizes = [f"{size / 2**30:.2f} GiB" for size in (memory.before, memory.after)]
        rows.append(_row(f"peak {memory.of} memory", *sizes, change))
    if planned_steps:
        hours = [f"{seconds * planned_steps / 3600:.2f} h" for seconds in (before, after)]
        rows.append(_row(f"projected time of {planned_steps} steps", *hours, f"{1 / by - 1:+.1%}"))
    return rows


def _row(*cells: str) -> dict[str, str]:
    return dict(zip(("metric", "before", "after", "change"), cells, strict=True))


def _spread(by: float, low: float, high: float) -> str:
    return f"{1 / by - 1:+.1%} (95 % interval {1 / high - 1:+.1%} to {1 / low - 1:+.1%})"


def _per_step(runs: Sequence[ProbeRun], name: str) -> float | None:
    """What one step of all ranks works on, as the median over steps and runs."""
    found: list[int] = []
    for run in runs:
        ranks = [getattr(rank, name)[1:] for rank in run.ranks]
        for step in zip(*ranks, strict=False):
            if all(value is not None for value in step):
                found.append(sum(step))
    return statistics.median(found) if found else None


def planned_steps(job: TrainingJob | None) -> int | None:
    """Optimizer steps of the whole job, where it says so."""
    steps = job.value("train.max_steps") if job is not None else None
    return steps if isinstance(steps, int) and steps > 0 else None
