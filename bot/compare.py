"""`pitstop compare REV1 REV2`: what differs between the jobs of two revisions."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pitstop.bot import wire, worktree
from pitstop.bot.changes import JobChange, job_changes
from pitstop.bot.effects import Effect, effects
from pitstop.bot.estimate_words import told_effects
from pitstop.bot.hardware_options import stated_hardware
from pitstop.bot.text import console, printable
from pitstop.rules import facts
from pitstop.rules.finding import UserError
from pitstop.rules.job import HardwareFacts, TrainingJob
from pitstop.rules.tree import FolderTree, RepoTree


@dataclass(frozen=True, slots=True)
class Comparison:
    """Jobs that differ, and what that does to those that can be sized."""

    changes: tuple[JobChange, ...]
    effects: tuple[Effect, ...]


def run(options: argparse.Namespace) -> int:
    """Compare, print; the exit code."""
    folder: Path = options.path
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; give that of the repository.")
    hardware = stated_hardware(options)
    before = worktree.tree_at(folder, options.before)
    after = FolderTree(folder) if options.after is None else worktree.tree_at(folder, options.after)
    found = compare(_jobs(before, hardware), _jobs(after, hardware))
    if options.format == "json":
        print(json.dumps({"format": 1, "comparison": wire.encode(found)}, indent=1))
    else:
        show(console(sys.stdout), found)
    return 0


def compare(before: Sequence[TrainingJob], after: Sequence[TrainingJob]) -> Comparison:
    """What differs between the jobs of two states."""
    return Comparison(job_changes(before, after), effects(before, after))


def _jobs(tree: RepoTree, hardware: HardwareFacts | None) -> tuple[TrainingJob, ...]:
    return facts.gather(tree, hardware=hardware).jobs


def show(out: Console, found: Comparison) -> None:
    """Print a comparison."""
    if not found.changes:
        out.print("No job is set differently.")
        return
    told = dict(zip((one.job for one in found.effects), told_effects(found.effects), strict=True))
    for change in found.changes:
        out.print(Text.assemble((printable(change.title), "bold"), f"  {change.kind}"))
        out.print(_knobs(change))
        effect = told.get(change.job)
        if effect:
            memory = f"{effect.memory_before} -> {effect.memory_after} GiB per GPU"
            tokens = f"{effect.tokens_before} -> {effect.tokens_after} tokens per step"
            out.print(Text(f"  predicted: {memory}; {tokens}"), soft_wrap=True)
            if effect.consequences:
                out.print(Text(f"  {effect.consequences}", "yellow"), soft_wrap=True)
        out.print()


def _knobs(change: JobChange) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 2), show_header=False)
    for knob in change.knobs:
        where = f"{knob.where.path}:{knob.where.line}" if knob.where else ""
        words = (knob.knob, knob.before or "not set", "->", knob.after or "not set", where)
        table.add_row(*(printable(word) for word in words))
    return table
