"""What a job tells its runner: outputs, its summary, and annotations in its log.

docs.github.com, "Workflow commands for GitHub Actions". Text from a repository never begins a
line of the log, where the runner would obey it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pitstop.bot.markdown import utf8_bytes, visible
from pitstop.bot.placement import Placed
from pitstop.bot.summary import Summary
from pitstop.rules.finding import Severity

MAX_SUMMARY = 1_048_576
"""Bytes of a step's summary; a longer one is thrown away as a whole."""

MAX_ANNOTATIONS = 10
"""Of each level, for a step; the runner drops the rest."""

_COMMANDS = {Severity.CRITICAL: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def annotation_lines(findings: Iterable[Placed]) -> Iterator[str]:
    """Lines for the log that the runner turns into annotations, at most ten of each level."""
    left = dict.fromkeys(Severity, MAX_ANNOTATIONS)
    for placed in findings:
        finding = placed.reported.finding
        if not left[finding.severity]:
            continue
        left[finding.severity] -= 1
        place = {
            "file": placed.path,
            "line": str(placed.lines.start),
            "endLine": str(max(placed.lines.stop - 1, placed.lines.start)),
            "title": f"{finding.rule}: {finding.title}",
        }
        properties = ",".join(f"{name}={_property(value)}" for name, value in place.items())
        yield f"::{_COMMANDS[finding.severity]} {properties}::{command_data(finding.message)}"


def log_line(text: str) -> str:
    """A line for the log that is no command, whatever it holds."""
    shown = visible(text).replace("##[", "# #[")
    return f"- {shown}" if shown.lstrip().startswith("::") else shown


def command_data(text: str) -> str:
    """The text after the last `::` of a workflow command."""
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return command_data(text).replace(":", "%3A").replace(",", "%2C")


def write_outputs(file: Path | None, outputs: Mapping[str, str]) -> None:
    """The step's outputs. A value cannot end its own block: the delimiter is made by chance."""
    if file is None:
        return
    delimiter = f"pitstop-{uuid.uuid4()}"
    with file.open("a", encoding="utf-8", errors="backslashreplace") as stream:
        for name, value in outputs.items():
            stream.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")


def write_summary(file: Path | None, summary: Summary) -> None:
    """The job's summary, cut to what a step may still write."""
    if file is None:
        return
    taken = file.stat().st_size if file.exists() else 0
    text = summary.within(max(MAX_SUMMARY - taken - 1, 0), utf8_bytes)
    with file.open("a", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)
