"""`pitstop audit --report DIR`: the whole audit as documents, scores and advice included.

`static-analysis-report.md` is the main one; each scorecard has its own with every item. All are
rendered from the data of `static-analysis-report.json`.
"""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pitstop.bot import wire
from pitstop.bot.estimate_words import gib_range
from pitstop.bot.language import Translate, texts
from pitstop.bot.markdown import fenced
from pitstop.bot.render import render
from pitstop.bot.report import Report, ReportedFinding
from pitstop.bot.wording import cited
from pitstop.rules.finding import Finding, Priority, Safety, UserError
from pitstop.rules.job import TrainingJob
from pitstop.rules.scoring import Mark, Score, scores

MAIN = "static-analysis-report"
FIRST = "v0_"  # the project as it was found; rounds of an optimization count from 1
MOST_JOBS = 20
"""Jobs that are described one by one; the others are counted."""

DEPENDS = "depends on the actual hardware"
PRIORITIES = {
    Priority.HIGH: "High: over 30 %, or needed for scale",
    Priority.MEDIUM: "Medium: 10 to 30 %",
    Priority.LOW: "Low: under 10 %",
}
SIGNS = {
    Mark.USED: "✓",
    Mark.PARTIAL: "◐",
    Mark.UNUSED: "✗",
    Mark.NOT_APPLICABLE: "○",
    Mark.UNKNOWN: "?",
}


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommendation: findings of one rule with the same change, `places` where they stand."""

    rule: str
    title: str
    priority: str
    state: str
    places: tuple[str, ...]
    action: str
    effect: str
    source: str
    difficulty: str
    leave_when: str
    diff: str = ""


@dataclass(frozen=True, slots=True)
class JobLine:
    """One job in the tables. Empty texts are not known."""

    job: str
    model: str
    gpu: str
    gpus: str
    attention: str
    attention_advice: str
    sharding: str
    memory: str
    verdict: str
    choices: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StaticReport:
    """Everything the documents say."""

    project: str
    command: str
    goal: str
    version: str
    made: str
    revision: str
    frameworks: tuple[str, ...]
    models: tuple[str, ...]
    hardware: str
    bottleneck: str
    job_count: int
    jobs: tuple[JobLine, ...]
    scores: tuple[Score, ...]
    advice: tuple[Advice, ...]
    unread: tuple[str, ...]


def write(report: Report, project: Path, folder: Path, *, goal: str, command: str = "",
          language: str = "en") -> tuple[Path, ...]:  # fmt: skip
    """Write the documents; their paths. Raises UserError where the folder cannot be written."""
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes")
    found = static_report(report, project.resolve().name, goal=goal, command=command, made=made)
    pages = documents(found, texts(language))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (folder / name).write_text(text, "utf-8", errors="backslashreplace")
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be written ({error.strerror}); give another folder to --report."
        ) from error
    return tuple(folder / name for name in pages)


def documents(found: StaticReport, say: Translate) -> Mapping[str, str]:
    """Every document by its file name."""
    cards = {f"{FIRST}{score.file}-report.md": score for score in found.scores}
    main = render(
        "static_report.md.j2",
        found=found,
        say=say,
        priorities=[
            (say(title), [_shown(one, say) for one in found.advice if one.priority == priority])
            for priority, title in PRIORITIES.items()
        ],
        scores=[(score, _key_findings(score, say)) for score in found.scores],
        files=[f"{MAIN}.md", f"{MAIN}.json", *cards],
    )
    pages = {f"{MAIN}.md": str(main)}
    for name, score in cards.items():
        pages[name] = str(_card(found, score, say))
    pages[f"{MAIN}.json"] = json.dumps(wire.encode(found), indent=1) + "\n"
    return pages


def _card(found: StaticReport, score: Score, say: Translate) -> str:
    return render(
        "scorecard.md.j2",
        found=found,
        score=score,
        say=say,
        signs=SIGNS,
        first=[_shown(one, say) for one in found.advice[:3] if one.diff],
        keys=_key_findings(score, say),
    )


def _shown(one: Advice, say: Translate) -> dict[str, Any]:
    return {
        "head": f"{one.rule} {say(one.title)}",
        "one": one,
        "source": cited(one.rule, one.source),
        "difficulty": say(one.difficulty),
        "change": fenced(one.diff, "diff") if one.diff else None,
    }


def _key_findings(score: Score, say: Translate) -> dict[str, str]:
    """For each category the first thing that is missing, else what is used."""
    found = {}
    for category in score.categories:
        by_mark = {
            mark: [say(one.title) for one in category.marks if one.mark is mark]
            for mark in (Mark.UNUSED, Mark.PARTIAL, Mark.USED)
        }
        found[category.key] = next(
            (f"{say(mark)}: {', '.join(titles[:3])}" for mark, titles in by_mark.items() if titles),
            "",
        )
    return found


# --- the data --------------------------------------------------------------------------------


def static_report(
    report: Report, project: str, *, goal: str, command: str, made: str
) -> StaticReport:
    """What the documents say, from an audit."""
    findings = tuple(one.finding for one in report.findings)
    gpus = sorted({job.hardware.gpu for job in report.jobs if job.hardware.gpu})
    return StaticReport(
        project=project,
        command=command,
        goal=goal,
        version=report.version,
        made=made,
        revision=report.revision or "",
        frameworks=tuple(_frameworks(report.jobs)),
        models=tuple(_models(report.jobs)),
        hardware=", ".join(gpus) or f"unknown: {DEPENDS}",
        bottleneck=bottleneck(findings),
        job_count=len(report.jobs),
        jobs=tuple(_job_line(job) for job in report.jobs[:MOST_JOBS]),
        scores=scores(report.jobs, findings),
        advice=tuple(_advice(report.findings)),
        unread=tuple(
            f"{one.path}{f':{one.line}' if one.line else ''}: {one.reason}" for one in report.unread
        ),
    )


def _frameworks(jobs: Iterable[TrainingJob]) -> Iterator[str]:
    """Each framework once, with what showed it."""
    seen: dict[str, str] = {}
    for job in jobs:
        for use in job.frameworks:
            seen.setdefault(use.name, use.evidence)
    for name, evidence in seen.items():
        yield f"{name} ({evidence})" if evidence else name


def _models(jobs: Iterable[TrainingJob]) -> Iterator[str]:
    counted = Counter(
        (
            job.model.name or job.model.family or "unknown",
            job.model.kind or "unknown kind",
            job.model.parameters,
        )
        for job in jobs
    )
    for (name, kind, parameters), _ in counted.most_common(5):
        size = f", {parameters / 1e9:.2f} B parameters" if parameters else ""
        yield f"{name} ({kind}{size})"


_CLASSES = (
    ("data and I/O", ("GEN-F", "HF-F01", "LF-H07", "SW-H01", "VX-G01")),
    ("latency of launches and waits", ("GEN-K", "GEN-C07")),
    ("communication", ("GEN-E", "GEN-A01")),
    ("compute", ("GEN-C01", "GEN-D01", "HF-A01", "LF-B01", "VX-A01")),
)


def bottleneck(findings: Iterable[Finding]) -> str:
    """A first guess of what holds the jobs up: the class with the gravest findings, where it
    stands out; nothing was run."""
    weight: Counter[str] = Counter()
    for finding in findings:
        for name, rules in _CLASSES:
            if finding.rule.startswith(rules) and finding.priority is Priority.HIGH:
                weight[name] += 1
    ranked = weight.most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return "needs a profile"
    return f"{ranked[0][0]} (a guess from the settings; a profile decides)"


def _advice(reported: Iterable[ReportedFinding]) -> Iterator[Advice]:
    """Findings of one rule and change together, in the report's order."""
    groups: dict[tuple[str, str, str], list[ReportedFinding]] = {}
    for one in reported:
        finding = one.finding
        key = (finding.rule, finding.message, finding.fix.text if finding.fix else "")
        groups.setdefault(key, []).append(one)
    for group in groups.values():
        first = group[0].finding
        yield Advice(
            rule=first.rule,
            title=first.title,
            priority=first.priority.value,
            state=first.message,
            places=tuple(f"{one.finding.primary.path}:{one.finding.primary.line}" for one in group),
            action=first.fix.text if first.fix else first.advice,
            effect=first.cost,
            source=first.source,
            difficulty=_difficulty(group[0]),
            leave_when=first.leave_when,
            diff=group[0].diff,
        )


