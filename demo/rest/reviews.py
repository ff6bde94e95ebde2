"""Reviews and review comments."""

from __future__ import annotations

from typing import Any

from demo import limits
from demo.conversation import (
    add_review,
    pending_review,
    reply_to_thread,
    start_thread,
)
from demo.pulls import anchors_for, compare_pull, thread_of
from demo.rest.call import Call, operation
from demo.shapes import Json
from demo.shapes_pull import review_comment_json, review_json
from demo.state import Issue, Pull, Review, ReviewComment, Thread
from demo.wire import Answer, Refusal, invalid_request, not_found, unprocessable, validation_failed

STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
ONE_PENDING = "User can only have one pending review per pull request"
SIDES = ("LEFT", "RIGHT")


def _shown(call: Call, issue: Issue, thread: Thread, comment: ReviewComment) -> Json:
    return review_comment_json(call.links, call.repo, issue, thread, comment)


def _reviewed_commit(call: Call, pull: Pull, name: str | None) -> str:
    """The commit a review is about. Raises Refusal (422) when it is not the pull request's."""
    if name is None:
        return pull.head_sha
    sha = call.repo.git.resolve(name)
    if sha is None or sha not in compare_pull(call.repo, pull).commits:
        raise unprocessable("The commitOID is not part of the pull request")
    return sha


def _review(call: Call) -> tuple[Issue, Pull, Review]:
    issue, pull = call.pull
    for review in pull.reviews:
        mine = call.token is not None and review.user is call.token.user
        if review.id == int(call.words["review_id"]) and (mine or review.state != "PENDING"):
            return issue, pull, review
    raise not_found()


def _found(call: Call) -> tuple[Issue, Pull, Thread, ReviewComment]:
    number = int(call.words["comment_id"])
    viewer = call.token.user if call.token else None
    for issue, pull in call.repo.pulls():
        for comment in pull.review_comments(viewer=viewer):
            thread = thread_of(pull, number)
            if comment.id == number and thread is not None:
                return issue, pull, thread, comment
    raise not_found()


def submitted_state(call: Call, issue: Issue, event: str, body: str, comments: int) -> str:
    """The state that an event leads to. Raises Refusal (422) where it may not."""
    if event in ("APPROVE", "REQUEST_CHANGES") and call.user is issue.user:
        what = "approve" if event == "APPROVE" else "request changes on"
        raise unprocessable(f"Review Can not {what} your own pull request")
    if event == "REQUEST_CHANGES" and not body.strip():
        raise unprocessable("You need to leave a comment indicating the requested changes.")
    if event == "COMMENT" and not body.strip() and not comments:
        raise unprocessable("Review body can't be blank")
    return STATES[event]


@operation("pulls/list-reviews")
def list_reviews(call: Call) -> Answer:
    """Submitted reviews and one's own pending one, oldest first."""
    issue, pull = call.pull
    user = call.token.user if call.token else None
    shown = [r for r in pull.reviews if r.state != "PENDING" or r.user is user]
    return call.page(shown, lambda review: review_json(call.links, call.repo, issue, review))


@operation("pulls/get-review")
def get_review(call: Call) -> Answer:
    """One review."""
    issue, _, review = _review(call)
    return Answer(200, review_json(call.links, call.repo, issue, review))


@operation("pulls/create-review", needs=["pull_requests"])
def create_review(call: Call) -> Answer:
    """A review with all its comments, or nothing: one bad comment refuses the whole, and the
    answer does not say which. Nothing is written before everything has been checked."""
    issue, pull = call.pull
    wishes = call.data.get("comments") or []
    body, event = call.data.get("body") or "", call.data.get("event")
    for wish in wishes:
        _check_wish(wish)
    if pending_review(pull, call.user):
        raise unprocessable(ONE_PENDING)
    commit = _reviewed_commit(call, pull, call.data.get("commit_id"))
    _check_text(body)
    for wish in wishes:
        _check_text(wish["body"], blank=False)
    state = submitted_state(call, issue, event, body, len(wishes)) if event else "PENDING"
    anchors = anchors_for(call.repo, pull, commit, wishes)
    world, user = call.world, call.user
    review = add_review(world, pull, user, body=body, state=state, commit=commit)
    for anchor, wish in zip(anchors, wishes, strict=True):
        start_thread(world, pull, anchor, wish["body"], review)
    issue.updated = call.world.now()
    return Answer(200, review_json(call.links, call.repo, issue, review))


