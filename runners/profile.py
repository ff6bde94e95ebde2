"""What the steps of a trace spent their time on, in shares of the window that was profiled.

The four shares compute, exposed communication, exposed copies and idle add up to one. Sources of
the scheme: the Kineto format (libkineto) and Holistic Trace Analysis; implemented anew.
"""

from __future__ import annotations

import bisect
import functools
import re
import statistics
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pitstop.rules.data import load_data
from pitstop.runners.traces.intervals import (
    Interval,
    clipped,
    difference,
    intersection,
    length,
    union,
)
from pitstop.runners.traces.reader import Trace

SMALL = 10.0
"""Microseconds: kernels shorter than that take about as long to launch as to run."""
SHORT_GAP = 30.0
"""Microseconds between two kernels that the device itself may need."""
LONG_CALL = 5.0
"""Microseconds from which a synchronising call is one that waits."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel or an operator: total microseconds and calls over the window."""

    name: str
    total: float
    calls: int
    family: str = ""
    tensor_core: bool | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """One rank's profile. Shares are of the window (`window` microseconds, `steps` steps).

    `idle_causes` split the idle time: data, sync, alloc, optimizer, launch, device, other. Shares
    of families are of compute time. `small_kernels` is the share of kernels under 10 us by count,
    `kernels_per_step` and `syncs_per_step` are counts. Without kernels (a CPU trace) only
    `operators` say something.
    """

    rank: int
    window: float
    steps: int
    compute: float = 0.0
    communication: float = 0.0
    copies: float = 0.0
    idle: float = 1.0
    overlap: float | None = None
    idle_causes: Mapping[str, float] = field(default_factory=dict)
    families: Mapping[str, float] = field(default_factory=dict)
    fp32_products: float = 0.0
    unfused_attention: float = 0.0
    layout_changes: float = 0.0
    optimizer: float = 0.0
    optimizer_launches: float = 0.0
    data_wait: float = 0.0
    pageable_copies: float = 0.0
    small_kernels: float = 0.0
    kernels_per_step: float = 0.0
    syncs_per_step: float = 0.0
    kernels: tuple[Entry, ...] = ()
    operators: tuple[Entry, ...] = ()
    complete: bool = True
    doubts: tuple[str, ...] = ()

    @property
    def busy(self) -> float:
        """The share in which the GPU does anything."""
        return 1.0 - self.idle

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


class _Spans:
    """Events of one kind in few bytes: a trace may hold millions. Names are kept once."""

    __slots__ = ("_ends", "_ids", "_names", "_starts")

    def __init__(self) -> None:
        self._starts, self._ends, self._ids = array("d"), array("d"), array("I")
        self._names: dict[str, int] = {}

    def add(self, start: float, end: float, name: str) -> None:
        """Keep one event."""
        self._starts.append(start)
        self._ends.append(end)
        self._ids.append(self._names.setdefault(name, len(self._names)))

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[float, float, str]]:
        """Start, end and name of each, as they came."""
        names = list(self._names)
        for start, end, number in zip(self._starts, self._ends, self._ids, strict=True):
            yield start, end, names[number]


@dataclass(slots=True)
class _Collected:
    """What is kept of the events: a few numbers each."""

    kernels: _Spans = field(default_factory=_Spans)
    copies: _Spans = field(default_factory=_Spans)
    calls: _Spans = field(default_factory=_Spans)
    steps: list[Interval] = field(default_factory=list)
    loading: list[Interval] = field(default_factory=list)
    stepping: list[Interval] = field(default_factory=list)
    operators: dict[int, _Spans] = field(default_factory=lambda: defaultdict(_Spans))
    overhead: float = 0.0


@functools.cache
def _patterns() -> tuple[tuple[tuple[str, re.Pattern[str]], ...], Mapping[str, re.Pattern[str]]]:
    data: dict[str, Any] = load_data("pitstop.runners.traces", "families.yaml")
    families = tuple(
        (row["name"], re.compile(row["pattern"], re.IGNORECASE)) for row in data["families"]
    )
    single = {
        name: re.compile(value, re.IGNORECASE)
        for name, value in data.items()
        if isinstance(value, str)
    }
    return families, single


@functools.lru_cache(maxsize=8192)
def family_of(kernel: str) -> str:
    """What a kernel is for, by its name; "other" when no pattern fits."""
    return next((name for name, pattern in _patterns()[0] if pattern.search(kernel)), "other")


@functools.lru_cache(maxsize=32768)
def _is(what: str, name: str) -> bool:
    return _patterns()[1][what].search(name) is not None


