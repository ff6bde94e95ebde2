"""A rule of the perf-doctor: words from a table, a trigger from code, one finding for a launch."""

from __future__ import annotations

import functools
import importlib
import math
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pitstop.rules.data import load_data
from pitstop.rules.finding import Confidence, Finding, Location, Priority, Safety, Severity
from pitstop.rules.hardware import find_gpu
from pitstop.rules.job import TrainingJob
from pitstop.rules.memory import GIB
from pitstop.rules.relax.context import Run
from pitstop.rules.rule import RuleInfo, Sections

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts

CATALOGUE = "relax"
ENTRY = "relax/entrypoints/train.py"


@dataclass(frozen=True, slots=True)
class Hit:
    """Why a rule fires: the options that decide, figures for its sentences, and another severity
    where the case has one."""

    options: tuple[str, ...] = ()
    values: Mapping[str, object] = field(default_factory=dict)
    severity: Severity | None = None


Trigger = Callable[[Run], Hit | None]

_TRIGGERS: dict[str, Trigger] = {}


def trigger(identity: str) -> Callable[[Trigger], Trigger]:
    """Marks a function as the trigger of a rule."""

    def mark(function: Trigger) -> Trigger:
        _TRIGGERS[identity] = function
        return function

    return mark


@dataclass(frozen=True, slots=True)
class RelaxRule:
    """One rule. `needs` is static, model or memory: what its trigger has to know; `known_gpu`
    asks for a card that somebody named."""

    info: RuleInfo
    fix: str
    when: Trigger
    needs: str = "static"
    known_gpu: bool = False

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """A finding for every launch of Relax that it fires on."""
        for job in facts.jobs:
            if is_relax(job):
                yield from self.judge(run_of(job, facts))

    def judge(self, run: Run) -> Iterator[Finding]:
        """What it says of one launch: at most one finding."""
        startup = self.info.id.startswith("V-")
        if (run.debug and not startup) or (self.known_gpu and run.gpu_assumed):
            return
        hit = self.when(run)
        place = _place(run, hit) if hit is not None else None
        if hit is None or place is None:
            return
        severity = self._severity(run, hit)
        if severity is None:
            return
        cost, fix = fill(self.info.cost, hit.values), fill(self.fix, hit.values)
        anchor = baseline_words(run, hit)
        note = run.args.note(*hit.options)
        message = f"{_setting(run, hit)}: {self.info.sections.why}"
        if note:
            message += f" Beside it stands: {note[:200]}"
        yield Finding(
            rule=self.info.id,
            name=self.info.name,
            title=self.info.title,
            severity=severity,
            priority=_PRIORITY[severity],
            confidence=self.info.confidence,
            resource=self.info.resource,
            primary=place,
            message=message,
            cost=f"{cost}{f' ({anchor})' if anchor else ''}",
            source=self.info.sources[0],
            leave_when=self.info.sections.leave_when,
            advice=fix,
            jobs=(run.job.id,),
            evidence={
                "setting": _setting(run, hit),
                "anchor": anchor,
                "note": note[:200] if note else "",
                **{f"value {name}": _shown(value) for name, value in hit.values.items()},
            },
        )

    def _severity(self, run: Run, hit: Hit) -> Severity | None:
        """Lowered by a reason beside the option, and by a card that is only assumed."""
        severity = hit.severity or self.info.severity
        if self.needs == "memory" and run.gpu_assumed and severity > Severity.INFO:
            severity = Severity(severity - 1)
        if run.args.note(*hit.options) and severity is not Severity.CRITICAL:
            return None if severity is Severity.INFO else Severity(severity - 1)
        return severity


_PRIORITY = {
    Severity.CRITICAL: Priority.HIGH,
    Severity.WARNING: Priority.MEDIUM,
    Severity.INFO: Priority.LOW,
}


def is_relax(job: TrainingJob) -> bool:
    """Whether a job is a launch of Relax's training."""
    entry = (job.launch.entry or "") if job.launch is not None else ""
    return entry.endswith(ENTRY) or entry == "relax.entrypoints.train"


def run_of(job: TrainingJob, facts: ProjectFacts) -> Run:
    """A launch with the card that somebody named, or the one that upstream assumes."""
    hardware = job.hardware
    if hardware.gpu is None or hardware.memory is None:
        return Run(job, text=_text(job, facts))
    return Run(job, hardware.gpu, hardware.memory / GIB, _text(job, facts))


def on_card(job: TrainingJob, facts: ProjectFacts, gpu: str | None) -> Run:
    """A launch on a card that a person names. Raises ValueError for one that is not known."""
    if gpu is None:
        return run_of(job, facts)
    found = find_gpu(gpu)
    if found is None or found.memory is None:
        raise ValueError(f"the GPU {gpu!r} is not known")
    return Run(job, found.gpu, found.memory / GIB, _text(job, facts))


def _text(job: TrainingJob, facts: ProjectFacts) -> str:
    """The launch script as it is written."""
    file = facts.sources.file(job.launch.location.path) if job.launch is not None else None
    return file.text if file is not None else ""


