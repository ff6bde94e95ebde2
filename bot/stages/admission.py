"""May this person have this commit run? Pure: what GitHub says in, a decision out.

Whoever may write to the repository may run its code; what has to be made sure is *which* code.
The commit is one that the person names with all its digits, or the one that Pitstop's own summary
showed before the comment was written, by GitHub's clock. Commit dates are never looked at, since
their author chooses them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from pitstop.bot.pulls import Comment, PullRequest
from pitstop.bot.summary import reviewed
from pitstop.bot.transport import ApiError, OutOfTimeError

SETTLED = 60.0
"""Seconds that the reviewed commit must have stood before the comment."""

Permission = Literal["admin", "write", "listed"]


@dataclass(frozen=True, slots=True)
class Refused:
    """Not allowed; the sentence tells the person why and what to do."""

    sentence: str


def permission_of(
    login: str, listed: Collection[str], ask: Callable[[str], str]
) -> Permission | Refused:
    """What allows an account to give commands. `ask` gives GitHub's answer (admin, write, read,
    none) or raises ApiError; whatever is not a clear yes is a no."""
    if login.lower() in {one.lower() for one in listed}:
        return "listed"
    try:
        answer = ask(login)
    except OutOfTimeError:
        raise
    except ApiError:
        return Refused(
            "GitHub does not say what you may do in this repository, so nothing is run. Whoever can"
            " write to it may use this command, and whoever `optimize.users` on the default branch"
            " names."
        )
    if answer == "admin":
        return "admin"
    if answer == "write":
        return "write"
    return Refused(
        "Running a pull request's code takes the permission to write to this repository (write,"
        " maintain or admin), or a name in `optimize.users` on the default branch."
    )


def bound_commit(
    pull: PullRequest,
    named: str | None,
    comment: Comment,
    summary: Comment | None,
    author_writes: bool,
) -> str | Refused:
    """The commit that the comment allows to run.

    `named` is what `--sha` says, `comment` the command's, `summary` Pitstop's own summary on the
    pull request, `author_writes` whether the pull request's author may write to the repository.
    """
    if named is not None:
        if named == pull.head_sha:
            return named
        return Refused(
            f"The pull request is at {_code(pull.head_sha)} and no longer at {_code(named)}. Read"
            f" what changed; {_again(pull)}"
        )
    if pull.fork or not author_writes:
        whose = "comes from a fork" if pull.fork else "is by an author who may not write here"
        return Refused(
            f"This pull request {whose}, so say which commit you have read: {_again(pull)}"
        )
    shown = reviewed(summary.body) if summary is not None and summary.ours else ()
    if summary is None or not shown or shown[-1] != pull.head_sha:
        return Refused(
            "Pitstop had not reviewed the present commit when the command was given, so it is not"
            f" known that you have seen it: {_again(pull)}"
        )
    if summary.updated > comment.created - SETTLED:
        return Refused(
            "The pull request was pushed to or reviewed less than a minute before the command, or"
            f" after it, so it is not known which commit you have seen: {_again(pull)}"
        )
    return pull.head_sha


def _again(pull: PullRequest) -> str:
    return f"`/optimize --sha {pull.head_sha}` runs it as it is now."


def _code(sha: str) -> str:
    return f"`{sha[:12]}`"
