"""`pitstop fix PATH`: the fixes of findings, chosen recipes and rows of the plans, written to a
person's files."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pitstop.bot.apply import SnapshotTree, Written, write_patches
from pitstop.bot.audit import AuditedTree, audit_tree
from pitstop.bot.config import read_config
from pitstop.bot.local import config_of, ids, request_of, shown_progress
from pitstop.rules import facts
from pitstop.rules.finding import Safety, UserError
from pitstop.rules.job import HardwareFacts
from pitstop.rules.pysource import PyModule
from pitstop.rules.tree import FolderTree
from pitstop.transforms import plans
from pitstop.transforms.patch import Changed, Outcome, Patch, Refused
from pitstop.transforms.recipe import Recipe, recipes


@dataclass(frozen=True, slots=True)
class Wanted:
    """Something that could be changed: its name and place for a person, and what came of it."""

    name: str
    where: str
    safety: Safety
    outcome: Outcome


def run(options: argparse.Namespace) -> int:
    """Find, write or show, say what was left out. Returns the exit code."""
    folder: Path = options.path
    if folder.is_file():
        raise UserError(f"{folder} is a file; give the folder of the repository.")
    tree = SnapshotTree(FolderTree(folder))
    config = config_of(options.config) if options.config else read_config(tree)
    chosen = [recipes()[word] for word in ids(options.select) if word in recipes()]
    planned = {row.id for row in plans.plan_rows() if row.change not in recipes()}
    rows = [word for word in ids(options.select) if word in planned]
    rules = [word for word in ids(options.select) if word not in {*recipes(), *planned}]
    request = request_of(options, config)
    with shown_progress() as progress:
        found: list[Wanted] = []
        if rules or not (chosen or rows):
            request = dataclasses.replace(request, select=tuple(rules) or config.select)
            report = audit_tree(tree, request, progress=progress)
            found += [
                Wanted(r.finding.rule, str(r.finding.primary), r.finding.fix.safety, r.outcome)
                for r in report.findings
                if r.finding.fix is not None
            ]
        if chosen or rows:
            progress("reading jobs")
            project = facts.gather(
                AuditedTree(tree, request), launch=request.launch, hardware=request.hardware
            )
            found += _of_recipes(project, chosen)
            found += _of_rows(project, rows)
    _tell(found, tree, unsafe=options.unsafe, dry=options.diff)
    return 0


def _of_rows(project: facts.ProjectFacts, names: Collection[str]) -> Iterator[Wanted]:
    """What each row of the plans does to each job of its framework; a change that several jobs
    share counts once."""
    seen: set[object] = set()
    for job in project.jobs:
        for row, outcome in plans.named(names, job, project) if names else ():
            same = outcome.patch.edits if isinstance(outcome, Changed) else None
            if same is None or (row.id, same) not in seen:
                seen.add((row.id, same))
                where = str(job.location) if job.location else job.id
                yield Wanted(row.id, where, Safety.VERIFY, outcome)


def _of_recipes(project: facts.ProjectFacts, chosen: Iterable[Recipe]) -> Iterator[Wanted]:
    """What each recipe does to each file that trains."""
    for recipe in chosen:
        for module in project.training_modules:
            outcome = recipe.apply(
                module.file,
                versions=project.versions,
                hardware=_hardware(project, module),
                module=module,
            )
            yield Wanted(recipe.id, module.path, recipe.safety, outcome)


def _hardware(project: facts.ProjectFacts, module: PyModule) -> HardwareFacts:
    found = (job.hardware for job in project.jobs if module.path in job.files)
    return next(found, HardwareFacts())


def _tell(found: list[Wanted], tree: SnapshotTree, *, unsafe: bool, dry: bool) -> None:
    """Write what may be written, the diff on standard output, the rest beside it."""
    ready = [one for one in found if isinstance(one.outcome, Changed)]
    taken = [one for one in ready if unsafe or one.safety is Safety.SAFE]
    patches = {id(one): _patch(one) for one in taken}
    written = write_patches(tree, patches.values(), dry=dry)
    if written.diff:
        from pitstop.bot import text

        text.print_diff(text.console(sys.stdout), written.diff)
    for line in _left_out(found, written, {id(p): one for one in taken if (p := patches[id(one)])}):
        print(f"pitstop: {line}", file=sys.stderr)
    count = len(taken) - len(written.dropped)
    verb = "would apply" if dry else "applied"
    files = f"{len(written.paths)} file{'' if len(written.paths) == 1 else 's'}"
    print(f"pitstop: {verb} {count} of {len(ready)} fixes, in {files}", file=sys.stderr)
    waiting = len(ready) - len(taken)
    if waiting:
        print(
            f"pitstop: {waiting} change numbers or need a measured run: add --unsafe",
            file=sys.stderr,
        )


def _patch(one: Wanted) -> Patch:
    assert isinstance(one.outcome, Changed)  # noqa: S101 - the caller has looked
    return one.outcome.patch


def _left_out(
    found: Iterable[Wanted], written: Written, by_patch: dict[int, Wanted]
) -> Iterator[str]:
    """A line for each change that is refused or gave way to another."""
    for one in found:
        if isinstance(one.outcome, Refused):
            yield f"{one.name} at {one.where} not fixed: {one.outcome.reason}"
    for patch, reason in written.dropped:
        one = by_patch[id(patch)]
        yield f"{one.name} at {one.where} not fixed: {reason}; run the command again"
