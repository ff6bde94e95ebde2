"""From a finding's fix, which is data, to the change itself."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Fix, Safety, Setting
from pitstop.rules.job import TrainingJob
from pitstop.transforms.patch import Changed, Outcome, Refused
from pitstop.transforms.recipe import Recipe, recipes
from pitstop.transforms.set_knob import set_knob, unset_knob

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts


def outcome_for(finding: Finding, facts: ProjectFacts) -> Outcome:
    """What the finding's fix does to the repository; the patch says why in the fix's words."""
    if finding.fix is None:
        return Refused("there is no mechanical fix")
    if finding.fix.safety is Safety.NEVER:
        return Refused("advice only: it would change the model or the data")
    job = _job(finding, facts)
    if job is None:
        return Refused("the finding belongs to no job")
    recipe = recipes().get(finding.fix.transform)
    if recipe is not None:
        outcome = _by_recipe(recipe, finding, finding.fix, job, facts)
    else:
        outcome = change_of(finding.fix, job, facts, finding.deciding)
    if isinstance(outcome, Changed):
        return Changed(dataclasses.replace(outcome.patch, why=finding.fix.text))
    return outcome


def _by_recipe(
    recipe: Recipe, finding: Finding, fix: Fix, job: TrainingJob, facts: ProjectFacts
) -> Outcome:
    at = finding.primary
    module = facts.module(at.path)
    if module is None:
        return Refused(f"{at.path} cannot be read")
    return recipe.apply(
        module.file,
        fix.args,
        versions=facts.versions,
        hardware=job.hardware,
        at=at.span,
        module=module,
    )


def change_of(
    fix: Fix, job: TrainingJob, facts: ProjectFacts, deciding: Setting | None = None
) -> Outcome:
    """What a fix of settings does to a job; `deciding` is the one to change of several."""
    knob = fix.args.get("knob")
    if not isinstance(knob, str):
        return Refused(f"the fix {fix.transform} names no knob")
    at = deciding if deciding is not None and deciding.knob == knob else None
    if fix.transform == "set_knob":
        return set_knob(job, knob, fix.args.get("value"), facts, at)
    if fix.transform == "unset_knob":
        return unset_knob(job, knob, facts, at)
    return Refused(f"there is no transform called {fix.transform}")


def _job(finding: Finding, facts: ProjectFacts) -> TrainingJob | None:
    """The first of the finding's jobs, else the one that has the deciding setting."""
    for job in facts.jobs:
        if job.id in finding.jobs:
            return job
    for job in facts.jobs:
        found = job.settings.get(finding.knob or "", ())
        if finding.deciding in found or finding.primary.path in job.files:
            return job
    return None
