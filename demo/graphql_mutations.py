"""The GraphQL mutations that a review bot uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from demo import limits
from demo.conversation import (
    add_review,
    pending_review,
    reply_to_thread,
    start_thread,
)
from demo.graphql import Arguments, FieldType, Problem
from demo.graphql_nodes import (
    CommentNode,
    PullNode,
    ReviewNode,
    ThreadNode,
    find_node,
    may_write,
)
from demo.graphql_types import define, linked, scalar
from demo.pulls import anchors_for
from demo.rest.call import Call
from demo.rest.reviews import submitted_state
from demo.state import Repository, Review
from demo.wire import Refusal

FORBIDDEN = "Resource not accessible by integration"
Payload = dict[str, Any]
MUTATIONS: dict[str, FieldType] = {}
Mutation = Callable[[Call, Any], Payload]


# The members of each mutation's input; those with ! must be given.
INPUTS = {
    "resolveReviewThread": "threadId!",
    "unresolveReviewThread": "threadId!",
    "addPullRequestReviewThread": (
        "body! path! line side startLine startSide subjectType pullRequestId pullRequestReviewId"
    ),
    "addPullRequestReviewThreadReply": "body! pullRequestReviewThreadId! pullRequestReviewId",
    "submitPullRequestReview": "event! body pullRequestId pullRequestReviewId",
    "minimizeComment": "subjectId! classifier!",
    "unminimizeComment": "subjectId!",
}


def mutation(name: str, **gives: str) -> Callable[[Mutation], Mutation]:
    """Serve a mutation; `gives` names the payload's fields and their types."""

    def register(run: Mutation) -> Mutation:
        payload = name[:1].upper() + name[1:] + "Payload"
        fields = {field: linked(type_, _member(field)) for field, type_ in gives.items()}
        define(payload, fields | {"clientMutationId": scalar(_member("clientMutationId"))})

        def resolve(call: Call, _: Any, arguments: Arguments) -> Payload:
            given = checked_input(name, arguments.get("input"))
            try:
                done = run(call, given)
            except Refusal as refusal:
                raise Problem("UNPROCESSABLE", refusal.sentence) from None
            return done | {"clientMutationId": given.get("clientMutationId")}

        MUTATIONS[name] = FieldType(resolve, payload, frozenset({"input"}))
        return run

    return register


def checked_input(name: str, given: Any) -> Payload:
    """The input, if it has the members that it must have and no others. Raises Problem."""
    kind = name[:1].upper() + name[1:] + "Input"
    words = INPUTS[name].split()
    known = {word.rstrip("!") for word in words} | {"clientMutationId"}
    if not isinstance(given, dict):
        message = f"Field '{name}' is missing required arguments: input"
        raise Problem("argumentLiteralsIncompatible", message)
    for member in given:
        if member not in known:
            message = f"InputObject '{kind}' doesn't accept argument '{member}'"
            raise Problem("argumentNotAccepted", message)
    for word in words:
        if word.endswith("!") and given.get(word[:-1]) is None:
            message = f"Argument '{word[:-1]}' on InputObject '{kind}' is required."
            raise Problem("missingRequiredInputObjectAttribute", message)
    return given


def _member(name: str) -> Callable[[Payload], Any]:
    return lambda payload: payload.get(name)


def _node(call: Call, identity: Any, kind: type) -> Any:
    node = find_node(call, identity)
    if not isinstance(node, kind):
        message = f"Could not resolve to {kind.__name__} node with the global id of '{identity}'."
        raise Problem("NOT_FOUND", message)
    return node


def _allow(call: Call, repo: Repository, *needs: str) -> None:
    if not may_write(call, repo, *needs):
        raise Problem("FORBIDDEN", FORBIDDEN)


@mutation("resolveReviewThread", thread="PullRequestReviewThread")
def resolve_thread(call: Call, given: Payload) -> Payload:
    """Needs contents: write besides pull_requests: write."""
    node = _node(call, given.get("threadId"), ThreadNode)
    _allow(call, node.of.repo, "pull_requests", "contents")
    node.thread.resolved_by = call.user
    return {"thread": node}


