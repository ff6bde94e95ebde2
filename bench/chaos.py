"""`make chaos`: what is said on pull requests and kept on disk while everything around goes wrong.

Each request of a review and of a publication fails once, in each way that GitHub and networks
know; clocks jump; disks are full or read-only; optimizations are interrupted at random moments;
fifty pull requests come at once. The stand-in GitHub and the pull requests are those of the tests.
Prints a row for each: how many were really run, and what broke.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import itertools
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from demo.forge import Forge  # noqa: E402
from pitstop.bot.action import run  # noqa: E402
from pitstop.bot.optimize.workfolder import checksums_of  # noqa: E402
from pitstop.bot.transport import Clock  # noqa: E402
from tests.bot.optimize.test_loop import SLOW_LOADER, strays  # noqa: E402
from tests.bot.reviewing import audit_marks, settings_for  # noqa: E402
from tests.bot.stages import conftest as stages  # noqa: E402
from tests.bot.test_faults import Bench, state  # noqa: E402

FAULTS: dict[str, dict[str, Any]] = {
    "403 secondary limit": {"kind": "secondary", "retry_after": 7},
    "429 with Retry-After": {"kind": "429", "retry_after": 7},
    "429 without": {"kind": "429"},
    "422 abuse": {"kind": "abuse"},
    "500": {"kind": "500"},
    "502 after it took effect": {"kind": "502", "moment": "after"},
    "reset": {"kind": "reset"},
    "reset after it took effect": {"kind": "reset", "moment": "after"},
    "half an answer": {"kind": "truncated", "moment": "after"},
    "half a second late": {"kind": "slow"},
}
Row = tuple[str, int, list[str]]


def review(folder: Path) -> Iterator[Row]:
    """A review with one fault, for each of its requests."""
    with Forge(folder / "forge") as forge:
        bench = Bench(forge, folder)
        pull = bench.reviewed()
        count = bench.review(pull)
        expected = state(pull)
        pull.close()
        for name, fault in FAULTS.items():
            broken = []
            for index in range(count):
                other = bench.reviewed()
                forge.inject(**fault, after=index)
                with told(broken, f"request {index}"):
                    bench.review(other)
                    if state(other) != expected:
                        broken.append(f"request {index}: another state")
                forge.clear_faults()
                other.close()
            yield f"review, {name}", count, broken


def publication(folder: Path) -> Iterator[Row]:
    """The publication of a run with one fault, for each of its requests."""
    numbers = itertools.count()

    def published(fault: dict[str, Any] | None) -> tuple[int, tuple[object, ...]]:
        home = folder / f"publish{next(numbers)}"
        home.mkdir()
        with Forge(home / "forge") as forge:
            stage = staged(forge, home)
            refs = others(stage)
            before = len(forge.log)
            if fault:
                forge.inject(**fault)
            stage.publish()
            found = stage.follow_ups()
            return len(forge.log) - before, (
                [(issue.state, pull.draft, issue.title) for issue, pull in found],
                stage.answers(), others(stage) == refs, stage.code,
            )  # fmt: skip

    count, expected = published(None)
    for name, fault in FAULTS.items():
        broken = []
        for index in range(count):
            with told(broken, f"request {index}"):
                _, found = published({**fault, "after": index})
                if found != expected:
                    broken.append(f"request {index}: {found}, not {expected}")
        yield f"publication, {name}", count, broken


def staged(forge: Forge, folder: Path) -> stages.Stage:
    """A pull request that has been reviewed, asked about and measured."""
    files = {".github/pitstop.yml": stages.CONFIG, "train.py": stages.TRAIN}
    repo = forge.create_repo({**files, "run.sh": "python train.py\n"})
    repo.give_role("mona", "write")
    pull = repo.open_pull({"train.py": stages.TRAIN + "save()\n"}, author="mona", branch="change")
    stage = stages.Stage(forge, pull, folder)
    stage.review()
    stage.kept_request = stage.command()["request"]
    patch = stages.patch_of(repo, pull.head, {"train.py": stages.FASTER + "save()\n"})
    stages.write(stage, {"0001.patch": patch}, stages.kept())
    return stage


def others(stage: stages.Stage) -> dict[str, str]:
    """The refs that are not ours."""
    ours = ("refs/heads/pitstop/pr-", "refs/pull/")
    return {n: sha for n, sha in stage.repo.references().items() if not n.startswith(ours)}


def clocks(folder: Path) -> Iterator[Row]:
    """Reviews by a clock that jumps an hour, forwards and back, at each request in turn."""
    for name, jump in (("an hour forwards", 3600.0), ("an hour back", -3600.0)):
        broken: list[str] = []
        with Forge(folder / f"forge{jump}") as forge:
            bench = Bench(forge, folder / f"work{jump}")
            pull = bench.reviewed()
            count = bench.review(pull)
            expected = state(pull)
            for index in range(count):
                other = bench.reviewed()
                calls, real = itertools.count(), time.time

                def told_time(
                    calls: Any = calls,
                    real: Any = real,
                    at: int = 3 * index,
                    jump: float = jump,
                ) -> float:
                    return float(real() + jump * (next(calls) >= at))

                where = folder / f"work{jump}" / str(other.number)
                forge.inject("500", after=index)  # so that the clock is asked
                with told(broken, f"request {index}"), mock.patch("time.time", told_time):
                    code = run(settings_for(forge, other, where),
                               clock=Clock(sleep=lambda _: None), audit=audit_marks)  # fmt: skip
                    found = state(other)
                    doubled = len(found["comments"]) != len(expected["comments"])
                    if code or doubled or found["reviews"] > expected["reviews"]:
                        broken.append(f"request {index}: exit code {code}, {found['reviews']}")
                forge.clear_faults()
                other.close()
        yield f"review, the clock jumps {name}", count, broken


def load(folder: Path) -> Iterator[Row]:
    """Fifty pull requests at once, one token, GitHub's limits on."""
    lock = threading.Lock()
    with Forge(folder / "forge") as forge:
        bench = Bench(forge, folder)
        pulls = [bench.opened() for _ in range(50)]
        forge.rates.enforce()
        passed = 0.0

        def now() -> float:
            return time.time() + passed

        def sleep(seconds: float) -> None:
            nonlocal passed
            until = now() + seconds
            time.sleep(0.02)
            with lock:
                if until > now():
                    forge.pass_time(until - now())
                    passed += until - now()

        def one(pull: Any) -> str:
            settings = settings_for(forge, pull, folder / str(pull.number))
            code = run(settings, clock=Clock(now, sleep), audit=audit_marks)
            found = state(pull)
            summaries, reviews = len(found["comments"]), found["reviews"]
            good = code == 0 and summaries == 1 and reviews == 2
            return "" if good else f"#{pull.number}: {code}, {summaries} summaries, {reviews}"

        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            said = list(pool.map(one, pulls))
        refused = sum(
            exchange.answer is not None and exchange.answer.status in (403, 429)
            for exchange in forge.log
        )
    yield (
        f"50 pull requests at once: {refused} requests refused by limits,"
        f" {passed / 60:.0f} minutes of waiting", 50, [text for text in said if text],
    )  # fmt: skip


