"""Scorecards: which techniques of an audit's list the jobs of a project use, and the points.

An item's mark for one job, in this order: a finding that proves the contrary makes it unused; an
item that does not apply is not applicable; `used`, then `partial`, when they hold; an option, or an
item that is not needed, is not applicable either; what cannot be said is unknown, and so is what
the job's frameworks have no setting for; the rest is unused. Over several jobs: one common mark,
else partial; jobs without the item or without an answer do not count. Of alternatives (one
`slot`) of which one is used, the others are not applicable.

Points of a category: its maximum times the mean over the items that count (used 1, partial 0.5,
unused 0). Items not applicable or unknown do not count, and alternatives (one `slot`) count once
with the best of them. A category without any such item has no score.
"""

from __future__ import annotations

import enum
import functools
import importlib.resources
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pitstop.rules.conditions import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Case,
    Condition,
    KnobIs,
    KnobState,
    Not,
    deciding,
)
from pitstop.rules.data import parse_data
from pitstop.rules.finding import Finding, Location, Setting, Unknown
from pitstop.rules.job import TrainingJob
from pitstop.rules.row_reader import RowError, read_condition


class Mark(enum.StrEnum):
    """What is said of an item. Settings that the job's frameworks do not have say nothing."""

    USED = "used"
    PARTIAL = "partial"
    UNUSED = "unused"
    NOT_APPLICABLE = "not applicable"
    UNKNOWN = "unknown"


MOST_PLACES = 3
"""Places shown for an item."""

WORTH: Mapping[Mark, float] = {Mark.USED: 1.0, Mark.PARTIAL: 0.5, Mark.UNUSED: 0.0}
"""Points of a mark that counts."""


@dataclass(frozen=True, slots=True)
class Item:
    """A technique. `used` is None where files cannot tell; `applies` is asked before, `needed` only
    where the item is not used; `option` says that nobody needs it. `unused_by` and `clean_of` are
    ids of rules: a finding of theirs says unused, and for `clean_of` none says used."""

    id: str
    title: str
    used: Condition | None = None
    partial: Condition = NEVER
    applies: Condition = ALWAYS
    needed: Condition = ALWAYS
    option: bool = False
    slot: str = ""
    unused_by: tuple[str, ...] = ()
    clean_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Category:
    """Items under one letter; `most` are the points it can bring."""

    key: str
    title: str
    most: int
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Scorecard:
    """An audit's list. `frameworks` whose jobs it judges (none: everybody's), only those of a
    `purpose` where one is given; `file` is the stem of its report."""

    name: str
    title: str
    file: str
    frameworks: tuple[str, ...]
    purpose: str
    categories: tuple[Category, ...]

    @property
    def most(self) -> int:
        """Points that it can bring."""
        return sum(category.most for category in self.categories)


@dataclass(frozen=True, slots=True)
class Marked:
    """An item's mark, the places that decided it, and what was read there."""

    id: str
    title: str
    mark: Mark
    slot: str = ""
    places: tuple[Location, ...] = ()
    read: str = ""


