"""Whether a changed project is faster, leaner and still the same training: by interleaved runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pitstop.bot.optimize.arms import Arm, Kind, Run, Track, sized
from pitstop.runners.measurement import kept_pairs, void
from pitstop.runners.parity import Parity, compare_losses, same_work
from pitstop.runners.probing import ProbeRun
from pitstop.runners.verify import (
    Inconclusive,
    MemoryChange,
    Pair,
    Verdict,
    judge,
    judge_memory,
)


@dataclass(frozen=True, slots=True)
class Failed:
    """The changed project did not run: `run` shows how it ended."""

    run: Run


@dataclass(frozen=True, slots=True)
class OtherTraining:
    """It runs, but trains otherwise: `why` is one sentence, `parity` the losses if they were
    compared."""

    why: str
    parity: Parity | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """Verdict on speed and on memory, with everything that it rests on."""

    verdict: Verdict
    memory: MemoryChange
    parity: Parity
    pairs: tuple[Pair, ...]
    files: tuple[str, ...]
    probes_before: tuple[ProbeRun, ...] = ()
    probes_after: tuple[ProbeRun, ...] = ()
    seconds: float = 0.0


Comparison = Failed | OtherTraining | Measured


@dataclass(slots=True)
class Comparer:
    """Compares arms on a track; the parity runs of an arm are made once and kept."""

    track: Track
    half: bool = False
    primed: dict[str, Run] = field(default_factory=dict)
    _parity: dict[str, list[Run]] = field(default_factory=dict)

    def prime(self, arm: Arm) -> Run:
        """The first, untimed run of an arm: fills caches, and shows whether it runs at all."""
        run = self.track.run(arm, Kind.PRIME, warm_up=self.track.warm_up(arm))
        self.primed[arm.name] = run
        return run

    def compare(self, best: Arm, candidate: Arm, numerics: str) -> Comparison:
        """Compare a candidate with the best so far. Stops at the first reason against it."""
        run = self.prime(candidate)
        if not run.ok:
            return Failed(run)
        other = same_work(self.primed[best.name].probe, run.probe)
        if other is not None:
            return OtherTraining(other)
        parity = self.parity(best, candidate, numerics)
        if isinstance(parity, Failed) or not parity.ok:
            return parity if isinstance(parity, Failed) else OtherTraining(parity.text, parity)
        return self.timed(best, candidate, parity)

    def parity(self, best: Arm, candidate: Arm, numerics: str) -> Parity | Failed:
        """Losses of both from one seed, against what the best differs from itself."""
        before = self._losses(best, 2)
        after = self._losses(candidate, 1)
        bad = next((run for run in (*before, *after) if not run.result.ok), None)
        if bad is not None:
            return Failed(bad)
        return compare_losses(
            before[0].probe, after[0].probe, before[1].probe, numerics, half=self.half
        )

    def _losses(self, arm: Arm, wanted: int) -> list[Run]:
        kept = self._parity.setdefault(arm.name, [])
        while len(kept) < wanted:
            steps = min(self.track.sizes.parity_steps, self.track.steps)
            kept.append(self.track.run(arm, Kind.PARITY, steps=steps, warm_up=0))
        return kept

    def timed(self, best: Arm, candidate: Arm, parity: Parity) -> Measured | Failed:
        """Interleaved timed runs: A B, B A, A B; more of them once, when undecided."""
        sizes = self.track.sizes
        warm_up = self.track.warm_up(best, candidate)
        runs: list[tuple[Run, Run]] = []
        for most in (sizes.pairs, sizes.most_pairs):
            while len(runs) < most:
                made = self._pair(best, candidate, warm_up, swapped=len(runs) % 2 == 1)
                bad = next((run for run in made if not run.ok), None)
                if bad is not None:
                    return Failed(bad)
                runs.append(made)
            pairs = _pairs(runs, warm_up)
            verdict = judge(pairs)
            if not isinstance(verdict, Inconclusive):
                break
        return Measured(
            verdict,
            _memory(runs, verdict),
            parity,
            tuple(pairs),
            tuple(run.file.name for pair in runs for run in pair),
            tuple(before.probe for before, _ in runs),
            tuple(after.probe for _, after in runs),
            sum(run.result.seconds for pair in runs for run in pair),
        )

    def _pair(self, best: Arm, candidate: Arm, warm_up: int, *, swapped: bool) -> tuple[Run, Run]:
        """Two runs next to each other; once more when something held only one of them up."""
        order = (candidate, best) if swapped else (best, candidate)
        steps = {best.name: self.track.steps, candidate.name: self._steps(candidate, warm_up)}
        for _ in range(2):
            made = {
                arm.name: self.track.run(
                    arm, Kind.TIMED, steps=steps[arm.name] or None, warm_up=warm_up
                )
                for arm in order
            }
            pair = made[best.name], made[candidate.name]
            if not all(run.ok for run in pair) or void(_pairs([pair], warm_up)[0]) is None:
                break
        return pair

    def _steps(self, arm: Arm, warm_up: int) -> int:
        """How many steps a timed run of an arm keeps: more where its steps are shorter, since the
        first ones may live on what workers of a loader had prepared before they began."""
        steps, run = self.track.steps, self.primed.get(arm.name)
        if run is None or not run.ok:
            return steps
        try:
            return max(steps, sized(run, self.track.sizes, warm_up))
        except ValueError:
            return steps


def _pairs(runs: Sequence[tuple[Run, Run]], least: int) -> list[Pair]:
    return kept_pairs([(before.probe, after.probe) for before, after in runs], least)


def _memory(runs: Sequence[tuple[Run, Run]], verdict: Verdict) -> MemoryChange:
    """Peaks of GPU memory; of host memory where there is no GPU."""
    on_gpu = all(_peak(a.probe, "peak_reserved") is not None for a, _ in runs)
    name, of = ("peak_reserved", "GPU") if on_gpu else ("peak_rss", "host")
    peaks = [(_peak(a.probe, name), _peak(b.probe, name)) for a, b in runs]
    return judge_memory(peaks, verdict, of)


def _peak(run: ProbeRun, name: str) -> int | None:
    """The largest of all ranks, in bytes."""
    found = [getattr(rank, name) for rank in run.ranks]
    return None if not found or None in found else max(found)


def facts_of(comparison: Measured) -> dict[str, Any]:
    """A comparison as plain data, for the record."""
    return {
        "verdict": type(comparison.verdict).__name__,
        "speed_text": comparison.verdict.text,
        **{f"speed_{k}": v for k, v in dataclasses.asdict(comparison.verdict).items()},
        "memory": dataclasses.asdict(comparison.memory),
        "memory_text": comparison.memory.text,
        "parity": dataclasses.asdict(comparison.parity),
        "runs": list(comparison.files),
    }
