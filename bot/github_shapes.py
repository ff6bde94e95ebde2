"""GitHub's JSON as our own records."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pitstop.bot.diff import DiffError, Hunk, parse_patch
from pitstop.bot.pulls import Comment, Commit, PostedCheck, PullRequest, Thread

Json = dict[str, Any]


def pull(data: Json) -> PullRequest:
    """A pull request."""
    head, base = data["head"], data["base"]
    return PullRequest(
        number=data["number"],
        state=data["state"],
        draft=bool(data.get("draft")),
        labels=frozenset(label["name"] for label in data.get("labels") or ()),
        head_sha=head["sha"],
        base_sha=base["sha"],
        base_ref=base["ref"],
        base_repository=base["repo"]["full_name"],
        head_ref=head["ref"],
        head_repository=(head.get("repo") or {}).get("full_name"),
        author=(data.get("user") or {}).get("login", ""),
        url=data.get("html_url") or "",
        body=data.get("body") or "",
        merged=bool(data.get("merged_at")),
    )


def comment(data: Json, viewer: str) -> Comment:
    """A comment of a conversation."""
    return Comment(
        id=data["id"],
        body=data.get("body") or "",
        ours=_is(data.get("user"), viewer),
        author=(data.get("user") or {}).get("login", ""),
        created=_time(data.get("created_at")),
        updated=_time(data.get("updated_at")),
        url=data.get("html_url") or "",
    )


def commit(data: Json) -> Commit:
    """A commit."""
    commit = data["commit"]
    committer = commit.get("committer") or {}
    return Commit(data["sha"], commit.get("message") or "", committer.get("email") or "")


def _time(text: str | None) -> float:
    """GitHub's time in seconds since the epoch; 0 where it gives none."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def shown_hunks(file: Json) -> tuple[Hunk, ...] | None:
    """GitHub leaves the patch out for binary files, for mere renames and for large ones."""
    patch = file.get("patch")
    if not isinstance(patch, str):
        return None
    try:
        return parse_patch(patch)
    except DiffError:
        return None


def _is(user: Json | None, viewer: str) -> bool:
    """True when an author is the viewer; GraphQL may leave off the [bot] of a bot's login."""
    if not user:
        return False
    login: str = user["login"]
    if user.get("type") == "Bot":
        return login.removesuffix("[bot]") == viewer.removesuffix("[bot]")
    return login == viewer


def thread(node: Json, viewer: str) -> Thread:
    """A thread of review comments, as GraphQL gives it."""
    comments = [comment for comment in node["comments"]["nodes"] if comment]
    first = comments[0] if comments else {}
    closer = (node.get("resolvedBy") or {}).get("login", "")
    return Thread(
        id=node["id"],
        path=node["path"],
        body=first.get("body", ""),
        ours=bool(first.get("viewerDidAuthor")),
        resolved=node["isResolved"],
        closed_by_us=closer.removesuffix("[bot]") == viewer.removesuffix("[bot]"),
        replies=sum(map(_by_person, comments[1:])),
        url=first.get("url", ""),
    )


def _by_person(comment: Json) -> bool:
    """Somebody else than us and no bot. A deleted account was a person's."""
    author = comment.get("author") or {}
    return not comment["viewerDidAuthor"] and author.get("__typename") != "Bot"


def check(data: Json) -> PostedCheck:
    """A check run."""
    return PostedCheck(
        id=data["id"],
        external_id=data.get("external_id") or "",
        completed=data["status"] == "completed",
        annotations=data["output"]["annotations_count"],
    )