def _place(run: Run, hit: Hit) -> Location | None:
    given = run.place(*hit.options)
    if given is not None:
        return given.flag.location
    return run.job.launch.location if run.job.launch is not None else None


def _setting(run: Run, hit: Hit) -> str:
    """The options as they are written, or that they are not."""
    shown = []
    for name in hit.options:
        given = run.args.at(name)
        shown.append(given.text[:80] if given is not None else f"no --{name}")
    return ", ".join(shown) or "this launch"


class _Missing(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"


def fill(text: str, values: Mapping[str, object]) -> str:
    """A sentence with its figures; numbers in a readable form."""
    shown = {name: _shown(value) for name, value in values.items()}
    return string.Formatter().vformat(text, (), _Missing(shown))


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0%}" if 0 < value < 1 else f"{value:.1f}"
    return str(value)


# --- baselines --------------------------------------------------------------------------------


@functools.cache
def baselines() -> tuple[Mapping[str, Any], ...]:
    """Launch configurations that are known, as anchors."""
    data: dict[str, Any] = load_data("pitstop.rules.relax", "baselines.yaml")
    return tuple(data["baselines"])


_SCALES = {
    "tensor-model-parallel-size": "tp",
    "pipeline-model-parallel-size": "pp",
    "context-parallel-size": "cp",
    "expert-model-parallel-size": "ep",
    "max-tokens-per-gpu": "tokens",
    "global-batch-size": "batch",
    "sglang-mem-fraction-static": "fraction",
    "rollout-num-gpus-per-engine": "engine",
}


def anchor_of(run: Run) -> Mapping[str, Any] | None:
    """The known configuration of the same model and mode whose GPU count is nearest, at most
    twice or half."""
    gpus = run.total_gpus
    if not gpus:
        return None
    same = [
        row
        for row in baselines()
        if str(row["model"]).lower() == run.model_name.lower()
        and row["mode"] == run.mode
        and 0.5 <= row["gpus"] / gpus <= 2
        and not run.script.endswith(str(row["script"]))
    ]
    return min(same, key=lambda row: abs(math.log2(row["gpus"] / gpus)), default=None)


def baseline_words(run: Run, hit: Hit) -> str:
    """What the nearest known configuration sets, where ours is two steps or more away."""
    row = anchor_of(run)
    if row is None:
        return ""
    said = []
    for option in hit.options:
        key = _SCALES.get(option)
        ours, theirs = run.args.number(option), row.get(key) if key else None
        if ours is None or theirs is None:
            continue
        if key == "fraction":
            steps = abs(ours - theirs) / 0.05
        else:
            steps = abs(math.log2(ours / theirs)) if ours > 0 and theirs > 0 else 0.0
        if steps >= 2:
            said.append(f"{row['script'].rsplit('/', 1)[-1]} sets --{option} {theirs}")
    return "; ".join(said)


# --- the table --------------------------------------------------------------------------------

_SOURCE = "https://github.com/redai-infra/Relax/blob/main/"
_SAFETY = {
    "safe": "safe: the numbers stay.",
    "verify": "verify: check with a short run.",
    "never": "advice: it changes how GPUs are used, so decide it yourself.",
}


@functools.cache
def relax_rules() -> tuple[RelaxRule, ...]:
    """Every rule, by id. Raises KeyError when a row has no trigger (our bug)."""
    for module in ("startup", "rollout_time", "training_time", "memory_use"):
        importlib.import_module(f"pitstop.rules.relax.{module}")
    found = []
    for name, category in (
        ("performance", "performance"),
        ("memory", "memory"),
        ("startup", "start-up"),
    ):
        data: dict[str, Any] = load_data("pitstop.rules.relax", f"{name}.yaml")
        found += [_rule(row, category) for row in data["rules"]]
    return tuple(found)


def _rule(row: Mapping[str, Any], category: str) -> RelaxRule:
    severity = Severity[str(row.get("severity", "critical")).upper()]
    source = str(row["source"])
    why = str(row.get("why", "A launch with this stops, or goes on without it."))
    safety = str(row.get("safety", "never"))
    info = RuleInfo(
        id=row["id"],
        name=row["name"],
        catalogue=CATALOGUE,
        category=category,
        title=row["title"],
        severity=severity,
        priority=_PRIORITY[severity],
        resource={"performance": "time", "memory": "memory"}.get(category, "stability"),
        confidence=Confidence.HIGH if row.get("needs", "static") == "static" else Confidence.MEDIUM,
        safety=Safety.NEVER,
        sections=Sections(
            what=f"{row['title']}, in a launch script of Relax.",
            why=why,
            leave_when=str(row.get("leave") or "There is no such case."),
            fix=str(row["fix"]),
            fix_safety=_SAFETY[safety],
        ),
        cost=str(row["cost"]),
        sources=(source if source.startswith("https") else _SOURCE + source,),
    )
    return RelaxRule(
        info,
        str(row["fix"]),
        _TRIGGERS[row["id"]],
        str(row.get("needs", "static")),
        bool(row.get("known_gpu", False)),
    )
