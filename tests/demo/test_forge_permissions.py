"""Who may do what, and how often: tokens, permissions and rates."""

from __future__ import annotations

from typing import Any

import pytest

from demo.forge import READ_ALL, Forge
from demo.handles import ForgePull

PULL = "/repos/octocat/train/pulls/1"
REVIEWS = f"{PULL}/reviews"
TALK = "/repos/octocat/train/issues/1/comments"
CHECKS = "/repos/octocat/train/check-runs"


@pytest.fixture
def pull(forge: Forge) -> ForgePull:
    return forge.create_repo({"a.txt": "1\n"}).open_pull({"a.txt": "2\n"})


@pytest.mark.parametrize(
    ("method", "path", "body", "accepted"),
    [
        ("POST", REVIEWS, {"event": "COMMENT", "body": "b"}, "pull_requests=write"),
        ("POST", TALK, {"body": "b"}, "issues=write; pull_requests=write"),
        ("POST", CHECKS, {"name": "c", "head_sha": "x"}, "checks=write"),
        ("POST", "/repos/octocat/train/issues/1/labels", {"labels": ["x"]}, "issues=write"),
        ("POST", "/repos/octocat/train/git/refs", {"ref": "refs/heads/x", "sha": "x"}, "contents"),
        ("POST", "/repos/octocat/train/statuses/x", {"state": "success"}, "statuses=write"),
    ],
)
def test_a_reading_token_writes_nothing(
    forge: Forge, pull: ForgePull, ask: Any, method: str, path: str, body: Any, accepted: str
) -> None:
    reply = ask(method, path, body, token=forge.read_token())
    assert (reply.status, reply.message) == (403, "Resource not accessible by integration")
    assert accepted in reply.headers["x-accepted-github-permissions"]
    assert ask("GET", PULL, token=forge.read_token()).status == 200


def test_an_installation_is_nobody(forge: Forge, ask: Any) -> None:
    assert ask("GET", "/user").status == 403
    assert ask("GET", "/user", token=forge.person("alice")).json["login"] == "alice"


def test_bad_and_missing_credentials(pull: ForgePull, ask: Any) -> None:
    bad = ask("GET", PULL, token="ghs_wrong")
    assert (bad.status, bad.message) == (401, "Bad credentials")
    none = ask("POST", TALK, {"body": "b"}, token=None)
    assert (none.status, none.message) == (401, "Requires authentication")
    assert ask("GET", PULL, token=None).status == 200


def test_a_token_stays_in_its_repositories(forge: Forge, pull: ForgePull, ask: Any) -> None:
    forge.create_repo({"a": "1\n"}, "octocat/secret", private=True)
    token = forge.token_for(
        {"contents": "write", "issues": "write"}, repositories=["octocat/train"]
    )
    assert ask("GET", "/repos/octocat/secret", token=token).status == 404
    assert ask("GET", "/repos/octocat/secret", token=None).status == 404
    other = forge.token_for(READ_ALL, repositories=["octocat/other"])
    assert ask("POST", TALK, {"body": "b"}, token=other).status == 403


def test_a_client_gives_its_name(pull: ForgePull, ask: Any) -> None:
    reply = ask("GET", PULL, headers={"User-Agent": " "})
    assert reply.status == 403 and "User-Agent" in reply.message


def test_what_is_not_served_is_not_found(pull: ForgePull, ask: Any) -> None:
    for path in ("/repos/octocat/nothing", f"{PULL}9", "/repos/octocat/train/issues/99/comments"):
        assert (ask("GET", path).status, ask("GET", path).message) == (404, "Not Found")


def test_eighty_pieces_of_content_a_minute(forge: Forge, pull: ForgePull, ask: Any) -> None:
    forge.rates.enforce()
    for _ in range(80):
        assert ask("POST", TALK, {"body": "b"}).status == 201
    reply = ask("POST", TALK, {"body": "b"})
    assert reply.status == 403 and "secondary rate limit" in reply.message
    assert reply.headers["retry-after"] == "60"
    assert "about-secondary-rate-limits" in reply.json["documentation_url"]
    forge.pass_time(61)
    assert ask("POST", TALK, {"body": "b"}).status == 201


def test_the_hourly_limit(forge: Forge, pull: ForgePull, ask: Any) -> None:
    forge.rates.hourly = 3
    left = [ask("GET", PULL).headers["x-ratelimit-remaining"] for _ in range(3)]
    assert left == ["2", "1", "0"]
    reply = ask("GET", PULL)
    assert reply.status == 403 and reply.message.startswith("API rate limit exceeded")
    assert reply.headers["x-ratelimit-remaining"] == "0"
    assert int(reply.headers["x-ratelimit-reset"]) > forge.world.now()
    forge.pass_time(3601)
    assert ask("GET", PULL).status == 200