def _check_text(body: str, *, blank: bool = True) -> None:
    """A text of a review. Raises Refusal (422), with a bare sentence as reviews have it."""
    try:
        limits.check_body("PullRequestReview", body, blank=blank)
    except Refusal as refusal:
        raise unprocessable(refusal.sentence) from None


def _check_wish(wish: dict[str, Any]) -> None:
    """What the schema of a review's comment leaves open."""
    for name in ("side", "start_side"):
        if wish.get(name) is not None and wish[name] not in SIDES:
            where = f"For 'properties/{name}', "
            raise invalid_request(f'{where}"{wish[name]}" is not a member of ["LEFT", "RIGHT"].')
    if "subject_type" in wish:
        raise invalid_request('"subject_type" is not a permitted key.')


@operation("pulls/update-review", needs=["pull_requests"])
def update_review(call: Call) -> Answer:
    """Change the text of one's own review."""
    issue, _, review = _review(call)
    if review.user is not call.user:
        raise Refusal(403, "Must be the author of the review")
    _check_text(call.data["body"])
    review.body = call.data["body"]
    return Answer(200, review_json(call.links, call.repo, issue, review))


@operation("pulls/submit-review", needs=["pull_requests"])
def submit_review(call: Call) -> Answer:
    """Submit one's pending review."""
    issue, pull, review = _review(call)
    if review.state != "PENDING":
        raise unprocessable("Could not submit a review that is not pending")
    body = call.data.get("body") or review.body
    _check_text(body)
    held = sum(comment.review == review.id for t in pull.threads for comment in t.comments)
    review.state = submitted_state(call, issue, call.data["event"], body, held)
    review.body, review.submitted = body, call.world.now()
    return Answer(200, review_json(call.links, call.repo, issue, review))


@operation("pulls/delete-pending-review", needs=["pull_requests"])
def delete_pending_review(call: Call) -> Answer:
    """Throw one's pending review away, comments and all."""
    issue, pull, review = _review(call)
    if review.state != "PENDING":
        raise unprocessable("Can not delete a non-pending pull request review")
    pull.reviews.remove(review)
    for thread in list(pull.threads):
        thread.comments = [c for c in thread.comments if c.review != review.id]
        if not thread.comments:
            pull.threads.remove(thread)
    return Answer(200, review_json(call.links, call.repo, issue, review))


@operation("pulls/dismiss-review", needs=["pull_requests"])
def dismiss_review(call: Call) -> Answer:
    """Take the weight off an approval or a request for changes."""
    issue, _, review = _review(call)
    if review.state not in ("APPROVED", "CHANGES_REQUESTED"):
        raise unprocessable("Can not dismiss a commented pull request review")
    review.state = "DISMISSED"
    return Answer(200, review_json(call.links, call.repo, issue, review))


@operation("pulls/list-comments-for-review")
def list_comments_for_review(call: Call) -> Answer:
    """The comments that came with a review."""
    issue, pull, review = _review(call)
    held = [(t, c) for t in pull.threads for c in t.comments if c.review == review.id]
    return call.page(held, lambda pair: _shown(call, issue, *pair))


@operation("pulls/list-review-comments")
def list_review_comments(call: Call) -> Answer:
    """All review comments, oldest first unless asked otherwise."""
    issue, pull = call.pull
    viewer = call.token.user if call.token else None
    comments = pull.review_comments(viewer=viewer)
    if call.request.query.get("sort") and call.request.query.get("direction") == "desc":
        comments.reverse()
    found = [(thread_of(pull, comment.id), comment) for comment in comments]
    pairs = [(thread, comment) for thread, comment in found if thread is not None]
    return call.page(pairs, lambda pair: _shown(call, issue, *pair))


@operation("pulls/get-review-comment")
def get_review_comment(call: Call) -> Answer:
    """One review comment."""
    issue, _, thread, comment = _found(call)
    return Answer(200, _shown(call, issue, thread, comment))


