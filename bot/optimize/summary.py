"""The optimization in words and figures: everything comes from the stored record, nothing is
worked out in a template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Facts = Mapping[str, Any]

KEPT = "kept"

WORDS = {
    "not faster": "not faster",
    "within noise": "within noise",
    "not leaner": "takes more memory",
    "other training": "trains otherwise",
    "failed": "does not run",
    "refused": "cannot be made exactly",
    "already so": "already so",
    "running": "was interrupted",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A metric before and after."""

    metric: str
    before: str
    after: str
    change: str


@dataclass(frozen=True, slots=True)
class Summary:
    """What the final report says, each part ready to be shown. Empty parts are left out."""

    verdict: str
    project: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    kept: tuple[tuple[str, ...], ...]
    dropped: tuple[tuple[str, ...], ...]
    not_tried: tuple[tuple[str, str, str], ...]
    bottlenecks: tuple[tuple[str, ...], ...]
    not_verified: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]
    integrity: str
    command_before: str
    command_after: str
    diff: str
    log: str
    finished: bool


def summarise(facts: Facts, steps: Sequence[Mapping[str, Any]], *, finished: bool) -> Summary:
    """The report of a record, whole or broken off at any point."""
    tried = facts.get("tried", [])
    kept = [one for one in tried if one["outcome"] == KEPT]
    return Summary(
        verdict=verdict(facts, steps, finished=finished),
        project=_project(facts),
        rows=_rows(facts),
        kept=tuple(_kept(n, one) for n, one in enumerate(kept, 1)),
        dropped=tuple(_dropped(n, one) for n, one in enumerate(_not_kept(tried), 1)),
        not_tried=tuple(
            (name, one["title"], one["why"])
            for name, one in sorted(facts.get("not_tried", {}).items())
        ),
        bottlenecks=tuple(_bottleneck(n, b) for n, b in enumerate(facts.get("bottlenecks", ()), 1)),
        not_verified=tuple(_not_verified(facts)),
        skipped=tuple(
            (step["state"], step["reason"] or "no reason was recorded")
            for step in steps
            if step["result"] in ("failed", "skipped")
        ),
        integrity=_integrity(facts),
        command_before=str(facts.get("command", "")),
        command_after=str(facts.get("new_command", facts.get("command", ""))),
        diff=str(facts.get("diff", "")),
        log=str(facts.get("baseline_log", "")),
        finished=finished,
    )


def verdict(facts: Facts, steps: Sequence[Mapping[str, Any]] = (), *, finished: bool = True) -> str:
    """One sentence: what came of it."""
    if not finished:
        return "This optimization has not finished; what follows is what was known so far."
    if facts.get("bug"):
        return f"Stopped by an error of Pitstop itself: {facts['bug']}."
    kept = sum(one["outcome"] == KEPT for one in facts.get("tried", ()))
    final = facts.get("final")
    stop = f" It was stopped early: {facts['stopped']}." if facts.get("stopped") else ""
    if final and kept:
        likely = "Likely " if facts.get("quick") else ""
        return f"{likely}{final['speed_text']} with {_count(kept, 'change')}.{stop}"
    if kept:
        return f"{_count(kept, 'change')} kept, each measured alone; the whole was not.{stop}"
    if facts.get("steps") and not facts.get("tried"):
        return f"No change was tried: nothing was found that applies to this job.{stop}"
    if facts.get("steps"):
        return f"No significant gain: nothing that was tried is kept.{stop}"
    why = next((step["reason"] for step in steps if step["result"] == "failed"), "")
    said = f": {why.rstrip('.')}" if why else ""
    return f"Nothing was measured, so nothing is proposed{said}.{stop}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _project(facts: Facts) -> tuple[tuple[str, str], ...]:
    seconds = facts.get("ended_at", 0) - facts.get("started", 0) if "ended_at" in facts else None
    found = (
        ("Project", facts.get("project")),
        ("Launch command", facts.get("command")),
        ("Run as", facts.get("run_command")),
        ("Goal", facts.get("goal")),
        ("Framework", ", ".join(facts.get("frameworks", ())) or None),
        ("Model", facts.get("model")),
        ("Runner", facts.get("runner")),
        ("Machine", facts.get("machine")),
        ("Software", facts.get("software")),
        ("Steps of a timed run", facts.get("steps")),
        ("Rounds", max((one["round"] for one in facts.get("tried", ())), default=None)),
        ("Minutes", f"{seconds / 60:.1f}" if seconds else None),
        ("Ended because", facts.get("ended")),
        ("Start", facts.get("start")),
    )
    return tuple((name, str(value)) for name, value in found if value not in (None, ""))


def _rows(facts: Facts) -> tuple[Row, ...]:
    """The start against the end, from the final comparison's own runs."""
    rows = facts.get("rows", ())
    return tuple(
        Row(*(str(row[k]) for k in ("metric", "before", "after", "change"))) for row in rows
    )


def _kept(number: int, one: Mapping[str, Any]) -> tuple[str, ...]:
    found = one.get("comparison", {})
    return (
        str(number),
        one["id"],
        _title(one),
        str(one["round"]),
        str(found.get("speed_text") or one["reason"]),
        str(found.get("parity", {}).get("text", "")),
        one["numerics"],
    )


def _title(one: Mapping[str, Any]) -> str:
    """What the change is, with what had to be changed for it to run."""
    repairs = "; ".join(one.get("repairs", ()))
    return f"{one['title']} (repaired: {repairs})" if repairs else str(one["title"])


def _dropped(number: int, one: Mapping[str, Any]) -> tuple[str, ...]:
    word = WORDS.get(one["outcome"], one["outcome"])
    return (str(number), one["id"], _title(one), str(one["round"]), word, one["reason"])


def _not_kept(tried: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for one in tried if one["outcome"] != KEPT]


def _bottleneck(number: int, one: Mapping[str, Any]) -> tuple[str, ...]:
    share = one.get("share")
    return (
        str(number),
        str(one.get("kind", "")),
        str(one.get("severity", "")),
        "" if share is None else f"{share:.0%}",
        "; ".join(str(line) for line in one.get("evidence", ())),
    )


def _not_verified(facts: Facts) -> Iterable[str]:
    nodes = facts.get("nodes", 1)
    if nodes and nodes > 1:
        yield (
            f"The job was started for {nodes} nodes and measured on one: what depends on the"
            " network between nodes, and the memory saved by sharding over all of them, is not"
            " verified here."
        )
    if facts.get("node_class") == "B":
        yield (
            "The command has to be started on each node by hand. `srun`, `mpirun` or `pdsh` around"
            " it, or a DeepSpeed hostfile, starts all nodes at once."
        )
    yield (
        "Losses were compared over the first steps from one seed. That says that training starts"
        " the same, not that it converges the same."
    )
    if facts.get("linked"):
        yield "Data files were linked, not copied: nothing stopped the job from writing through."


def _integrity(facts: Facts) -> str:
    found = facts.get("integrity")
    if not found or not found.get("checked"):
        return "not checked: the project was never copied"
    changed = found["changed"]
    if changed:
        return "DIFFERS from before: " + "; ".join(changed[:20])
    return "unchanged: every file has the checksum that it had before"
