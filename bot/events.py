"""A webhook payload as what it asks of Pitstop. Pure; a key that is missing is never an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

COMMAND = "/optimize"

PULL_REQUEST_ACTIONS = frozenset(
    {
        "opened",
        "synchronize",
        "reopened",
        "ready_for_review",
        "labeled",
        "unlabeled",
        "edited",
    }
)
"""After these a pull request gets a look; `edited` only when its base moved. A label may be the one
to skip, and its event may have cancelled a run that was under way, so any label counts."""


@dataclass(frozen=True, slots=True)
class PullRequestChanged:
    """A pull request has new content, or may be reviewed from now on."""

    repository: str
    number: int
    head_sha: str
    by_bot: bool


@dataclass(frozen=True, slots=True)
class PullRequestClosed:
    """A pull request was merged or closed: what we offered to it has lost its place."""

    repository: str
    number: int
    merged: bool


@dataclass(frozen=True, slots=True)
class CommandGiven:
    """Somebody wrote a command into a new comment on an open pull request."""

    repository: str
    number: int
    comment: int
    author: str
    text: str


@dataclass(frozen=True, slots=True)
class WorkflowRunCompleted:
    """The unprivileged first stage of a fork's review has ended.

    Everything here comes from GitHub, nothing from the run: these fields alone decide which
    pull request the second stage may write to.
    """

    repository: str
    head_sha: str
    head_branch: str
    head_owner: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing to do, and why."""

    reason: str


Event = PullRequestChanged | PullRequestClosed | CommandGiven | WorkflowRunCompleted | Ignored


def read_event(name: str, payload: object) -> Event:
    """What an event (`GITHUB_EVENT_NAME` and the JSON at `GITHUB_EVENT_PATH`) asks for."""
    match name:
        case "pull_request" | "pull_request_target":
            return _pull_request(payload)
        case "issue_comment":
            return _comment(payload)
        case "workflow_run":
            return _workflow_run(payload)
        case _:
            return Ignored(f"the event {name!r} asks nothing of Pitstop")


def _pull_request(payload: object) -> Event:
    action = _text(payload, "action")
    if action == "closed":
        return _closed(payload)
    if action not in PULL_REQUEST_ACTIONS:
        return Ignored(f"a pull request was {action or 'touched'}: its content is as it was")
    if action == "edited" and _at(payload, "changes", "base") is None:
        return Ignored("only the words of the pull request were edited")
    if _text(payload, "pull_request", "state") == "closed":
        return Ignored("the pull request is closed")
    repository = _text(payload, "repository", "full_name")
    number = _number(payload, "pull_request", "number") or _number(payload, "number")
    head = _text(payload, "pull_request", "head", "sha")
    if not (repository and number and head):
        return Ignored("the payload names no pull request")
    return PullRequestChanged(
        repository=repository,
        number=number,
        head_sha=head,
        by_bot=_text(payload, "sender", "type") == "Bot",
    )


def _closed(payload: object) -> Event:
    repository = _text(payload, "repository", "full_name")
    number = _number(payload, "pull_request", "number") or _number(payload, "number")
    if not (repository and number):
        return Ignored("the payload names no pull request")
    merged = _at(payload, "pull_request", "merged") is True
    return PullRequestClosed(repository, number, merged)


def _comment(payload: object) -> Event:
    if _text(payload, "action") != "created":
        return Ignored("only new comments can hold a command")
    if _at(payload, "issue", "pull_request") is None:
        return Ignored("the comment is not on a pull request")
    if _text(payload, "issue", "state") != "open":
        return Ignored("the pull request is not open")
    if "Bot" in (_text(payload, "comment", "user", "type"), _text(payload, "sender", "type")):
        return Ignored("the comment was written by a bot")
    text = command_line(_text(payload, "comment", "body") or "")
    if text is None:
        return Ignored(f"the comment holds no {COMMAND}")
    repository = _text(payload, "repository", "full_name")
    number = _number(payload, "issue", "number")
    comment = _number(payload, "comment", "id")
    author = _text(payload, "comment", "user", "login")
    if not (repository and number and comment and author):
        return Ignored("the payload names no comment")
    return CommandGiven(repository, number, comment, author, text)


def _workflow_run(payload: object) -> Event:
    if _text(payload, "action") != "completed":
        return Ignored("the workflow run has not ended")
    if _text(payload, "workflow_run", "event") != "pull_request":
        return Ignored("the workflow run was not for a pull request")
    repository = _text(payload, "repository", "full_name")
    head = _text(payload, "workflow_run", "head_sha")
    branch = _text(payload, "workflow_run", "head_branch")
    owner = _text(payload, "workflow_run", "head_repository", "owner", "login")
    if not (repository and head and branch and owner):
        return Ignored("the payload does not say where the workflow run came from")
    return WorkflowRunCompleted(repository, head, branch, owner)


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def command_line(body: str) -> str | None:
    """The first line that begins with the command, outside code blocks and quotes."""
    fence = ""
    for line in body.splitlines():
        mark = _FENCE.fullmatch(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark and not (mark[1].startswith("`") and "`" in mark[2]):
            fence = mark[1]
        elif re.match(rf"{COMMAND}(\s|$)", line):
            return line.strip()
    return None


def _at(payload: object, *path: str) -> object:
    for key in path:
        if not isinstance(payload, Mapping):
            return None
        payload = payload.get(key)
    return payload


def _text(payload: object, *path: str) -> str | None:
    value = _at(payload, *path)
    return value if isinstance(value, str) and value else None


def _number(payload: object, *path: str) -> int | None:
    value = _at(payload, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
