"""Rules that are data: a row names a knob and the conditions under which its value is worth a
finding. One judge serves every row, every framework and every surface.

How a row is judged, for each training job of its catalogue's frameworks and each setting that
may decide its knob (see `conditions.deciding`):

1. every part of `when` must be true; unknown is not true;
2. no part of `unless` may be true or unknown (precision first); no part of `unless_known` may
   be true (unknown does not block: for facts that are rarely stated);
3. no part of `requires` may be false, and none of `conflicts` true: the cure would not work;
4. a default counts only where the version in use has a name for the knob;
5. `info_when` lowers the finding to information.

The finding stands at the setting that decides; where only a default does, at the line that
makes the job (its config file, else its launch).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pitstop.rules.conditions import ALWAYS, NEVER, Case, Condition, deciding
from pitstop.rules.finding import (
    Confidence,
    Finding,
    Fix,
    Location,
    Safety,
    Scalar,
    Setting,
    Severity,
    Surface,
)
from pitstop.rules.frameworks import accepted, frameworks
from pitstop.rules.frameworks.spelling import plain_name
from pitstop.rules.job import TrainingJob
from pitstop.rules.rule import RuleInfo
from pitstop.rules.versions import Versions

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts


@dataclass(frozen=True, slots=True)
class Choice:
    """A value for a fix, and when it is the right one (None: otherwise)."""

    value: Scalar
    when: Condition | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What a row's fix does: `choices` in order, the first that holds; empty means the setting
    is removed. `knob` is None for that of the setting under judgement."""

    knob: str | None
    safety: Safety
    text: str
    choices: tuple[Choice, ...] = ()

    def fix(self, case: Case) -> Fix | None:
        """The fix for a case; None when no choice is certain."""
        knob = self.knob or (case.chosen.knob if case.chosen else None)
        if knob is None:
            return None
        if not self.choices:
            return Fix.unset_knob(knob, safety=self.safety, text=self.text)
        for choice in self.choices:
            answer = True if choice.when is None else choice.when.holds(case)
            if answer is None:
                return None
            if answer:
                return Fix.set_knob(knob, choice.value, safety=self.safety, text=self.text)
        return None


@dataclass(frozen=True, slots=True)
class Need:
    """Something that the cure needs or that forbids it, in words and as a condition."""

    text: str
    condition: Condition


@dataclass(frozen=True, slots=True)
class Row:
    """One rule as data. `frameworks` are those of its catalogue (empty: every one), `purpose` is
    that of the jobs that it judges: train or serve.

    `names` restricts the row to settings spelled so;
    `own` to settings of these frameworks, so that a loader of the script's own does not speak for
    the trainer's; `unconditional` leaves alone what holds only under an `if`. Without `knobs` the
    row speaks of the launch itself.
    """

    info: RuleInfo
    message: str
    frameworks: tuple[str, ...] = ()
    purpose: str = "train"
    knobs: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    unconditional: bool = False
    when: Condition = ALWAYS
    unless: Condition = NEVER
    unless_known: Condition = NEVER
    info_when: Condition = NEVER
    requires: tuple[Need, ...] = ()
    conflicts: tuple[Need, ...] = ()
    change: Change | None = None

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Everything the row finds in the project's training jobs."""

        def line_of(at: Location) -> str:
            file = facts.sources.file(at.path)
            return file.line_text(at.line).strip() if file is not None else ""

        for job in facts.jobs:
            yield from self.judge(job, facts.versions, line_of)

    def judge(
        self,
        job: TrainingJob,
        versions: Versions,
        line_of: Callable[[Location], str] | None = None,
    ) -> Iterator[Finding]:
        """Everything the row finds in one job. `line_of` gives the text of a place's line, to
        show arguments that stand without their keyword."""
        if job.purpose != self.purpose:
            return
        if self.frameworks and job.framework not in self.frameworks:
            return
        for chosen in self._subjects(job):
            case = Case(job, versions, chosen)
            place = _place(job, chosen)
            if place is not None and self._fires(case):
                yield self._finding(case, place, line_of)

    def _subjects(self, job: TrainingJob) -> tuple[Setting | None, ...]:
        if not self.knobs:
            return (None,)
        found = [s for knob in self.knobs for s in self._of_knob(job, knob)]
        return tuple(s for s in found if not (self.unconditional and s.condition))

    def _of_knob(self, job: TrainingJob, knob: str) -> tuple[Setting, ...]:
        settings = job.settings.get(knob, ())
        if self.own:
            settings = tuple(s for s in settings if s.framework in self.own)
        if self.names:
            settings = tuple(s for s in settings if plain_name(s.name) in self.names)
        return deciding(settings)

    def _fires(self, case: Case) -> bool:
        return (
            self.when.holds(case) is True
            and self.unless.holds(case) is False
            and self.unless_known.holds(case) is not True
            and all(need.condition.holds(case) is not False for need in self.requires)
            and all(need.condition.holds(case) is not True for need in self.conflicts)
            and _offered(case)
        )

    def _finding(
        self, case: Case, place: Location, line_of: Callable[[Location], str] | None
    ) -> Finding:
        chosen = case.chosen
        informs = self.info_when.holds(case) is True
        return self.info.finding(
            place,
            self._message(chosen, line_of),
            fix=self.change.fix(case) if self.change else None,
            deciding=chosen,
            severity=Severity.INFO if informs else None,
            confidence=_confidence(self.info.confidence, chosen),
            jobs=(case.job.id,),
        )

    def _message(self, chosen: Setting | None, line_of: Callable[[Location], str] | None) -> str:
        text = shown(chosen) if chosen else ""
        if chosen is not None and line_of is not None and _without_keyword(chosen):
            text = f"`{line_of(place)}`" if (place := chosen.where) else text
        said = self.message.format(setting=text)
        if chosen is None:
            return said
        if chosen.condition is not None:
            return f"{said} This holds when `{chosen.condition}`."
        if not chosen.written and chosen.where is None:
            return f"{said} Nothing sets it, so this is shown at the line that makes the job."
        return said


