"""What a change does to the jobs of a repository, and how a summary tells it."""

from __future__ import annotations

import pytest

from pitstop.bot.changes import JobChange, job_changes
from pitstop.bot.diff import Diff, FileDiff, Hunk
from pitstop.bot.posting import Audited
from pitstop.bot.pulls import Posted
from pitstop.bot.report import Report, ReportedFinding
from pitstop.bot.review import Policy
from pitstop.bot.summary import MAX_JOBS, MAX_KNOBS
from pitstop.bot.views import Links
from pitstop.rules.finding import Location, Setting, Span, Surface, Unknown, Value
from pitstop.rules.job import TrainingJob
from pitstop.rules.tree import DictTree
from pitstop.transforms.patch import Unchanged
from tests.bot.reviewing import finding

AT = Location("run.sh", Span(0, 1), 3, 1, 3, 2)


def setting(knob: str, value: Value, *, written: bool = True) -> Setting:
    surface = Surface.FLAG if written else Surface.DEFAULT
    return Setting(knob, value, surface, knob, "x", value_at=AT if written else None)


def job(name: str, *settings: Setting) -> TrainingJob:
    return TrainingJob(name, f"Job {name}", "train", (), {one.knob: (one,) for one in settings})


def test_nothing_changed() -> None:
    one = job("a", setting("x", 1))
    assert job_changes((one,), (one,)) == ()


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (setting("x", 8), setting("x", 0), ("8", "0")),
        (setting("x", 8), setting("x", 0, written=False), ("8", "0 (default)")),
        (setting("x", 0, written=False), setting("x", 8), ("0 (default)", "8")),
        (setting("x", 8), None, ("8", "")),
        (setting("x", Unknown("env")), setting("x", 8), ("unknown", "8")),
        (setting("x", ("a", "b")), setting("x", ("a",)), ("a, b", "a")),
        (setting("x", True), setting("x", False), ("True", "False")),
    ],
)
def test_changed_value(before: Setting, after: Setting | None, words: tuple[str, str]) -> None:
    (change,) = job_changes((job("a", before),), (job("a", *([after] if after else [])),))
    (knob,) = change.knobs
    assert (change.kind, knob.before, knob.after) == ("changed", *words)


def test_same_value_written_elsewhere_is_no_change() -> None:
    before, after = setting("x", 0), setting("x", 0, written=False)
    assert job_changes((job("a", before),), (job("a", after),)) == ()


def test_jobs_that_come_and_go() -> None:
    found = job_changes((job("a"), job("b")), (job("b"), job("c")))
    assert found == (JobChange("c", "Job c", "added"), JobChange("a", "Job a", "removed"))


def told(before: list[TrainingJob], after: list[TrainingJob], knob: str = "z") -> str:
    one = finding(AT, deciding=setting(knob, 1))
    report = Report(
        "0",
        tuple(after),
        (ReportedFinding(one, Unchanged()),),
        jobs_before=tuple(before),
    )
    diff = Diff({"run.sh": FileDiff("run.sh", hunks=(Hunk(range(1, 9)),))})
    links = Links("https://github.com", "o/r", "a" * 40)
    audit = Audited(1, report, diff, DictTree({}), links)
    return audit.summary(audit.review(Posted(), Policy()), ()).within(60_000)


def test_summary_shows_the_setting_and_its_line() -> None:
    text = told([job("a", setting("x", 8))], [job("a", setting("x", 0))])
    assert "<summary>Job a</summary>" in text
    assert "| `x` | `8` | `0` [`run.sh:3`](https://github.com/o/r/blob/" in text


def test_settings_that_findings_are_about_come_first_and_the_rest_is_counted() -> None:
    many = [f"k{n:02}" for n in range(MAX_KNOBS + 3)]
    before = job("a", *(setting(knob, 1) for knob in many))
    after = job("a", *(setting(knob, 2) for knob in many))
    text = told([before], [after], knob="k14")
    assert text.index("`k14`") < text.index("`k00`")
    assert "`k13`" not in text and "| and 3 more | | |" in text


def test_many_jobs_are_counted() -> None:
    text = told([], [job(f"j{n:03}") for n in range(MAX_JOBS + 5)])
    assert "And 5 more jobs." in text and text.count(": added\n") == MAX_JOBS


def test_names_of_a_repository_stay_in_their_cell() -> None:
    text = told([job("x|y", setting("x", "`|x"))], [job("x|y", setting("x", "@y <b>"))])
    assert "<summary>Job x|y</summary>" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| `x` |")]
    assert row.count("|") - row.count("\\|") == 4
