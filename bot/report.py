"""The record of one audit: what every output (terminal, Markdown, SARIF, review) is made from."""

from __future__ import annotations

import json
import typing
from dataclasses import dataclass

from pitstop.bot import wire
from pitstop.rules.engine import Suppressed
from pitstop.rules.finding import Finding, Location, Severity, Unread, UserError
from pitstop.rules.job import TrainingJob
from pitstop.transforms.patch import Outcome

FORMAT = 1
"""Of the JSON; raised when a reader of the old format would misread the new one."""


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A finding, what the transforms made of its fix, and whether the change brought it in
    (its fingerprint is absent at the base; True when there is no base). `diff` is the fix alone
    as git would show it, "" when there is none."""

    finding: Finding
    outcome: Outcome
    introduced: bool = True
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """One audit. `revision` and `base` are commit ids or None for a folder; `files` were read,
    `seconds` is wall time, `jobs_before` are the jobs of the base."""

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
    jobs_before: tuple[TrainingJob, ...] = ()

    @property
    def introduced(self) -> tuple[ReportedFinding, ...]:
        """The findings that the change brought in (all of them when there is no base)."""
        return tuple(reported for reported in self.findings if reported.introduced)

    def worst(self) -> Severity | None:
        """The highest severity among the introduced findings."""
        return max((reported.finding.severity for reported in self.introduced), default=None)

    def to_json(self) -> str:
        """One JSON document in ASCII, described by `schemas/report.schema.json`."""
        data = wire.encode(self)
        assert isinstance(data, dict)  # noqa: S101
        findings = typing.cast(list[dict[str, wire.Json]], data["findings"])
        for item, reported in zip(findings, self.findings, strict=True):
            item["fingerprint"] = reported.finding.fingerprint
        return _lines({"format": FORMAT, **data})

    @staticmethod
    def from_json(text: str) -> Report:
        """What `to_json` wrote. Raises UserError when it is not such a document."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(f"The report is not JSON ({error}); write it anew.") from error
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise UserError(
                f"The report is not in format {FORMAT}; write it with this version of Pitstop."
            )
        try:
            report = wire.decode(Report, data)
        except (wire.WireError, RecursionError) as error:
            raise UserError(f"The report is damaged ({error}); write it anew.") from error
        return typing.cast(Report, report)


def _lines(data: dict[str, wire.Json]) -> str:
    """A line for each job and finding. (Indented JSON is written by slow code, ten times over.)"""
    parts = []
    for key, value in data.items():
        lines = ",\n  ".join(map(json.dumps, value)) if isinstance(value, list) else ""
        text = f"[\n  {lines}\n ]" if lines else json.dumps(value)
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}"


def report_schema() -> dict[str, wire.Json]:
    """The JSON Schema of `Report.to_json`."""
    schema = wire.schema(Report)
    definitions = typing.cast(dict[str, typing.Any], schema["$defs"])
    root = definitions["Report"]
    root["properties"] = {"format": {"const": FORMAT}, **root["properties"]}
    root["required"] = ["format", *root["required"]]
    reported = definitions["ReportedFinding"]
    reported["properties"]["fingerprint"] = {"type": "string", "pattern": "^[0-9a-f]{16}$"}
    reported["required"].append("fingerprint")
    title: dict[str, wire.Json] = {"title": "Pitstop report"}
    return {"$schema": schema["$schema"], **title, **schema}
