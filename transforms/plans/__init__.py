"""What may be tried on a job beyond the fixes of findings, as data, best first.

A table (`<name>.yaml` beside this file) holds rows for the frameworks that it names, or for every
job. A row sets a knob, removes its setting, runs a recipe or creates a configuration file; what
its change may do to the numbers, which bottlenecks it answers and when it applies stand beside it.
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pitstop.rules.conditions import Case, Condition
from pitstop.rules.data import load_data
from pitstop.rules.facts import ProjectFacts
from pitstop.rules.finding import Fix, Safety, Scalar
from pitstop.rules.frameworks import frameworks
from pitstop.rules.job import TrainingJob
from pitstop.rules.knobs import knobs
from pitstop.rules.pysource import PyModule
from pitstop.rules.row_reader import read_condition
from pitstop.transforms.creations import creations
from pitstop.transforms.edit_dependencies import require
from pitstop.transforms.fixes import change_of
from pitstop.transforms.patch import Changed, Outcome, Patch, Refused
from pitstop.transforms.recipe import Numerics, Recipe, recipes

BOTTLENECKS = frozenset(
    {"DATA", "LAUNCH", "SYNC", "COMM", "STRAGGLER", "PRECISION", "TENSOR_CORE_SHAPE", "ATTENTION"}
    | {"ELEMENTWISE", "LOSS_HEAD", "LAYOUT", "OPTIMIZER", "H2D", "OFFLOAD", "MEMORY_PRESSURE"}
    | {"MEMORY_HEADROOM", "RECOMPUTE", "COMPILE_CHURN", "PADDING", "CHECKPOINT_IO", "COMPUTE_BOUND"}
    | {"GENERATION"}
)
"""Kinds that a diagnosis may name, now or later; GENERATION is rollouts of reinforcement learning
and serving, which have no step to be measured in."""

TIERS = ("P0", "P1", "P2")
"""What nearly every job should have, what often helps, what helps some."""

_FIELDS = frozenset(
    {"id", "tier", "title", "why", "class", "answers", "items", "when", "conflicts", "opt_in"}
    | {"set", "unset", "recipe", "create", "search", "package"}
    | {"only_when_asked", "several_processes", "capability_below"}
)
_CHANGES = ("set", "unset", "recipe", "create")
_NOTHING: Mapping[str, Scalar] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One row: a change and when it is worth a try.

    `change` names a transform ("set_knob", "unset_knob", a recipe, a creation) and `args` are its
    arguments. `answers` are the bottlenecks that it is for, `items` ids of the catalogues. Every
    part of `when` must hold, none of `conflicts` may. `opt_in`: only when a person names it.
    `only_when_asked`: it costs time to save memory, so only a bottleneck of its own calls for it.
    `several_processes`: it is about what they exchange. `search`: an argument of the change and
    the values among which short runs choose. `package` is a requirement that the project is made to
    ask for. `order` is the place among all rows.
    """

    id: str
    tier: str
    title: str
    why: str
    numerics: Numerics
    change: str
    args: Mapping[str, Scalar]
    answers: tuple[str, ...]
    items: tuple[str, ...]
    order: int
    when: tuple[Condition, ...] = ()
    conflicts: tuple[Condition, ...] = ()
    opt_in: bool = False
    only_when_asked: bool = False
    several_processes: bool = False
    search: tuple[str, tuple[Scalar, ...]] | None = None
    package: str | None = None

    def applies(self, case: Case) -> bool:
        """Whether a job is one that the row is about; what cannot be said does not hold."""
        return all(part.holds(case) is True for part in self.when) and not any(
            part.holds(case) is True for part in self.conflicts
        )


