"""The one persistent comment of a pull request, and the same words for a job's summary. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pitstop.bot import markdown, render
from pitstop.bot.changes import JobChange, KnobChange
from pitstop.bot.effects import Effect
from pitstop.bot.estimate_words import told_effects
from pitstop.bot.markdown import Markdown
from pitstop.bot.placement import Placed
from pitstop.bot.pulls import Comment
from pitstop.bot.report import Report
from pitstop.bot.review import MAX_BODY, Review
from pitstop.bot.rule_pages import CATALOGUES
from pitstop.bot.views import FindingView, Links, place_link, view
from pitstop.rules.engine import all_rules
from pitstop.rules.finding import Severity
from pitstop.rules.scoring import Score, scores
from pitstop.rules.tree import RepoTree

MAX_DETAILS = 150
"""Findings that are explained; more than a comment holds, and a report has them all."""

MAX_OLDER = 50
MAX_UNREAD = 20
MAX_JOBS = 20
MAX_KNOBS = 12
MAX_REVIEWED = 500
"""Commits named in the hidden list; 500 take 20 KB of the 64 that a comment holds."""

MARK = "<!-- pitstop:summary -->"
"""Hidden at the end of the one comment that is edited in place."""
_REVIEWED = re.compile(r"<!-- pitstop:reviewed((?: [0-9a-f]{40,64})*) -->\s*\Z")
_RUN = re.compile(r"/actions/runs/\d+")


@dataclass(frozen=True, slots=True)
class Detail:
    """A finding that the summary itself explains, under the heading of its audit."""

    audit: str
    first: bool
    finding: FindingView


@dataclass(frozen=True, slots=True)
class ToldChange:
    """What a change does to a job; `more` settings are not told."""

    title: str
    kind: str
    knobs: tuple[KnobChange, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything that a summary shows, whole; where it goes decides how much of it fits.

    `sections` may be cut between, `tail` always stands at the end.
    """

    sections: tuple[str, ...]
    tail: Markdown

    def within(self, limit: int, measure: markdown.Measure = markdown.CODE_POINTS) -> str:
        """The summary, shortened to a limit."""
        return markdown.fit(self.sections, self.tail, limit=limit, cut_note=_CUT, measure=measure)


_CUT = Markdown("\n*Shortened to the room there is; the report has everything.*\n\n")


def summarise(
    report: Report,
    review: Review,
    tree: RepoTree,
    links: Links,
    *,
    run_url: str | None,
    details: Sequence[Placed],
    remarks: Sequence[str] = (),
    changes: Sequence[JobChange] = (),
    effects: Sequence[Effect] = (),
) -> Summary:
    """What was found, what the change does to each job, and what could not be read.

    `details` are the findings to explain here, `remarks` sentences about this very run.
    """
    short = links.sha[:7]
    commit = markdown.link(markdown.code(short), links.commit)
    common = {"commit": commit, "run_url": run_url or "", "remarks": remarks}
    sections = render.sections(
        "summary.md.j2",
        verdict=verdict(report, review),
        rows=[view(placed.reported, links) for placed in review.findings],
        details=tuple(_details(details[:MAX_DETAILS], tree, links)),
        more_details=max(len(details) - MAX_DETAILS, 0),
        changes=_told(changes[:MAX_JOBS], review),
        more_jobs=max(len(changes) - MAX_JOBS, 0),
        effects=told_effects(effects[:MAX_JOBS]),
        where=lambda location: place_link(location, links),
        answered=review.answered,
        older=[view(placed.reported, links) for placed in review.older[:MAX_OLDER]],
        older_count=len(review.older),
        unread=report.unread[:MAX_UNREAD] if review.findings else (),
        unread_count=len(report.unread),
        skipped=report.skipped if review.findings else (),
        scores=_scores(report) if review.findings else (),
        **common,
    )
    return Summary(sections, render.render("footer.md.j2", quiet=not review.findings, **common))


def _scores(report: Report) -> tuple[Score, ...]:
    """The audits in which anything could be judged."""
    findings = tuple(reported.finding for reported in report.findings)
    return tuple(score for score in scores(report.jobs, findings) if score.most)


def verdict(report: Report, review: Review) -> str:
    """The whole result in one sentence."""
    parts = [
        _plural(review.count(severity), noun)
        for severity, noun in (
            (Severity.CRITICAL, "critical finding"),
            (Severity.WARNING, "warning"),
            (Severity.INFO, "note"),
        )
        if review.count(severity)
    ]
    if parts:
        return f"{', '.join(parts)} in this change"
    if report.unread:
        return f"Nothing found in this change; {_plural(len(report.unread), 'place')} not read"
    return "Nothing found in this change"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _details(placed: Iterable[Placed], tree: RepoTree, links: Links) -> Iterator[Detail]:
    """Grouped by audit: the general one, and one for each framework."""
    audits = {info.id: info.catalogue for info in all_rules()}

    def audit(one: Placed) -> str:
        name = audits.get(one.reported.finding.rule, "")
        return CATALOGUES.get(name, name or "Other")

    for name, group in itertools.groupby(sorted(placed, key=audit), audit):
        for number, one in enumerate(group):
            yield Detail(name, number == 0, view(one.reported, links, tree))


def _told(changes: Iterable[JobChange], review: Review) -> tuple[ToldChange, ...]:
    """The settings that findings are about come first, so that those left out matter least."""
    faulty = {one.reported.finding.knob for one in review.findings}
    told = []
    for change in changes:
        knobs = sorted(change.knobs, key=lambda one: (one.knob not in faulty, one.knob))
        more = max(len(knobs) - MAX_KNOBS, 0)
        told.append(ToldChange(change.title, change.kind, tuple(knobs[:MAX_KNOBS]), more))
    return tuple(told)


def find_summary(comments: Iterable[Comment]) -> Comment | None:
    """Our summary among a pull request's comments; only one that we wrote is believed."""
    return next(iter(find_summaries(comments)), None)


def find_summaries(comments: Iterable[Comment]) -> list[Comment]:
    """Our summary, and those that a request which was thought lost has left after it."""
    ours = (one for one in comments if one.ours and MARK in one.body)
    return sorted(ours, key=lambda one: one.id)


def reviewed(body: str) -> tuple[str, ...]:
    """The commits that a summary of ours names, the first reviewed first."""
    found = _REVIEWED.search(body)
    return tuple(found[1].split()) if found else ()


def comment_body(summary: Summary, sha: str, before: str | None) -> str:
    """The summary as a comment, with the hidden list of reviewed commits grown by this one."""
    known = reviewed(before or "")
    commits = known if sha in known else (*known, sha)
    marks = f"{MARK}\n<!-- pitstop:reviewed {' '.join(commits[-MAX_REVIEWED:])} -->"
    whole = Summary(summary.sections, Markdown(f"{summary.tail}{marks}"))
    return whole.within(MAX_BODY)


def says_the_same(body: str, other: str) -> bool:
    """True when two summaries differ in nothing but the run that they link to."""
    return _settled(body) == _settled(other)


def _settled(body: str) -> str:
    return _RUN.sub("/actions/runs/0", body.replace("\r\n", "\n").strip())
