"""The GraphQL types that a review bot asks about, as tables of fields.

Names and nullability follow docs.github.com, "GraphQL: Objects".
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from demo.graphql import NAMES, TYPES, Arguments, FieldType, ObjectType, Page, Problem, cursor
from demo.rest.call import Call
from demo.shapes import stamp, stamp_or_none
from demo.shapes_issue import association
from demo.state import (
    Comment,
    Issue,
    Label,
    Pull,
    Repository,
    Review,
    ReviewComment,
    Thread,
    User,
    node_id,
)

PAGING = frozenset({"first", "last", "after", "before"})


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


def scalar(read: Any) -> FieldType:
    """A scalar field that needs nothing but the object."""
    return FieldType(lambda call, it, arguments: read(it))


def linked(type_: str, read: Any) -> FieldType:
    """A field that leads to another object."""
    return FieldType(lambda call, it, arguments: read(it), type_)


def many(type_: str, read: Any, *more: str) -> FieldType:
    """A connection; `read` gives the whole list."""
    return FieldType(
        lambda call, it, arguments: read(call, it), f"{type_}Connection", PAGING | set(more), True
    )


def define(name: str, fields: dict[str, FieldType], *also: str, connected: bool = False) -> None:
    """Add a type, with its connection and edge when it comes in lists."""
    TYPES[name] = ObjectType(name, fields, frozenset(also))
    if not connected:
        return
    TYPES[f"{name}Edge"] = ObjectType(
        f"{name}Edge",
        {"node": linked(name, lambda edge: edge[1]), "cursor": scalar(lambda edge: edge[0])},
    )
    TYPES[f"{name}Connection"] = ObjectType(
        f"{name}Connection",
        {
            "nodes": linked(name, lambda page: list(page.items)),
            "edges": linked(f"{name}Edge", _edges),
            "pageInfo": linked("PageInfo", lambda page: page),
            "totalCount": scalar(lambda page: page.total),
        },
    )


def _edges(page: Page) -> list[tuple[str, Any]]:
    return [(cursor(page.start + index), item) for index, item in enumerate(page.items)]


def _actor(call: Call, login: str, kind: str) -> str:
    return f"{call.links.html}/{'apps/' if kind == 'Bot' else ''}{login}"


def bare_login(user: User) -> str:
    """GraphQL leaves out the [bot] that REST shows."""
    return user.login.removesuffix("[bot]")


def may_write(call: Call, repo: Repository, *needs: str) -> bool:
    """True when the token holds all these permissions for the repository."""
    token = call.token
    if token is None or not token.reaches(repo.full_name):
        return False
    if token.kind == "personal" and repo.role(token.user) not in ("write", "maintain", "admin"):
        return False
    return all(token.may(need) for need in needs)


def _threads(call: Call, node: PullNode) -> list[ThreadNode]:
    seen = {c.id for c in node.pull.review_comments(viewer=call.user)}
    return [ThreadNode(node, t) for t in node.pull.threads if any(c.id in seen for c in t.comments)]


def _thread_comments(call: Call, node: ThreadNode) -> list[CommentNode]:
    seen = {c.id for c in node.of.pull.review_comments(viewer=call.user)}
    return [CommentNode(node, comment) for comment in node.thread.comments if comment.id in seen]


def _reviews(call: Call, node: PullNode) -> list[ReviewNode]:
    shown = [r for r in node.pull.reviews if r.state != "PENDING" or r.user is call.user]
    return [ReviewNode(node, review) for review in shown]


def _review_comments(call: Call, node: ReviewNode) -> list[CommentNode]:
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


def _may_resolve(call: Call, node: ThreadNode) -> bool:
    # Resolving needs contents: write too, though it changes none (community discussion 44650).
    return may_write(call, node.of.repo, "pull_requests", "contents")


def _comment_fields(address: Any) -> dict[str, FieldType]:
    """What comments of both kinds have."""
    return {
        "databaseId": scalar(lambda it: it.comment.id),
        "fullDatabaseId": scalar(lambda it: str(it.comment.id)),
        "body": scalar(lambda it: it.comment.body),
        "bodyText": scalar(lambda it: it.comment.body),
        "author": linked("Actor", lambda it: it.comment.user),
        "createdAt": scalar(lambda it: stamp(it.comment.created)),
        "updatedAt": scalar(lambda it: stamp(it.comment.updated)),
        "isMinimized": scalar(lambda it: it.comment.minimized is not None),
        "minimizedReason": scalar(lambda it: it.comment.minimized),
        "viewerDidAuthor": FieldType(lambda call, it, _: it.comment.user is call.user),
        "url": FieldType(address),
    }


def _talk_url(call: Call, it: TalkNode, _: Arguments) -> str:
    page = f"{call.links.page(it.of.repo)}/pull/{it.of.issue.number}"
    return f"{page}#issuecomment-{it.comment.id}"


def _comment_url(call: Call, it: CommentNode, _: Arguments) -> str:
    page = f"{call.links.page(it.of.of.repo)}/pull/{it.of.of.issue.number}"
    return f"{page}#discussion_r{it.comment.id}"


def _review_of(it: CommentNode) -> ReviewNode | None:
    of = it.of.of
    return next((ReviewNode(of, r) for r in of.pull.reviews if r.id == it.comment.review), None)


def _reply_to(it: CommentNode) -> CommentNode | None:
    first = it.of.thread.comments[0]
    return CommentNode(it.of, first) if it.comment.reply_to is not None else None


def _pull_state(it: PullNode) -> str:
    return "MERGED" if it.pull.merged is not None else it.issue.state.upper()


ACTOR = {
    "login": scalar(bare_login),
    "url": FieldType(lambda call, it, _: _actor(call, bare_login(it), it.type)),
    "avatarUrl": FieldType(lambda call, it, _: f"{call.links.html}/avatars/{it.id}"),
}
ANCHOR = {
    "path": scalar(lambda it: it.thread.anchor.path),
    "line": scalar(lambda it: it.thread.anchor.line),
    "originalLine": scalar(lambda it: it.thread.anchor.original_line),
    "startLine": scalar(lambda it: it.thread.anchor.start_line),
    "originalStartLine": scalar(lambda it: it.thread.anchor.original_start_line),
    "subjectType": scalar(lambda it: it.thread.anchor.subject.upper()),
}


def _through_thread(field: FieldType) -> FieldType:
    return FieldType(lambda call, it, arguments: field.resolve(call, it.of, arguments))


NAMES.update(
    {
        User: lambda it: "Bot" if it.type == "Bot" else "User",
        PullNode: lambda it: "PullRequest",
        ThreadNode: lambda it: "PullRequestReviewThread",
        CommentNode: lambda it: "PullRequestReviewComment",
        TalkNode: lambda it: "IssueComment",
        ReviewNode: lambda it: "PullRequestReview",
        Repository: lambda it: "Repository",
    }
)

identified = {"id": scalar(lambda it: "")}
define("Node", identified)
define("Actor", ACTOR)
for name in ("User", "Bot"):
    define(
        name,
        ACTOR
        | {
            "id": scalar(lambda it: node_id("U", it.id)),
            "databaseId": scalar(lambda it: it.id),
        },
        "Actor",
        "Node",
    )
define(
    "PageInfo",
    {
        "hasNextPage": scalar(lambda page: page.end < page.total),
        "hasPreviousPage": scalar(lambda page: page.start > 0),
        "startCursor": scalar(lambda page: cursor(page.start) if page.items else None),
        "endCursor": scalar(lambda page: cursor(page.end - 1) if page.items else None),
    },
)
define("Commit", {"oid": scalar(lambda sha: sha), "abbreviatedOid": scalar(lambda sha: sha[:7])})
define(
    "Label",
    {
        "id": scalar(lambda it: node_id("LA", it.id)),
        "name": scalar(lambda it: it.name),
        "color": scalar(lambda it: it.color),
        "description": scalar(lambda it: it.description),
    },
    "Node",
    connected=True,
)
define(
    "Repository",
    {
        "id": scalar(lambda it: node_id("R", it.id)),
        "databaseId": scalar(lambda it: it.id),
        "name": scalar(lambda it: it.name),
        "nameWithOwner": scalar(lambda it: it.full_name),
        "isFork": scalar(lambda it: it.parent is not None),
        "isPrivate": scalar(lambda it: it.private),
        "owner": linked("Actor", lambda it: it.owner),
        "url": FieldType(lambda call, it, _: call.links.page(it)),
        "viewerPermission": FieldType(lambda call, it, _: it.role(call.user).upper()),
        "pullRequest": FieldType(pull_request, "PullRequest", frozenset({"number"})),
    },
    "Node",
)
define(
    "PullRequest",
    {
        "id": scalar(lambda it: node_id("PR", it.issue.id)),
        "databaseId": scalar(lambda it: it.issue.id),
        "fullDatabaseId": scalar(lambda it: str(it.issue.id)),
        "number": scalar(lambda it: it.issue.number),
        "title": scalar(lambda it: it.issue.title),
        "body": scalar(lambda it: it.issue.body or ""),
        "state": scalar(_pull_state),
        "closed": scalar(lambda it: it.issue.state == "closed"),
        "merged": scalar(lambda it: it.pull.merged is not None),
        "isDraft": scalar(lambda it: it.pull.draft),
        "isCrossRepository": scalar(lambda it: it.pull.head_repo is not it.repo),
        "headRefName": scalar(lambda it: it.pull.head_ref),
        "headRefOid": scalar(lambda it: it.pull.head_sha),
        "baseRefName": scalar(lambda it: it.pull.base_ref),
        "baseRefOid": scalar(lambda it: it.pull.base_sha),
        "author": linked("Actor", lambda it: it.issue.user),
        "authorAssociation": scalar(lambda it: association(it.repo, it.issue.user)),
        "createdAt": scalar(lambda it: stamp(it.issue.created)),
        "updatedAt": scalar(lambda it: stamp(it.issue.updated)),
        "closedAt": scalar(lambda it: stamp_or_none(it.issue.closed)),
        "repository": linked("Repository", lambda it: it.repo),
        "url": FieldType(lambda call, it, _: f"{call.links.page(it.repo)}/pull/{it.issue.number}"),
        "labels": many("Label", lambda call, it: list[Label](it.issue.labels)),
        "comments": many(
            "IssueComment", lambda call, it: [TalkNode(it, c) for c in it.issue.comments]
        ),
        "reviews": many("PullRequestReview", _reviews, "states", "author"),
        "reviewThreads": many("PullRequestReviewThread", _threads),
    },
    "Node",
    connected=True,
)
define(
    "PullRequestReviewThread",
    ANCHOR
    | {
        "id": scalar(lambda it: node_id("PRRT", it.thread.id)),
        "isResolved": scalar(lambda it: it.thread.resolved_by is not None),
        "isOutdated": scalar(lambda it: it.thread.anchor.outdated),
        "isCollapsed": scalar(
            lambda it: it.thread.resolved_by is not None or it.thread.anchor.outdated
        ),
        "resolvedBy": linked("User", lambda it: it.thread.resolved_by),
        "diffSide": scalar(lambda it: it.thread.anchor.side),
        "startDiffSide": scalar(lambda it: it.thread.anchor.start_side),
        "viewerCanResolve": FieldType(
            lambda call, it, _: it.thread.resolved_by is None and _may_resolve(call, it)
        ),
        "viewerCanUnresolve": FieldType(
            lambda call, it, _: it.thread.resolved_by is not None and _may_resolve(call, it)
        ),
        "viewerCanReply": FieldType(
            lambda call, it, _: may_write(call, it.of.repo, "pull_requests")
        ),
        "comments": many("PullRequestReviewComment", _thread_comments),
        "pullRequest": linked("PullRequest", lambda it: it.of),
        "repository": linked("Repository", lambda it: it.of.repo),
    },
    "Node",
    connected=True,
)
define(
    "PullRequestReviewComment",
    {name: _through_thread(field) for name, field in ANCHOR.items()}
    | _comment_fields(_comment_url)
    | {
        "id": scalar(lambda it: node_id("PRRC", it.comment.id)),
        "outdated": scalar(lambda it: it.of.thread.anchor.outdated),
        "diffHunk": scalar(lambda it: it.of.thread.anchor.diff_hunk),
        "position": scalar(lambda it: it.of.thread.anchor.position),
        "commit": linked("Commit", lambda it: it.of.thread.anchor.commit),
        "originalCommit": linked("Commit", lambda it: it.of.thread.anchor.original_commit),
        "pullRequestReview": linked("PullRequestReview", _review_of),
        "pullRequest": linked("PullRequest", lambda it: it.of.of),
        "replyTo": linked("PullRequestReviewComment", _reply_to),
        "authorAssociation": scalar(lambda it: association(it.of.of.repo, it.comment.user)),
    },
    "Node",
    "Comment",
    "Minimizable",
    connected=True,
)
define(
    "IssueComment",
    _comment_fields(_talk_url)
    | {
        "id": scalar(lambda it: node_id("IC", it.comment.id)),
        "pullRequest": linked("PullRequest", lambda it: it.of),
        "authorAssociation": scalar(lambda it: association(it.of.repo, it.comment.user)),
    },
    "Node",
    "Comment",
    "Minimizable",
    connected=True,
)
define(
    "PullRequestReview",
    {
        "id": scalar(lambda it: node_id("PRR", it.review.id)),
        "databaseId": scalar(lambda it: it.review.id),
        "fullDatabaseId": scalar(lambda it: str(it.review.id)),
        "body": scalar(lambda it: it.review.body),
        "state": scalar(lambda it: it.review.state),
        "author": linked("Actor", lambda it: it.review.user),
        "submittedAt": scalar(lambda it: stamp_or_none(it.review.submitted)),
        "commit": linked("Commit", lambda it: it.review.commit),
        "comments": many("PullRequestReviewComment", _review_comments),
        "pullRequest": linked("PullRequest", lambda it: it.of),
    },
    "Node",
    "Comment",
    connected=True,
)
define(
    "Query",
    {
        "viewer": FieldType(lambda call, it, _: call.user, "Actor"),
        "repository": FieldType(
            lambda call, it, arguments: repository(call, arguments),
            "Repository",
            frozenset({"owner", "name", "followRenames"}),
        ),
        "node": FieldType(
            lambda call, it, arguments: find_node(call, arguments.get("id")),
            "Node",
            frozenset({"id"}),
        ),
    },
)
