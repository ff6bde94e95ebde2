"""A report as SARIF 2.1.0, for code scanning and editors. Pure.

Within GitHub's limits (docs.github.com, "SARIF support for code scanning"): results of a run, tags
of a rule, locations of a result. Its limit of 10 MB compressed is kept by cutting long texts and
leaving out long fixes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from pitstop.bot.report import Report, ReportedFinding
from pitstop.rules.engine import all_rules
from pitstop.rules.finding import Finding, Location, Severity
from pitstop.rules.rule import SECTION_TITLES, RuleInfo
from pitstop.transforms.patch import Changed, Edit, Patch

Json = dict[str, Any]

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
MAX_RESULTS = 25_000
MAX_TAGS = 20
MAX_RELATED = 20
MAX_TEXT = 4_000
MAX_FIX = 20_000

_LEVELS = {Severity.INFO: "note", Severity.WARNING: "warning", Severity.CRITICAL: "error"}
_RANKS = {"high": 90.0, "medium": 60.0, "low": 30.0}


def to_sarif(report: Report) -> str:
    """One SARIF log with one run: every finding of the report, worst first. Code scanning tells
    by itself which are new, and takes one that is left out for fixed."""
    known = {info.id: info for info in all_rules()}
    found = sorted(report.findings, key=_order)[:MAX_RESULTS]
    rules = list(dict.fromkeys(reported.finding.rule for reported in found))
    numbers = {rule: index for index, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    run: Json = {
        "tool": {
            "driver": {
                "name": "Pitstop",
                "semanticVersion": report.version,
                "rules": [_rule(rule, known.get(rule), found) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(report)],
        "results": [_result(reported, numbers, seen) for reported in found],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


def _order(reported: ReportedFinding) -> tuple[int, Location, str]:
    finding = reported.finding
    return -finding.severity, finding.primary, finding.rule


def _invocation(report: Report) -> Json:
    """What could not be read, and rules that did not run, are told as notifications."""
    told = [
        {
            "level": "note",
            "message": {"text": _text(f"not read: {unread.reason}")},
            "locations": [{"physicalLocation": _place(unread.path, unread.line)}],
        }
        for unread in report.unread
    ]
    told += [
        {"level": "warning", "message": {"text": _text(f"{rule} did not run: {reason}")}}
        for rule, reason in report.skipped
    ]
    return {"executionSuccessful": True, "toolExecutionNotifications": told}


def _place(path: str, line: int | None) -> Json:
    place: Json = {"artifactLocation": {"uri": _uri(path), "uriBaseId": "%SRCROOT%"}}
    if line is not None and line > 0:
        place["region"] = {"startLine": line}
    return place


def _rule(rule: str, info: RuleInfo | None, found: Iterable[ReportedFinding]) -> Json:
    example = next(r.finding for r in found if r.finding.rule == rule)
    severity = info.severity if info else example.severity
    tags = [example.resource, *([info.catalogue, info.category] if info else [])]
    described: Json = {
        "id": rule,
        "name": _text(example.name),
        "shortDescription": {"text": _text(example.title)},
        "fullDescription": {"text": _text(info.sections.what if info else example.title)},
        "defaultConfiguration": {"level": _LEVELS[severity]},
        "properties": {"tags": [tag for tag in tags if tag][:MAX_TAGS], "precision": "high"},
    }
    if info:
        described["help"] = _help(info)
    return described


def _help(info: RuleInfo) -> Json:
    parts = [
        (title, getattr(info.sections, field))
        for field, title in SECTION_TITLES.items()
        if getattr(info.sections, field)
    ]
    parts.append(("Sources", ", ".join(info.sources)))
    return {
        "text": "\n\n".join(f"{title}: {text}" for title, text in parts),
        "markdown": "\n\n".join(f"## {title}\n\n{text}" for title, text in parts),
    }


def _result(reported: ReportedFinding, numbers: Mapping[str, int], seen: Counter[str]) -> Json:
    finding = reported.finding
    seen[finding.fingerprint] += 1
    message = " ".join(part for part in (finding.message, finding.cost) if part)
    result: Json = {
        "ruleId": finding.rule,
        "ruleIndex": numbers[finding.rule],
        "level": _LEVELS[finding.severity],
        "rank": _RANKS[finding.priority],
        "message": {"text": _text(message)},
        "locations": [{"physicalLocation": _physical(finding.primary)}],
        # Code scanning follows a result by this one name; with it, moved lines do not matter.
        "partialFingerprints": {
            "primaryLocationLineHash": f"{finding.fingerprint}:{seen[finding.fingerprint]}"
        },
    }
    related = _related(finding)
    if related:
        result["relatedLocations"] = related
    if isinstance(reported.outcome, Changed) and (fix := _fix(finding, reported.outcome.patch)):
        result["fixes"] = [fix]
    return result


def _related(finding: Finding) -> list[Json]:
    return [
        {
            "id": number,
            "physicalLocation": _physical(other.location),
            "message": {"text": _text(other.text)},
        }
        for number, other in enumerate(finding.related[:MAX_RELATED], 1)
    ]


def _physical(location: Location) -> Json:
    return {
        "artifactLocation": {"uri": _uri(location.path), "uriBaseId": "%SRCROOT%"},
        "region": {
            "startLine": max(location.line, 1),
            "startColumn": max(location.column, 1),
            "endLine": max(location.end_line, location.line, 1),
            "endColumn": max(location.end_column, 1),
        },
    }


def _fix(finding: Finding, patch: Patch) -> Json | None:
    """The patch as replacements; None for one that is too long or cannot stand in JSON."""
    texts = [edit.text for edit in patch.edits] + [text for _, text in patch.new_files]
    if sum(map(len, texts)) > MAX_FIX or any(_text(text, len(text)) != text for text in texts):
        return None
    changes = [
        {
            "artifactLocation": {"uri": _uri(path), "uriBaseId": "%SRCROOT%"},
            "replacements": [_replacement(e) for e in sorted(patch.edits) if e.path == path],
        }
        for path in sorted({edit.path for edit in patch.edits})
    ]
    changes += [
        {
            "artifactLocation": {"uri": _uri(path), "uriBaseId": "%SRCROOT%"},
            "replacements": [
                {
                    "deletedRegion": {"charOffset": 0, "charLength": 0},
                    "insertedContent": {"text": text},
                }
            ],
        }
        for path, text in patch.new_files
    ]
    why = finding.fix.text if finding.fix else patch.why
    return {"description": {"text": _text(why)}, "artifactChanges": changes}


def _replacement(edit: Edit) -> Json:
    length = edit.span.end - edit.span.start
    return {
        "deletedRegion": {"charOffset": edit.span.start, "charLength": length},
        "insertedContent": {"text": edit.text},
    }


def _uri(path: str) -> str:
    return quote(path.encode("utf-8", "surrogateescape"), safe="/")


def _text(text: str, most: int = MAX_TEXT) -> str:
    """Text that JSON can hold: bytes that were not UTF-8 become the replacement character."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")[:most]
