"""What could be tried next: fixes of findings and rows of the plans, in the order worth trying."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pitstop.bot.optimize.arms import LAUNCH
from pitstop.bot.optimize.numerics import numerics_of
from pitstop.rules.engine import all_rules, audit
from pitstop.rules.facts import ProjectFacts, gather
from pitstop.rules.finding import Finding, Safety, Severity
from pitstop.rules.job import HardwareFacts, TrainingJob
from pitstop.rules.tree import RepoTree
from pitstop.transforms.fixes import outcome_for
from pitstop.transforms.patch import Changed, Outcome, Patch, Refused, apply_patches
from pitstop.transforms.plans import candidates
from pitstop.transforms.recipe import Numerics

SEMANTICS = Numerics.SEMANTICS.value
_EXCHANGE = "communication"
"""Category of rules about what processes exchange."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One change to try: `make` works it out on the project as it then is.

    `numerics` is its class (exact, equivalent, precision, semantics), `answers` the bottlenecks
    that it is for, `rank` sorts (lower first), `knob` what it sets, if it is one setting.
    `variants` are the same change with other values, of which short runs choose one. With
    `several_processes` it is about what they exchange; with `opt_in` a person must name it.
    """

    id: str
    title: str
    why: str
    numerics: str
    answers: tuple[str, ...]
    rank: tuple[float, ...]
    make: Callable[[], Outcome]
    knob: str | None = None
    source: str = "plan"
    several_processes: bool = False
    variants: tuple[tuple[str, Callable[[], Outcome]], ...] = ()
    opt_in: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """The project as it is at one commit, read as the audit reads it, for the launch's job."""

    facts: ProjectFacts
    job: TrainingJob
    findings: tuple[Finding, ...]


def read_project(tree: RepoTree, hardware: HardwareFacts | None, goal: str) -> Reading:
    """Read the copy and judge the job that its launch script starts.

    Raises UserError when the command starts no training job.
    """
    facts = gather(tree, launch=f"bash {LAUNCH}", hardware=hardware)
    found = audit(facts, goal=goal).findings
    return Reading(facts, facts.jobs[0], found)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the person wants tried, and what not. `processes` are the job's (0: not known)."""

    only: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    processes: int = 0

    def reject(self, proposal: Proposal) -> str | None:
        """Why a proposal is not tried, or None."""
        if self.only and not _named(proposal.id, self.only):
            return "not among those asked for"
        if _named(proposal.id, self.disable):
            return "disabled"
        if proposal.several_processes and self.processes == 1:
            return "is about what several processes exchange; the job runs one"
        if proposal.numerics == SEMANTICS and not _named(proposal.id, self.allow):
            return f"changes the training itself; `--allow {proposal.id}` tries it"
        if proposal.opt_in and not _named(proposal.id, (*self.allow, *self.only)):
            return f"is only tried when it is named; `--allow {proposal.id}` tries it"
        return None


def _named(identity: str, names: Collection[str]) -> bool:
    return any(identity.lower() == name.lower() for name in names)


def propose(reading: Reading, bottlenecks: Mapping[str, float]) -> tuple[Proposal, ...]:
    """Every change that applies to the project now, best first.

    `bottlenecks` maps a kind to the share of step time that could be won. A change that answers
    none of them comes after those that do; of two that make the same edit the first stays.
    """
    found = sorted(
        (*_of_findings(reading, bottlenecks), *_of_plans(reading, bottlenecks)),
        key=lambda proposal: (proposal.rank, proposal.id),
    )
    kept: dict[object, Proposal] = {}
    for proposal in found:
        kept.setdefault(_key(proposal), proposal)
    return tuple(kept.values())


def _key(proposal: Proposal) -> object:
    outcome = proposal.make()
    if isinstance(outcome, Changed):
        return (outcome.patch.edits, outcome.patch.new_files)
    return proposal.id


_CLASS_RANK = {"exact": 0.0, "equivalent": 1.0, "precision": 2.0, SEMANTICS: 3.0}


def _of_findings(reading: Reading, bottlenecks: Mapping[str, float]) -> Iterator[Proposal]:
    """All findings of one rule are one change: they have one cause and one cure."""
    grouped: dict[str, list[Finding]] = {}
    for finding in reading.findings:
        if finding.fix is not None and finding.fix.safety is not Safety.NEVER:
            grouped.setdefault(finding.rule, []).append(finding)
    for rule, findings in grouped.items():
        first = findings[0]
        fix = first.fix
        if fix is None:
            continue
        knob = fix.args.get("knob")
        numerics = numerics_of(fix).value
        gain = {Severity.CRITICAL: 0.3, Severity.WARNING: 0.15}.get(first.severity, 0.05)
        yield Proposal(
            rule,
            first.title,
            first.message,
            numerics,
            (),
            (-gain, _CLASS_RANK[numerics]),
            lambda found=tuple(findings): _together(found, reading),  # type: ignore[misc]
            knob if isinstance(knob, str) else None,
            "finding",
            several_processes=_about_exchange(rule),
        )


def _about_exchange(rule: str) -> bool:
    return any(info.id == rule and info.category == _EXCHANGE for info in all_rules())


def _together(findings: Iterable[Finding], reading: Reading) -> Outcome:
    """The fixes of several findings as one change; a refusal only when none can be made."""
    patches: list[Patch] = []
    refused: Outcome = Refused("no change is needed")
    for finding in findings:
        outcome = outcome_for(finding, reading.facts)
        if isinstance(outcome, Changed):
            patches.append(outcome.patch)
        else:
            refused = outcome
    if not patches:
        return refused
    edits = tuple(dict.fromkeys(edit for patch in patches for edit in patch.edits))
    files = tuple(dict.fromkeys(file for patch in patches for file in patch.new_files))
    return Changed(Patch(edits, patches[0].why, files))


def _of_plans(reading: Reading, bottlenecks: Mapping[str, float]) -> Iterator[Proposal]:
    for one in candidates(reading.job, reading.facts, tuple(bottlenecks)):
        gain = max((bottlenecks.get(kind, 0.0) for kind in one.answers), default=0.0)
        yield Proposal(
            one.id,
            one.title,
            one.why,
            str(one.numerics),
            tuple(one.answers),
            (-gain, _CLASS_RANK[str(one.numerics)], float(one.order)),
            one.outcome,
            one.knob,
            source="plan",
            several_processes=one.several_processes,
            variants=one.variants,
            opt_in=one.opt_in,
        )


def new_texts(reading: Reading, outcome: Changed) -> dict[str, str]:
    """The texts of the files that a change touches. Raises StaleEditError (our bug)."""
    texts, dropped = apply_patches(reading.facts.tree, [outcome.patch])
    if dropped:
        raise RuntimeError(dropped[0][1])
    return texts
