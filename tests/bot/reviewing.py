"""What the tests of the review share: findings, and an auditor that is easy to steer.

`audit_marks` finds one thing on every line that holds `SLOW`, and its fix makes `FAST` of it, so
that a test decides by a file's text where there is something to say. `CRITICAL` beside it makes
the finding critical, `CLOSER` makes the fix one that must be measured, `ELSEWHERE` one that lies
in another file. A file `broken` cannot be read.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from demo.forge import Forge
from demo.handles import ForgePull
from pitstop.bot.audit import AuditRequest
from pitstop.bot.report import Report, ReportedFinding
from pitstop.bot.settings import Settings, read_settings
from pitstop.bot.transport import Clock
from pitstop.rules.finding import (
    Confidence,
    Finding,
    Fix,
    Location,
    Priority,
    Safety,
    Severity,
    Unread,
)
from pitstop.rules.tree import RepoTree, SourceFile, UnreadableError
from pitstop.transforms.patch import Changed, Edit, Outcome, Patch, Refused

MARK = re.compile("SLOW")


def finding(at: Location, **other: object) -> Finding:
    """A finding with words that hold all that Markdown could trip over."""
    fields: dict[str, object] = {
        "rule": "GEN-F01",
        "name": "slow-line",
        "title": "Line is slow",
        "severity": Severity.WARNING,
        "priority": Priority.HIGH,
        "confidence": Confidence.HIGH,
        "resource": "time",
        "primary": at,
        "message": "`SLOW` stands here",
        "cost": "10 to 30 % of a step",
        "source": "docs.pytorch.org/docs/stable/data.html",
        "leave_when": "It is meant.",
        "advice": "Write `FAST`.",
        "anchor": "SLOW",
    }
    return Finding(**{**fields, **other})  # type: ignore[arg-type]


def audit_marks(tree: RepoTree, request: AuditRequest) -> Report:
    """The findings of a tree, with what the base had already told apart."""
    before = {f.fingerprint for f, _ in _marks(request.base)} if request.base else set()
    found = tuple(
        ReportedFinding(one, outcome, one.fingerprint not in before)
        for one, outcome in _marks(tree)
    )
    unread = tuple(Unread(path, "it is broken") for path in tree.paths if path.endswith("broken"))
    return Report(
        "0.0.1",
        (),
        found,
        unread=unread,
        revision=request.revision,
        base=request.base_revision,
        files=len(tree.paths),
    )


def _marks(tree: RepoTree) -> Iterator[tuple[Finding, Outcome]]:
    for path in tree.paths:
        try:
            file = tree.read(path)
        except UnreadableError:
            continue
        for match in MARK.finditer(file.text):
            yield _mark(file, match)


def _mark(file: SourceFile, match: re.Match[str]) -> tuple[Finding, Outcome]:
    at = file.location(match.start(), match.end())
    line = file.line_text(at.line)
    safety = Safety.VERIFY if "CLOSER" in line else Safety.SAFE
    one = finding(
        at,
        severity=Severity.CRITICAL if "CRITICAL" in line else Severity.WARNING,
        anchor=" ".join(line.split()),
        fix=Fix.set_knob("x", 1, safety=safety, text="Write `FAST`."),
    )
    if "ELSEWHERE" in line:
        return one, Refused("the value is made elsewhere")
    return one, Changed(Patch((Edit(file.path, at.span, "SLOW", "FAST"),)))


class Time:
    """A clock that only sleeping moves. It starts now, since a forge's answers hold times."""

    def __init__(self) -> None:
        self.now = time.time()

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now, self.sleep)


def settings_for(
    forge: Forge,
    pull: ForgePull,
    folder: Path,
    *,
    token: str | None = None,
    event: Mapping[str, object] | None = None,
    name: str = "pull_request",
    **inputs: str,
) -> Settings:
    """What a runner gives the action for an event of this pull request."""
    workspace = folder / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    payload = folder / "event.json"
    payload.write_text(json.dumps(event or pull.event()))
    environment = {
        "INPUT_GITHUB-TOKEN": token or forge.token,
        "GITHUB_API_URL": forge.api,
        "GITHUB_SERVER_URL": forge.url,
        "GITHUB_GRAPHQL_URL": forge.graphql,
        "GITHUB_REPOSITORY": pull.repo.name,
        "GITHUB_EVENT_NAME": name,
        "GITHUB_EVENT_PATH": str(payload),
        "GITHUB_WORKSPACE": str(workspace),
        "GITHUB_RUN_ID": "77",
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
    }
    chosen = {f"INPUT_{key.upper().replace('_', '-')}": value for key, value in inputs.items()}
    return read_settings({**environment, **chosen})
