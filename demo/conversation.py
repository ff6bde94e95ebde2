"""What people and bots add to issues and pull requests: comments, labels, reviews, threads."""

from __future__ import annotations

from demo import limits
from demo.state import (
    Anchor,
    Comment,
    Issue,
    Label,
    Pull,
    Repository,
    Review,
    ReviewComment,
    Thread,
    User,
    World,
)


def add_comment(
    world: World, issue: Issue, user: User, body: str, *, by_app: bool = False
) -> Comment:
    """A new comment in a conversation."""
    now = world.now()
    comment = Comment(world.next_id(), user, body, now, now, by_app)
    issue.comments.append(comment)
    issue.updated = now
    return comment


def ensure_label(world: World, repo: Repository, name: str) -> Label:
    """The repository's label of this name, made when it is new. Names ignore case. Raises
    Refusal (422) for a name that is too long."""
    for label in repo.labels:
        if label.name.lower() == name.lower():
            return label
    limits.check_length("Label", "name", name, limits.LABEL_CHARACTERS)
    label = Label(world.next_id(), name)
    repo.labels.append(label)
    return label


def pending_review(pull: Pull, user: User) -> Review | None:
    """The review that somebody has begun and not submitted."""
    mine = (r for r in pull.reviews if r.user is user and r.state == "PENDING")
    return next(mine, None)


def add_review(
    world: World, pull: Pull, user: User, *, body: str = "", state: str, commit: str
) -> Review:
    """A new review; a pending one has not been submitted yet."""
    submitted = None if state == "PENDING" else world.now()
    review = Review(world.next_id(), user, body, state, commit, submitted)
    pull.reviews.append(review)
    return review


def start_thread(world: World, pull: Pull, anchor: Anchor, body: str, review: Review) -> Thread:
    """A new thread whose one comment belongs to the review."""
    thread = Thread(world.next_id(), anchor)
    _say(world, thread, review, body)
    pull.threads.append(thread)
    return thread


def reply_to_thread(
    world: World, pull: Pull, thread: Thread, user: User, body: str
) -> ReviewComment:
    """An answer in a thread. GitHub wraps it in a review of its own."""
    commit = thread.anchor.original_commit
    review = add_review(world, pull, user, state="COMMENTED", commit=commit)
    return _say(world, thread, review, body, reply_to=thread.comments[0].id)


def _say(
    world: World, thread: Thread, review: Review, body: str, reply_to: int | None = None
) -> ReviewComment:
    now = world.now()
    comment = ReviewComment(
        world.next_id(),
        review.user,
        body,
        now,
        now,
        review=review.id,
        thread=thread.id,
        reply_to=reply_to,
    )
    thread.comments.append(comment)
    return comment