@dataclass(frozen=True, slots=True)
class CategoryScore:
    """A category's marks and points; None when nothing in it counts."""

    key: str
    title: str
    most: int
    points: float | None
    marks: tuple[Marked, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """One audit of a project. `most` leaves out the categories without a score."""

    name: str
    title: str
    file: str
    jobs: int
    categories: tuple[CategoryScore, ...]

    @property
    def judged(self) -> tuple[CategoryScore, ...]:
        """The categories in which anything could be judged."""
        return tuple(c for c in self.categories if c.points is not None)

    @property
    def points(self) -> float:
        """Points over all categories."""
        return round(sum(c.points or 0.0 for c in self.categories), 1)

    @property
    def most(self) -> int:
        """The maximum of the categories that have a score."""
        return sum(c.most for c in self.judged)


def scores(jobs: Iterable[TrainingJob], findings: Iterable[Finding]) -> tuple[Score, ...]:
    """The general audit and those of the frameworks in use, in the order of the files."""
    jobs, findings = tuple(jobs), tuple(findings)
    found: list[Score] = []
    for card in scorecards():
        own = [job for job in jobs if _judges(card, job)]
        if own or not card.frameworks:
            found.append(_score(card, own, findings))
    return tuple(found)


def _judges(card: Scorecard, job: TrainingJob) -> bool:
    if card.purpose and job.purpose != card.purpose:
        return False
    return not card.frameworks or any(use.name in card.frameworks for use in job.frameworks)


def _score(card: Scorecard, jobs: list[TrainingJob], findings: tuple[Finding, ...]) -> Score:
    categories = []
    for category in card.categories:
        marks = _chosen([_over_jobs(item, jobs, findings) for item in category.items])
        points = _points(category.most, marks)
        categories.append(CategoryScore(category.key, category.title, category.most, points, marks))
    return Score(card.name, card.title, card.file, len(jobs), tuple(categories))


def _chosen(marks: list[Marked]) -> tuple[Marked, ...]:
    """Alternatives of one that is used are no longer open."""
    taken = {one.slot for one in marks if one.slot and one.mark is Mark.USED}
    return tuple(
        replace(one, mark=Mark.NOT_APPLICABLE, places=(), read="")
        if one.slot in taken and one.mark is not Mark.USED
        else one
        for one in marks
    )


def _points(most: int, marks: Iterable[Marked]) -> float | None:
    best: dict[str, float] = {}
    for one in marks:
        if one.mark in WORTH:
            slot = one.slot or one.id
            best[slot] = max(best.get(slot, 0.0), WORTH[one.mark])
    return round(most * sum(best.values()) / len(best), 1) if best else None


def _over_jobs(item: Item, jobs: Iterable[TrainingJob], findings: tuple[Finding, ...]) -> Marked:
    marks = [mark_of(item, job, findings) for job in jobs]
    counted = {one.mark for one in marks if one.mark in WORTH}
    if len(counted) > 1:
        mark = Mark.PARTIAL
    elif counted:
        mark = counted.pop()
    elif any(one.mark is Mark.UNKNOWN for one in marks):
        mark = Mark.UNKNOWN
    else:
        mark = Mark.NOT_APPLICABLE
    telling = [one for one in marks if one.mark in WORTH] or marks
    telling.sort(key=lambda one: WORTH.get(one.mark, 1.0))  # what is missing is what to look at
    places = tuple(dict.fromkeys(place for one in telling for place in one.places))
    read = next((one.read for one in telling if one.read), "")
    return Marked(item.id, item.title, mark, item.slot, places[:MOST_PLACES], read)


def mark_of(item: Item, job: TrainingJob, findings: Iterable[Finding]) -> Marked:
    """An item's mark for one job."""
    case = Case(job, {})
    against = [
        one
        for one in findings
        if one.rule in (*item.unused_by, *item.clean_of) and job.id in one.jobs
    ]
    if against:
        read = against[0].message
        return _marked(item, Mark.UNUSED, tuple(one.primary for one in against[:3]), read)
    if item.clean_of:
        read_code = job.entry is not None and job.entry in job.files
        return _marked(item, Mark.USED if read_code else Mark.UNKNOWN)
    mark = _mark(item, case)
    if mark in (Mark.NOT_APPLICABLE, Mark.UNKNOWN):
        return _marked(item, mark)
    return _marked(item, mark, *_evidence(item, job))


def _marked(item: Item, mark: Mark, places: tuple[Location, ...] = (), read: str = "") -> Marked:
    return Marked(item.id, item.title, mark, item.slot, places[:MOST_PLACES], read)


def _mark(item: Item, case: Case) -> Mark:
    applies = item.applies.holds(case)
    if applies is False:
        return Mark.NOT_APPLICABLE
    if item.used is None:
        return Mark.UNKNOWN
    used = item.used.holds(case)
    if used or item.partial.holds(case):
        return Mark.USED if used else Mark.PARTIAL
    needed = False if item.option else item.needed.holds(case)
    if used is False and needed is False:
        return Mark.NOT_APPLICABLE
    said = used is not None and _known_here(item.used, case.job)
    return Mark.UNUSED if said and applies and needed else Mark.UNKNOWN


def _known_here(used: Condition, job: TrainingJob) -> bool:
    """Whether the job's frameworks have any of the settings that are asked for."""
    asked = tuple(_knobs(used))
    return not asked or any(job.settings.get(knob) for knob in asked)


def _evidence(item: Item, job: TrainingJob) -> tuple[tuple[Location, ...], str]:
    """Where the settings that an item asks for stand, and what they say."""
    found = [
        setting
        for knob in dict.fromkeys(_knobs(item.used) if item.used is not None else ())
        for setting in deciding(job.settings.get(knob, ()))
    ]
    found.sort(key=lambda setting: not setting.written)
    places = tuple(setting.where for setting in found if setting.where is not None)
    said = [_said(setting) for setting in found]
    return places[:3], "; ".join(dict.fromkeys(said))


def _said(setting: Setting) -> str:
    if setting.written:
        return f"{setting.name}: {setting.raw}" if setting.raw else setting.name
    value = "not known" if isinstance(setting.value, Unknown) else setting.value
    return f"{setting.knob}: {value} by default"


def _knobs(condition: Condition) -> Iterator[str]:
    if isinstance(condition, KnobIs | KnobState):
        yield condition.knob
    elif isinstance(condition, AllOf | AnyOf):
        for part in condition.parts:
            yield from _knobs(part)
    elif isinstance(condition, Not):
        yield from _knobs(condition.part)


# --- reading ---------------------------------------------------------------------------------


@functools.cache
def scorecards() -> tuple[Scorecard, ...]:
    """Every shipped scorecard, the general one first."""
    folder = importlib.resources.files("pitstop.rules.scorecards")
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".yaml")), key=lambda f: f.name
    )
    cards = [read_scorecard(file.name, file.read_text("utf-8")) for file in files]
    return tuple(sorted(cards, key=lambda card: (bool(card.frameworks), card.name)))