@mutation("unresolveReviewThread", thread="PullRequestReviewThread")
def unresolve_thread(call: Call, given: Payload) -> Payload:
    """Needs what resolving needs."""
    node = _node(call, given.get("threadId"), ThreadNode)
    _allow(call, node.of.repo, "pull_requests", "contents")
    node.thread.resolved_by = None
    return {"thread": node}


@mutation("addPullRequestReviewThread", thread="PullRequestReviewThread")
def add_thread(call: Call, given: Payload) -> Payload:
    """A comment in one's pending review, which is made when there is none. A line outside the
    diff gives no error and no thread, as people have met it (dcdpr/jp#857)."""
    of = _pull(call, given)
    _allow(call, of.repo, "pull_requests")
    limits.check_body("PullRequestReviewThread", given.get("body", ""), blank=False)
    review = _pending(call, of)
    wish = {
        "path": given.get("path"),
        "line": given.get("line"),
        "side": given.get("side"),
        "start_line": given.get("startLine"),
        "start_side": given.get("startSide"),
        "subject_type": (given.get("subjectType") or "LINE").lower(),
    }
    try:
        anchor = anchors_for(of.repo, of.pull, of.pull.head_sha, [wish])[0]
    except Refusal:
        return {"thread": None}
    thread = start_thread(call.world, of.pull, anchor, given["body"], review)
    return {"thread": ThreadNode(of, thread)}


def _pull(call: Call, given: Payload) -> PullNode:
    if given.get("pullRequestReviewId"):
        review: ReviewNode = _node(call, given["pullRequestReviewId"], ReviewNode)
        return review.of
    found: PullNode = _node(call, given.get("pullRequestId"), PullNode)
    return found


def _pending(call: Call, of: PullNode) -> Review:
    found = pending_review(of.pull, call.user)
    if found is not None:
        return found
    commit = of.pull.head_sha
    return add_review(call.world, of.pull, call.user, state="PENDING", commit=commit)


@mutation("addPullRequestReviewThreadReply", comment="PullRequestReviewComment")
def reply(call: Call, given: Payload) -> Payload:
    """Answer in a thread, at once."""
    node = _node(call, given.get("pullRequestReviewThreadId"), ThreadNode)
    _allow(call, node.of.repo, "pull_requests")
    limits.check_body("PullRequestReviewComment", given.get("body", ""), blank=False)
    pull, thread = node.of.pull, node.thread
    comment = reply_to_thread(call.world, pull, thread, call.user, given["body"])
    return {"comment": CommentNode(node, comment)}


@mutation("submitPullRequestReview", pullRequestReview="PullRequestReview")
def submit(call: Call, given: Payload) -> Payload:
    """Submit one's pending review."""
    if given.get("pullRequestReviewId"):
        node: ReviewNode = _node(call, given["pullRequestReviewId"], ReviewNode)
    else:
        of: PullNode = _node(call, given.get("pullRequestId"), PullNode)
        node = ReviewNode(of, _pending(call, of))
    _allow(call, node.of.repo, "pull_requests")
    review, pull = node.review, node.of.pull
    if review.state != "PENDING":
        raise Problem("UNPROCESSABLE", "Review has already been submitted.")
    body = given.get("body") or review.body
    held = sum(comment.review == review.id for t in pull.threads for comment in t.comments)
    review.state = submitted_state(call, node.of.issue, given.get("event", ""), body, held)
    review.body, review.submitted = body, call.world.now()
    return {"pullRequestReview": node}


@mutation("minimizeComment", minimizedComment="Minimizable")
def minimize(call: Call, given: Payload) -> Payload:
    """Fold a comment away."""
    node = find_node(call, given.get("subjectId"))
    of = node.of.of if isinstance(node, CommentNode) else node.of
    _allow(call, of.repo, "pull_requests")
    node.comment.minimized = str(given.get("classifier", "OUTDATED")).lower()
    return {"minimizedComment": node}


@mutation("unminimizeComment", unminimizedComment="Minimizable")
def unminimize(call: Call, given: Payload) -> Payload:
    """Unfold it again."""
    node = find_node(call, given.get("subjectId"))
    of = node.of.of if isinstance(node, CommentNode) else node.of
    _allow(call, of.repo, "pull_requests")
    node.comment.minimized = None
    return {"unminimizedComment": node}


define("Mutation", MUTATIONS)
