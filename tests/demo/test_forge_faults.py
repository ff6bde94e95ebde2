"""Faults strike the request they are meant for, before or after it takes effect."""

from __future__ import annotations

import http.client
import time
from typing import Any

import pytest

from demo.forge import Forge
from demo.handles import ForgePull

TALK = "/repos/octocat/train/issues/1/comments"


@pytest.fixture
def pull(forge: Forge) -> ForgePull:
    return forge.create_repo({"a": "1\n"}).open_pull({"a": "2\n"})


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_error_before_or_after_the_write(
    forge: Forge, pull: ForgePull, ask: Any, moment: str
) -> None:
    forge.inject("502", moment=moment)
    assert ask("POST", TALK, {"body": "b"}).status == 502
    assert len(pull.comments()) == (1 if moment == "after" else 0)
    assert ask("POST", TALK, {"body": "b"}).status == 201


@pytest.mark.parametrize(
    ("kind", "status", "text"),
    [
        ("500", 500, "Server Error"),
        ("502", 502, "<html>"),
        ("secondary", 403, "secondary rate limit"),
        ("primary", 403, "API rate limit exceeded"),
        ("429", 429, "secondary rate limit"),
        ("abuse", 422, '"code":"abuse"'),
        ("401", 401, "Bad credentials"),
    ],
)
def test_each_kind_of_refusal(
    forge: Forge, pull: ForgePull, ask: Any, kind: str, status: int, text: str
) -> None:
    forge.inject(kind, retry_after=7)
    reply = ask("POST", TALK, {"body": "b"})
    assert reply.status == status and text in reply.body.decode()
    if kind in ("secondary", "429"):
        assert reply.headers["retry-after"] == "7"
    if kind == "primary":
        assert reply.headers["x-ratelimit-remaining"] == "0"
        assert 0 < int(reply.headers["x-ratelimit-reset"]) - time.time() <= 8
    assert pull.comments() == []


def test_some_limits_do_not_say_how_long(forge: Forge, pull: ForgePull, ask: Any) -> None:
    forge.inject("429")
    assert ask("GET", TALK).headers["retry-after"] is None


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_broken_connection(forge: Forge, pull: ForgePull, ask: Any, moment: str) -> None:
    forge.inject("reset", moment=moment)
    with pytest.raises((ConnectionResetError, http.client.RemoteDisconnected)):
        ask("POST", TALK, {"body": "b"})
    assert len(pull.comments()) == (1 if moment == "after" else 0)
    assert forge.log[-1].answer is None and forge.log[-1].fault == "reset"


def test_half_an_answer(forge: Forge, pull: ForgePull, ask: Any) -> None:
    forge.inject("truncated")
    with pytest.raises(http.client.IncompleteRead):
        ask("GET", "/repos/octocat/train/pulls/1")


def test_a_slow_answer_is_still_one(forge: Forge, pull: ForgePull, ask: Any) -> None:
    forge.inject("slow", delay=0.05)
    assert ask("GET", "/repos/octocat/train/pulls/1").status == 200
    assert forge.log[-1].fault == "slow"


def test_faults_wait_for_their_turn(forge: Forge, pull: ForgePull, ask: Any) -> None:
    forge.inject("500", after=2, times=2)
    assert [ask("GET", TALK).status for _ in range(6)] == [200, 200, 500, 500, 200, 200]


def test_faults_choose_their_request(forge: Forge, pull: ForgePull, ask: Any) -> None:
    forge.inject("500", method="POST")
    forge.inject("503", operation="checks/list-for-ref")
    forge.inject("504", path="/pulls/1$")
    assert ask("GET", TALK).status == 200
    assert ask("GET", "/repos/octocat/train/pulls/1").status == 504
    assert ask("GET", "/repos/octocat/train/commits/main/check-runs").status == 503
    assert ask("POST", TALK, {"body": "b"}).status == 500
    assert ask("POST", TALK, {"body": "b"}).status == 201


def test_faults_can_be_planned_from_outside(forge: Forge, pull: ForgePull, ask: Any) -> None:
    plan = {"kind": "500", "after": 1}
    assert ask("POST", f"{forge.url}/_forge/faults", plan).status == 201
    assert ask("POST", f"{forge.url}/_forge/faults", {"sort": "500"}).status == 422
    assert [ask("GET", TALK).status for _ in range(3)] == [200, 500, 200]
    log = ask("GET", f"{forge.url}/_forge/log").json
    struck = [entry["status"] for entry in log if entry["kind"] in ("api", "fault")]
    assert struck == [200, 500, 200]
    ask("POST", f"{forge.url}/_forge/faults", plan)
    assert ask("DELETE", f"{forge.url}/_forge/faults").status == 204
    assert [ask("GET", TALK).status for _ in range(2)] == [200, 200]