@operation("pulls/create-review-comment", needs=["pull_requests"])
def create_review_comment(call: Call) -> Answer:
    """One comment on a line, a range, a position or a file; or an answer to another one."""
    issue, pull = call.pull
    if call.data.get("in_reply_to") is not None:
        return _reply(call, issue, pull, call.data["in_reply_to"])
    commit, path = call.data["commit_id"], call.data["path"]
    placed = call.data.get("line") is not None or call.data.get("position") is not None
    if call.data.get("subject_type") != "file" and not placed:
        missing = [f'"{name}" wasn\'t supplied.' for name in ("in_reply_to", "line")]
        raise invalid_request('No subschema in "oneOf" matched.', *missing)
    limits.check_body("PullRequestReviewComment", call.data["body"], blank=False)
    if pending_review(pull, call.user):
        user = "user_id can only have one pending review per pull request"
        raise validation_failed("PullRequestReview", "user_id", user)
    if call.repo.git.resolve(commit) is None:
        raise Refusal(422, f"No commit found for SHA: {commit}")
    if commit not in compare_pull(call.repo, pull).commits:
        field = "pull_request_review_thread.commit_id"
        message = "end_commit_oid is not part of the pull request"
        raise validation_failed("PullRequestReviewComment", field, message)
    try:
        anchor = anchors_for(call.repo, pull, commit, [call.data])[0]
    except Refusal as refusal:
        raise _as_validation(refusal, path) from None
    review = add_review(call.world, pull, call.user, state="COMMENTED", commit=commit)
    thread = start_thread(call.world, pull, anchor, call.data["body"], review)
    issue.updated = call.world.now()
    shown = _shown(call, issue, thread, thread.comments[0])
    return Answer(201, shown, {"location": shown["url"]})


def _as_validation(refusal: Refusal, path: str) -> Refusal:
    """The same refusal as this operation words it: with the field at fault."""
    sentence = refusal.sentence
    field, text = "line", "must be part of the diff"
    if sentence.startswith("Path"):
        field, text = "path", "could not be resolved"
    elif "precede" in sentence:
        field, text = "start_line", "must precede the end line."
    elif "same hunk" in sentence:
        field, text = "start_line", "must be part of the same hunk as the line."
    elif "blank" in sentence:
        field, text = "start_line", "can't be blank"
    elif "start line" in sentence:
        field = "start_line"
    name = f"pull_request_review_thread.{field}"
    return validation_failed("PullRequestReviewComment", name, f"{name} {text}")


@operation("pulls/create-reply-for-review-comment", needs=["pull_requests"])
def create_reply(call: Call) -> Answer:
    """Answer a review comment."""
    issue, pull = call.pull
    return _reply(call, issue, pull, int(call.words["comment_id"]))


def _reply(call: Call, issue: Issue, pull: Pull, number: int) -> Answer:
    thread = thread_of(pull, number)
    if thread is None:
        raise not_found()
    limits.check_body("PullRequestReviewComment", call.data["body"], blank=False)
    if pending_review(pull, call.user):
        user = "user_id can only have one pending review per pull request"
        raise validation_failed("PullRequestReview", "user_id", user)
    comment = reply_to_thread(call.world, pull, thread, call.user, call.data["body"])
    return Answer(201, _shown(call, issue, thread, comment))


@operation("pulls/update-review-comment", needs=["pull_requests"])
def update_review_comment(call: Call) -> Answer:
    """Change a comment's text."""
    issue, _, thread, comment = _found(call)
    limits.check_body("PullRequestReviewComment", call.data["body"], blank=False)
    comment.body, comment.updated = call.data["body"], call.world.now()
    return Answer(200, _shown(call, issue, thread, comment))


@operation("pulls/delete-review-comment", needs=["pull_requests"])
def delete_review_comment(call: Call) -> Answer:
    """Delete a comment; an empty thread goes with it."""
    _, pull, thread, comment = _found(call)
    thread.comments.remove(comment)
    if not thread.comments:
        pull.threads.remove(thread)
    return Answer(204)
