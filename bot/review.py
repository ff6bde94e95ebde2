"""What to say on a pull request, given an audit, the diff and all that was said before. Pure.

The same audit said twice gives nothing new: comments are known by a hidden fingerprint that
survives moved lines, the summary is one comment edited in place, and both are only believed
where we wrote them ourselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pitstop.bot import markdown, render
from pitstop.bot.diff import Diff
from pitstop.bot.markdown import Markdown
from pitstop.bot.placement import Filter, Place, Placed, locate, passes, place
from pitstop.bot.pulls import Posted, Thread
from pitstop.bot.report import Report
from pitstop.bot.views import Links, view
from pitstop.rules.finding import Severity
from pitstop.rules.tree import RepoTree

MAX_BODY = 65_536
"""Characters of a comment or review (code points, docs.github.com/en/rest/pulls/comments)."""

_CUT = "\n*Shortened to what a comment can hold; the whole is in the report.*\n\n"


@dataclass(frozen=True, slots=True)
class Policy:
    """What the repository wants of a review. `fail_on` is None for never; without
    `suggestions` a patch is only shown."""

    wanted: Filter = Filter.ADDED
    max_inline: int = 25
    suggestions: bool = True
    resolve: bool = True
    fail_on: Severity | None = None


@dataclass(frozen=True, slots=True)
class NewComment:
    """A comment to post: on lines of a hunk, on a whole file when `line` is None. `start` is
    set only when it differs from `line`."""

    key: str
    path: str
    body: str
    line: int | None = None
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """All that is to be done, as data.

    `findings` are those that the review speaks of, most severe first; `detailed` are those of
    them that no comment explains, so that the summary must; `older` lie outside of the review.
    `answered` threads are about things that are gone, and stay open because a person replied.
    """

    comments: tuple[NewComment, ...]
    resolve: tuple[Thread, ...]
    answered: tuple[Thread, ...]
    findings: tuple[Placed, ...]
    detailed: tuple[Placed, ...]
    older: tuple[Placed, ...]

    def count(self, severity: Severity) -> int:
        """How many findings of this severity the review speaks of."""
        return sum(p.reported.finding.severity is severity for p in self.findings)


def make_review(
    report: Report, diff: Diff, tree: RepoTree, posted: Posted, policy: Policy, links: Links
) -> Review:
    """The review of one audit. `tree` is the audited one, `diff` what leads to it."""
    placed = locate(report.findings, tree)
    spoken = tuple(p for p in placed if passes(p, diff, policy.wanted))
    said = said_keys(posted.threads)
    candidates: list[tuple[Placed, Place]] = []
    for one in spoken:
        if len(candidates) == policy.max_inline:
            break
        where = place(one, diff, suggestions=policy.suggestions)
        if where is not None:
            candidates.append((one, where))
    comments = tuple(
        _comment(one, where, tree, links) for one, where in candidates if one.key not in said
    )
    spoken_of = {one.key for one in spoken}
    explained = said | {comment.key for comment in comments}
    gone = _gone(posted.threads, placed, report) if policy.resolve else ()
    return Review(
        comments=comments,
        resolve=tuple(thread for thread in gone if not thread.replies),
        answered=tuple(thread for thread in gone if thread.replies),
        findings=spoken,
        detailed=tuple(one for one in spoken if one.key not in explained),
        older=tuple(one for one in placed if one.key not in spoken_of),
    )


_MARK = re.compile(r"<!-- pitstop:finding ([0-9a-f]{16}(?:-\d+)?) (\S+) -->\s*\Z")


def mark(key: str, rule: str) -> Markdown:
    """The hidden last line of a comment: which finding it is about."""
    safe = re.sub(r"[^A-Za-z0-9_.]|(?<=-)-", "-", rule)
    return Markdown(f"<!-- pitstop:finding {key} {safe} -->")


def key_of(body: str) -> str | None:
    """The finding's key in a comment of ours."""
    found = _MARK.search(body)
    return found[1] if found else None


def said_keys(threads: Iterable[Thread]) -> frozenset[str]:
    """What need not be said again: it is, or a person has closed the matter. What we closed
    ourselves and is there again must be said again."""
    return frozenset(
        key
        for thread in threads
        if thread.ours and not (thread.resolved and thread.closed_by_us)
        if (key := key_of(thread.body))
    )


def _gone(
    threads: Iterable[Thread], placed: Iterable[Placed], report: Report
) -> tuple[Thread, ...]:
    """Open threads whose finding is not there any more: not merely out of sight because its
    file could not be read or its rule did not run."""
    present = {one.key for one in placed}
    unread = {item.path for item in report.unread}
    skipped = {rule for rule, _ in report.skipped}
    return tuple(
        thread
        for thread in threads
        if thread.ours and not thread.resolved and thread.path not in unread
        if (match := _MARK.search(thread.body))
        if match[1] not in present and match[2] not in skipped
    )


def _comment(placed: Placed, where: Place, tree: RepoTree, links: Links) -> NewComment:
    finding = placed.reported.finding
    offer = where.suggestion
    pieces = render.sections(
        "finding.md.j2",
        finding=view(placed.reported, links, tree),
        suggestion=_suggestion(offer.text) if offer else Markdown(),
    )
    tail = mark(placed.key, finding.rule)
    body = markdown.fit(pieces, tail, limit=MAX_BODY, cut_note=_CUT)
    return NewComment(placed.key, where.path, body, where.line, where.start)


def _suggestion(text: str) -> Markdown:
    """GitHub's suggestion block. `text` holds only what a comment can carry (see
    `pitstop.bot.suggestion`), so that it stands here unchanged."""
    return markdown.fenced(f"{text}\n", "suggestion")
