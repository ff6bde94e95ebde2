"""Brings a review onto a pull request: once, however often it is tried.

What may be repeated, and how to see that a write already took effect, is decided here; how long
to wait is `pitstop.bot.transport`'s.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pitstop.bot.changes import job_changes
from pitstop.bot.check_run import NAME, CheckRun, make_check_run
from pitstop.bot.diff import Diff
from pitstop.bot.effects import effects
from pitstop.bot.github_api import GitHub
from pitstop.bot.placement import Placed
from pitstop.bot.pulls import Comment, Posted, PostedCheck, Thread
from pitstop.bot.report import Report
from pitstop.bot.review import NewComment, Policy, Review, make_review, said_keys
from pitstop.bot.summary import (
    Summary,
    comment_body,
    find_summaries,
    find_summary,
    says_the_same,
    summarise,
)
from pitstop.bot.transport import ApiError, ForbiddenError, OutOfTimeError, RefusedError
from pitstop.bot.views import Links
from pitstop.rules.tree import RepoTree

SUPERSEDED = "Newer commits were pushed meanwhile; their own run reviews them."


@dataclass(frozen=True, slots=True)
class Audited:
    """One audit of one pull request's head."""

    number: int
    report: Report
    diff: Diff
    tree: RepoTree
    links: Links
    run_url: str | None = None

    @property
    def sha(self) -> str:
        """The audited commit."""
        return self.links.sha

    def review(self, posted: Posted, policy: Policy) -> Review:
        """What to say after what was said."""
        return make_review(self.report, self.diff, self.tree, posted, policy, self.links)

    def summary(
        self, review: Review, details: Sequence[Placed], remarks: Sequence[str] = ()
    ) -> Summary:
        """The words of the summary; `details` are explained in it."""
        return summarise(
            self.report,
            review,
            self.tree,
            self.links,
            run_url=self.run_url,
            details=details,
            remarks=remarks,
            changes=job_changes(self.report.jobs_before, self.report.jobs),
            effects=effects(self.report.jobs_before, self.report.jobs),
        )


@dataclass(frozen=True, slots=True)
class Delivery:
    """What came of it. `forbidden` means that the token may not write; `remarks` are sentences
    for the reader of the job's summary."""

    review: Review
    posted: bool
    forbidden: bool = False
    remarks: tuple[str, ...] = ()
    check_posted: bool = False


def deliver(github: GitHub, audited: Audited, policy: Policy, *, check_run: bool) -> Delivery:
    """Post what is new. Never raises for what GitHub answers: what could not be posted is told
    in `remarks`, and belongs into the job's summary."""
    unposted = audited.review(Posted(), policy)
    try:
        if github.pull(audited.number).head_sha != audited.sha:
            return Delivery(unposted, posted=False, remarks=(SUPERSEDED,))
        review, remarks = _converse(github, audited, policy)
    except ForbiddenError:
        words = "The token may not comment on this pull request, so the review stands here."
        return Delivery(unposted, posted=False, forbidden=True, remarks=(words,))
    except ApiError as error:
        words = f"The review could not be posted, so it stands here: {_reason(error)}"
        return Delivery(unposted, posted=False, remarks=(words,))
    if not check_run:
        return Delivery(review, posted=True, remarks=remarks)
    try:
        _publish_check(github, audited, review, policy)
    except ApiError as error:
        words = f"The check run could not be published: {_reason(error)}"
        return Delivery(review, posted=True, remarks=(*remarks, words))
    return Delivery(review, posted=True, remarks=remarks, check_posted=True)


def _reason(error: ApiError) -> str:
    kind = "GitHub did not take it within the time limit, " if _late(error) else ""
    return f"{kind}{error}."


def _late(error: ApiError) -> bool:
    return isinstance(error, OutOfTimeError)