def disks(folder: Path) -> Iterator[Row]:
    """Audits and optimizations whose cache, reports or work folder cannot be written."""
    project = folder / "project"
    project.mkdir()
    (project / "train.py").write_text(textwrap.dedent(SLOW_LOADER).lstrip())
    (project / "data.bin").write_bytes(bytes(3_000_000))
    before = checksums_of(project)
    for name, options in (("full disk", "size=1m"), ("read-only disk", "size=1m,ro")):
        disk = folder / name.replace(" ", "-")
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            yield f"{name}: not run, since this user may not mount one", 0, []
            continue
        try:
            if "ro" not in options.split(","):
                with contextlib.suppress(OSError):
                    (disk / "filler").write_bytes(bytes(2_000_000))
            broken = []
            for words in (
                ["audit", project],
                ["audit", project, "--format", "json", "--output", disk / "report.json"],
                ["audit", project, "--report", disk / "reports"],
                ["optimize", project, "--quick", "--out", disk / "work", "--", "python train.py"],
            ):
                done = subprocess.run(
                    [sys.executable, "-m", "pitstop.bot", *map(str, words)],
                    env={**os.environ, "XDG_CACHE_HOME": str(disk), "TMPDIR": str(folder)},
                    capture_output=True, text=True, timeout=120, check=False,
                )  # fmt: skip
                wanted = (0,) if len(words) == 2 else (2,)
                if done.returncode not in wanted or "Traceback" in done.stderr:
                    last = (done.stderr.strip().splitlines() or [""])[-1]
                    broken.append(f"{words[0]} {words[2:3]}: {done.returncode} {last[:120]}")
            if checksums_of(project) != before:
                broken.append("the project has changed")
        finally:
            subprocess.run(["umount", str(disk)], check=False)
        yield name, 4, broken


