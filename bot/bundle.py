"""What a fork's review hands to the stage that may write: findings, and nothing that decides.

The first stage runs with a read-only token on a stranger's pull request, and the stranger may
have edited its workflow. So the second stage believes nothing of a bundle: which pull request it
writes to comes from GitHub alone, words that the catalogue has are taken from the catalogue, and
patches are shown but never offered as a suggestion, which a person would press.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pitstop.bot.report import Report
from pitstop.rules.engine import all_rules
from pitstop.rules.finding import Finding, Location, UserError
from pitstop.rules.rule import RuleInfo
from pitstop.rules.tree import normalise

FORMAT = 1
NAME = "bundle.json"
MAX_BYTES = 5_000_000
MAX_FINDINGS = 2_000
MAX_UNREAD = 200
MAX_LINE = 10_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Bundle:
    """A report and what the first stage says it is about. `number` only chooses between pull
    requests that GitHub names."""

    number: int
    head_sha: str
    report: Report


def write_bundle(number: int, head_sha: str, report: Report) -> str:
    """A bundle as JSON, within the limits that its reader has: the worst findings are kept. Jobs
    stay behind, since no comment shows them."""
    slim = dataclasses.replace(
        report, jobs=(), jobs_before=(), suppressed=(), unread=report.unread[:MAX_UNREAD]
    )
    found = sorted(report.findings, key=lambda reported: -reported.finding.severity)
    kept = found[:MAX_FINDINGS]
    while True:
        text = _bundle(number, head_sha, dataclasses.replace(slim, findings=tuple(kept)))
        if len(text) <= MAX_BYTES or not kept:
            return text
        kept = kept[: len(kept) // 2]


def _bundle(number: int, head_sha: str, report: Report) -> str:
    data = {"format": FORMAT, "number": number, "head_sha": head_sha}
    return json.dumps({**data, "report": json.loads(report.to_json())})


def read_bundle(path: Path) -> Bundle | None:
    """The bundle in a file or folder, None when there is none. Raises UserError for anything
    that `write_bundle` would not have written."""
    file = path / NAME if path.is_dir() else path
    if not file.exists():
        return None
    if file.is_symlink() or not file.is_file():
        raise _refused("it is no plain file")
    if file.stat().st_size > MAX_BYTES:
        raise _refused(f"it is larger than {MAX_BYTES // 1_000_000} MB")
    try:
        data = json.loads(file.read_text("utf-8"))
        # Raises where a string holds half of a surrogate pair, which no file name decodes to.
        json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogateescape")
    except (ValueError, RecursionError) as error:
        raise _refused("it is not JSON") from error
    return _checked(data)


def _refused(reason: str) -> UserError:
    return UserError(f"The bundle of the first stage is refused: {reason}.")


def _checked(data: Any) -> Bundle:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise _refused(f"it is not in format {FORMAT}")
    number, head = data.get("number"), data.get("head_sha")
    if type(number) is not int or not isinstance(head, str):
        raise _refused("it does not say what it is about")
    report = Report.from_json(json.dumps(data.get("report")))
    if len(report.findings) > MAX_FINDINGS:
        raise _refused(f"it holds more than {MAX_FINDINGS} findings")
    for location in _locations(report):
        if not _sensible(location):
            raise _refused(f"{location.path[:100]!r} is no place in a repository")
    known = {info.id: info for info in all_rules()}
    findings = tuple(
        dataclasses.replace(reported, finding=_in_our_words(reported.finding, known[rule]))
        for reported in report.findings
        if (rule := reported.finding.rule) in known
    )
    return Bundle(number, head, dataclasses.replace(report, findings=findings, jobs=()))


def _locations(report: Report) -> Iterator[Location]:
    for reported in report.findings:
        finding = reported.finding
        yield finding.primary
        yield from (other.location for other in finding.related)


def _sensible(at: Location) -> bool:
    lines = 1 <= at.line <= at.end_line <= MAX_LINE and min(at.column, at.end_column) >= 1
    return lines and 0 <= at.span.start <= at.span.end and normalise(at.path) == at.path != ""


def _in_our_words(finding: Finding, info: RuleInfo) -> Finding:
    return dataclasses.replace(
        finding,
        name=info.name,
        title=info.title,
        cost=info.cost,
        source=info.sources[0],
        leave_when=info.sections.leave_when,
        advice=info.sections.fix,
        resource=info.resource,
    )
