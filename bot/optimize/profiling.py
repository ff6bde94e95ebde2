"""Profiles the best state of the project, and turns that into a diagnosis for the plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pitstop.bot.optimize.arms import Kind, Run
from pitstop.bot.optimize.record import write_text
from pitstop.bot.render import render
from pitstop.runners.diagnosis import Diagnosis, diagnose
from pitstop.runners.profile import Entry, Profile, read_profile
from pitstop.runners.traces.reader import TraceError

if TYPE_CHECKING:
    from pitstop.bot.optimize.session import Session

PROFILED = 6
"""Optimizer steps after the warm-up: two in which the profiler warms up, three that it records,
one in which it writes."""


def profile_arm(session: Session) -> Diagnosis:
    """The diagnosis of the best so far, noted in the record and written as two reports.

    A profiled run that fails does not stop anything: then the probe's counters must do.
    """
    best, comparer = session.best, session.comparer
    primed = comparer.primed.get(best.name) if comparer is not None and best is not None else None
    profiles, why = _profiles(session) if primed is not None else ((), "the job was not measured")
    found = diagnose(primed.probe if primed is not None else None, profiles)
    session.record.note(
        basis=found.basis,
        doubts=[*found.doubts, *([why] if why else [])],
        bottlenecks=[_plain(one) for one in found.bottlenecks],
        breakdown=[list(pair) for pair in found.breakdown],
    )
    _write(session, found, profiles, why)
    return found


def _profiles(session: Session) -> tuple[tuple[Profile, ...], str]:
    """The traces of one profiled run, read; else none and the reason."""
    track, best = session.track, session.best
    if track is None or best is None:
        return (), "there is nothing to profile"
    session.say("profiling")
    run = track.run(best, Kind.PROFILE, steps=PROFILED, warm_up=track.warm_up(best))
    if not run.probe.traces:
        return (), _no_trace(run)
    found = []
    for path in run.probe.traces[:8]:
        try:
            found.append(read_profile(path))
        except TraceError as error:
            return tuple(found), str(error)
    return tuple(found), ""


def _no_trace(run: Run) -> str:
    if not run.result.ok:
        return f"the profiled run failed ({run.result.ended})"
    return "the job ended before the profiler had its steps"


def _plain(one: Any) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "severity": one.severity,
        "share": one.share,
        "evidence": [evidence.text for evidence in one.evidence],
    }


def _write(session: Session, found: Diagnosis, profiles: tuple[Profile, ...], why: str) -> None:
    """`v{N}_pytorch-profiler-report.md` and `v{N}_bottleneck-analysis.md`."""
    number = max((tried.round for tried in session.tried), default=0)
    reports = session.work.reports
    pages = {
        f"v{number}_pytorch-profiler-report.md": render(
            "run/profile.md.j2", profiles=[dict(_view(one)) for one in profiles], why=why
        ),
        f"v{number}_bottleneck-analysis.md": render(
            "run/bottlenecks.md.j2",
            basis=found.basis,
            doubts=[*found.doubts, *([why] if why else [])],
            breakdown=[(name, f"{share:.1%}") for name, share in found.breakdown],
            found=[
                (one.kind, one.severity, f"{one.share:.1%}", [e.text for e in one.evidence])
                for one in found.bottlenecks
            ],
        ),
    }
    for name, text in pages.items():
        try:
            write_text(reports / name, str(text))
        except OSError as error:
            session.record.unwritten = f"{reports / name}: {error.strerror}"


def _view(one: Profile) -> Iterator[tuple[str, Any]]:
    """A profile as the words of its page."""
    yield "rank", str(one.rank)
    yield "steps", str(one.steps)
    yield "window", f"{one.window / 1e3:.1f} ms"
    yield (
        "shares",
        [
            ("compute", f"{one.compute:.1%}"),
            ("exposed communication", f"{one.communication:.1%}"),
            ("exposed copies", f"{one.copies:.1%}"),
            ("idle", f"{one.idle:.1%}"),
        ]
        if one.kernels
        else [],
    )
    yield "idle", [(name, f"{share:.1%}") for name, share in _most(one.idle_causes)]
    yield "families", [(name, f"{share:.1%}") for name, share in _most(one.families)]
    yield "kernels", [_row(entry, one) for entry in one.kernels]
    yield "operators", [_row(entry, one) for entry in one.operators]
    yield (
        "counts",
        [
            ("kernels in a step", f"{one.kernels_per_step:.0f}"),
            ("kernels under 10 us", f"{one.small_kernels:.0%}"),
            ("waits for the GPU in a step", f"{one.syncs_per_step:.1f}"),
            ("optimizer launches in a step", f"{one.optimizer_launches:.0f}"),
        ]
        if one.kernels
        else [],
    )
    yield "doubts", list(one.doubts)


def _most(shares: Any) -> list[tuple[str, float]]:
    return sorted(shares.items(), key=lambda pair: -pair[1])[:10]


def _row(entry: Entry, profile: Profile) -> tuple[str, str, str, str, str, str]:
    core = {True: "yes", False: "no", None: "unknown"}[entry.tensor_core]
    return (
        entry.name[:90],
        f"{entry.total:.0f}",
        f"{entry.total / profile.window:.1%}",
        str(entry.calls),
        f"{entry.total / max(1, entry.calls):.1f}",
        core,
    )