def _offered(case: Case) -> bool:
    """Whether the version in use may have a name for a knob that is left at its default: what
    cannot be set there is no advice."""
    chosen = case.chosen
    if chosen is None or chosen.surface is not Surface.DEFAULT:
        return True
    known = frameworks().get(chosen.framework or "")
    names = [row for row in known.rows if row.knob == chosen.knob and not row.dead] if known else []
    return not names or any(accepted(row, case.versions) is not False for row in names)


def _without_keyword(setting: Setting) -> bool:
    """Whether a call's argument stands by its position: its name is then its value's place."""
    name, value = setting.name_at, setting.value_at
    at_one_place = name is not None and value is not None and name.span == value.span
    return setting.surface is Surface.KEYWORD and at_one_place


def _confidence(most: Confidence, chosen: Setting | None) -> Confidence:
    """A default, of a framework or of the program's own options, is read less surely."""
    resolved = chosen is not None and chosen.surface in (Surface.DEFAULT, Surface.PY_DEFAULT)
    return Confidence.MEDIUM if resolved and most is Confidence.HIGH else most


def _place(job: TrainingJob, chosen: Setting | None) -> Location | None:
    """The setting's own place (a call's default has that of the call), else the job's."""
    where = chosen.where if chosen is not None else None
    return where or place_of(job, chosen)


def place_of(job: TrainingJob, setting: Setting | None = None) -> Location | None:
    """Where to show what nobody wrote: beside the job's own settings of the same framework in
    its config file, else at the launch, else at what the job was made from."""
    configs = [
        s.where
        for s in job.written()
        if s.surface in (Surface.YAML, Surface.JSON, Surface.TOML)
        and s.where is not None
        and (setting is None or s.framework == setting.framework)
        and s.where.path in job.configs
    ]
    if setting is not None and configs:
        return min(configs, key=lambda at: (job.configs.index(at.path), at.span))
    if job.launch is not None:
        return job.launch.entry_location or job.launch.location
    return job.location


_SHAPES = {
    Surface.FLAG: "`{name} {text}`",
    Surface.ENV: "`{name}={text}`",
    Surface.YAML: "`{name}: {text}`",
    Surface.JSON: '`"{name}": {text}`',
    Surface.TOML: "`{name} = {text}`",
    Surface.KEYWORD: "`{name}={text}`",
    Surface.PY_DEFAULT: "`{name}` with default `{text}`",
    Surface.STATEMENT: "`{name} = {text}`",
    Surface.HEADER: "`{name}={text}`",
    Surface.DEFAULT: "`{name}` (default {text})",
}


def shown(setting: Setting) -> str:
    """A setting as it looks where it is written, for a message."""
    value = "not set" if setting.value is None else str(setting.value)
    if setting.surface is Surface.FLAG and not setting.raw and isinstance(setting.value, bool):
        return f"`{setting.name}`"
    text = " ".join((setting.raw or value).split())
    return _SHAPES[setting.surface].format(name=setting.name or setting.knob, text=text)