def interrupts(folder: Path, runs: int, seed: int) -> Iterator[Row]:
    """Optimizations that get a signal at a random moment."""
    chance = random.Random(seed)
    plans = [(n, kind, chance.uniform(0.1, 25)) for n in range(runs)
             for kind in [(signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[n % 3]]]  # fmt: skip
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda plan: interrupted(folder / f"run{plan[0]}", *plan[1:]), plans))
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        said = [text for (_, one, _), text in zip(plans, found, strict=True) if one is kind]
        yield f"optimize, {kind.name} within 25 s", len(said), [text for text in said if text]


def interrupted(folder: Path, kind: signal.Signals, seconds: float) -> str:
    """One of them: what broke, or nothing."""
    project = folder / "project"
    project.mkdir(parents=True)
    (project / "train.py").write_text(textwrap.dedent(SLOW_LOADER).lstrip())
    before = checksums_of(project)
    launch = f"{sys.executable} train.py"
    words = ["optimize", str(project), "--quick", "--steps", "6", "--rounds", "1", "--", launch]
    with (folder / "log").open("w+") as log:
        process = subprocess.Popen([sys.executable, "-m", "pitstop.bot", *words],
                                   stdout=log, stderr=log)  # fmt: skip
        time.sleep(seconds)
        process.send_signal(kind)
        try:
            code = process.wait(90)
        except subprocess.TimeoutExpired:
            process.kill()
            return f"after {seconds:.1f} s: it has not ended in 90 s"
        log.seek(0)
        said = log.read()
    time.sleep(0.5)
    reports = folder / "project_optimized" / "reports"
    text = "".join(file.read_text() for file in reports.glob("final_optimization-summary.md"))
    wrong = {
        "the project has changed": checksums_of(project) != before,
        "processes are left": kind is not signal.SIGKILL and bool(strays(project)),
        "no report": reports.is_dir() and "audit" in said and not text,
        "a traceback": "Traceback" in said,
        f"exit code {code}": code == 3,
    }
    faults = [name for name, is_so in wrong.items() if is_so]
    return f"after {seconds:.1f} s: {', '.join(faults)}" if faults else ""


@contextlib.contextmanager
def told(broken: list[str], where: str) -> Iterator[None]:
    """An exception is something broken, not the end."""
    try:
        yield
    except Exception as error:
        broken.append(f"{where}: {type(error).__name__}: {str(error)[:120]}")


@dataclasses.dataclass(frozen=True)
class Part:
    """A table row's maker, by name."""

    name: str
    rows: Callable[[Path], Iterator[Row]]


def main() -> int:
    """Every part, or those named; 1 when something broke."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="parts whose names hold this")
    parser.add_argument("--runs", type=int, default=200, help="interrupted optimizations")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    parts = (
        Part("review", review),
        Part("publication", publication),
        Part("clock", clocks),
        Part("disk", disks),
        Part("load", load),
        Part("signals", lambda folder: interrupts(folder, chosen.runs, chosen.seed)),
    )
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()},"
          f" load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}\n")  # fmt: skip
    print("| what goes wrong | runs | broken |\n| --- | --- | --- |")
    worst = 0
    for part in parts:
        if chosen.only not in part.name:
            continue
        with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
            for name, runs, broken in part.rows(Path(folder)):
                print(f"| {name} | {runs} | {len(broken) or 'nothing'} |", flush=True)
                for text in broken:
                    print(f"    {text}", file=sys.stderr, flush=True)
                worst |= bool(broken)
    return worst


if __name__ == "__main__":
    raise SystemExit(main())
