"""Pull requests from forks: a first stage that may only read, and a second that trusts nothing."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from demo.forge import Forge
from demo.handles import ForgePull
from pitstop.bot.action import run
from pitstop.bot.bundle import MAX_BYTES, MAX_FINDINGS, read_bundle, write_bundle
from pitstop.bot.report import Report, ReportedFinding
from pitstop.rules.finding import Location, Related, Severity, Span, Unread, UserError
from pitstop.transforms.patch import Unchanged
from tests.bot.reviewing import Time, audit_marks, finding, settings_for

CHANGE = {"a": "x\ny SLOW\nz\n"}


def fork_pull(forge: Forge) -> ForgePull:
    repo = forge.create_repo({"a": "x\ny\nz\n"})
    fork = forge.fork(repo, "eve")
    return repo.open_pull(CHANGE, branch="change", author="eve", source=fork)


def first_stage(forge: Forge, pull: ForgePull, folder: Path) -> int:
    settings = settings_for(forge, pull, folder / "first", token=forge.read_token())
    return run(settings, clock=Time().clock, audit=audit_marks)


def completed(pull: ForgePull, **changes: Any) -> dict[str, Any]:
    """The workflow_run event of the first stage, as GitHub sends it for a fork."""
    workflow_run = {
        "id": 5,
        "event": "pull_request",
        "head_sha": pull.head,
        "head_branch": "change",
        "head_repository": {"owner": {"login": "eve"}},
        "pull_requests": [],
    }
    return {
        "action": "completed",
        "workflow_run": workflow_run | changes,
        "repository": {"full_name": pull.repo.name},
    }


def second_stage(forge: Forge, pull: ForgePull, folder: Path, **changes: Any) -> int:
    """With the artifact of the first stage, as a download step unpacks it."""
    source = folder / "first" / "workspace" / "pitstop-report"
    target = folder / "second" / "workspace" / "from-first-stage"
    shutil.copytree(source, target, dirs_exist_ok=True)
    settings = settings_for(
        forge,
        pull,
        folder / "second",
        event=completed(pull, **changes),
        name="workflow_run",
        bundle=str(target),
    )
    return run(settings, clock=Time().clock, audit=no_audit)


def no_audit(tree: object, request: object) -> Report:
    raise AssertionError("the second stage reads no code")


def bundle_file(folder: Path) -> Path:
    return folder / "first" / "workspace" / "pitstop-report" / "bundle.json"


def edit_bundle(folder: Path, **changes: Any) -> None:
    data = json.loads(bundle_file(folder).read_text())
    bundle_file(folder).write_text(json.dumps({**data, **changes}))


def test_first_stage_stays_green_and_tells_all_elsewhere(
    forge: Forge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = fork_pull(forge)
    assert first_stage(forge, pull, tmp_path) == 0
    assert pull.comments() == pull.review_comments() == pull.checks() == []
    assert "::warning file=a,line=2," in capsys.readouterr().out
    summary = (tmp_path / "first" / "summary.md").read_text()
    assert "The token may not comment" in summary and "-y SLOW" in summary
    assert (tmp_path / "first" / "output").read_text().splitlines()[10] == (
        "pitstop-report/bundle.json"
    )
    assert bundle_file(tmp_path).exists()


def test_second_stage_posts_it_once(forge: Forge, tmp_path: Path) -> None:
    pull = fork_pull(forge)
    first_stage(forge, pull, tmp_path)
    for _ in range(2):
        assert second_stage(forge, pull, tmp_path) == 0
    (comment,) = pull.review_comments()
    assert (comment["path"], comment["line"]) == ("a", 2)
    assert len(pull.comments()) == 1 and len(pull.checks()) == 1


def test_second_stage_shows_a_patch_but_offers_nothing_to_press(
    forge: Forge, tmp_path: Path
) -> None:
    pull = fork_pull(forge)
    first_stage(forge, pull, tmp_path)
    second_stage(forge, pull, tmp_path)
    (comment,) = pull.review_comments()
    assert "suggestion" not in comment["body"] and "+y FAST" in comment["body"]


def test_words_of_the_catalogue_are_not_taken_from_the_bundle(forge: Forge, tmp_path: Path) -> None:
    pull = fork_pull(forge)
    first_stage(forge, pull, tmp_path)
    report = json.loads(bundle_file(tmp_path).read_text())["report"]
    (one,) = report["findings"]
    for word in ("title", "cost", "source", "leave_when", "advice"):
        one["finding"][word] = f"EVIL {word}"
    one["finding"]["message"] = "@octocat <script> https://evil.example"
    stranger = json.loads(json.dumps(one))
    stranger["finding"]["rule"] = "EVIL-1"
    edit_bundle(tmp_path, report=report | {"findings": [one, stranger]})
    second_stage(forge, pull, tmp_path)
    (comment,) = pull.review_comments()
    everything = comment["body"] + pull.comments()[0]["body"] + json.dumps(pull.checks())
    assert "EVIL" not in everything
    assert "@octocat" not in comment["body"] and "https://evil" not in comment["body"]


def test_bundle_of_another_pull_request_is_refused(forge: Forge, tmp_path: Path) -> None:
    pull = fork_pull(forge)
    victim = pull.repo.open_pull({"a": "x\ny SLOW\nz\n"}, branch="other", author="alice")
    first_stage(forge, pull, tmp_path)
    edit_bundle(tmp_path, number=victim.number)
    with pytest.raises(UserError, match="another pull request"):
        second_stage(forge, pull, tmp_path)
    assert victim.comments() == pull.comments() == []


def test_bundle_of_another_commit_is_refused(forge: Forge, tmp_path: Path) -> None:
    pull = fork_pull(forge)
    first_stage(forge, pull, tmp_path)
    edit_bundle(tmp_path, head_sha="b" * 40)
    with pytest.raises(UserError, match="another commit"):
        second_stage(forge, pull, tmp_path)


def test_head_that_moved_on_is_left_alone(
    forge: Forge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = fork_pull(forge)
    first_stage(forge, pull, tmp_path)
    before = pull.head
    pull.push({"a": "x\ny SLOW\nz2\n"})
    assert second_stage(forge, pull, tmp_path, head_sha=before) == 0
    assert pull.comments() == []
    assert "no open pull request has its head at" in capsys.readouterr().out


def test_branch_of_the_same_name_in_another_fork_is_not_meant(forge: Forge, tmp_path: Path) -> None:
    pull = fork_pull(forge)
    first_stage(forge, pull, tmp_path)
    owner = {"owner": {"login": "mallory"}}
    assert second_stage(forge, pull, tmp_path, head_repository=owner) == 0
    assert pull.comments() == []


def test_nothing_to_post_when_the_first_stage_could(forge: Forge, tmp_path: Path) -> None:
    pull = fork_pull(forge)
    first_stage(forge, pull, tmp_path)
    bundle_file(tmp_path).unlink()
    assert second_stage(forge, pull, tmp_path) == 0
    assert pull.comments() == []


def test_second_stage_needs_the_input(forge: Forge, tmp_path: Path) -> None:
    pull = fork_pull(forge)
    settings = settings_for(forge, pull, tmp_path, event=completed(pull), name="workflow_run")
    with pytest.raises(UserError, match="INPUT_BUNDLE"):
        run(settings, clock=Time().clock, audit=no_audit)


# Bundles that nobody of ours wrote

AT = Location("a", Span(0, 4), 1, 1, 1, 5)


def report_at(*places: Location, **other: Any) -> Report:
    found = tuple(ReportedFinding(finding(at), Unchanged()) for at in places)
    return Report("0.1.0", (), found, **other)


def refused(tmp_path: Path, text: str | bytes) -> str:
    file = tmp_path / "bundle.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as caught:
        read_bundle(file)
    return str(caught.value)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "bundle.json"
    report = report_at(AT, dataclasses.replace(AT, path="na\udcffme"), revision="a" * 40)
    file.write_text(write_bundle(3, "a" * 40, report))
    bundle = read_bundle(tmp_path)
    assert bundle is not None and (bundle.number, bundle.head_sha) == (3, "a" * 40)
    assert [r.finding.primary.path for r in bundle.report.findings] == ["a", "na\udcffme"]


def test_no_bundle(tmp_path: Path) -> None:
    assert read_bundle(tmp_path) is None
    assert read_bundle(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"format": 2}',
        b"[" * 100_000,
        b'{"format": 1, "number": "3", "head_sha": "a", "report": {}}',
        b'{"format": 1, "number": true, "head_sha": "a", "report": {}}',
        b'{"format": 1, "number": 3, "head_sha": "a", "report": {}}',
        b'{"format": 1, "number": 3, "head_sha": "a", "report": {"format": 1}}',
        b'{"format": 1, "number": 3, "head_sha": "\\ud800", "report": {"format": 1}}',
    ],
)
def test_text_that_is_no_bundle(tmp_path: Path, text: bytes) -> None:
    assert refused(tmp_path, text)


@pytest.mark.parametrize(
    "place",
    [
        dataclasses.replace(AT, path="../a"),
        dataclasses.replace(AT, path="/etc/passwd"),
        dataclasses.replace(AT, path="a/./b"),
        dataclasses.replace(AT, path=""),
        dataclasses.replace(AT, path="a\0"),
        dataclasses.replace(AT, line=0),
        dataclasses.replace(AT, line=-1),
        dataclasses.replace(AT, end_line=10**12),
        dataclasses.replace(AT, line=5, end_line=4),
        dataclasses.replace(AT, span=Span(-5, 4)),
        dataclasses.replace(AT, span=Span(5, 4)),
        dataclasses.replace(AT, column=0),
    ],
)
def test_place_that_is_none(tmp_path: Path, place: Location) -> None:
    assert "no place in a repository" in refused(tmp_path, write_bundle(3, "a", report_at(place)))
    one = finding(AT, related=(Related(place, "x"),))
    report = Report("0", (), (ReportedFinding(one, Unchanged()),))
    assert "no place in a repository" in refused(tmp_path, write_bundle(3, "a", report))


def test_too_many_findings(tmp_path: Path) -> None:
    data = json.loads(write_bundle(3, "a", report_at(AT)))
    data["report"]["findings"] *= MAX_FINDINGS + 1
    assert "more than" in refused(tmp_path, json.dumps(data))


@pytest.mark.parametrize(("count", "words"), [(MAX_FINDINGS + 500, 1), (300, 40_000)])
def test_long_report_keeps_the_worst_within_the_limits(
    tmp_path: Path, count: int, words: int
) -> None:
    found = [
        ReportedFinding(finding(AT, message="x" * words, severity=severity), Unchanged())
        for severity in (Severity.INFO, Severity.CRITICAL)
        for _ in range(count if severity is Severity.INFO else 3)
    ]
    unread = (Unread("a", "broken"),) * 10_000
    (tmp_path / "bundle.json").write_text(
        write_bundle(3, "a", Report("0", (), tuple(found), unread=unread))
    )
    bundle = read_bundle(tmp_path)
    assert bundle is not None
    kept = [reported.finding.severity for reported in bundle.report.findings]
    assert kept[:4] == [Severity.CRITICAL] * 3 + [Severity.INFO]


def test_too_large(tmp_path: Path) -> None:
    assert "larger than" in refused(tmp_path, " " * (MAX_BYTES + 1))


def test_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(write_bundle(3, "a", report_at(AT)))
    (tmp_path / "bundle.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="plain file"):
        read_bundle(tmp_path)


def test_bundle_carries_no_jobs() -> None:
    assert json.loads(write_bundle(1, "a", report_at(AT)))["report"].get("jobs", []) == []
