"""Profiles the best state of the project, and turns that into a diagnosis for the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pitstop.runners.diagnosis import Diagnosis, diagnose

if TYPE_CHECKING:
    from pitstop.bot.optimize.session import Session


def profile_arm(session: Session) -> Diagnosis:
    """The diagnosis of the best so far, noted in the record."""
    best, comparer = session.best, session.comparer
    run = comparer.primed.get(best.name) if comparer is not None and best is not None else None
    found = diagnose(run.probe if run is not None else None)
    session.record.note(
        basis=found.basis,
        doubts=list(found.doubts),
        bottlenecks=[
            {
                "kind": one.kind,
                "severity": one.severity,
                "share": one.share,
                "evidence": [evidence.text for evidence in one.evidence],
            }
            for one in found.bottlenecks
        ],
    )
    return found
