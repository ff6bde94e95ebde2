"""What every rule says about itself, whether it is a row of data or a check in code."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from pitstop.rules.finding import (
    Confidence,
    Finding,
    Fix,
    Location,
    Priority,
    Related,
    Safety,
    Setting,
    Severity,
)

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts

RESOURCES = ("time", "memory", "both", "quality", "stability")
"""What a finding may cost."""


@dataclass(frozen=True, slots=True)
class Bad:
    """Files in which the rule fires exactly once or more, first at `path` and `line` (from 1).

    `fixed` are the files after the fix, where the rule has one; only changed files are named.
    """

    files: Mapping[str, str]
    path: str
    line: int
    fixed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Good:
    """Files in which the rule is silent, and why it must be."""

    files: Mapping[str, str]
    why: str


@dataclass(frozen=True, slots=True)
class Sections:
    """The paragraphs of a rule's page, in the order in which they are shown."""

    what: str
    why: str
    leave_when: str
    fix: str
    fix_safety: str


SECTION_TITLES: Mapping[str, str] = {
    "what": "What it finds",
    "why": "Why it costs",
    "leave_when": "When it is right",
    "fix": "Fix",
    "fix_safety": "Fix safety",
}
"""Field of `Sections` to the heading used in docstrings and on pages."""


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """A rule's metadata; `pitstop rules`, the documentation and SARIF are made from it.

    `id` is the catalogue's, `name` the thing found. `safety` is that of the fix; NEVER when
    there is only advice. `trades_time` marks a cure that frees memory and costs time.
    `cost` is the expected effect with its figures, `sources` are where they are known from.
    """

    id: str
    name: str
    catalogue: str
    category: str
    title: str
    severity: Severity
    priority: Priority
    resource: str
    confidence: Confidence
    safety: Safety
    sections: Sections
    cost: str
    sources: tuple[str, ...]
    bad: tuple[Bad, ...] = ()
    good: tuple[Good, ...] = ()
    trades_time: bool = False

    def finding(
        self,
        primary: Location,
        message: str,
        *,
        fix: Fix | None = None,
        deciding: Setting | None = None,
        severity: Severity | None = None,
        confidence: Confidence | None = None,
        related: tuple[Related, ...] = (),
        jobs: tuple[str, ...] = (),
    ) -> Finding:
        """A finding of this rule at a place, with everything the rule always says."""
        return Finding(
            rule=self.id,
            name=self.name,
            title=self.title,
            severity=severity or self.severity,
            priority=self.priority,
            confidence=confidence or self.confidence,
            resource=self.resource,
            primary=primary,
            message=message,
            cost=self.cost,
            source=self.sources[0],
            leave_when=self.sections.leave_when,
            advice=self.sections.fix,
            fix=fix,
            deciding=deciding,
            related=related,
            jobs=jobs,
        )


class Rule(Protocol):
    """What the engine runs."""

    @property
    def info(self) -> RuleInfo:
        """Who the rule is."""

    def check(self, facts: ProjectFacts) -> Iterable[Finding]:
        """Everything it finds. May raise: the engine then reports the rule as skipped."""


class Check(ABC):
    """A rule that needs reasoning. A subclass in its own file under `checks` is found by being
    there. Its docstring is its page: the first line is the title, then the headings of
    `SECTION_TITLES`, all of them, in that order."""

    id: ClassVar[str]
    name: ClassVar[str]
    catalogue: ClassVar[str] = "general"
    category: ClassVar[str]
    severity: ClassVar[Severity] = Severity.WARNING
    priority: ClassVar[Priority] = Priority.MEDIUM
    resource: ClassVar[str] = "time"
    confidence: ClassVar[Confidence] = Confidence.HIGH
    safety: ClassVar[Safety] = Safety.NEVER
    trades_time: ClassVar[bool] = False
    cost: ClassVar[str]
    sources: ClassVar[tuple[str, ...]]
    bad: ClassVar[tuple[Bad, ...]]
    good: ClassVar[tuple[Good, ...]]

    @property
    def info(self) -> RuleInfo:
        """The metadata of the class; raises ValueError when its docstring lacks a heading."""
        title, sections = parse_page(type(self).__doc__ or "")
        return RuleInfo(
            id=self.id,
            name=self.name,
            catalogue=self.catalogue,
            category=self.category,
            title=title,
            severity=self.severity,
            priority=self.priority,
            resource=self.resource,
            confidence=self.confidence,
            safety=self.safety,
            sections=sections,
            cost=self.cost,
            sources=self.sources,
            bad=self.bad,
            good=self.good,
            trades_time=self.trades_time,
        )

    @abstractmethod
    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Yield what is found."""


def parse_page(text: str) -> tuple[str, Sections]:
    """Title and sections of a rule's docstring; raises ValueError naming the missing heading."""
    head, *rest = re.split(r"^\s*## +(.+?)\s*$", text, flags=re.MULTILINE)
    found = dict(zip(rest[0::2], rest[1::2], strict=True))
    wanted = list(SECTION_TITLES.values())
    if list(found) != wanted:
        raise ValueError(f"headings are {list(found)}, must be {wanted}")
    by_field = {name: _paragraphs(found[title]) for name, title in SECTION_TITLES.items()}
    return _paragraphs(head).removesuffix("."), Sections(**by_field)


def _paragraphs(text: str) -> str:
    """Lines joined within a paragraph; paragraphs stay apart."""
    blocks = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(" ".join(block.split()) for block in blocks)