def _difficulty(one: ReportedFinding) -> str:
    fix = one.finding.fix
    if one.diff and fix is not None:
        return "low" if fix.safety is Safety.SAFE else "medium"
    in_code = one.finding.deciding is None and one.finding.primary.path.endswith(".py")
    return "high" if in_code else "medium"


def _job_line(job: TrainingJob) -> JobLine:
    from pitstop.bot.estimate import job_estimate

    found = job_estimate(job)
    stage = job.value("sharding.stage")
    parts = [str(job.value("parallel.strategy") or "unknown")]
    if stage:
        parts.append(f"ZeRO stage {stage}")
    for knob in ("sharding.offload_optimizer", "sharding.offload_params"):
        if job.value(knob) in ("cpu", "nvme"):
            parts.append(f"{knob.rpartition('_')[2]} on {job.value(knob)}")
    return JobLine(
        job=job.id,
        model=job.model.name or "unknown",
        gpu=job.hardware.gpu or "unknown",
        gpus=str(found.gpus or "unknown"),
        attention=str(job.value("attention.backend") or "unknown"),
        attention_advice=attention_for(job.hardware.capability),
        sharding=", ".join(parts),
        memory=f"{gib_range(found.total)} GiB" if found.total else "unknown",
        verdict=found.verdict or "unknown",
        choices=tuple(
            f"{', '.join(choice.changes)} ({gib_range(choice.memory)} GiB)"
            for choice in found.choices
        ),
        missing=(*found.reasons, *found.missing),
    )


def attention_for(capability: tuple[int, int] | None) -> str:
    """Which attention kernels a GPU runs. FlashAttention 2 needs compute capability 8.0, version
    3 is written for 9.0 (https://github.com/Dao-AILab/flash-attention)."""
    if capability is None:
        return f"{DEPENDS}: FlashAttention 2 from sm80, FlashAttention 3 on sm90, else SDPA"
    if capability == (9, 0):
        return "FlashAttention 3 where the framework takes it, else 2"
    if capability >= (10, 0):
        return "SDPA, whose cuDNN and FlashAttention kernels know this GPU"
    if capability >= (8, 0):
        return "FlashAttention 2, or SDPA where masks are none"
    return "SDPA: FlashAttention 2 does not run on this GPU"
