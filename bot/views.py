"""A finding as the templates show it: words and links, with nothing left to work out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from pitstop.bot import markdown, wording
from pitstop.bot.markdown import Markdown
from pitstop.bot.report import ReportedFinding
from pitstop.rules.finding import Finding, Location, Safety
from pitstop.rules.tree import RepoTree, UnreadableError
from pitstop.transforms.patch import (
    Changed,
    Patch,
    Refused,
    StaleEditError,
    apply_edits,
    unified_diff,
)

MAX_PATCH = 12_000
"""Characters of a patch that are still shown; the report holds all of it."""

MAX_RELATED = 5


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses of pages about one commit of one repository."""

    server_url: str
    repository: str
    sha: str

    def blob(self, path: str, line: int | None = None) -> str:
        """A file at the commit, at a line."""
        name = quote(path.encode("utf-8", "surrogateescape"), safe="/")
        anchor = f"#L{line}" if line is not None else ""
        return f"{self.server_url}/{self.repository}/blob/{self.sha}/{name}{anchor}"

    @property
    def commit(self) -> str:
        """The commit's own page."""
        return f"{self.server_url}/{self.repository}/commit/{self.sha}"


@dataclass(frozen=True, slots=True)
class Related:
    """Another place, and why it matters."""

    where: Markdown
    text: str


@dataclass(frozen=True, slots=True)
class FindingView:
    """What a reader is told about a finding. `patch` is a unified diff or "", `unverified` is
    True for a change that needs a measured run, `refused` says why there is no patch."""

    severity: str
    rule: str
    title: str
    message: str
    cost: str
    source: Markdown
    leave_when: str
    advice: str
    where: Markdown
    place: str
    related: tuple[Related, ...]
    patch: str
    unverified: bool
    refused: str


def view(reported: ReportedFinding, links: Links, tree: RepoTree | None = None) -> FindingView:
    """The view of one finding. Its patch is made only where there is a tree to make it on."""
    finding = reported.finding
    outcome = reported.outcome
    return FindingView(
        severity=finding.severity.label.capitalize(),
        rule=finding.rule,
        title=finding.title,
        message=finding.message,
        cost=finding.cost,
        source=wording.source(finding),
        leave_when=finding.leave_when,
        advice=_sentence(finding.fix.text if finding.fix else finding.advice),
        where=place_link(finding.primary, links),
        place=f"{finding.primary.path}:{finding.primary.line}",
        related=tuple(
            Related(place_link(other.location, links), other.text)
            for other in finding.related[:MAX_RELATED]
        ),
        patch=patch_text(outcome.patch, tree)
        if tree is not None and isinstance(outcome, Changed)
        else "",
        unverified=_needs_measuring(finding),
        refused=outcome.reason if isinstance(outcome, Refused) else "",
    )


def _sentence(text: str) -> str:
    """A phrase with a capital at its front and a full stop at its end."""
    stop = "" if text.endswith((".", "!", "?")) or not text else "."
    return f"{text[:1].upper()}{text[1:]}{stop}"


def _needs_measuring(finding: Finding) -> bool:
    return finding.fix is not None and finding.fix.safety is Safety.VERIFY


def place_link(location: Location, links: Links) -> Markdown:
    """`path:line`, linked to the line."""
    label = markdown.code(f"{location.path}:{location.line}")
    return markdown.link(label, links.blob(location.path, location.line))


def patch_text(patch: Patch, tree: RepoTree) -> str:
    """A patch as one unified diff; "" when it no longer applies or is too long to show."""
    created: Mapping[str, str] = dict(patch.new_files)
    parts: list[str] = []
    try:
        for path in patch.paths:
            if path in created:
                parts.append(unified_diff(path, "", created[path], new=True))
                continue
            file = tree.read(path)
            parts.append(unified_diff(path, file.text, apply_edits(file, patch.edits)))
    except (UnreadableError, StaleEditError, IndexError):
        return ""
    text = "".join(parts)
    return text if len(text) <= MAX_PATCH else ""
