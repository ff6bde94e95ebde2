"""Comments in, decisions out, against the forge."""

from __future__ import annotations

import json

import pytest

from pitstop.bot.stages.request import read_request
from pitstop.rules.finding import UserError
from tests.bot.stages.conftest import CONFIG, Stage


def reactions(stage: Stage) -> list[str]:
    comments = stage.pull.issue.comments
    return [r.content for comment in comments for r in comment.reactions]


def test_a_reviewed_commit_may_run(stage: Stage) -> None:
    stage.review()
    found = stage.command("please\n\n/optimize --quick\n")
    assert (found["go"], found["cancel"], found["sha"]) == ("true", "false", stage.pull.head)
    request = read_request(found["request"])
    assert request.launch == "python train.py --steps 100"
    assert (request.job, request.quick, request.permission) == ("sft", True, "admin")
    assert request.environment.image == "train:latest"
    assert request.environment.data == {"/data": "/srv/data"}
    assert not request.environment.network
    assert "python train.py --steps 100" in stage.answer()
    assert "/actions/runs/77" in stage.answer()
    assert reactions(stage) == ["eyes"]


def test_the_same_comment_twice_is_one_answer(stage: Stage) -> None:
    stage.review()
    event = stage.pull.comment("/optimize")
    first = stage.job(event)
    before = len(stage.forge.writes())
    assert stage.job(event) == first
    assert stage.answers() == 1
    assert len(stage.forge.writes()) - before <= 2  # the reaction, which GitHub has already


@pytest.mark.parametrize(
    ("login", "role", "go"),
    [
        ("stranger", None, "false"),
        ("reader", "read", "false"),
        ("sorter", "triage", "false"),
        ("writer", "write", "true"),
        ("keeper", "maintain", "true"),
        ("boss", "admin", "true"),
        ("visitor", None, "true"),  # named in the configuration of the default branch
    ],
)
def test_who_may(stage: Stage, login: str, role: str | None, go: str) -> None:
    stage.review()
    if role:
        stage.repo.give_role(login, role)
    assert stage.command(login=login)["go"] == go
    if go == "false":
        assert "permission to write" in stage.answer()
        assert reactions(stage) == ["confused"]


def test_github_that_cannot_say_is_a_no(stage: Stage) -> None:
    stage.review()
    stage.repo.give_role("writer", "write")
    stage.forge.inject("404", operation="repos/get-collaborator-permission-level", times=9)
    assert stage.command(login="writer")["go"] == "false"
    assert "does not say" in stage.answer()


def test_a_pushed_head_needs_its_name(stage: Stage) -> None:
    stage.review()
    stage.pull.push({"train.py": "import os\nos.system('x')\n"})
    assert stage.command()["go"] == "false"
    assert f"/optimize --sha {stage.pull.head}" in stage.answer()
    assert stage.command(f"/optimize --sha {stage.pull.head}")["go"] == "true"
    assert stage.outputs["sha"] == stage.pull.head


def test_push_and_review_just_before_the_comment(stage: Stage) -> None:
    stage.review()
    stage.pull.push({"train.py": "import os\n"})
    from pitstop.bot.action import run
    from tests.bot.reviewing import Time

    run(stage.settings(), clock=Time().clock)
    stage.forge.pass_time(5)
    assert stage.command()["go"] == "false"
    stage.forge.pass_time(100)
    assert stage.command()["go"] == "true"


def test_forks_need_the_full_name(stage: Stage) -> None:
    fork = stage.forge.fork(stage.repo, "eve")
    pull = stage.repo.open_pull({"train.py": "evil()\n"}, source=fork, author="eve", branch="evil")
    other = Stage(stage.forge, pull, stage.folder / "fork")
    assert other.command()["go"] == "false"
    assert "comes from a fork" in other.answer()
    assert other.command("/optimize --sha " + "d" * 40)["go"] == "false"
    assert other.command(f"/optimize --sha {pull.head}")["go"] == "true"
    assert read_request(other.outputs["request"]).fork


