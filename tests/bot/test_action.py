"""The action against a GitHub: events in, reviews out. The fixture `forge` holds all traffic
against GitHub's own description of its API."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from demo.forge import WRITE_ALL, Forge
from demo.handles import ForgePull
from pitstop.bot.action import run
from pitstop.rules.finding import UserError
from tests.bot.reviewing import Time, audit_marks, settings_for


def review(forge: Forge, pull: ForgePull, folder: Path, **inputs: object) -> int:
    settings = settings_for(forge, pull, folder, **inputs)  # type: ignore[arg-type]
    return run(settings, clock=Time().clock, audit=audit_marks)


def writes(forge: Forge) -> list[str]:
    return [
        exchange.operation or ""
        for exchange in forge.writes()
        if exchange.operation != "graphql" or b"mutation" in exchange.request.body
    ]


def lines(*words: str, count: int = 30) -> str:
    """A file of numbered lines, some of them with something said about them: "4 SLOW"."""
    said = dict(word.split(" ", 1) for word in words)
    return "".join(f"line {n} {said.get(str(n), '')}\n" for n in range(1, count + 1))


def test_added_line_gets_a_comment_with_a_suggestion(forge: Forge, tmp_path: Path) -> None:
    repo = forge.create_repo({"train.sh": "a\nb\nc\n"})
    pull = repo.open_pull({"train.sh": "a\nb SLOW\nc\n"})
    assert review(forge, pull, tmp_path) == 0
    (comment,) = pull.review_comments()
    assert (comment["path"], comment["line"], comment["side"]) == ("train.sh", 2, "RIGHT")
    assert comment.get("start_line") is None
    assert "```suggestion\nb FAST\n```" in comment["body"]
    (summary,) = pull.comments()
    assert "1 warning" in summary["body"]
    assert pull.head in summary["body"]


def test_nothing_found_is_one_line(forge: Forge, tmp_path: Path) -> None:
    pull = forge.create_repo({"a": "1\n"}).open_pull({"a": "2\n"})
    assert review(forge, pull, tmp_path) == 0
    (summary,) = pull.comments()
    shown = [line for line in summary["body"].splitlines() if not line.startswith("<!--")]
    assert len(shown) == 1 and shown[0].startswith("Nothing found in this change")
    assert pull.review_comments() == []
    assert [check["conclusion"] for check in pull.checks()] == ["success"]


def test_second_run_posts_nothing(forge: Forge, tmp_path: Path) -> None:
    repo = forge.create_repo({"a": lines(), "b": "x\n"})
    pull = repo.open_pull({"a": lines("3 SLOW", "20 SLOW CRITICAL"), "b": "x\ny SLOW\n"})
    review(forge, pull, tmp_path)
    before = len(writes(forge))
    review(forge, pull, tmp_path)
    assert writes(forge)[before:] == []


def test_hundred_and_twenty_findings(forge: Forge, tmp_path: Path) -> None:
    """The most severe 25 inline, all in the summary or check run, and nothing on a second run."""
    before = "".join(f"line {n}\n" for n in range(240))
    after = "".join(
        f"line {n} SLOW{' CRITICAL' if n % 20 == 0 else ''}\n" if n % 2 == 0 else f"line {n}\n"
        for n in range(240)
    )
    pull = forge.create_repo({"train.sh": before}).open_pull({"train.sh": after})
    review(forge, pull, tmp_path)
    comments = pull.review_comments()
    assert len(comments) == 25
    assert sum("Critical" in comment["body"] for comment in comments) == 12
    (check,) = pull.checks()
    assert len(check["annotations"]) == 120
    assert check["status"] == "completed" and check["conclusion"] == "neutral"
    (summary,) = pull.comments()
    assert "12 critical findings, 108 warnings" in summary["body"]
    assert summary["body"].count("\n| Warning |") == 108
    before_second = len(writes(forge))
    review(forge, pull, tmp_path)
    assert writes(forge)[before_second:] == []


def test_odd_files_cause_no_refusal(forge: Forge, tmp_path: Path) -> None:
    """Edges of hunks, renames, binary files, CRLF, CJK, odd names, no last line end."""
    base = {
        "first": lines(),
        "last": lines(count=40),
        "old name": lines(),
        "moved only": lines("5 SLOW"),
        "crlf.sh": lines().replace("\n", "\r\n"),
        "weights.bin": bytes(range(256)),
        "gone": "x SLOW\n",
        "no-end": "a\nb",
        "中文/训练.sh": "甲\n乙\n",
        "lone-cr": "one\rtwo\nthree\n",
        'qu"ote\t名.sh': "a\n",
    }
    pull = forge.create_repo(base).open_pull(
        {
            "first": lines("1 SLOW", "30 SLOW"),
            "last": lines("37 SLOW", "40 SLOW CLOSER", count=40),
            "old name": None,
            "new name": lines("2 SLOW"),
            "moved only": None,
            "moved": lines("5 SLOW"),
            "crlf.sh": lines("7 SLOW").replace("\n", "\r\n"),
            "weights.bin": bytes(reversed(range(256))) + b"SLOW",
            "gone": None,
            "no-end": "a\nb SLOW",
            "中文/训练.sh": "甲\n乙 SLOW 😀\n",
            "lone-cr": "one\rtwo\nthree SLOW\n",
            'qu"ote\t名.sh': "a SLOW\n",
            "brand new": "SLOW\n" * 3,
        }
    )
    assert review(forge, pull, tmp_path) == 0
    posted = {(c["path"], c["line"]) for c in pull.review_comments()}
    assert posted == {
        ("first", 1),
        ("first", 30),
        ("last", 37),
        ("last", 40),
        ("new name", 2),
        ("crlf.sh", 7),
        ("no-end", 2),
        ("中文/训练.sh", 2),
        ("lone-cr", 2),
        ('qu"ote\t名.sh', 1),
        ("brand new", 1),
        ("brand new", 2),
        ("brand new", 3),
        ("moved", None),
    }
    refused = [e for e in forge.log if e.answer is not None and e.answer.status == 422]
    assert refused == []


def test_fixed_finding_resolves_its_thread(forge: Forge, tmp_path: Path) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW", "20 SLOW")})
    review(forge, pull, tmp_path)
    pull.push({"a": lines("20 SLOW")})
    review(forge, pull, tmp_path)
    resolved = {t.anchor.original_line: t.resolved_by is not None for t in pull.threads()}
    assert resolved == {3: True, 20: False}
    assert len(pull.review_comments()) == 2


def test_moved_finding_is_not_said_again(forge: Forge, tmp_path: Path) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("20 SLOW")})
    review(forge, pull, tmp_path)
    pull.push({"a": "new first line\n" + lines("20 SLOW")})
    review(forge, pull, tmp_path)
    assert len(pull.review_comments()) == 1
    assert [thread.resolved_by for thread in pull.threads()] == [None]


def test_answered_thread_stays_open_and_is_named_in_the_summary(
    forge: Forge, tmp_path: Path
) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    review(forge, pull, tmp_path)
    pull.reply(pull.threads()[0], "It is meant that way.")
    pull.push({"a": lines()})
    review(forge, pull, tmp_path)
    assert pull.threads()[0].resolved_by is None
    assert "Outdated, but left open because somebody replied" in pull.comments()[0]["body"]


def test_finding_that_comes_back_is_said_again(forge: Forge, tmp_path: Path) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    review(forge, pull, tmp_path)
    pull.push({"a": lines()})
    review(forge, pull, tmp_path)
    pull.push({"a": lines("3 SLOW")})
    review(forge, pull, tmp_path)
    assert [t.resolved_by is not None for t in pull.threads()] == [True, False]
    review(forge, pull, tmp_path)
    assert len(pull.review_comments()) == 2


def test_summary_is_edited_in_place_and_names_every_reviewed_commit(
    forge: Forge, tmp_path: Path
) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    review(forge, pull, tmp_path)
    first = pull.head
    pull.push({"a": lines("3 SLOW", "20 SLOW CRITICAL")})
    review(forge, pull, tmp_path)
    (summary,) = pull.comments()
    assert "1 critical finding, 1 warning" in summary["body"]
    assert f"<!-- pitstop:reviewed {first} {pull.head} -->" in summary["body"]


def test_summary_by_somebody_else_is_not_believed(forge: Forge, tmp_path: Path) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    forged = f"<!-- pitstop:summary -->\n<!-- pitstop:reviewed {'f' * 40} -->"
    pull.comment(forged, "eve")
    review(forge, pull, tmp_path)
    theirs, ours = pull.comments()
    assert theirs["body"] == forged
    assert "f" * 40 not in ours["body"]


def test_unchanged_line_whose_value_the_change_altered(forge: Forge, tmp_path: Path) -> None:
    """A finding that is new although its own line is not: told on the file, or in the summary."""

    def audit(tree, request):  # type: ignore[no-untyped-def]
        import dataclasses

        report = audit_marks(tree, request)
        found = (dataclasses.replace(one, introduced=True) for one in report.findings)
        return dataclasses.replace(report, findings=tuple(found))

    base = {"a": lines("3 SLOW"), "b": lines("9 SLOW")}
    pull = forge.create_repo(base).open_pull({"a": lines("3 SLOW", "25 x")})
    run(settings_for(forge, pull, tmp_path), clock=Time().clock, audit=audit)
    (comment,) = pull.review_comments()
    assert (comment["path"], comment["subject_type"]) == ("a", "file")
    body = pull.comments()[0]["body"]
    assert "<code>b&#58;9</code>" in body and "-line 9 SLOW" in body


def test_old_findings_are_only_counted(forge: Forge, tmp_path: Path) -> None:
    base = {"a": lines("3 SLOW")}
    pull = forge.create_repo(base).open_pull({"a": lines("3 SLOW", "25 SLOW")})
    review(forge, pull, tmp_path)
    assert len(pull.review_comments()) == 1
    assert "1 more that this change did not bring in" in pull.comments()[0]["body"]


@pytest.mark.parametrize(
    ("mode", "lines_spoken_of"),
    [("added", {5}), ("diff_context", {4, 5}), ("file", {4, 5, None}), ("nofilter", {4, 5, None})],
)
def test_filter_of_the_base_branch(
    forge: Forge, tmp_path: Path, mode: str, lines_spoken_of: set[int | None]
) -> None:
    config = f"review: {{filter: {mode}}}\n"
    base = {"a": lines("4 SLOW", "25 SLOW"), "b": "SLOW\n", ".github/pitstop.yml": config}
    pull = forge.create_repo(base).open_pull({"a": lines("4 SLOW", "5 SLOW", "25 SLOW")})
    review(forge, pull, tmp_path)
    assert {c["line"] for c in pull.review_comments()} == lines_spoken_of
    assert ("| [`b:1`]" in pull.comments()[0]["body"]) == (mode == "nofilter")


def test_configuration_of_the_pull_request_has_no_say(forge: Forge, tmp_path: Path) -> None:
    repo = forge.create_repo({"a": lines()})
    change = {"a": lines("3 SLOW"), ".github/pitstop.yml": "review: {max_inline: 0}\n"}
    pull = repo.open_pull(change)
    review(forge, pull, tmp_path)
    assert len(pull.review_comments()) == 1


def test_broken_configuration_is_named_with_its_line(forge: Forge, tmp_path: Path) -> None:
    repo = forge.create_repo({"a": "1\n", ".github/pitstop.yml": "goal: fast\n"})
    pull = repo.open_pull({"a": "2\n"})
    with pytest.raises(UserError, match=r"\.github/pitstop\.yml on main:1: goal"):
        review(forge, pull, tmp_path)


@pytest.mark.parametrize(("fail_on", "code"), [("critical", 0), ("warning", 1), ("info", 1)])
def test_threshold(forge: Forge, tmp_path: Path, fail_on: str, code: int) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    assert review(forge, pull, tmp_path, fail_on=fail_on) == code
    (check,) = pull.checks()
    assert check["conclusion"] == ("failure" if code else "neutral")


def test_draft_is_left_alone(forge: Forge, tmp_path: Path) -> None:
    repo = forge.create_repo({"a": lines()})
    pull = repo.open_pull({"a": lines("3 SLOW")}, draft=True)
    assert review(forge, pull, tmp_path) == 0
    assert writes(forge) == []


def test_draft_is_reviewed_where_the_configuration_wants_it(forge: Forge, tmp_path: Path) -> None:
    base = {"a": lines(), ".github/pitstop.yml": "review: {drafts: true}\n"}
    pull = forge.create_repo(base).open_pull({"a": lines("3 SLOW")}, draft=True)
    review(forge, pull, tmp_path)
    assert len(pull.review_comments()) == 1


def test_label_to_skip(forge: Forge, tmp_path: Path) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    pull.add_label("pitstop:skip")
    assert review(forge, pull, tmp_path) == 0
    assert writes(forge) == []


def test_permissions_of_the_shipped_workflow_suffice(forge: Forge, tmp_path: Path) -> None:
    least = {"contents": "read", "pull_requests": "write", "checks": "write", "metadata": "read"}
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    assert review(forge, pull, tmp_path, token=forge.token_for(least)) == 0
    assert len(pull.comments()) == len(pull.review_comments()) == len(pull.checks()) == 1


def test_bots_are_ignored(forge: Forge, tmp_path: Path) -> None:
    repo = forge.create_repo({"a": lines()})
    pull = repo.open_pull({"a": lines("3 SLOW")}, author="renovate[bot]")
    assert review(forge, pull, tmp_path) == 0
    assert writes(forge) == []


def test_command_reaches_the_gate(
    forge: Forge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    payload = pull.comment("/optimize --steps 5")
    assert review(forge, pull, tmp_path, event=payload, name="issue_comment") == 0
    assert "Refused: Pitstop had not reviewed the present commit" in capsys.readouterr().out
    assert "go<<" in (tmp_path / "output").read_text()


def test_newer_commits_silence_an_old_run(
    forge: Forge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    settings = settings_for(forge, pull, tmp_path)

    def audit(tree, request):  # type: ignore[no-untyped-def]
        pull.push({"a": lines()})
        return audit_marks(tree, request)

    assert run(settings, clock=Time().clock, audit=audit) == 0
    assert writes(forge) == []
    assert "Newer commits were pushed" in capsys.readouterr().out


def test_outputs_summary_and_files(forge: Forge, tmp_path: Path) -> None:
    base = {"a": lines(), ".github/pitstop.yml": "review: {sarif: true}\n"}
    pull = forge.create_repo(base).open_pull({"a": lines("3 SLOW", "9 SLOW CRITICAL")})
    review(forge, pull, tmp_path)
    output = (tmp_path / "output").read_text()
    assert output.splitlines()[1::3] == ["2", "1", "pitstop-report/report.json", ""]
    folder = tmp_path / "workspace" / "pitstop-report"
    assert {file.name for file in folder.iterdir()} == {"report.json", "report.md", "pitstop.sarif"}
    assert len(json.loads((folder / "report.json").read_text())["findings"]) == 2
    summary = (tmp_path / "summary.md").read_text()
    assert "1 critical finding, 1 warning" in summary and "-line 3 SLOW" in summary


def test_report_folder_that_leads_out_of_the_workspace_is_not_followed(
    forge: Forge, tmp_path: Path
) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    settings = settings_for(forge, pull, tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (settings.workspace / "pitstop-report").symlink_to(outside)
    assert run(settings, clock=Time().clock, audit=audit_marks) == 0
    assert list(outside.iterdir()) == []
    assert "no report was written" in (tmp_path / "summary.md").read_text()


def test_enterprise_server(enterprise_forge: Forge, tmp_path: Path) -> None:
    pull = enterprise_forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    assert review(enterprise_forge, pull, tmp_path) == 0
    assert len(pull.review_comments()) == 1
    paths = {e.request.path for e in enterprise_forge.log if e.kind == "api"}
    assert all(path.startswith("/api/") for path in paths)


def test_private_repository_is_fetched_with_the_token(forge: Forge, tmp_path: Path) -> None:
    repo = forge.create_repo({"a": lines()}, private=True)
    pull = repo.open_pull({"a": lines("3 SLOW")})
    assert review(forge, pull, tmp_path) == 0
    assert len(pull.review_comments()) == 1


def test_no_token_word_in_any_output(
    forge: Forge, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    settings = settings_for(forge, pull, tmp_path)
    review(forge, pull, tmp_path)
    encoded = base64.b64encode(f"x-access-token:{forge.token}".encode()).decode()
    written = [p.read_text() for p in tmp_path.rglob("*") if p.is_file() and "forge" not in p.parts]
    for text in (*written, *capfd.readouterr(), repr(settings)):
        assert forge.token not in text and encoded not in text


def test_real_audit_of_a_real_change(forge: Forge, tmp_path: Path) -> None:
    """Everything in its place: the rules read the launch script, the review offers the fix."""
    launch = "torchrun --nproc_per_node 8 run_clm.py --bf16 True --dataloader_num_workers {}\n"
    files = {"run_clm.py": TRAINER, "requirements.txt": "transformers==4.44.0\ntorch==2.4.0\n"}
    repo = forge.create_repo({**files, "train.sh": launch.format(8)})
    pull = repo.open_pull({"train.sh": launch.format(0)})
    assert run(settings_for(forge, pull, tmp_path), clock=Time().clock) == 0
    comments = pull.review_comments()
    assert {(comment["path"], comment["line"]) for comment in comments} == {("train.sh", 1)}
    suggested = launch.format(4)
    assert any(f"```suggestion\n{suggested}```" in comment["body"] for comment in comments)
    body = pull.comments()[0]["body"]
    assert "What the change does to each job" in body
    assert "| `dataloader.workers` | `8` | `0` " in body


TRAINER = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments
(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
trainer = Trainer(model=None, args=args)
trainer.train()
"""


