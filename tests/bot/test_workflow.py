from __future__ import annotations

from pathlib import Path

import pytest

from pitstop.bot import workflow
from pitstop.bot.markdown import Markdown
from pitstop.bot.placement import locate
from pitstop.bot.report import ReportedFinding
from pitstop.bot.summary import Summary
from pitstop.rules.finding import Severity
from pitstop.rules.tree import DictTree, SourceFile
from pitstop.transforms.patch import Unchanged
from tests.bot.reviewing import finding


def lines_for(count: int, severity: Severity, path: str = "a", message: str = "m") -> list[str]:
    file = SourceFile(path, "x\n" * count)
    found = [
        ReportedFinding(
            finding(file.location(2 * n, 2 * n + 1), severity=severity, message=message),
            Unchanged(),
        )
        for n in range(count)
    ]
    return list(workflow.annotation_lines(locate(found, DictTree({path: file.text}))))


def test_annotation() -> None:
    (line,) = lines_for(1, Severity.CRITICAL)
    assert line == "::error file=a,line=1,endLine=1,title=GEN-F01%3A Line is slow::m"


@pytest.mark.parametrize("severity", Severity)
def test_no_more_than_ten_of_a_kind(severity: Severity) -> None:
    assert len(lines_for(30, severity)) == 10


def test_hostile_words_stay_in_their_place() -> None:
    (line,) = lines_for(1, Severity.INFO, "a,line=9::x\n%", "100 %\n::add-mask::x\r\n##[error]")
    assert line.startswith("::notice file=a%2Cline=9%3A%3Ax\\n%25,line=1,")
    assert line.endswith("::100 %25\\n::add-mask::x\\r\\n##[error]")
    assert "\n" not in line and "\r" not in line


@pytest.mark.parametrize(
    "text",
    ["::set-output name=x::y", "  ::stop-commands::z", "##[add-path]x", "a ##[group]", "\n::x"],
)
def test_log_line_is_no_command(text: str) -> None:
    line = workflow.log_line(text)
    assert not line.lstrip().startswith("::")
    assert "##[" not in line and "\n" not in line


def test_outputs_cannot_be_ended_by_a_value(tmp_path: Path) -> None:
    file = tmp_path / "output"
    file.write_text("earlier=1\n")
    workflow.write_outputs(file, {"report": "a\nother<<EOF\nevil\nEOF", "findings": "2"})
    lines = file.read_text().splitlines()
    name, delimiter = lines[1].split("<<")
    assert name == "report" and lines.index(delimiter, 2) == 6
    assert lines[7].startswith("findings<<") and lines[8] == "2"


def test_summary_fits_beside_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    file.write_text("中" * 100_000)
    sections = tuple("行" * 1_000 + "\n" for _ in range(900))
    workflow.write_summary(file, Summary(sections, Markdown("end\n")))
    text = file.read_text()
    assert 1_000_000 < file.stat().st_size < workflow.MAX_SUMMARY
    assert text.endswith("end\n") and "Shortened" in text


def test_nothing_is_written_where_the_runner_wants_nothing() -> None:
    workflow.write_outputs(None, {"a": "b"})
    workflow.write_summary(None, Summary((), Markdown("")))
