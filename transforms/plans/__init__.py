"""What may be tried on a job beyond the fixes of findings, as data, best first."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pitstop.rules.data import load_data
from pitstop.rules.facts import ProjectFacts
from pitstop.rules.finding import Scalar
from pitstop.rules.job import TrainingJob
from pitstop.rules.pysource import PyModule
from pitstop.transforms.patch import Changed, Outcome, Patch, Refused
from pitstop.transforms.recipe import Numerics, Recipe, recipes


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One row: a recipe, the bottlenecks that it answers (kinds of the diagnosis), its place
    among equals. `only_when_asked`: it costs time to save memory, so only a bottleneck of its own
    calls for it. `several_processes`: it is about what they exchange. `capability_below`: only
    for GPUs older than this. `search`: an argument of the recipe and the values among which short
    runs choose."""

    recipe: str
    order: int
    answers: tuple[str, ...]
    only_when_asked: bool = False
    several_processes: bool = False
    capability_below: tuple[int, int] | None = None
    search: tuple[str, tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change that applies to the job as it is. `outcome` works it out anew; `variants` are the
    same change with each value of its search (none: there is nothing to search)."""

    id: str
    title: str
    order: int
    numerics: Numerics
    answers: tuple[str, ...]
    why: str
    outcome: Callable[[], Outcome]
    variants: tuple[tuple[str, Callable[[], Outcome]], ...] = ()
    several_processes: bool = False


@functools.cache
def plan_rows() -> tuple[PlanRow, ...]:
    """Every row. Raises ValueError or KeyError when the shipped data are malformed (our bug)."""
    data: list[dict[str, Any]] = load_data("pitstop.transforms.plans", "recipes.yaml")
    return tuple(
        PlanRow(
            recipe=recipes()[raw["recipe"]].id,
            order=int(raw["order"]),
            answers=tuple(raw["answers"]),
            only_when_asked=bool(raw.get("only_when_asked", False)),
            several_processes=bool(raw.get("several_processes", False)),
            capability_below=_pair(raw.get("capability_below")),
            search=next(((k, tuple(v)) for k, v in raw.get("search", {}).items()), None),
        )
        for raw in data
    )


def _pair(value: list[int] | None) -> tuple[int, int] | None:
    return (value[0], value[1]) if value else None


def candidates(
    job: TrainingJob, facts: ProjectFacts, bottlenecks: Collection[str]
) -> tuple[Candidate, ...]:
    """The rows that would change something in the job's own programs, in their order."""
    return tuple(_candidates(job, facts, bottlenecks))


def _candidates(
    job: TrainingJob, facts: ProjectFacts, bottlenecks: Collection[str]
) -> Iterator[Candidate]:
    modules = [m for path in sorted(job.files) if (m := facts.module(path)) is not None]
    have = job.hardware.capability
    for row in plan_rows():
        if row.only_when_asked and not set(row.answers) & set(bottlenecks):
            continue
        if row.capability_below and (have is None or have >= row.capability_below):
            continue
        recipe = recipes()[row.recipe]
        make = functools.partial(_applied, recipe, modules, job, facts, {})
        if isinstance(make(), Changed):
            yield Candidate(
                recipe.id,
                recipe.title,
                row.order,
                recipe.numerics,
                row.answers,
                recipe.text.partition("\n\n")[0],
                make,
                tuple(
                    (
                        f"{argument} {value}",
                        functools.partial(_applied, recipe, modules, job, facts, {argument: value}),
                    )
                    for argument, values in ([row.search] if row.search else [])
                    for value in values
                ),
                row.several_processes,
            )


def _applied(
    recipe: Recipe,
    modules: list[PyModule],
    job: TrainingJob,
    facts: ProjectFacts,
    args: Mapping[str, Scalar],
) -> Outcome:
    """A recipe over all programs of a job as one change; the first refusal if there is none."""
    patches: list[Patch] = []
    refused: Outcome | None = None
    for module in modules:
        outcome = recipe.apply(
            module.file, args, versions=facts.versions, hardware=job.hardware, module=module
        )
        if isinstance(outcome, Changed):
            patches.append(outcome.patch)
        elif refused is None and isinstance(outcome, Refused):
            refused = outcome
    if not patches:
        return refused or Refused(f"{recipe.id} finds nothing to change")
    edits = tuple(edit for patch in patches for edit in patch.edits)
    files = tuple(file for patch in patches for file in patch.new_files)
    return Changed(Patch(edits, recipe.title, files))
