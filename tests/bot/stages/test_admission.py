"""Who may have what run: two tables."""

import pytest

from pitstop.bot.pulls import Comment, PullRequest
from pitstop.bot.stages.admission import Refused, bound_commit, permission_of
from pitstop.bot.transport import ApiError, ForbiddenError, OutOfTimeError, RefusedError

HEAD, OLD, FOREIGN = "a" * 40, "b" * 40, "c" * 40


def answers(answer: object):
    def ask(_: str) -> str:
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    return ask


@pytest.mark.parametrize(
    ("who", "answer", "allowed"),
    [
        ("none", "none", None),
        ("read", "read", None),
        ("triage", "read", None),  # GitHub's older name for it
        ("write", "write", "write"),
        ("maintain", "write", "write"),
        ("admin", "admin", "admin"),
        ("member of a team that may write", "write", "write"),
        ("an app", RefusedError("not a user", 404), None),
        ("unknown to GitHub", RefusedError("not found", 404), None),
        ("token may not ask", ForbiddenError("no", 403), None),
        ("GitHub is down", ApiError("oops", 502), None),
        ("a role nobody knows", "superuser", None),
        ("empty answer", "", None),
        ("capitals", "WRITE", None),
    ],
)
def test_permissions(who: str, answer: object, allowed: str | None) -> None:
    found = permission_of("alice", (), answers(answer))
    if allowed is None:
        assert isinstance(found, Refused) and found.sentence.endswith(".")
    else:
        assert found == allowed


def test_the_list_of_the_default_branch_allows_without_asking() -> None:
    assert permission_of("Alice", ("aLICE",), answers(ApiError("down"))) == "listed"


def test_no_time_left_is_no_answer() -> None:
    with pytest.raises(OutOfTimeError):
        permission_of("alice", (), answers(OutOfTimeError("late")))


def pull(head: str = HEAD, *, fork: bool = False) -> PullRequest:
    source = "eve/train" if fork else "octocat/train"
    return PullRequest(
        7, "open", False, frozenset(), head, OLD, "main", "octocat/train", "change", source, "mona"
    )


def summary(*shas: str, at: float = 1000.0, ours: bool = True) -> Comment:
    return Comment(1, f"words\n<!-- pitstop:reviewed {' '.join(shas)} -->", ours, updated=at)


COMMAND = Comment(9, "/optimize", False, created=2000.0)


@pytest.mark.parametrize(
    ("case", "request_of", "bound"),
    [
        ("reviewed a while ago", (pull(), None, summary(OLD, HEAD), True), HEAD),
        ("named in full", (pull(), HEAD, None, False), HEAD),
        ("named in full on a fork", (pull(fork=True), HEAD, None, False), HEAD),
        ("fork without a name", (pull(fork=True), None, summary(HEAD), True), None),
        ("author may not write", (pull(), None, summary(HEAD), False), None),
        ("moved head: never reviewed", (pull(), None, summary(OLD), True), None),
        ("no summary at all", (pull(), None, None, True), None),
        ("push and review 5 s before", (pull(), None, summary(OLD, HEAD, at=1995.0), True), None),
        ("review after the comment", (pull(), None, summary(OLD, HEAD, at=2005.0), True), None),
        ("59 s before", (pull(), None, summary(HEAD, at=1941.0), True), None),
        ("60 s before", (pull(), None, summary(HEAD, at=1940.0), True), HEAD),
        ("edited summary: a moment ago", (pull(), None, summary(HEAD, at=1990.0), True), None),
        ("summary of somebody else", (pull(), None, summary(HEAD, ours=False), True), None),
        ("forced back to an earlier one", (pull(OLD), None, summary(OLD, HEAD), True), None),
        ("moved since it was named", (pull(), OLD, None, True), None),
        ("short SHA", (pull(), HEAD[:7], None, True), None),
        ("foreign SHA", (pull(), FOREIGN, None, True), None),
    ],
)
def test_commits(case: str, request_of: tuple, bound: str | None) -> None:
    of, named, said, writes = request_of
    found = bound_commit(of, named, COMMAND, said, writes)
    if bound is None:
        assert isinstance(found, Refused), case
        assert (
            f"/optimize --sha {of.head_sha}" in found.sentence or "no longer at" in found.sentence
        )
    else:
        assert found == bound
