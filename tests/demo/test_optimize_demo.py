"""`make demo-optimize`: the three stages as processes, the pages and the figure on them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from demo.chart import chart
from demo.optimize_demo import main
from demo.runner import _outputs
from demo.stored import local_links

CHART = """\
xychart-beta
  x-axis "step" 1 --> 3
  y-axis "loss" 1.1 --> 2.1
  line [2.0, 1.5, 1.2]
  line [2.0, 1.5, 1.25]
"""


@pytest.mark.timeout(240)
def test_the_command_is_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With no change to try, so that it is quick: what a run keeps is tested elsewhere."""
    folder = tmp_path / "demo"
    command = "/optimize --quick --steps 3 only no-such-change"
    assert main(["--folder", str(folder), "--command", command]) == 0
    shown = capsys.readouterr().out
    assert "GEN-F01" in shown
    assert "gate: may this person" in shown
    assert "No change was tried" in shown
    assert "first look (--quick)" in shown
    for address in re.findall(r"file://\S+", shown):
        assert Path(unquote(urlsplit(address).path)).exists(), address
    assert "No change was tried" in (folder / "pull-request.html").read_text()
    assert not (folder / "follow-up.html").exists()


def test_a_refused_command_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--folder", str(tmp_path / "demo"), "--command", "/optimize --qick"]) == 1
    shown = capsys.readouterr().out
    assert "run: measure" not in shown


class TestChart:
    def test_lines_become_a_picture(self) -> None:
        picture = chart(CHART)
        assert picture is not None
        assert picture.startswith("<svg")
        assert picture.count("stroke-width") == 2

    @pytest.mark.parametrize(
        "code",
        [
            "",
            "graph TD",
            "xychart-beta",
            CHART.replace("1 --> 3", "3 --> 3"),
            CHART.replace("1.5", "x"),
            CHART.replace("2.1", "nan"),
        ],
    )
    def test_everything_else_stays_text(self, code: str) -> None:
        assert chart(code) is None

    def test_titles_are_data(self) -> None:
        picture = chart(CHART.replace('"loss"', '"<script>"'))
        assert picture is not None
        assert "<script>" not in picture


def test_links_between_stored_pages_lead_to_files() -> None:
    pages = {"/a/b/pull/1": "one.html", "/a/b/pull/2": "two.html"}
    page = (
        '<a href="/a/b/pull/2"><a href="http://h/a/b/pull/1#x"><a href="/a/b/pull/3">'
        '<a href="http://h/other">'
    )
    assert local_links(page, "http://h", pages) == (
        '<a href="two.html"><a href="one.html#x"><a href="/a/b/pull/3"><a href="http://h/other">'
    )


def test_outputs_of_both_forms(tmp_path: Path) -> None:
    file = tmp_path / "output.txt"
    file.write_text("go=true\nrequest<<END\n{\n}\nEND\nsha=a=b\n")
    assert dict(_outputs(file)) == {"go": "true", "request": "{\n}", "sha": "a=b"}
