"""`make bench-verdicts`: how often the verdict is right about runs whose truth is known.

Made-up runs of 25 steps: steps spread by 3 % and resemble their neighbours (autocorrelation 0.3),
one in fifty is half as long again, and whole runs differ by what the first column says. Three
pairs, and two more where three do not decide, as in `pitstop optimize`. `slower` counts verdicts
whose whole interval lies below 1. `--real N` compares N times a real training loop with itself, and
with one that takes a ninth longer, under the probe.
"""

import argparse
import math
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pitstop.runners.job import Job, Limits
from pitstop.runners.local_runner import LocalRunner
from pitstop.runners.measurement import kept_pairs
from pitstop.runners.probing import ProbeRequest, ProbeRun, place_probe, read_probe
from pitstop.runners.verify import Faster, Inconclusive, NotFaster, Pair, Verdict, judge

STEPS, STEP_SPREAD, RESEMBLANCE, OUTLIERS = 25, 0.03, 0.3, 0.02
PAIRS, MOST_PAIRS = 3, 5

LOOP = """
import os, time, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(256, 256)
late = float(os.environ.get("SLOWER", 0))
while True:
    began = time.perf_counter()
    for part in range(8):
        model(x).square().mean().backward()
    if late:
        until = time.perf_counter() + late * (time.perf_counter() - began)
        while time.perf_counter() < until:
            pass
    optimizer.step()
    optimizer.zero_grad()
"""


def steps(level: float, source: random.Random) -> tuple[float, ...]:
    """Step times of one run around its level."""
    found, last = [], source.gauss(0, 1)
    fresh = math.sqrt(1 - RESEMBLANCE**2)
    for _ in range(STEPS):
        last = RESEMBLANCE * last + fresh * source.gauss(0, 1)
        slow = 1.5 if source.random() < OUTLIERS else 1.0
        found.append(max(1e-6, level * (1 + STEP_SPREAD * last) * slow))
    return tuple(found)


def made_up(gain: float, between: float, source: random.Random) -> Callable[[], Pair]:
    """Makes pairs of runs, the second of which is `gain` times as fast."""

    def run(factor: float) -> tuple[float, ...]:
        return steps(0.1 / factor * math.exp(source.gauss(0, between)), source)

    return lambda: Pair(run(1.0), run(gain))


def decided(pair: Callable[[], Pair]) -> Verdict:
    """The verdict of the whole procedure."""
    pairs = [pair() for _ in range(PAIRS)]
    found = judge(pairs)
    if isinstance(found, Inconclusive):
        pairs += [pair() for _ in range(MOST_PAIRS - PAIRS)]
        found = judge(pairs)
    return found


def table(trials: int, seed: int) -> bool:
    """Print the table; whether it keeps to what is promised."""
    print(f"{trials} comparisons a row, seed {seed}")
    print(
        f"{'runs differ':>12} {'truth':>8} {'Faster':>7} {'NotFaster':>10} {'slower':>7} undecided"
    )
    kept = True
    for between in (0.005, 0.01, 0.02):
        for gain in (1.0, 0.9, 1.05, 1.1):
            source = random.Random(f"{seed} {between} {gain}")
            found = [decided(made_up(gain, between, source)) for _ in range(trials)]
            faster = sum(isinstance(one, Faster) for one in found)
            slower = sum(isinstance(one, NotFaster) and one.high < 1 for one in found)
            not_faster = sum(isinstance(one, NotFaster) for one in found)
            counts = f"{faster:>7} {not_faster:>10} {slower:>7} {trials - faster - not_faster:>9}"
            print(f"{between:>12.1%} {gain - 1:>+8.0%} {counts}", flush=True)
            kept &= gain != 1.0 or faster <= 0.03 * trials
            kept &= gain != 0.9 or slower >= 0.95 * trials
    print(
        "kept" if kept else "NOT kept",
        "to: equal runs at most 3 % Faster, a tenth slower seen in 95 %",
    )
    return kept


def measured(name: str, folder: Path, **env: str) -> ProbeRun:
    """One run of the real loop under the probe."""
    out = folder / name / "out"
    added = place_probe(folder / name / "site", ProbeRequest(steps=STEPS + 8), out)
    job = Job(
        name,
        (sys.executable, "loop.py"),
        folder,
        folder / name,
        env={**added, "OMP_NUM_THREADS": "1", **env},
        limits=Limits(seconds=120),
    )
    LocalRunner().run(job)
    return read_probe(out)


def real(trials: int) -> None:
    """Compare a real loop with itself, and with one that is a tenth slower; print counts."""
    for truth, env in (("equal", {}), ("a tenth slower", {"SLOWER": "0.1111"})):
        counts = {"Faster": 0, "NotFaster": 0, "Inconclusive": 0}
        ratios = []
        with tempfile.TemporaryDirectory(prefix="bench-") as name:
            folder = Path(name)
            (folder / "loop.py").write_text(LOOP, "utf-8")
            made = iter(range(10**6))

            def pair(folder: Path = folder, made=made, env=env) -> Pair:
                number = next(made)
                arms = [("a", {}), ("b", env)]
                order = arms if number % 2 == 0 else arms[::-1]
                runs = {arm: measured(f"{arm}{number}", folder, **extra) for arm, extra in order}
                return kept_pairs([(runs["a"], runs["b"])], 3)[0]

            for _ in range(trials):
                found = decided(pair)
                counts[type(found).__name__] += 1
                ratios.append(found.by)
        print(f"real, {truth}: {counts}, median ratio {statistics.median(ratios):.3f}", flush=True)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--trials", type=int, default=100)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--real", type=int, default=0)
    given = arguments.parse_args()
    kept = table(given.trials, given.seed)
    if given.real:
        real(given.real)
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
