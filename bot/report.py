"""The record of one audit: what every output (terminal, Markdown, SARIF, review) is made from."""

from __future__ import annotations

from dataclasses import dataclass

from pitstop.rules.engine import Suppressed
from pitstop.rules.finding import Finding, Location, Unread
from pitstop.rules.job import TrainingJob
from pitstop.transforms.patch import Outcome


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A finding, what the transforms made of its fix, and whether the change brought it in
    (its fingerprint is absent at the base; True when there is no base)."""

    finding: Finding
    outcome: Outcome
    introduced: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """One audit. `revision` and `base` are commit ids or None for a folder; `files` were read,
    `seconds` is wall time."""

    version: str
    jobs: tuple[TrainingJob, ...]
    findings: tuple[ReportedFinding, ...]
    suppressed: tuple[Suppressed, ...] = ()
    unused_suppressions: tuple[tuple[Location, str], ...] = ()
    unread: tuple[Unread, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    revision: str | None = None
    base: str | None = None
    files: int = 0
    seconds: float = 0.0
