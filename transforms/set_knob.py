"""Change one knob wherever the job decides it: the one place that knows all surfaces.

The setting that decides is edited where it is written; a knob at its default is written where
the job's settings stand. What the new value needs (`requires` in knobs.yaml) is changed with it
or the change is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pitstop.rules.finding import Scalar, Setting, Surface, Unknown
from pitstop.rules.frameworks import frameworks
from pitstop.rules.job import TrainingJob
from pitstop.rules.knobs import Requirement, knobs
from pitstop.rules.tree import RepoTree
from pitstop.rules.written_names import speakers
from pitstop.transforms.edited_tree import EditedTree, tree_of_job
from pitstop.transforms.introduce import introduce
from pitstop.transforms.patch import (
    Changed,
    Outcome,
    Patch,
    Refused,
    Unchanged,
    edits_between,
)
from pitstop.transforms.place import Place
from pitstop.transforms.rewrite import erase, rewrite

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts


@dataclass(frozen=True, slots=True)
class _Step:
    """One knob to set, or to remove (`remove`)."""

    knob: str
    value: Scalar
    setting: Setting
    remove: bool = False


def set_knob(
    job: TrainingJob,
    knob: str,
    value: Scalar,
    facts: ProjectFacts,
    at: Setting | None = None,
) -> Outcome:
    """Give the knob a value. `at` is the setting to change where the job has several."""
    setting = at or job.get(knob) or _left_open(job, knob)
    if setting is None:
        return Refused(f"the frameworks of this job do not set {knob}")
    if setting.known and _same(setting.value, value):
        return Unchanged()
    steps: list[_Step] = []
    for step in _companions(job, knob, value, setting):
        if isinstance(step, Refused):
            return step
        steps.append(step)
    last = _Step(knob, value, setting)
    return _chain(job, (*steps, last), facts) if steps else _do(job, last, facts)


def set_knobs(job: TrainingJob, values: Mapping[str, Scalar], facts: ProjectFacts) -> Outcome:
    """Give several knobs values as one change: all of them, or none."""
    steps: list[_Step] = []
    for knob, value in values.items():
        setting = job.get(knob) or _left_open(job, knob)
        if setting is None:
            return Refused(f"the frameworks of this job do not set {knob}")
        if not (setting.known and _same(setting.value, value)):
            steps.append(_Step(knob, value, setting))
    if not steps:
        return Unchanged()
    return _chain(job, tuple(steps), facts)


def unset_knob(
    job: TrainingJob, knob: str, facts: ProjectFacts, at: Setting | None = None
) -> Outcome:
    """Remove the setting that decides the knob, so that the framework's default holds."""
    setting = at or job.get(knob)
    if setting is None or not setting.written:
        return Unchanged("not set")
    return erase(Place(job, setting, facts))


def _left_open(job: TrainingJob, knob: str) -> Setting | None:
    """A knob that nobody sets and no framework has a default for, but one could write.
    PyTorch's variables hold in every job."""
    for framework in (*speakers(job), frameworks()["pytorch"]):
        for row in framework.rows:
            if row.knob == knob and not row.extra and not row.dead:
                return Setting(knob, None, Surface.DEFAULT, row.name, framework.name)
    return None


def _do(job: TrainingJob, step: _Step, facts: ProjectFacts) -> Outcome:
    place = Place(job, step.setting, facts)
    if step.remove:
        return erase(place)
    if not step.setting.written:
        return introduce(place, step.value)
    return rewrite(place, step.value)


# --- what goes with it -----------------------------------------------------------------------


def _companions(
    job: TrainingJob, knob: str, value: Scalar, setting: Setting
) -> Iterator[_Step | Refused]:
    """The changes that the new value needs, or why it cannot be."""
    if value not in (False, None):
        for other, need in knobs()[knob].requires.items():
            yield from _needed(job, setting, other, need)
    for other, other_knob in knobs().items():
        need_of_other = other_knob.requires.get(knob)
        if need_of_other is not None and not need_of_other.met(value):
            yield from _void(job, setting, other)


