"""The GraphQL types that a review bot asks about, as tables of fields.

Names, types and arguments follow GitHub's published schema (docs.github.com/public/fpt).
"""

from __future__ import annotations

from typing import Any

from demo import graphql_nodes as nodes
from demo.graphql import NAMES, TYPES, FieldType, ObjectType, Page, cursor
from demo.graphql_nodes import CommentNode, PullNode, ReviewNode, TalkNode, ThreadNode
from demo.shapes import stamp, stamp_or_none
from demo.shapes_issue import association
from demo.state import Label, Repository, User, node_id

PAGING = frozenset({"first", "last", "after", "before"})


def scalar(read: Any) -> FieldType:
    """A scalar field that needs nothing but the object."""
    return FieldType(lambda call, it, arguments: read(it))


def linked(type_: str, read: Any) -> FieldType:
    """A field that leads to another object."""
    return FieldType(lambda call, it, arguments: read(it), type_)


def many(type_: str, read: Any) -> FieldType:
    """A connection; `read` gives the whole list."""
    return FieldType(lambda call, it, arguments: read(call, it), f"{type_}Connection", PAGING, True)


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
        "viewerDidAuthor": FieldType(lambda call, it, _: it.comment.user is call.user),
        "url": FieldType(address),
    } | MINIMIZED


ACTOR = {
    "login": scalar(nodes.bare_login),
    "url": FieldType(lambda call, it, _: nodes.actor_url(call, nodes.bare_login(it), it.type)),
    "avatarUrl": FieldType(lambda call, it, _: f"{call.links.html}/avatars/{it.id}"),
}
IDENTITY = {"id": scalar(lambda it: node_id("U", it.id))}
MINIMIZED = {
    "isMinimized": scalar(lambda it: it.comment.minimized is not None),
    "minimizedReason": scalar(lambda it: it.comment.minimized),
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

define("Node", {"id": scalar(lambda it: node_id("X", 0))})
define("Actor", ACTOR)
define("RepositoryOwner", ACTOR | IDENTITY)
define("Minimizable", MINIMIZED)
for name in ("User", "Bot"):
    fields = ACTOR | IDENTITY | {"databaseId": scalar(lambda it: it.id)}
    define(name, fields, "Actor", "Node", "RepositoryOwner")
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
        "owner": linked("RepositoryOwner", lambda it: it.owner),
        "url": FieldType(lambda call, it, _: call.links.page(it)),
        "viewerPermission": FieldType(lambda call, it, _: it.role(call.user).upper()),
        "pullRequest": FieldType(nodes.pull_request, "PullRequest", frozenset({"number"})),
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
        "state": scalar(nodes.pull_state),
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
        "reviews": FieldType(
            nodes.reviews, "PullRequestReviewConnection", PAGING | {"states", "author"}, True
        ),
        "reviewThreads": many("PullRequestReviewThread", nodes.threads),
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
            lambda call, it, _: it.thread.resolved_by is None and nodes.may_resolve(call, it)
        ),
        "viewerCanUnresolve": FieldType(
            lambda call, it, _: it.thread.resolved_by is not None and nodes.may_resolve(call, it)
        ),
        "viewerCanReply": FieldType(
            lambda call, it, _: nodes.may_write(call, it.of.repo, "pull_requests")
        ),
        "comments": many("PullRequestReviewComment", nodes.thread_comments),
        "pullRequest": linked("PullRequest", lambda it: it.of),
        "repository": linked("Repository", lambda it: it.of.repo),
    },
    "Node",
    connected=True,
)
define(
    "PullRequestReviewComment",
    {name: _through_thread(field) for name, field in ANCHOR.items()}
    | _comment_fields(nodes.comment_url)
    | {
        "id": scalar(lambda it: node_id("PRRC", it.comment.id)),
        "outdated": scalar(lambda it: it.of.thread.anchor.outdated),
        "diffHunk": scalar(lambda it: it.of.thread.anchor.diff_hunk),
        "position": scalar(lambda it: it.of.thread.anchor.position),
        "commit": linked("Commit", lambda it: it.of.thread.anchor.commit),
        "originalCommit": linked("Commit", lambda it: it.of.thread.anchor.original_commit),
        "pullRequestReview": linked("PullRequestReview", nodes.review_of),
        "pullRequest": linked("PullRequest", lambda it: it.of.of),
        "replyTo": linked("PullRequestReviewComment", nodes.reply_to),
        "authorAssociation": scalar(lambda it: association(it.of.of.repo, it.comment.user)),
    },
    "Node",
    "Comment",
    "Minimizable",
    connected=True,
)
define(
    "IssueComment",
    _comment_fields(nodes.talk_url)
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
        "comments": many("PullRequestReviewComment", nodes.review_comments),
        "pullRequest": linked("PullRequest", lambda it: it.of),
    },
    "Node",
    "Comment",
    connected=True,
)
define(
    "Query",
    {
        "viewer": FieldType(lambda call, it, _: nodes.viewer(call), "User"),
        "repository": FieldType(
            lambda call, it, arguments: nodes.repository(call, arguments),
            "Repository",
            frozenset({"owner", "name", "followRenames"}),
        ),
        "node": FieldType(
            lambda call, it, arguments: nodes.find_node(call, arguments.get("id")),
            "Node",
            frozenset({"id"}),
        ),
    },
)