def read_profile(path: Path) -> Profile:
    """The profile of a trace file. Raises TraceError when it is none."""
    trace = Trace(path)
    found = _collect(trace.events())
    info = trace.header.get("distributedInfo")
    rank = info.get("rank", 0) if isinstance(info, dict) else 0
    return _profile(found, int(rank) if isinstance(rank, int) else 0, complete=trace.complete)


def _collect(events: Iterable[Mapping[str, Any]]) -> _Collected:
    found = _Collected()
    for event in events:
        if event.get("ph") != "X":
            continue
        start, took = event.get("ts"), event.get("dur")
        if not isinstance(start, int | float) or not isinstance(took, int | float):
            continue
        _keep(found, event, float(start), float(start) + float(took))
    return found


def _keep(found: _Collected, event: Mapping[str, Any], start: float, end: float) -> None:
    name, kind = str(event.get("name", ""))[:400], event.get("cat")
    if kind == "kernel":
        found.kernels.add(start, end, name)
    elif kind in ("gpu_memcpy", "gpu_memset"):
        found.copies.add(start, end, name)
    elif kind in ("cuda_runtime", "cuda_driver"):
        found.calls.add(start, end, name)
    elif kind == "cpu_op":
        found.operators[_whole(event.get("tid"))].add(start, end, name)
    elif kind == "user_annotation":
        if name.startswith("ProfilerStep"):
            found.steps.append((start, end))
        elif name.startswith("enumerate(DataLoader)"):
            found.loading.append((start, end))
        elif name.startswith("Optimizer.step"):
            found.stepping.append((start, end))
    elif kind == "overhead":
        found.overhead += end - start


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else hash(str(value)) & 0xFFFFFFFF


def _profile(found: _Collected, rank: int, *, complete: bool) -> Profile:
    start, end, steps = _window(found)
    window = max(end - start, 1e-9)
    doubts = list(_doubts(found, window, steps))
    operators = tuple(_operators(found, start, end))
    if not found.kernels:
        data = length(union(clipped(found.loading, start, end))) / window
        return Profile(
            rank, window, steps, data_wait=data, operators=operators, complete=complete,
            doubts=(*doubts, "no GPU kernel is in the trace"),
        )  # fmt: skip
    kernels = [k for k in found.kernels if k[1] > start and k[0] < end]
    working = [k for k in kernels if family_of(k[2]) != "communication"]
    compute = union(clipped(((k[0], k[1]) for k in working), start, end))
    talking = union(
        clipped(((k[0], k[1]) for k in kernels if family_of(k[2]) == "communication"), start, end)
    )
    copying = union(clipped(((c[0], c[1]) for c in found.copies), start, end))
    busy = union([*compute, *talking, *copying])
    total = sum(k[1] - k[0] for k in working) or 1e-9
    families: Counter[str] = Counter()
    for kernel in working:
        families[family_of(kernel[2])] += kernel[1] - kernel[0]  # type: ignore[assignment]

    def share(what: str) -> float:
        return sum(k[1] - k[0] for k in working if _is(what, k[2])) / total

    stepping = union(clipped(found.stepping, start, end))
    talked = length(talking)
    return Profile(
        rank=rank,
        window=window,
        steps=steps,
        compute=length(compute) / window,
        communication=length(difference(talking, compute)) / window,
        copies=length(difference(copying, union([*compute, *talking]))) / window,
        idle=1 - length(busy) / window,
        overlap=length(intersection(talking, compute)) / talked if talked else None,
        idle_causes=_idle_causes(found, busy, start, end),
        families={name: value / total for name, value in families.most_common()},
        fp32_products=share("fp32_product"),
        unfused_attention=0.0 if families.get("attention") else share("unfused_attention"),
        layout_changes=share("layout_change"),
        optimizer=length(stepping) / window,
        optimizer_launches=_launches_in(found, stepping) / max(1, steps),
        data_wait=length(union(clipped(found.loading, start, end))) / window,
        pageable_copies=_pageable(found, start, end) / window,
        small_kernels=sum(k[1] - k[0] < SMALL for k in kernels) / len(kernels),
        kernels_per_step=len(kernels) / max(1, steps),
        syncs_per_step=_syncs(found, start, end) / max(1, steps),
        kernels=tuple(_top_kernels(kernels)),
        operators=operators,
        complete=complete,
        doubts=tuple(doubts),
    )