def read_scorecard(file: str, text: str) -> Scorecard:
    """A scorecard from its YAML. Raises RowError for an unknown word or condition."""
    raw = parse_data(text)
    _only(file, raw, {"scorecard", "title", "file", "frameworks", "purpose", "categories"})
    return Scorecard(
        raw["scorecard"],
        raw["title"],
        raw["file"],
        tuple(raw.get("frameworks", ())),
        str(raw.get("purpose", "")),
        tuple(_category(file, category) for category in raw["categories"]),
    )


def _category(file: str, raw: Mapping[str, Any]) -> Category:
    _only(file, raw, {"key", "title", "max", "items"})
    items = tuple(_item(file, item) for item in raw["items"])
    return Category(raw["key"], raw["title"], raw["max"], items)


def _item(file: str, raw: Mapping[str, Any]) -> Item:
    where = f"{file}: {raw.get('id', 'an item without id')}"
    _only(where, raw, set(Item.__dataclass_fields__))

    def every(key: str) -> Condition:
        return AllOf(tuple(read_condition(where, part) for part in raw[key]))

    return Item(
        raw["id"],
        raw["title"],
        every("used") if "used" in raw else None,
        every("partial") if "partial" in raw else NEVER,
        every("applies") if "applies" in raw else ALWAYS,
        every("needed") if "needed" in raw else ALWAYS,
        bool(raw.get("option", False)),
        str(raw.get("slot", "")),
        tuple(raw.get("unused_by", ())),
        tuple(raw.get("clean_of", ())),
    )


def _only(where: str, raw: object, allowed: set[str]) -> None:
    if not isinstance(raw, dict):
        raise RowError(f"{where}: must be a mapping")
    for key in raw:
        if key not in allowed:
            raise RowError(f"{where}: unknown word {key!r}")
