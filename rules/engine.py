"""Runs the rules over the facts of a repository and says what was found."""

from __future__ import annotations

from dataclasses import dataclass

from pitstop.rules.finding import Finding, Location, Unread


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that a comment in the repository answers, with the reason given there."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True)
class Audit:
    """Everything the rules had to say. `skipped` holds (rule id, reason) of rules that broke or
    could not run; `unused_suppressions` are comments that answered nothing."""

    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    unused_suppressions: tuple[tuple[Location, str], ...] = ()
    unread: tuple[Unread, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