def _window(found: _Collected) -> tuple[float, float, int]:
    """From the first to the last kept step: the first and the last are those in which the
    profiler starts and writes, and are dropped where enough are left."""
    steps = sorted(found.steps)
    if len(steps) >= 4:
        steps = steps[1:-1]
    if steps:
        return steps[0][0], max(end for _, end in steps), len(steps)
    spans = [(k[0], k[1]) for k in found.kernels]
    spans += [(op[0], op[1]) for ops in found.operators.values() for op in ops]
    if not spans:
        return 0.0, 0.0, 0
    return min(a for a, _ in spans), max(b for _, b in spans), 1


def _doubts(found: _Collected, window: float, steps: int) -> Iterator[str]:
    if steps < 2:
        yield f"only {steps} step is in the trace"
    if found.overhead > 0.05 * window:
        yield "the profiler itself took more than 5 % of the time"


def _idle_causes(
    found: _Collected, busy: list[Interval], start: float, end: float
) -> dict[str, float]:
    """Why the GPU did nothing: what the host did in each gap, the longest of it."""
    window = end - start
    calls = found.calls
    waiting = union((a, b) for a, b, n in calls if _is("synchronising", n) and b - a >= LONG_CALL)
    causes = {
        "data": union(found.loading),
        "sync": waiting,
        "alloc": union((a, b) for a, b, n in calls if _is("allocating", n)),
        "optimizer": union(found.stepping),
    }
    shares: dict[str, float] = defaultdict(float)
    for gap in difference([(start, end)], busy):
        took = gap[1] - gap[0]
        if took < SHORT_GAP:
            shares["device"] += took / window
            continue
        parts = {
            name: length(intersection([gap], _near(set_, gap))) for name, set_ in causes.items()
        }
        best = max(parts, key=lambda name: parts[name])
        shares[best if parts[best] > 0.25 * took else "launch"] += took / window
    return dict(shares)


def _near(intervals: list[Interval], gap: Interval) -> list[Interval]:
    """The intervals that may touch a gap, found by bisection."""
    first = max(0, bisect.bisect_left(intervals, (gap[0],)) - 1)
    last = bisect.bisect_right(intervals, (gap[1],))
    return intervals[first:last]


def _launches_in(found: _Collected, spans: list[Interval]) -> int:
    if not spans:
        return 0
    starts = [a for a, _ in spans]
    count = 0
    for begin, _, name in found.calls:
        if "Launch" not in name:
            continue
        at = bisect.bisect_right(starts, begin) - 1
        count += at >= 0 and begin < spans[at][1]
    return count


def _pageable(found: _Collected, start: float, end: float) -> float:
    copies = ((a, b) for a, b, name in found.copies if "HtoD" in name and "Pageable" in name)
    return length(union(clipped(copies, start, end)))


def _syncs(found: _Collected, start: float, end: float) -> int:
    return sum(
        start <= a < end and b - a >= LONG_CALL and _is("synchronising", name)
        for a, b, name in found.calls
    )


def _top_kernels(kernels: list[tuple[float, float, str]]) -> Iterator[Entry]:
    totals: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for start, end, name in kernels:
        totals[name] += end - start  # type: ignore[assignment]
        calls[name] += 1
    for name, total in totals.most_common(10):
        used = None if name.startswith("triton") else _is("tensor_core", name)
        yield Entry(name[:200], float(total), calls[name], family_of(name), used)


def _operators(found: _Collected, start: float, end: float) -> Iterator[Entry]:
    """Operators by the host time that is their own, without that of operators inside."""
    totals: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for ops in found.operators.values():
        open_: list[tuple[float, str]] = []
        for begin, finish, name in sorted(ops, key=lambda op: (op[0], -op[1])):
            if finish <= start or begin >= end:
                continue
            while open_ and open_[-1][0] <= begin:
                open_.pop()
            if open_:
                totals[open_[-1][1]] -= finish - begin  # type: ignore[assignment]
            totals[name] += finish - begin  # type: ignore[assignment]
            calls[name] += 1
            open_.append((finish, name))
    for name, total in totals.most_common(10):
        yield Entry(name[:200], float(total), calls[name])


def slowest_of(profiles: Iterable[Profile]) -> Profile | None:
    """The rank whose compute takes the most of its window: what holds the others up."""
    return max(profiles, key=lambda one: one.compute, default=None)


def straggling(profiles: Iterable[Profile]) -> float:
    """How much more the slowest rank computes than the median one, as a share of the window."""
    shares = [one.compute for one in profiles]
    return max(shares) - statistics.median(shares) if len(shares) > 1 else 0.0