def _converse(github: GitHub, audited: Audited, policy: Policy) -> tuple[Review, tuple[str, ...]]:
    """Comments, resolved threads and summary; returns the review as posted, with remarks."""
    number = audited.number
    threads = github.threads(number)
    posted = Posted(github.comments(number), threads)
    review = audited.review(posted, policy)
    remarks: list[str] = []
    try:
        _comment(github, audited, review.comments)
    except (ForbiddenError, OutOfTimeError):
        raise
    except RefusedError as error:
        # Better a review in the summary alone than none. What did get through counts as said.
        remarks.append(f"GitHub did not take the comments on lines: {_reason(error)}")
        posted = dataclasses.replace(posted, threads=github.threads(number))
        review = audited.review(posted, dataclasses.replace(policy, max_inline=0))
    left = _resolve(github, review.resolve)
    if left:
        remarks.append(
            f"{left} of our comments are about things that are gone, but the token may not resolve"
            " them; it needs `contents: write` for that."
        )
    _summarise(github, audited, review, posted, remarks)
    return review, tuple(remarks)


def _comment(github: GitHub, audited: Audited, comments: Sequence[NewComment]) -> None:
    """One review with all comments on lines, then those on whole files one by one."""
    number, sha = audited.number, audited.sha

    def landed(*wanted: NewComment) -> bool:
        return {one.key for one in wanted} <= said_keys(github.threads(number))

    lines = [comment for comment in comments if comment.line is not None]
    if lines:
        data = [_line_comment(comment) for comment in lines]
        github.create_review(number, sha, data, lambda: landed(*lines))
    for comment in comments:
        if comment.line is None:
            github.create_file_comment(
                number, sha, comment.path, comment.body, partial(landed, comment)
            )


def _line_comment(comment: NewComment) -> dict[str, object]:
    data: dict[str, object] = {
        "path": comment.path,
        "body": comment.body,
        "side": "RIGHT",
        "line": comment.line,
    }
    if comment.start is not None:
        data |= {"start_side": "RIGHT", "start_line": comment.start}
    return data


def _resolve(github: GitHub, threads: Sequence[Thread]) -> int:
    """Returns how many had to be left open."""
    for done, thread in enumerate(threads):
        try:
            github.resolve(thread.id)
        except ForbiddenError:
            return len(threads) - done
    return 0


def _summarise(
    github: GitHub, audited: Audited, review: Review, posted: Posted, remarks: Sequence[str]
) -> None:
    number = audited.number
    ours = find_summaries(posted.comments)
    before = ours[0] if ours else None
    _take_back(github, ours[1:])
    summary = audited.summary(review, review.detailed, remarks)
    body = comment_body(summary, audited.sha, before.body if before else None)
    if before is None:
        _first_summary(github, number, body)
    elif not says_the_same(before.body, body):
        github.edit_comment(before.id, body)


def _first_summary(github: GitHub, number: int, body: str) -> None:
    """Post it. A request that seemed lost may land after we looked, so then we look again."""
    lost = False

    def landed() -> Comment | None:
        nonlocal lost
        lost = True
        return find_summary(github.comments(number))

    github.create_comment(number, body, landed)
    if lost:
        _take_back(github, find_summaries(github.comments(number))[1:])


def _take_back(github: GitHub, comments: Sequence[Comment]) -> None:
    for comment in comments:
        with contextlib.suppress(RefusedError):  # it is gone, or this token may not
            github.delete_comment(comment.id)


def _publish_check(github: GitHub, audited: Audited, review: Review, policy: Policy) -> None:
    """A check run that says the same is left as it is; an unfinished one is finished."""
    summary = audited.summary(review, review.detailed)
    wanted = make_check_run(audited.report, review, summary, audited.tree, policy.fail_on)
    check = _same_check(github, audited.sha, wanted)
    if check is None:
        data = {
            "name": NAME,
            "head_sha": audited.sha,
            "external_id": wanted.external_id,
            **wanted.request(0),
        }
        check = github.create_check(data, lambda: _same_check(github, audited.sha, wanted))
    while not check.completed:
        data = wanted.request(check.annotations)
        after = min(check.annotations + len(_annotations(data)), len(wanted.annotations))
        check = github.update_check(check.id, data, after)


def _annotations(data: dict[str, object]) -> Sequence[object]:
    output = data["output"]
    return output["annotations"] if isinstance(output, dict) else ()


def _same_check(github: GitHub, sha: str, wanted: CheckRun) -> PostedCheck | None:
    """The newest check run, when it is this one: an older one like it has been replaced."""
    found = github.checks(sha, NAME)
    return found[0] if found and found[0].external_id == wanted.external_id else None
