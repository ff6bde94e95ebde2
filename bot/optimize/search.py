"""Values that are searched instead of guessed, and runs that are tried again."""

from __future__ import annotations

import dataclasses
import statistics

from pitstop.bot.optimize.arms import Arm, Kind
from pitstop.bot.optimize.compare import Comparison, Failed
from pitstop.bot.optimize.proposals import Proposal, new_texts
from pitstop.bot.optimize.repairs import repaired
from pitstop.bot.optimize.session import Session
from pitstop.runners.repair import explain
from pitstop.transforms.patch import Changed

MOST_VARIANTS = 5

AGAIN = frozenset({"PORT_IN_USE", "NCCL_TIMEOUT", "RDZV", "UNKNOWN", "CRASH"})
"""Failures that may be chance: the run is made once more."""


def searched(session: Session, proposal: Proposal, name: str) -> Proposal:
    """The proposal with the value that is fastest in one short run of each.

    Values that do not run are out; with one value, or none that runs, the proposal stays as it
    is. The choice proves nothing: the comparison that follows does.
    """
    track, best, reading = session.track, session.best, session.reading
    if len(proposal.variants) < 2 or track is None or best is None or reading is None:
        return proposal
    steps = max(5, track.steps // 3)
    found: dict[str, float] = {}
    for index, (label, make) in enumerate(proposal.variants[:MOST_VARIANTS], 1):
        outcome = make()
        if not isinstance(outcome, Changed):
            continue
        track.history.switch(best.commit)
        commit = track.history.commit(new_texts(reading, outcome), f"{proposal.title}: {label}")
        arm = Arm(f"{name}-s{index}", commit, best.compiled)
        run = track.run(arm, Kind.SCREEN, steps=steps, warm_up=track.warm_up(arm))
        times = run.probe.step_seconds()[track.warm_up(arm) :]
        if run.ok and times:
            found[label] = statistics.fmean(times)
    track.history.switch(best.commit)
    if not found:
        return proposal
    chosen = min(found, key=lambda label: found[label])
    told = ", ".join(f"{label}: {seconds * 1e3:.1f} ms" for label, seconds in found.items())
    return dataclasses.replace(
        proposal, make=dict(proposal.variants)[chosen], why=f"{proposal.why} Of {told}."
    )


def verified(session: Session, arm: Arm, numerics: str) -> tuple[Comparison, Arm]:
    """Compare a candidate with the best so far, repaired where that may help; returns the arm
    that was compared at last.

    A failure that may be chance is tried again, as long as another one comes each time; others
    climb the ladder of their class, a few rungs at most.
    """
    comparer, best, sizes = session.comparer, session.best, session.request.sizes
    if comparer is None or best is None:
        raise ValueError("there is no baseline to compare with")
    seen: set[str] = set()
    climbed: set[str] = set()
    for _ in range(sizes.repairs_in_round):
        comparison = comparer.compare(best, arm, numerics)
        if not isinstance(comparison, Failed):
            break
        run = comparison.run
        text = run.result.text()
        report = explain(text, run.result, run.probe)
        if report.kind in AGAIN and report.signature not in seen and len(seen) < sizes.repairs:
            seen.add(report.signature)
            session.say(f"{arm.name}: {report.sentence}; once more")
            continue
        better = None
        if len(climbed) < sizes.repairs:
            better = repaired(session, arm, report, text, climbed)
        if better is None:
            break
        arm, numerics = better, numerics if numerics != "exact" else "equivalent"
    return comparison, arm