@dataclass(frozen=True, slots=True)
class PlanExample:
    """Files of a job, and what each row (by id) makes of them: the old and the new text.
    `launch` is a typed command, `gpu` a key of gpus.yaml."""

    files: Mapping[str, str]
    rows: Mapping[str, tuple[str, str]]
    launch: str | None = None
    gpu: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a file, and those that it takes over from others. `frameworks` are those whose
    jobs it is for (none: every job), `purpose` is train or serve."""

    name: str
    title: str
    frameworks: tuple[str, ...]
    purpose: str
    rows: tuple[PlanRow, ...]
    examples: tuple[PlanExample, ...] = ()

    def is_for(self, job: TrainingJob) -> bool:
        """Whether its rows may apply: the framework that leads the job, or one beside it."""
        if job.purpose != self.purpose:
            return False
        beside = {u.name for u in job.frameworks if frameworks()[u.name].kind != "main"}
        return not self.frameworks or bool({job.framework, *beside} & set(self.frameworks))


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
    opt_in: bool = False
    knob: str | None = None


# --- reading ---------------------------------------------------------------------------------


@functools.cache
def tables() -> tuple[Table, ...]:
    """Every table, by name. Raises ValueError or KeyError where shipped data are malformed."""
    folder = importlib.resources.files("pitstop.transforms.plans")
    names = sorted(f.name for f in folder.iterdir() if f.name.endswith(".yaml"))
    found: list[Table] = []
    taken: list[tuple[str, ...]] = []
    start = 0
    for name in names:
        raw: dict[str, Any] = load_data("pitstop.transforms.plans", name)
        found.append(_table(name.removesuffix(".yaml"), raw, start))
        taken.append(tuple(raw.get("takes", ())))
        start += len(found[-1].rows)
    by_id = {row.id: row for table in found for row in table.rows}
    return tuple(
        replace(table, rows=(*table.rows, *(by_id[name] for name in names)))
        for table, names in zip(found, taken, strict=True)
    )


def plan_rows(framework: str | None = None) -> tuple[PlanRow, ...]:
    """The rows for a framework's jobs, those for every job among them; all rows without one."""
    chosen = [
        t for t in tables() if framework is None or not t.frameworks or framework in t.frameworks
    ]
    found = {row.order: row for t in chosen for row in t.rows}
    return tuple(found[order] for order in sorted(found))


def _table(name: str, raw: Mapping[str, Any], start: int) -> Table:
    rows = tuple(_row(f"plans/{name}.yaml", one, start + i) for i, one in enumerate(raw["rows"]))
    of = tuple(raw.get("frameworks", ()))
    examples = tuple(
        PlanExample(
            one["files"],
            {row: (old, new) for row, (old, new) in one["rows"].items()},
            one.get("launch"),
            one.get("gpu"),
        )
        for one in raw.get("examples", ())
    )
    return Table(name, str(raw["title"]), of, str(raw.get("purpose", "train")), rows, examples)


def _row(file: str, raw: Mapping[str, Any], position: int) -> PlanRow:
    name = f"{file}: {raw.get('id', raw.get('recipe'))}"
    if set(raw) - _FIELDS or sum(key in raw for key in _CHANGES) != 1:
        raise ValueError(f"{name}: malformed row")
    change, args = _change(raw)
    recipe = recipes()[change] if "recipe" in raw else None
    tier = str(raw["tier"])
    row = PlanRow(
        id=str(raw.get("id", change)),
        tier=tier,
        title=str(raw["title"]) if recipe is None else str(raw.get("title", recipe.title)),
        why=str(raw["why"]) if recipe is None else recipe.text.partition("\n\n")[0],
        numerics=Numerics(raw["class"]) if recipe is None else recipe.numerics,
        change=change,
        args=args,
        answers=tuple(raw["answers"]),
        items=tuple(raw.get("items", ())) if recipe is None else recipe.answers,
        order=1000 * TIERS.index(tier) + position,
        when=(*_capability(name, raw), *(read_condition(name, c) for c in raw.get("when", ()))),
        conflicts=tuple(read_condition(name, c) for c in raw.get("conflicts", ())),
        opt_in=bool(raw.get("opt_in", recipe is not None and recipe.opt_in)),
        only_when_asked=bool(raw.get("only_when_asked", False)),
        several_processes=bool(raw.get("several_processes", False)),
        search=_search(raw),
        package=raw.get("package"),
    )
    if set(row.answers) - BOTTLENECKS or (row.numerics is Numerics.SEMANTICS and not row.opt_in):
        raise ValueError(f"{name}: an unknown bottleneck, or another training without the opt-in")
    return row


def _change(raw: Mapping[str, Any]) -> tuple[str, Mapping[str, Scalar]]:
    """The transform and its arguments."""
    if "recipe" in raw:
        return str(raw["recipe"]), _NOTHING
    if "unset" in raw:
        return "unset_knob", {"knob": _knob(raw["unset"])}
    if "set" in raw:
        ((knob, value),) = raw["set"].items()
        return "set_knob", {"knob": _knob(knob), "value": value}
    ((name, args),) = raw["create"].items()
    return str(name), dict(args)


