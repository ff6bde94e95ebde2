"""How parts of a report are said in words, the same in the terminal and in documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pitstop.bot.markdown import Markdown, prose
from pitstop.bot.report import Report
from pitstop.rules import engine
from pitstop.rules.finding import Finding, Severity, Unknown
from pitstop.rules.job import TrainingJob


def verdict(report: Report, older: int = 0) -> str:
    """One line: how many findings of which severity, out of how much."""
    counts = Counter(reported.finding.severity for reported in report.findings)
    found = ", ".join(count(severity, counts[severity]) for severity in sorted(counts)[::-1])
    words = found or ("No new findings" if older else "No findings")
    jobs = f"{len(report.jobs)} job{'' if len(report.jobs) == 1 else 's'}"
    more = f" · {older} older not shown" if older else ""
    return f"{words}{more} · {report.files} files, {jobs}, {report.seconds:.1f} s"


def count(severity: Severity, number: int) -> str:
    """`1 warning`, `2 warnings`; the other severities have no plural."""
    plural = "s" if severity is Severity.WARNING and number != 1 else ""
    return f"{number} {severity.label}{plural}"


def notes(report: Report) -> Iterator[str]:
    """What else the reader should know: broken rules and comments that suppress something."""
    for rule, reason in report.skipped:
        yield f"{rule}: rule skipped, {reason}"
    for at, text in report.unused_suppressions:
        yield f"{at}: suppresses nothing: {text}"
    for suppressed in report.suppressed:
        finding = suppressed.finding
        yield f"{finding.primary}: {finding.rule} suppressed: {suppressed.reason}"


def decision(finding: Finding) -> str | None:
    """Which line decides (named where it is not the finding's own), or that a default does."""
    setting = finding.deciding
    if setting is None:
        return None
    value = "not known" if isinstance(setting.value, Unknown) else setting.raw or f"{setting.value}"
    if not setting.written:
        return f"{setting.name} is not set; {setting.framework} uses {value}"
    where = setting.where
    here = where is None or (where.path, where.line) == (finding.primary.path, finding.primary.line)
    held = f" when {setting.condition}" if setting.condition else ""
    return f"{setting.name} = {value}{'' if here else f' at {where}'}{held}"


def job_cells(job: TrainingJob) -> tuple[str, str, str, str, str]:
    """A job in a table: id, frameworks, nodes x processes, model, GPU; "?" is not known."""
    launch = job.launch
    processes = "?" if launch is None or launch.processes is None else str(launch.processes)
    if launch is not None and launch.nodes is not None and launch.nodes > 1:
        processes = f"{launch.nodes} x {processes}"
    frameworks = " + ".join(use.name for use in job.frameworks) or "?"
    name = job.model.name or job.model.family or "?"
    model = name.rstrip("/").rpartition("/")[2] or name
    return job.id, frameworks, processes, model, job.hardware.gpu or "?"


def changed_lines(diff: str) -> Iterator[str]:
    """The lines that a diff takes out and puts in, with their sign, without its headers."""
    for line in diff.splitlines():
        if line.startswith(("+", "-")) and not line.startswith(("+++ ", "--- ")):
            yield line


def source(finding: Finding) -> Markdown:
    """Where the cost is known from."""
    return cited(finding.rule, finding.source)


def cited(rule: str, source: str) -> Markdown:
    """A link when the rule itself names that address, else words (a report may come from a
    stranger)."""
    known = {info.id: info.sources for info in engine.all_rules()}
    if source.startswith("https://") and source in known.get(rule, ()):
        return Markdown(f"<{source}>")
    return prose(source)
