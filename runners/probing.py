"""Puts the probe into a job and reads what it wrote, which is a stranger's data."""

from __future__ import annotations

import dataclasses
import importlib.resources
import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAX_FILES, MAX_BYTES, MAX_STEPS = 4096, 64 * 2**20, 200_000
MAX_TOTAL = 512 * 2**20

FILES = ("sitecustomize.py", "pitstop_watch.py", "pitstop_hooks.py", "pitstop_facts.py")
"""What is put into a job. Python runs the first; its own folder holds the rest."""


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What a run shall measure.

    The job is stopped after `steps` optimizer steps (`stop`); peaks of memory count from step
    `warm_up` on. `profile` records a trace of three steps, two after the warm-up, with Python
    stacks if `stacks`. `deterministic` asks PyTorch for repeatable kernels (slower), `seed` is
    set (another for each rank) before the job's own code runs. `block_saves` leaves empty files
    instead of checkpoints from the first step on. `losses` keeps what each backward pass starts
    from. `nsys` marks three steps for Nsight Systems.
    """

    steps: int
    warm_up: int = 3
    profile: bool = False
    stacks: bool = False
    deterministic: bool = False
    seed: int | None = 42
    stop: bool = True
    block_saves: bool = True
    losses: bool = True
    nsys: bool = False


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """An exception that ended a rank. `at` is seconds of the clock, `ticks` the steps done."""

    type: str
    message: str
    text: str
    rank: int
    at: float
    ticks: int


@dataclass(frozen=True, slots=True)
class RankRun:
    """What one rank measured. Times are seconds, sizes bytes; a step is an optimizer step.

    `host_ticks` are the ends of steps by the host's clock, `device_steps` the seconds between
    them by the GPU's own (None on the CPU). `losses` holds for each step the loss of every
    backward pass. `samples`, `tokens` and `useful_tokens` (without padding) are counted where
    batches come from a PyTorch loader, else None. Peaks are None without CUDA. `hook_seconds` is
    all time spent inside the probe.
    """

    rank: int
    world: int
    pid: int
    host_ticks: tuple[float, ...] = ()
    device_steps: tuple[float, ...] | None = None
    losses: tuple[tuple[float, ...], ...] = ()
    grad_norms: tuple[float | None, ...] = ()
    data_wait: tuple[float, ...] = ()
    samples: tuple[int | None, ...] = ()
    tokens: tuple[int | None, ...] = ()
    useful_tokens: tuple[int | None, ...] = ()
    trainable_parameters: int | None = None
    optimizer: str = ""
    hook_seconds: float = 0.0
    saves_blocked: int = 0
    stopped: bool = False
    trace: str | None = None
    start_allocated: int | None = None
    start_reserved: int | None = None
    peak_allocated: int | None = None
    peak_reserved: int | None = None
    alloc_retries: int = 0
    ooms: int = 0
    peak_rss: int | None = None
    error: ErrorRecord | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)

    def step_seconds(self) -> tuple[float, ...]:
        """Seconds of each step after the first, by the best clock there is."""
        if self.device_steps:
            return self.device_steps
        return tuple(after - before for before, after in itertools.pairwise(self.host_ticks))


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """What all ranks of one run measured, by rank; `problems` are files that cannot be used and
    what went wrong in the probe itself. `traces` are paths of profiler traces, by rank."""

    ranks: tuple[RankRun, ...] = ()
    problems: tuple[str, ...] = ()
    traces: tuple[Path, ...] = ()

    def step_seconds(self) -> tuple[float, ...]:
        """Seconds of each step, of the slowest rank."""
        times = [rank.step_seconds() for rank in self.ranks if rank.host_ticks]
        return tuple(max(step) for step in zip(*times, strict=False)) if times else ()

    def step_losses(self) -> tuple[float, ...]:
        """The loss of each step: summed over its micro batches, averaged over the ranks that have
        one (in a pipeline the last); nothing where no loss was seen at all."""
        ranks = [rank.losses for rank in self.ranks if any(rank.losses)]
        return tuple(sum(map(math.fsum, step)) / len(step) for step in zip(*ranks, strict=False))


def place_probe(folder: Path, request: ProbeRequest, out: Path) -> Mapping[str, str]:
    """Write the probe into a folder; the environment that brings it into a job.

    `out` is where it shall write, found from the probe's own place, so that both may be seen
    under other names inside a container. PYTHONPATH has to stand before the job's own. Python
    started with -I, -E or -S does not see it, nor do workers that ran before the job.
    """
    folder.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    source = importlib.resources.files("pitstop.runners.probe")
    for name in FILES:
        (folder / name).write_text(source.joinpath(name).read_text("utf-8"), "utf-8")
    config = {**dataclasses.asdict(request), "out": os.path.relpath(out, folder)}
    (folder / "probe.json").write_text(json.dumps(config), "utf-8")
    found = {"PYTHONPATH": str(folder)}
    if request.deterministic:
        found |= {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONHASHSEED": "0"}
    return found


def ticks_reached(run: ProbeRun) -> int:
    """Optimizer steps that every rank has done."""
    return min((len(rank.host_ticks) for rank in run.ranks), default=0)


def read_probe(out: Path) -> ProbeRun:
    """What the probe left in a folder. Files that are too large, broken or of another shape are
    named in `problems`; nothing raises for what is in them. Of several errors of a rank the first
    counts: a launcher, which has no rank and so is taken for the first, only repeats it."""
    ranks: dict[int, RankRun] = {}
    failures: dict[int, ErrorRecord] = {}
    problems: list[str] = []
    for path, data in _records(out, problems):
        try:
            if path.name.startswith("rank_"):
                rank = _rank(data)
                problems += [str(text)[:300] for text in data.get("problems", ())[:20]]
                other = ranks.get(rank.rank)
                if other is None or len(other.host_ticks) < len(rank.host_ticks):
                    ranks[rank.rank] = rank
            elif path.name.startswith("error_"):
                failure = _error(data)
                known = failures.get(failure.rank, failure)
                failures[failure.rank] = min(known, failure, key=lambda one: one.at)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as fault:
            problems.append(f"{path.name[:80]}: {type(fault).__name__}")
    for number, failure in failures.items():
        watched = ranks.get(number, RankRun(number, 1, 0))
        ranks[number] = dataclasses.replace(watched, error=failure)
    ordered = tuple(ranks[number] for number in sorted(ranks))
    return ProbeRun(ordered, tuple(problems), tuple(_traces(out, ordered)))


def _records(out: Path, problems: list[str]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    try:
        paths = sorted(out.glob("*.json"))[:MAX_FILES]
    except OSError:
        return
    left = MAX_TOTAL
    for path in paths:
        try:
            size = path.lstat().st_size
            if path.is_symlink() or not path.is_file() or size > min(MAX_BYTES, left):
                problems.append(f"{path.name[:80]}: not a file of ours")
                continue
            left -= size
            data = json.loads(path.read_text("utf-8", "replace"))
        except (OSError, ValueError, RecursionError) as error:
            problems.append(f"{path.name[:80]}: {type(error).__name__}")
            continue
        if isinstance(data, dict):
            yield path, data


def _traces(out: Path, ranks: Sequence[RankRun]) -> Iterator[Path]:
    for rank in ranks:
        if rank.trace and "/" not in rank.trace and (out / rank.trace).is_file():
            yield out / rank.trace


def _rank(data: Mapping[str, Any]) -> RankRun:
    start, peaks = data.get("start_peaks") or (None, None), data.get("peaks") or (None, None)
    allocator = data.get("allocator") or {}
    return RankRun(
        rank=_whole(data["rank"]),
        world=_whole(data["world"]),
        pid=_whole(data["pid"]),
        host_ticks=_times(data["host_ticks"]),
        device_steps=_floats(data["device_steps"]) if data.get("device_steps") else None,
        losses=tuple(_floats(step) for step in _few(data["losses"])),
        grad_norms=tuple(None if v is None else float(v) for v in _few(data["grad_norms"])),
        data_wait=_floats(data["data_wait"]),
        samples=_counts(data["samples"]),
        tokens=_counts(data["tokens"]),
        useful_tokens=_counts(data["useful_tokens"]),
        trainable_parameters=_maybe(data.get("trainable_parameters")),
        optimizer=str(data.get("optimizer", ""))[:100],
        hook_seconds=float(data["hook_seconds"]),
        saves_blocked=_whole(data.get("saves_blocked", 0)),
        stopped=bool(data.get("stopped")),
        trace=str(data["trace"])[:200] if data.get("trace") else None,
        start_allocated=_maybe(start[0]),
        start_reserved=_maybe(start[1]),
        peak_allocated=_maybe(peaks[0]),
        peak_reserved=_maybe(peaks[1]),
        alloc_retries=_whole(allocator.get("retries", 0)),
        ooms=_whole(allocator.get("ooms", 0)),
        peak_rss=_maybe(data.get("peak_rss")),
        environment={
            str(k)[:40]: str(v)[:200] for k, v in dict(data.get("environment", {})).items()
        },
    )


def _error(data: Mapping[str, Any]) -> ErrorRecord:
    return ErrorRecord(
        type=str(data["type"])[:200],
        message=str(data["message"])[:2000],
        text=str(data["text"])[-20_000:],
        rank=_whole(data["rank"]),
        at=_times([data["at"]])[0],
        ticks=_whole(data["ticks"]),
    )


def _few(values: Any) -> Sequence[Any]:
    if not isinstance(values, list) or len(values) > MAX_STEPS:
        raise ValueError("not a list of steps")
    return values


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(math.nan if value is None else float(value) for value in _few(values))


def _times(values: Any) -> tuple[float, ...]:
    """Readings of a clock, which does not go back."""
    found = _floats(values)
    if not all(map(math.isfinite, found)) or any(b < a for a, b in itertools.pairwise(found)):
        raise ValueError("not the times of a clock")
    return found


def _counts(values: Any) -> tuple[int | None, ...]:
    return tuple(_maybe(value) for value in _few(values))


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError("not a count")
    return value


def _maybe(value: Any) -> int | None:
    return None if value is None else _whole(value)