def _knob(name: str) -> str:
    if name not in knobs():
        raise ValueError(f"{name} is no knob")
    return name


def _capability(name: str, raw: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Only for GPUs older than the one that is named (sm80)."""
    if "capability_below" not in raw:
        return ()
    return (read_condition(name, {"gpu.capability": {"less_than": raw["capability_below"]}}),)


def _search(raw: Mapping[str, Any]) -> tuple[str, tuple[Scalar, ...]] | None:
    """For a recipe the argument and its values; for a knob the values."""
    found = raw.get("search")
    if not found:
        return None
    if isinstance(found, list):
        return "value", tuple(found)
    ((argument, values),) = found.items()
    return str(argument), tuple(values)


# --- applying --------------------------------------------------------------------------------


def candidates(
    job: TrainingJob, facts: ProjectFacts, bottlenecks: Collection[str]
) -> tuple[Candidate, ...]:
    """The rows that would change something in the job, in their order."""
    return tuple(_candidates(job, facts, bottlenecks))


def named(
    names: Collection[str], job: TrainingJob, facts: ProjectFacts
) -> Iterator[tuple[PlanRow, Outcome]]:
    """Rows that a person names, of the tables that are for the job, and what they would change.
    To name one is the opt-in; one whose conditions do not hold is refused."""
    case = Case(job, facts.versions)
    for row in _rows_for(job):
        if row.id in names and row.change not in recipes():
            if row.applies(case):
                yield row, _outcome(row, job, facts, _NOTHING)
            else:
                yield row, Refused("the job is not one that it is for")


def _rows_for(job: TrainingJob) -> list[PlanRow]:
    found = {row.order: row for t in tables() if t.is_for(job) for row in t.rows}
    return [found[order] for order in sorted(found)]


def _candidates(
    job: TrainingJob, facts: ProjectFacts, bottlenecks: Collection[str]
) -> Iterator[Candidate]:
    case = Case(job, facts.versions)
    for row in _rows_for(job):
        if row.only_when_asked and not set(row.answers) & set(bottlenecks):
            continue
        if not row.applies(case) or not isinstance(_outcome(row, job, facts, _NOTHING), Changed):
            continue
        knob = row.args.get("knob")
        yield Candidate(
            row.id,
            row.title,
            row.order,
            row.numerics,
            row.answers,
            row.why,
            functools.partial(_outcome, row, job, facts, _NOTHING),
            tuple(_variants(row, job, facts)),
            row.several_processes,
            row.opt_in,
            knob if isinstance(knob, str) else None,
        )


def _variants(
    row: PlanRow, job: TrainingJob, facts: ProjectFacts
) -> Iterator[tuple[str, Callable[[], Outcome]]]:
    argument, values = row.search or ("", ())
    name = row.args.get("knob") if argument == "value" else argument
    for value in values:
        yield f"{name} {value}", functools.partial(_outcome, row, job, facts, {argument: value})


def _outcome(
    row: PlanRow, job: TrainingJob, facts: ProjectFacts, chosen: Mapping[str, Scalar]
) -> Outcome:
    outcome = _change_of(row, job, facts, chosen)
    if row.package is None or not isinstance(outcome, Changed):
        return outcome
    declared = require(row.package, facts)
    if isinstance(declared, Refused):
        return Refused(f"it needs {row.package}, and {declared.reason}")
    if isinstance(declared, Changed):
        patch = outcome.patch
        return Changed(replace(patch, edits=(*patch.edits, *declared.patch.edits)))
    return outcome


def _change_of(
    row: PlanRow, job: TrainingJob, facts: ProjectFacts, chosen: Mapping[str, Scalar]
) -> Outcome:
    args = {**row.args, **chosen}
    recipe = recipes().get(row.change)
    if recipe is not None:
        return _everywhere(recipe, job, facts, args)
    creation = creations().get(row.change)
    if creation is not None:
        return creation(job, facts, **args)
    return change_of(Fix(row.change, args, Safety.VERIFY, row.title), job, facts)


def _everywhere(
    recipe: Recipe, job: TrainingJob, facts: ProjectFacts, args: Mapping[str, Scalar]
) -> Outcome:
    """A recipe over all programs of a job as one change; the first refusal if there is none."""
    patches: list[Patch] = []
    refused: Outcome | None = None
    for path in sorted(job.files):
        module: PyModule | None = facts.module(path)
        if module is None:
            continue
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