# What GitHub refuses


@pytest.mark.parametrize("answer", ["406", "500", "422"])
def test_comparison_that_is_too_large_for_github(forge: Forge, tmp_path: Path, answer: str) -> None:
    repo = forge.create_repo({"a": lines()})
    pull = repo.open_pull({"a": lines("3 SLOW")})
    repo.commit("main", {"b": "SLOW\n"})
    forge.inject(answer, operation="repos/compare-commits-with-basehead", times=99)
    assert review(forge, pull, tmp_path) == 0
    assert [(c["path"], c["line"]) for c in pull.review_comments()] == [("a", 3)]
    assert "1 warning in this change" in pull.comments()[0]["body"]


def test_more_files_than_the_comparison_lists(forge: Forge, tmp_path: Path) -> None:
    base = {f"{n:03}": "x\n" for n in range(310)}
    repo = forge.create_repo(base)
    change = dict.fromkeys(base, "x\ny\n") | {"309": "x\nSLOW\n"}
    pull = repo.open_pull(change)
    assert review(forge, pull, tmp_path) == 0
    assert [(c["path"], c["line"]) for c in pull.review_comments()] == [("309", 2)]


def test_missing_pull_request(forge: Forge, tmp_path: Path) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    event = pull.event()
    event["pull_request"]["number"] = 99
    with pytest.raises(UserError, match="404"):
        review(forge, pull, tmp_path, event=event)


