"""What a change does to each training job: which settings decide differently. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pitstop.rules.finding import Location, Setting, Value
from pitstop.rules.job import TrainingJob


@dataclass(frozen=True, slots=True)
class KnobChange:
    """A knob's deciding value before and after. Texts are as written in the repository, or the
    framework's default in parentheses; "" where the knob does not exist or is not set."""

    knob: str
    before: str
    after: str
    where: Location | None = None


@dataclass(frozen=True, slots=True)
class JobChange:
    """One job that the change adds, removes or sets differently."""

    job: str
    title: str
    kind: str  # added | removed | changed
    knobs: tuple[KnobChange, ...] = ()


def job_changes(
    before: Iterable[TrainingJob], after: Iterable[TrainingJob]
) -> tuple[JobChange, ...]:
    """Every job that differs, those that stayed first."""
    old = {job.id: job for job in before}
    new = {job.id: job for job in after}
    found = []
    for name in sorted(old.keys() & new.keys()):
        knobs = tuple(_knob_changes(old[name], new[name]))
        if knobs:
            found.append(JobChange(name, new[name].title, "changed", knobs))
    found += [JobChange(n, new[n].title, "added") for n in sorted(new.keys() - old.keys())]
    found += [JobChange(n, old[n].title, "removed") for n in sorted(old.keys() - new.keys())]
    return tuple(found)


def _knob_changes(old: TrainingJob, new: TrainingJob) -> Iterable[KnobChange]:
    for knob in sorted(old.settings.keys() | new.settings.keys()):
        before, after = old.get(knob), new.get(knob)
        if _value(before) != _value(after):
            where = after.where if after else None
            yield KnobChange(knob, _text(before), _text(after), where)


def _value(setting: Setting | None) -> Value:
    return setting.value if setting else None


def _text(setting: Setting | None) -> str:
    if setting is None:
        return ""
    if not setting.known:
        return "unknown"
    value = setting.value
    shown = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return shown if setting.written else f"{shown} (default)"
