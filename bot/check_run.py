"""The check run of a review: a conclusion, the summary, and one annotation for each finding. Pure.

GitHub takes 50 annotations a request and adds those of later requests to the earlier ones, so a
check run is made in several requests of which the last one completes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pitstop.bot import markdown
from pitstop.bot.markdown import shorten, utf8_bytes, visible
from pitstop.bot.placement import Placed
from pitstop.bot.report import Report
from pitstop.bot.review import Review
from pitstop.bot.summary import Summary, verdict
from pitstop.bot.views import patch_text
from pitstop.rules.finding import Severity
from pitstop.rules.tree import RepoTree, normalise
from pitstop.transforms.patch import Changed

NAME = "Pitstop"
BATCH = 50
MAX_ANNOTATIONS = 1_000
"""Twenty requests; the rest stands in the summary."""

MAX_SUMMARY = 65_535
MAX_MESSAGE = 60_000
MAX_TITLE = 255

_LEVELS = {Severity.CRITICAL: "failure", Severity.WARNING: "warning", Severity.INFO: "notice"}

Annotation = dict[str, str | int]


@dataclass(frozen=True, slots=True)
class CheckRun:
    """A check run as it shall be. `external_id` is a digest of all of it, so that the same result
    is known again, and one that was left unfinished can be finished."""

    conclusion: str
    title: str
    summary: str
    annotations: tuple[Annotation, ...]

    @property
    def external_id(self) -> str:
        """The same for the same result, whichever run it comes from."""
        summary = re.sub(r"/actions/runs/\d+", "", self.summary)
        text = json.dumps([self.conclusion, self.title, summary, self.annotations], sort_keys=True)
        return "pitstop-" + hashlib.sha256(text.encode()).hexdigest()[:24]

    def request(self, start: int) -> dict[str, object]:
        """The part of a create or update request that brings the annotations from number
        `start` on; it completes the check run when no more are left."""
        batch = self.annotations[start : start + BATCH]
        output = {"title": self.title, "summary": self.summary, "annotations": list(batch)}
        if start + BATCH < len(self.annotations):
            return {"status": "in_progress", "output": output}
        return {"status": "completed", "conclusion": self.conclusion, "output": output}


def make_check_run(
    report: Report, review: Review, summary: Summary, tree: RepoTree, fail_on: Severity | None
) -> CheckRun:
    """The check run of a review."""
    return CheckRun(
        conclusion=conclusion(report, review, fail_on),
        title=verdict(report, review)[:MAX_TITLE],
        summary=summary.within(MAX_SUMMARY, utf8_bytes),
        annotations=tuple(_annotations(review.findings, tree))[:MAX_ANNOTATIONS],
    )


def conclusion(report: Report, review: Review, fail_on: Severity | None) -> str:
    """success: nothing to say. failure: the repository set a threshold, and the change brought
    in something at or above it. neutral otherwise: advice stops nobody."""
    worst = report.worst()
    if fail_on is not None and worst is not None and worst >= fail_on:
        return "failure"
    return "neutral" if review.findings else "success"


def _annotations(findings: Sequence[Placed], tree: RepoTree) -> Iterator[Annotation]:
    for placed in findings:
        if not _sendable(placed.path):
            continue
        finding, outcome = placed.reported.finding, placed.reported.outcome
        advice = finding.fix.text if finding.fix else finding.advice
        told = (visible(part) for part in (finding.message, finding.cost, advice) if part)
        annotation: Annotation = {
            "path": placed.path,
            "start_line": max(placed.lines.start, 1),
            "end_line": max(placed.lines.stop - 1, placed.lines.start, 1),
            "annotation_level": _LEVELS[finding.severity],
            "title": visible(f"{finding.rule}: {finding.title}")[:MAX_TITLE],
            "message": shorten("\n".join(told), MAX_MESSAGE, utf8_bytes) or finding.rule,
        }
        patch = patch_text(outcome.patch, tree) if isinstance(outcome, Changed) else ""
        if patch:
            shown = "\n".join(map(visible, patch.split("\n")))
            annotation["raw_details"] = shorten(shown, MAX_MESSAGE, utf8_bytes)
        yield annotation


def _sendable(path: str) -> bool:
    """GitHub takes relative paths in UTF-8."""
    return path != "" and normalise(path) == path and markdown.is_unicode(path)
