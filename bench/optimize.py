"""`make bench-optimize`: example jobs from as they are to proved faster, or not, on this machine.

Prints one line for each job: the verdict on the whole, with its interval, and what it cost in
runs and minutes. Nothing is asserted: this is for looking.
"""

import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from pitstop.bot.optimize.loop import optimize
from pitstop.bot.optimize.request import OptimizeRequest, Sizes
from pitstop.bot.optimize.summary import verdict
from pitstop.runners.local_runner import LocalRunner

ROOT = Path(__file__).parents[1] / "examples" / "optimize"
SIZES = Sizes(rounds=2, candidates=3, kept_seconds=3.0)
JOBS = (
    ("slow-loader", "python train.py"),
    ("trainer", "python train.py"),
    ("two-processes", "torchrun --standalone --nproc-per-node=2 train.py"),
)


def main() -> int:
    chosen = set(sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for name, command in JOBS:
            if chosen and name not in chosen:
                continue
            began = time.monotonic()
            request = OptimizeRequest(
                ROOT / name, command, out=Path(folder) / name, sizes=replace(SIZES)
            )
            session = optimize(
                request, LocalRunner(), say=lambda text: print(f"  {text}", flush=True)
            )
            facts = session.record.facts
            print(f"{name}: {verdict(facts)}")
            for tried in session.tried:
                print(f"    {tried.outcome:16} {tried.id:20} {tried.reason}")
            for row in facts.get("rows", ()):
                print("    " + json.dumps(row))
            runs = len(session.track.runs) if session.track else 0
            print(f"    {runs} runs, {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
