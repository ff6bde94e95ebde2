"""The full report as one Markdown document: for files, artifacts and people who like to read."""

from __future__ import annotations

from dataclasses import dataclass

from pitstop.bot import render
from pitstop.bot.markdown import Markdown, code, fenced
from pitstop.bot.report import Report, ReportedFinding
from pitstop.bot.wording import decision, job_cells, notes, source, verdict
from pitstop.rules.finding import Finding
from pitstop.rules.job import TrainingJob
from pitstop.transforms.patch import Refused


@dataclass(frozen=True, slots=True)
class _Item:
    """A finding as the template shows it."""

    finding: Finding
    severity: str
    where: Markdown
    rule: Markdown
    name: Markdown
    source: Markdown
    decided: Markdown | None
    jobs: Markdown | None
    related: tuple[tuple[Markdown, str], ...]
    safety: str | None
    change: Markdown | None
    by_hand: str | None


def full_report(report: Report, *, older: int = 0) -> str:
    """Every finding with its reasons and its change, every job, and what was not understood."""
    return render.render(
        "report.md.j2",
        verdict=verdict(report, older),
        items=tuple(_item(reported) for reported in report.findings),
        jobs=tuple(_job(job) for job in report.jobs),
        unread=tuple(
            (code(f"{unread.path}:{unread.line}" if unread.line else unread.path), unread.reason)
            for unread in report.unread
        ),
        notes=tuple(notes(report)),
        version=code(report.version),
    )


def _item(reported: ReportedFinding) -> _Item:
    finding, outcome = reported.finding, reported.outcome
    jobs = ", ".join(code(job) for job in finding.jobs)
    return _Item(
        finding=finding,
        severity=finding.severity.label,
        where=code(finding.primary),
        rule=code(finding.rule),
        name=code(finding.name),
        source=source(finding),
        decided=code(decided) if (decided := decision(finding)) else None,
        jobs=Markdown(jobs) if jobs else None,
        related=tuple((code(related.location), related.text) for related in finding.related),
        safety=finding.fix.safety.value if finding.fix else None,
        change=fenced(reported.diff, "diff") if reported.diff else None,
        by_hand=outcome.reason if isinstance(outcome, Refused) else None,
    )


def _job(job: TrainingJob) -> tuple[Markdown, str, str, str, str]:
    name, *cells = job_cells(job)
    return code(name), cells[0], cells[1], cells[2], cells[3]
