"""The objects that GraphQL walks over: records with their surroundings, and how to reach them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from demo.graphql import Arguments, Problem
from demo.rest.call import Call
from demo.state import (
    Comment,
    Issue,
    Pull,
    Repository,
    Review,
    ReviewComment,
    Thread,
    User,
)


@dataclass(frozen=True, slots=True)
class PullNode:
    """A pull request with its surroundings."""

    repo: Repository
    issue: Issue
    pull: Pull


@dataclass(frozen=True, slots=True)
class ThreadNode:
    """A thread with its surroundings."""

    of: PullNode
    thread: Thread


@dataclass(frozen=True, slots=True)
class CommentNode:
    """A review comment with its surroundings."""

    of: ThreadNode
    comment: ReviewComment


@dataclass(frozen=True, slots=True)
class TalkNode:
    """A conversation comment with its surroundings."""

    of: PullNode
    comment: Comment


@dataclass(frozen=True, slots=True)
class ReviewNode:
    """A review with its surroundings."""

    of: PullNode
    review: Review


def actor_url(call: Call, login: str, kind: str) -> str:
    """The web page of an account."""
    return f"{call.links.html}/{'apps/' if kind == 'Bot' else ''}{login}"


def bare_login(user: User) -> str:
    """The login as GraphQL has it: a bot's without the [bot] that REST shows."""
    return user.login.removesuffix("[bot]") if user.type == "Bot" else user.login


def viewer(call: Call) -> User:
    """The account that asks. GitHub shows even a bot as a user here, under its full login."""
    return User(call.user.id, call.user.login)


def may_write(call: Call, repo: Repository, *needs: str) -> bool:
    """True when the token holds all these permissions for the repository."""
    token = call.token
    if token is None or not token.reaches(repo.full_name):
        return False
    if token.kind == "personal" and repo.role(token.user) not in ("write", "maintain", "admin"):
        return False
    return all(token.may(need) for need in needs)


def threads(call: Call, node: PullNode) -> list[ThreadNode]:
    """The threads that the viewer may see."""
    seen = {c.id for c in node.pull.review_comments(viewer=call.user)}
    return [ThreadNode(node, t) for t in node.pull.threads if any(c.id in seen for c in t.comments)]


def thread_comments(call: Call, node: ThreadNode) -> list[CommentNode]:
    """A thread's comments that the viewer may see."""
    seen = {c.id for c in node.of.pull.review_comments(viewer=call.user)}
    return [CommentNode(node, comment) for comment in node.thread.comments if comment.id in seen]


def reviews(call: Call, node: PullNode, arguments: Arguments) -> list[ReviewNode]:
    """Submitted reviews, and the viewer's own pending one; of some states or one author."""
    shown = [r for r in node.pull.reviews if r.state != "PENDING" or r.user is call.user]
    states = arguments.get("states") or []
    if isinstance(states, str):
        states = [states]
    author = arguments.get("author")
    return [
        ReviewNode(node, review)
        for review in shown
        if (not states or review.state in states)
        and author in (None, review.user.login, bare_login(review.user))
    ]


def review_comments(call: Call, node: ReviewNode) -> list[CommentNode]:
    """The comments of a review."""
    return [
        CommentNode(ThreadNode(node.of, thread), comment)
        for thread in node.of.pull.threads
        for comment in thread.comments
        if comment.review == node.review.id
    ]


def repository(call: Call, arguments: Arguments) -> Repository:
    """The repository of `owner` and `name`, if the token may see it. Raises Problem."""
    name = f"{arguments.get('owner')}/{arguments.get('name')}"
    repo = call.world.repositories.get(name.lower())
    hidden = repo is not None and repo.private and not may_write(call, repo)
    if repo is None or hidden:
        message = f"Could not resolve to a Repository with the name '{name}'."
        raise Problem("NOT_FOUND", message)
    return repo


def pull_request(call: Call, repo: Repository, arguments: Arguments) -> PullNode:
    """The pull request of a number. Raises Problem."""
    number = arguments.get("number")
    issue = repo.issues.get(number) if isinstance(number, int) else None
    if issue is None or issue.pull is None:
        message = f"Could not resolve to a PullRequest with the number of {number}."
        raise Problem("NOT_FOUND", message)
    return PullNode(repo, issue, issue.pull)


def find_node(call: Call, identity: Any) -> Any:
    """The object of a global id. Raises Problem."""
    kind, _, rest = str(identity).partition("_")
    try:
        number = int(base64.urlsafe_b64decode(rest + "=" * (-len(rest) % 4)).decode()[6:])
    except ValueError:
        number = -1
    for repo in call.world.repositories.values():
        for issue, pull in repo.pulls():
            of = PullNode(repo, issue, pull)
            if found := _within(of, kind, number):
                return found
        if kind == "R" and repo.id == number:
            return repo
    message = f"Could not resolve to a node with the global id of '{identity}'"
    raise Problem("NOT_FOUND", message)


def _within(of: PullNode, kind: str, number: int) -> Any:
    if kind == "PR" and of.issue.id == number:
        return of
    if kind == "IC":
        return next((TalkNode(of, c) for c in of.issue.comments if c.id == number), None)
    if kind == "PRR":
        return next((ReviewNode(of, r) for r in of.pull.reviews if r.id == number), None)
    for thread in of.pull.threads:
        if kind == "PRRT" and thread.id == number:
            return ThreadNode(of, thread)
        if kind == "PRRC":
            for comment in thread.comments:
                if comment.id == number:
                    return CommentNode(ThreadNode(of, thread), comment)
    return None


def may_resolve(call: Call, node: ThreadNode) -> bool:
    """True when the token may resolve threads."""
    # Resolving needs contents: write too, though it changes none (community discussion 44650).
    return may_write(call, node.of.repo, "pull_requests", "contents")


def talk_url(call: Call, it: TalkNode, _: Arguments) -> str:
    """The web address of a conversation comment."""
    page = f"{call.links.page(it.of.repo)}/pull/{it.of.issue.number}"
    return f"{page}#issuecomment-{it.comment.id}"


def comment_url(call: Call, it: CommentNode, _: Arguments) -> str:
    """The web address of a review comment."""
    page = f"{call.links.page(it.of.of.repo)}/pull/{it.of.of.issue.number}"
    return f"{page}#discussion_r{it.comment.id}"


def review_of(it: CommentNode) -> ReviewNode | None:
    """The review that a comment came with."""
    of = it.of.of
    return next((ReviewNode(of, r) for r in of.pull.reviews if r.id == it.comment.review), None)


def reply_to(it: CommentNode) -> CommentNode | None:
    """The comment that this one answers."""
    first = it.of.thread.comments[0]
    return CommentNode(it.of, first) if it.comment.reply_to is not None else None


def pull_state(it: PullNode) -> str:
    """OPEN, CLOSED or MERGED."""
    return "MERGED" if it.pull.merged is not None else it.issue.state.upper()