def _needed(
    job: TrainingJob, setting: Setting, other: str, need: Requirement
) -> Iterator[_Step | Refused]:
    found = _beside(job, setting, other)
    if found is None or (found.known and not isinstance(found.value, tuple) and _met(found, need)):
        return
    if not found.known or need.remedy is None:
        what = f"at least {need.at_least}" if need.at_least is not None else need.equals
        yield Refused(f"{setting.knob} needs {other} to be {what}, which is not so for certain")
        return
    yield _Step(other, need.remedy, found)


def _met(setting: Setting, need: Requirement) -> bool:
    value = setting.value
    return not isinstance(value, Unknown | tuple) and need.met(value)


def _void(job: TrainingJob, setting: Setting, other: str) -> Iterator[_Step | Refused]:
    """Another knob that needs what this one will no longer be."""
    found = _beside(job, setting, other)
    if found is not None and found.written and found.value not in (False, None):
        yield _Step(other, None, found, remove=True)


def _beside(job: TrainingJob, setting: Setting, other: str) -> Setting | None:
    """The setting of another knob that decides together with this one: of the same call, where
    the knob is set call by call."""
    found = job.settings.get(other, ())
    if setting.framework == "pytorch" and setting.name_at is not None:
        return min(
            (s for s in found if s.name_at and s.name_at.path == setting.name_at.path),
            key=lambda s: _distance(s, setting),
            default=None,
        )
    return found[0] if found else None


def _distance(a: Setting, b: Setting) -> int:
    if a.name_at is None or b.name_at is None:
        return 1 << 30
    first, second = a.name_at.span, b.name_at.span
    return max(first.start - second.end, second.start - first.end, 0)


# --- several changes -------------------------------------------------------------------------


def _chain(job: TrainingJob, steps: tuple[_Step, ...], facts: ProjectFacts) -> Outcome:
    """One change after the other, each on what the one before left, the job resolved anew in
    between; then the job must have every wanted value."""
    from pitstop.rules.facts import gather

    before = tree_of_job(job, facts)
    tree: RepoTree = before
    facts = gather(tree)
    now = next((j for j in facts.jobs if j.id == job.id), None)
    if now is None or now.settings != job.settings:
        return Refused("the job cannot be resolved from its own files alone")
    for step in steps:
        again = _found_again(job, now, step)
        outcome = again if isinstance(again, Refused) else _do(now, again, facts)
        if isinstance(outcome, Refused):
            return outcome
        if isinstance(outcome, Changed):
            tree = EditedTree(tree, outcome.patch.edits)
            facts = gather(tree)
            same = [j for j in facts.jobs if j.id == job.id]
            if len(same) != 1:
                return Refused("the job would not be found again after the change")
            now = same[0]
    for step in steps:
        if _count(now, step) == _count(job, step):
            return Refused(f"{step.knob} would not be decided by what is written")
    edits = (e for p in before.paths for e in edits_between(before.read(p), tree.read(p).text))
    return Changed(Patch(tuple(edits)))


def _found_again(before: TrainingJob, now: TrainingJob, step: _Step) -> _Step | Refused:
    """The step with its setting as the job has it now: the same one of its kind."""
    old, new = (_alike(job, step) for job in (before, now))
    if step.setting not in old or len(old) != len(new):
        return Refused(f"{step.setting.name} would not be found again after the change")
    return replace(step, setting=new[old.index(step.setting)])


def _alike(job: TrainingJob, step: _Step) -> list[Setting]:
    kind = _kind(step.setting)
    return [s for s in job.settings.get(step.knob, ()) if _kind(s) == kind]


def _kind(setting: Setting) -> tuple[object, ...]:
    where = setting.where
    return setting.surface, setting.name, where.path if where else None


def _count(job: TrainingJob, step: _Step) -> int:
    """How many settings of the step's knob are as it wants them."""
    found = job.settings.get(step.knob, ())
    if step.remove:
        return -sum(s.written for s in found)
    return sum(s.known and _same(s.value, step.value) for s in found)


def _same(a: object, b: object) -> bool:
    number = isinstance(a, int | float) and isinstance(b, int | float)
    return isinstance(a, bool) == isinstance(b, bool) and (number or type(a) is type(b)) and a == b
