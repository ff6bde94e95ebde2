from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitstop.bot.events import (
    CommandGiven,
    Ignored,
    PullRequestChanged,
    PullRequestClosed,
    WorkflowRunCompleted,
    command_line,
    read_event,
)

PULL: dict[str, Any] = {
    "action": "opened",
    "number": 3,
    "pull_request": {
        "number": 3,
        "state": "open",
        "head": {"sha": "a" * 40, "repo": {"full_name": "octocat/train"}},
    },
    "repository": {"full_name": "octocat/train"},
    "sender": {"type": "User"},
}
COMMENT: dict[str, Any] = {
    "action": "created",
    "issue": {"number": 3, "state": "open", "pull_request": {"url": "x"}},
    "comment": {"id": 9, "body": "/optimize", "user": {"login": "alice", "type": "User"}},
    "repository": {"full_name": "octocat/train"},
    "sender": {"type": "User"},
}
RUN: dict[str, Any] = {
    "action": "completed",
    "workflow_run": {
        "id": 5,
        "event": "pull_request",
        "head_sha": "a" * 40,
        "head_branch": "change",
        "head_repository": {"owner": {"login": "eve"}},
    },
    "repository": {"full_name": "octocat/train"},
}


def changed(payload: dict[str, Any], *path: str, to: object) -> dict[str, Any]:
    """The payload with another value at a path; None takes the key away."""
    payload = copy.deepcopy(payload)
    *parents, last = path
    at = payload
    for key in parents:
        at = at[key]
    if to is None:
        del at[last]
    else:
        at[last] = to
    return payload


@pytest.mark.parametrize("name", ["pull_request", "pull_request_target"])
def test_opened_pull_request(name: str) -> None:
    event = read_event(name, PULL)
    assert event == PullRequestChanged("octocat/train", 3, "a" * 40, by_bot=False)


@pytest.mark.parametrize(
    "action", ["synchronize", "reopened", "ready_for_review", "labeled", "unlabeled"]
)
def test_actions_that_bring_something_new(action: str) -> None:
    assert isinstance(read_event("pull_request", PULL | {"action": action}), PullRequestChanged)


@pytest.mark.parametrize("action", ["locked", "assigned", "review_requested", ""])
def test_actions_that_change_nothing(action: str) -> None:
    assert isinstance(read_event("pull_request", PULL | {"action": action}), Ignored)


def test_new_base_is_a_change_and_a_new_title_is_none() -> None:
    edited = PULL | {"action": "edited"}
    moved = edited | {"changes": {"base": {"ref": {"from": "main"}}}}
    assert isinstance(read_event("pull_request", moved), PullRequestChanged)
    assert isinstance(read_event("pull_request", edited | {"changes": {"title": {}}}), Ignored)


@pytest.mark.parametrize("repo", [{"full_name": "eve/train"}, None])
def test_fork_or_deleted_fork(repo: object) -> None:
    event = read_event("pull_request", changed(PULL, "pull_request", "head", "repo", to=repo))
    assert isinstance(event, PullRequestChanged)


def test_bot_is_told() -> None:
    event = read_event("pull_request", PULL | {"sender": {"type": "Bot"}})
    assert isinstance(event, PullRequestChanged) and event.by_bot


@pytest.mark.parametrize("merged", [True, False])
def test_a_closed_pull_request_ends_what_we_offered(merged: bool) -> None:
    payload = changed(PULL | {"action": "closed"}, "pull_request", "merged", to=merged)
    event = read_event("pull_request", payload)
    assert event == PullRequestClosed("octocat/train", 3, merged)


def test_closed_pull_request_is_ignored() -> None:
    payload = changed(PULL, "pull_request", "state", to="closed")
    assert isinstance(read_event("pull_request", payload), Ignored)


def test_command() -> None:
    event = read_event("issue_comment", COMMENT)
    assert event == CommandGiven("octocat/train", 3, 9, "alice", "/optimize")


@pytest.mark.parametrize(
    "payload",
    [
        COMMENT | {"action": "edited"},
        COMMENT | {"action": "deleted"},
        changed(COMMENT, "issue", "pull_request", to=None),
        changed(COMMENT, "issue", "state", to="closed"),
        changed(COMMENT, "comment", "user", "type", to="Bot"),
        COMMENT | {"sender": {"type": "Bot"}},
        changed(COMMENT, "comment", "body", to="please /optimize"),
    ],
)
def test_comments_that_hold_no_command(payload: dict[str, Any]) -> None:
    assert isinstance(read_event("issue_comment", payload), Ignored)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("/optimize", "/optimize"),
        ("hello\n/optimize --steps 5  \nbye", "/optimize --steps 5"),
        ("/optimizer", None),
        (" /optimize", None),
        ("> /optimize", None),
        ("    /optimize", None),
        ("```\n/optimize\n```", None),
        ("```\n/optimize\n```\n/optimize help", "/optimize help"),
        ("~~~ sh\n```\n/optimize\n~~~", None),
        ("````\n```\n/optimize\n````\n", None),
        ("```never closed\n/optimize", None),
        ("``` inline ``` is no fence\n/optimize", "/optimize"),
        ("", None),
    ],
)
def test_command_line(body: str, line: str | None) -> None:
    assert command_line(body) == line


def test_workflow_run_of_a_fork() -> None:
    event = read_event("workflow_run", RUN)
    assert event == WorkflowRunCompleted("octocat/train", "a" * 40, "change", "eve")


def test_workflow_run_for_a_push_is_ignored() -> None:
    payload = changed(RUN, "workflow_run", "event", to="push")
    assert isinstance(read_event("workflow_run", payload), Ignored)


def test_unknown_event_is_ignored() -> None:
    assert isinstance(read_event("star", {}), Ignored)


def paths(payload: dict[str, Any]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for key, value in payload.items():
        found.append((key,))
        if isinstance(value, dict):
            found += [(key, *rest) for rest in paths(value)]
    return found


ALL = [("pull_request", PULL), ("issue_comment", COMMENT), ("workflow_run", RUN)]


@pytest.mark.parametrize(("name", "payload"), ALL)
def test_any_key_may_be_missing_or_of_another_kind(name: str, payload: dict[str, Any]) -> None:
    for path in paths(payload):
        for value in (None, 1, "x", [], {}, True):
            read_event(name, changed(payload, *path, to=value))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.sampled_from([name for name, _ in ALL]), JSON)
def test_any_json_is_read(name: str, payload: object) -> None:
    assert isinstance(read_event(name, payload), Ignored)
