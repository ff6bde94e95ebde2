"""The report for people: in a terminal and as Markdown, compared whole."""

import io
from pathlib import Path

import pytest

from pitstop.bot.report import Report
from pitstop.bot.report_markdown import full_report
from pitstop.bot.text import TextReport, console
from pitstop.rules.tree import DictTree
from pitstop.transforms.patch import Refused, Unchanged
from tests.bot.reports import report

TREE = DictTree({"run.sh": "torchrun 训练.py \x1b[2J\n"})
DATA = Path(__file__).parents[1] / "data" / "report"


def in_text(shown: Report, older: int = 0) -> str:
    out = io.StringIO()
    TextReport(console(out), TREE, folder=Path("repo")).print(shown, older=older)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


@pytest.mark.parametrize("form", ["txt", "md"])
@pytest.mark.parametrize("case", ["changed", "refused", "empty"])
def test_report_reads_as_stored(case: str, form: str) -> None:
    """To store them anew, delete the files and run this twice."""
    shown, older = {
        "changed": (report(), 0),
        "refused": (report(Refused("the value is made by a program"), diff=""), 2),
        "empty": (Report("0.1.0", (), (), files=7, seconds=0.04), 0),
    }[case]
    text = in_text(shown, older) if form == "txt" else full_report(shown, older=older)
    stored = DATA / f"{case}.{form}"
    if not stored.exists():
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_text(text)
        pytest.fail(f"{stored} is new; read it and run again")
    assert text == stored.read_text()


def test_an_unneeded_fix_is_not_shown_as_a_change() -> None:
    assert "by hand" not in in_text(report(Unchanged(), diff=""))


def test_a_file_that_is_gone_has_no_excerpt() -> None:
    out = io.StringIO()
    TextReport(console(out), DictTree({}), folder=Path("repo")).print(report())
    assert "│" not in out.getvalue()
