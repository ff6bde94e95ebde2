"""Writes the reports of an optimization, after every step, so that a killed one has them too."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pitstop.bot.optimize import plots
from pitstop.bot.optimize.record import Record, write_text
from pitstop.bot.optimize.summary import KEPT, summarise
from pitstop.bot.render import render

if TYPE_CHECKING:
    from pitstop.bot.optimize.session import Session

SUMMARY = "final_optimization-summary"

_WHAT = {
    "meta.md": "the project, the command and the steps",
    "state.json": "the record that everything here is rendered from",
    "original_checksums.txt": "sha256 of every file of the original",
    f"{SUMMARY}.md": "this summary",
    f"{SUMMARY}.html": "this summary with figures",
    "static-analysis-report.md": "the audit of the project with scores",
}
_ENDINGS = {
    "pytorch-profiler-report.md": "profile",
    "nsight-systems-report.md": "Nsight Systems",
    "system-resources-report.md": "machine and what the run used of it",
    "bottleneck-analysis.md": "bottlenecks and plan",
    "optimization-changes.md": "changes of the round",
    "optimization-report.md": "audit of the framework's settings",
    "training-acceleration-audit-report.md": "audit",
}


def write_reports(session: Session) -> None:
    """Render what there is so far. A disk that is full is noted in the record, not raised."""
    record, reports = session.record, session.work.reports
    texts = {
        "meta.md": render("run/meta.md.j2", facts=_meta(record), steps=_steps(record)),
        f"{SUMMARY}.md": summary_of(session),
        **dict(_changes(record)),
    }
    if record.finished:
        figures = _figures(record, session.work.runs)
        texts |= {f"{name}.svg": svg for name, svg in figures.items()}
        texts[f"{SUMMARY}.html"] = _page(str(texts[f"{SUMMARY}.md"]), figures)
    for name, text in texts.items():
        try:
            write_text(reports / name, str(text))
        except OSError as error:
            record.unwritten = f"{reports / name}: {error.strerror}"


def summary_of(session: Session) -> str:
    """The summary as Markdown, whether or not there is room for it on the disk."""
    record = session.record
    steps = [asdict(step) for step in record.steps]
    summary = summarise(record.facts, steps, finished=record.finished)
    index = list(_index(session.work.reports))
    return str(render("run/summary.md.j2", s=summary, index=index, figures=_mermaid(record)))


def _meta(record: Record) -> list[tuple[str, str]]:
    names = ("project", "command", "run_command", "goal", "runner", "frameworks", "node_class")
    found = [(name.replace("_", " "), record.facts.get(name)) for name in names]
    return [
        (name, ", ".join(value) if isinstance(value, list) else str(value))
        for name, value in found
        if value
    ]


def _steps(record: Record) -> list[tuple[str, str, str, str]]:
    return [
        (f"{step.state} {step.number}", f"{step.seconds:.1f}", step.result, step.reason)
        for step in record.steps
    ]


def _index(reports: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(reports.glob("*.*")):
        what = _WHAT.get(path.name) or next(
            (text for ending, text in _ENDINGS.items() if path.name.endswith(ending)), ""
        )
        if what:
            yield path.name, what


def _changes(record: Record) -> Iterator[tuple[str, str]]:
    """One page for each round: every change with its difference."""
    rounds: dict[int, list[dict[str, Any]]] = {}
    for one in record.facts.get("tried", ()):
        rounds.setdefault(one["round"], []).append(one)
    for number, tried in rounds.items():
        shown = [{**one, "outcome": str(one["outcome"])} for one in tried]
        page = render("run/changes.md.j2", number=number, tried=shown)
        yield f"v{number}_optimization-changes.md", page


def _mermaid(record: Record) -> str:
    return ""


# --- figures ----------------------------------------------------------------------------------


def _figures(record: Record, runs: Path) -> dict[str, str]:
    """The figures that the stored runs give, by file name."""
    found: dict[str, str] = {}
    final = record.facts.get("final")
    tried = record.facts.get("tried", ())
    if final:
        names = final.get("runs", ())
        before = _values(runs, names[0::2], "step_seconds")
        after = _values(runs, names[1::2], "step_seconds")
        found["step-times"] = plots.spread(
            "Step time",
            "ms",
            [
                plots.Series("before", tuple(1e3 * v for v in before), plots.BEFORE),
                plots.Series("after", tuple(1e3 * v for v in after), plots.AFTER),
            ],
        )
        parity = final.get("parity", {})
        if parity.get("before") and parity.get("after"):
            found["losses"] = plots.lines(
                "Loss from one seed",
                "loss",
                [
                    plots.Series("before", tuple(parity["before"]), plots.BEFORE),
                    plots.Series("after", tuple(parity["after"]), plots.AFTER),
                ],
            )
    effects = list(_effects(tried))
    if effects:
        found["changes"] = plots.bars("Effect of each change alone", "speed-up", effects, 1.0)
    return found


def _effects(tried: Any) -> Iterator[plots.Bar]:
    for one in tried:
        found = one.get("comparison", {})
        if "speed_low" in found and "speed_high" in found:
            colour = plots.AFTER if one["outcome"] == KEPT else plots.DROPPED
            by = found.get("speed_by", found["speed_low"])
            yield plots.Bar(
                one["title"], found["speed_low"], found["speed_high"], f"{by:.2f}x", colour
            )


def _values(runs: Path, names: Any, key: str) -> list[float]:
    found: list[float] = []
    for name in names:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            data: Mapping[str, Any] = json.loads((runs / str(name)).read_text("utf-8"))
            found += [float(value) for value in data[key]]
    return found


def _page(markdown: str, figures: Mapping[str, str]) -> str:
    """One HTML file with everything in it."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    shown = "".join(f"<figure>{svg}</figure>" for svg in figures.values())
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        " style-src 'unsafe-inline'\"><title>Optimization summary</title>"
        "<style>:root{color-scheme:light dark}body{font:15px/1.55 system-ui,sans-serif;max-width:"
        "60rem;margin:2rem auto;padding:0 1rem}table{border-collapse:collapse;display:block;"
        "overflow-x:auto}td,th{border:1px solid #8884;padding:.3rem .6rem;text-align:left}"
        "pre{overflow:auto;padding:.8rem;background:#8881;border-radius:6px}figure{margin:1.5rem 0}"
        f"</style>{shown}{body}</html>\n"
    )