def test_only_the_default_branch_configures(stage: Stage) -> None:
    """The pull request's own file changes nothing: no image, no mount, no allowed person."""
    evil = CONFIG.replace("train:latest", "evil:latest").replace("visitor", "stranger")
    stage.pull.push({".github/pitstop.yml": evil})
    stage.review()
    assert stage.command(login="stranger")["go"] == "false"
    stage.command(f"/optimize --sha {stage.pull.head}")
    assert read_request(stage.outputs["request"]).environment.image == "train:latest"


def test_a_typed_command_gets_no_data_and_no_variables(stage: Stage) -> None:
    stage.review()
    found = stage.command("/optimize -- torchrun --nproc_per_node 2 train.py")
    where = read_request(found["request"]).environment
    assert (where.image, where.data, where.env, where.network) == ("train:latest", {}, (), False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/optimize --gaol memory", "did you mean"),
        ("/optimize --job nope", "has no job"),
        ("/optimize help", "launch command"),
        ("/optimize status", "Nothing has been run"),
        ("/optimize -- rm -rf /", "starts no training program"),
    ],
)
def test_answers_without_a_run(stage: Stage, text: str, words: str) -> None:
    stage.review()
    assert stage.command(text)["go"] == "false"
    assert words in stage.answer()


def test_status_names_the_last_run(stage: Stage) -> None:
    stage.review()
    stage.command()
    stage.command("/optimize status")
    assert "is waiting or on" in stage.answer()


def test_cancel_is_an_output_of_its_own(stage: Stage) -> None:
    stage.review()
    found = stage.command("/optimize cancel")
    assert (found["go"], found["cancel"], found["request"]) == ("false", "true", "")


def test_a_mention_in_an_odd_word_is_data(stage: Stage) -> None:
    stage.review()
    stage.command("/optimize '@octocat <img src=x> #1'")
    assert "`@octocat <img src=x> #1` is not understood" in stage.answer()
    stage.command("/optimize '`@octocat` <img>'")
    assert "@octocat" not in stage.answer()


@pytest.mark.parametrize(
    "text",
    ["> /optimize", "```\n/optimize\n```", "text /optimize", "/optimizer", "    /optimized"],
)
def test_what_is_no_command_is_not_answered(stage: Stage, text: str) -> None:
    stage.review()
    assert stage.command(text) == {}
    assert stage.answers() == 0


def test_bots_and_edits_are_ignored(stage: Stage) -> None:
    event = stage.pull.comment("/optimize")
    assert stage.job({**event, "action": "edited"}) == {}
    assert stage.job({**event, "sender": {"type": "Bot"}}) == {}


def test_closed_pull_request(stage: Stage) -> None:
    stage.review()
    event = stage.pull.comment("/optimize")
    stage.pull.close()
    assert stage.job(event)["go"] == "false"
    assert "closed" in stage.answer()


def test_a_token_that_may_not_comment_still_decides(stage: Stage) -> None:
    stage.review()
    found = stage.command(token=stage.forge.read_token())
    assert found["go"] == "true"
    assert stage.answers() == 0


@pytest.mark.parametrize("kind", ["502", "reset", "secondary", "429"])
def test_faults_are_answered_once(stage: Stage, kind: str) -> None:
    stage.review()
    for after in range(12):
        stage.forge.inject(kind, after=after, moment="after")
        event = stage.pull.comment("/optimize")
        before = stage.answers()
        assert stage.job(event)["go"] == "true"
        assert stage.answers() == before + 1


def test_a_request_is_refused_when_it_is_not_the_gate_s(stage: Stage) -> None:
    stage.review()
    good = json.loads(stage.command()["request"])
    assert read_request(json.dumps(good)).to_json() == stage.outputs["request"]
    for bad in (
        {**good, "sha": good["sha"][:7]},
        {**good, "version": 2},
        {**good, "more": 1},
        {**good, "repository": "../x"},
        {**good, "launch": ""},
        {**good, "number": "7"},
    ):
        with pytest.raises(UserError, match="refused"):
            read_request(json.dumps(bad))
    for text in ("", "{", "[]", "null", " " * 70_000 + "{}"):
        with pytest.raises(UserError):
            read_request(text)