def test_wrong_token(forge: Forge, tmp_path: Path) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    with pytest.raises(UserError, match="does not accept the token"):
        review(forge, pull, tmp_path, token="ghs_wrong")


def test_threads_that_the_token_may_not_resolve(forge: Forge, tmp_path: Path) -> None:
    token = forge.token_for({**WRITE_ALL, "contents": "read"})
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    review(forge, pull, tmp_path, token=token)
    pull.push({"a": lines()})
    assert review(forge, pull, tmp_path, token=token) == 0
    assert pull.threads()[0].resolved_by is None
    assert "contents: write" in pull.comments()[0]["body"]


def test_check_run_that_the_token_may_not_write(
    forge: Forge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = forge.token_for({**WRITE_ALL, "checks": "read"})
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    assert review(forge, pull, tmp_path, token=token) == 0
    assert len(pull.review_comments()) == 1 and pull.checks() == []
    out = capsys.readouterr().out
    assert "The check run could not be published" in out
    assert "::warning file=a,line=3,endLine=3,title=GEN-F01%3A Line is slow::" in out


def test_refused_lines_go_to_the_summary(forge: Forge, tmp_path: Path) -> None:
    """As when GitHub sees a diff differently: the review is refused, nothing else is lost."""
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    forge.inject("422", operation="pulls/create-review", times=99)
    assert review(forge, pull, tmp_path) == 0
    assert pull.review_comments() == []
    body = pull.comments()[0]["body"]
    assert "GitHub did not take the comments on lines" in body and "-line 3 SLOW" in body


def test_time_limit_leaves_the_review_in_the_job_summary(forge: Forge, tmp_path: Path) -> None:
    pull = forge.create_repo({"a": lines()}).open_pull({"a": lines("3 SLOW")})
    forge.inject("500", operation="pulls/create-review", times=99)
    assert review(forge, pull, tmp_path) == 0
    assert pull.comments() == []
    summary = (tmp_path / "summary.md").read_text()
    assert "did not take it within the time limit" in summary and "-line 3 SLOW" in summary
