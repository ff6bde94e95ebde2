"""What may be done about a change that does not run, without making it another experiment.

A ladder for each class of error: settings of the copy that are changed one rung at a time, always
together with the change that needed them, so that both are measured, kept or dropped as one. The
global batch, the sequence length, what is trained and with which rank are never touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pitstop.bot.optimize.arms import LAUNCH, Arm, command_of, launch_script
from pitstop.bot.optimize.proposals import Reading, new_texts, read_project
from pitstop.rules.finding import Scalar
from pitstop.rules.job import TrainingJob
from pitstop.rules.tree import FolderTree
from pitstop.runners.repair import ErrorReport
from pitstop.transforms.patch import Changed
from pitstop.transforms.set_knob import set_knobs

if TYPE_CHECKING:
    from pitstop.bot.optimize.session import Session

Wanted = Mapping[str, Scalar]
Rung = Callable[[TrainingJob, str], Wanted | None]
"""Settings for a job, by what the failed run printed; None where the rung does not apply."""

ENV = "env:"
"""Before the name of a variable that is set in front of the launch command."""

_ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"

FRAGMENTED = 0.1
"""Share of the GPU that PyTorch holds without using it, from which its segments are at fault."""

_UNUSED = re.compile(r"([\d.]+) (MiB|GiB) is reserved by PyTorch but unallocated")
_CAPACITY = re.compile(r"total capacity of ([\d.]+) (MiB|GiB)")


def _growing_segments(job: TrainingJob, text: str) -> Wanted | None:
    unused, capacity = _UNUSED.search(text), _CAPACITY.search(text)
    set_already = job.launch is not None and _ALLOCATOR in job.launch.env
    if unused is None or capacity is None or set_already:
        return None
    share = _mib(unused) / max(_mib(capacity), 1.0)
    return {f"{ENV}{_ALLOCATOR}": "expandable_segments:True"} if share > FRAGMENTED else None


def _mib(match: re.Match[str]) -> float:
    return float(match[1]) * (1024 if match[2] == "GiB" else 1)


def _half_micro_batch(job: TrainingJob, text: str) -> Wanted | None:
    """The same global batch in twice as many micro batches."""
    micro, accumulation = job.value("batch.micro"), job.value("batch.accumulation")
    if type(micro) is not int or micro < 2 or micro % 2 or type(accumulation) is not int:
        return None
    return {"batch.micro": micro // 2, "batch.accumulation": accumulation * 2}


def _fewer_workers(most: int | None) -> Rung:
    def rung(job: TrainingJob, text: str) -> Wanted | None:
        workers = job.value("dataloader.workers")
        if type(workers) is not int or workers < 1:
            return None
        fewer = workers // 2 if most is None else most
        return {"dataloader.workers": fewer} if fewer < workers else None

    return rung


def _fused_attention(job: TrainingJob, text: str) -> Wanted | None:
    return None if job.value("attention.backend") == "sdpa" else {"attention.backend": "sdpa"}


def _default_compile_mode(job: TrainingJob, text: str) -> Wanted | None:
    mode = job.value("compile.mode")
    return {"compile.mode": "default"} if mode not in (None, "default") else None


@dataclass(frozen=True, slots=True)
class Named:
    """A rung with its name (each is climbed once for a change) and what it says."""

    name: str
    says: str
    settings: Rung


LADDERS: Mapping[str, tuple[Named, ...]] = {
    "CUDA_OOM": (
        Named("segments", "allocator segments that can grow", _growing_segments),
        Named("micro-batch", "half the micro batch, twice the accumulation", _half_micro_batch),
        Named("micro-batch again", "a quarter of the micro batch", _half_micro_batch),
    ),
    "HOST_OOM": (
        Named("workers", "half the loader workers", _fewer_workers(None)),
        Named("no workers", "no loader workers", _fewer_workers(0)),
    ),
    "SHM": (Named("two workers", "two loader workers", _fewer_workers(2)),),
    "FLASH_ATTN": (Named("sdpa", "PyTorch's own fused attention", _fused_attention),),
    "COMPILE": (Named("compile mode", "the compiler's default mode", _default_compile_mode),),
}


def repaired(
    session: Session, arm: Arm, report: ErrorReport, text: str, climbed: set[str]
) -> Arm | None:
    """The change with the next rung that applies, as one commit upon the best so far; None when
    no rung is left. `climbed` grows by what was tried."""
    track, best = session.track, session.best
    if track is None or best is None:
        return None
    for rung, wanted in _rungs(session, arm, report, text, climbed):
        climbed.add(rung.name)
        texts = _texts(session, wanted)
        if not texts:
            continue
        track.history.commit(texts, rung.says)
        tried = session.tried[-1]
        tried.repairs.append(f"{report.sentence}: {rung.says}")
        commit = track.history.squash(
            best.commit, f"{tried.title}\n\n{tried.why} With {rung.says}: {report.sentence}.\n"
        )
        tried.commit, tried.diff = commit, track.history.patch(best.commit, commit)
        session.say(f"{arm.name}: {report.sentence}; again with {rung.says}")
        return Arm(f"{arm.name.partition('-r')[0]}-r{len(tried.repairs)}", commit, arm.compiled)
    return None


def _texts(session: Session, wanted: Wanted) -> dict[str, str]:
    """The files of the copy with the settings in them; none where they cannot be written."""
    if all(name.startswith(ENV) for name in wanted):
        script = (session.work.project / LAUNCH).read_text("utf-8")
        words = " ".join(f"{name.removeprefix(ENV)}={value}" for name, value in wanted.items())
        return {LAUNCH: launch_script(f"{words} {command_of(script)}")}
    reading = _reading(session)
    outcome = set_knobs(reading.job, wanted, reading.facts)
    return new_texts(reading, outcome) if isinstance(outcome, Changed) else {}


def _rungs(
    session: Session, arm: Arm, report: ErrorReport, text: str, climbed: set[str]
) -> Iterator[tuple[Named, Wanted]]:
    for rung in LADDERS.get(report.kind, ()):
        if rung.name in climbed or session.track is None:
            continue
        session.track.history.switch(arm.commit)
        wanted = rung.settings(_reading(session).job, text)
        if wanted is not None:
            yield rung, wanted


def _reading(session: Session) -> Reading:
    return read_project(FolderTree(session.work.project), None, session.request.goal)
