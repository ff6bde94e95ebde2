"""Whether transforms hold on code that nobody wrote for them: every plan, setting and recipe on
every file of checkouts, each change read again.

A change must apply, leave its files readable, and have nothing to do the second time. Nothing is
written to the checkouts.
"""

import argparse
import ast
import collections
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pitstop.rules.configs import read_config
from pitstop.rules.facts import ProjectFacts, gather
from pitstop.rules.job import TrainingJob
from pitstop.rules.shell import read_script
from pitstop.rules.tree import FolderTree, SourceFile
from pitstop.transforms.edited_tree import EditedTree, tree_of_job
from pitstop.transforms.patch import Changed, Outcome, Patch, Refused, apply_edits
from pitstop.transforms.plans import named, plan_rows
from pitstop.transforms.recipe import Recipe, recipes

ENDINGS = (".yaml", ".yml", ".json", ".sh", ".py")
Change = Callable[[ProjectFacts], Outcome | None]
SETTINGS = {row.id for row in plan_rows() if row.change not in recipes()}


@dataclass
class Count:
    """What came of the transforms of one checkout."""

    files: int = 0
    jobs: int = 0
    tried: int = 0
    changed: int = 0
    edits: int = 0
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    raised: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)


def main() -> int:
    """Print the table. Exit code 1 when anything raised, broke a file or changed it twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="+", help="folder of a repository")
    found = {path.name: measure(path) for path in parser.parse_args().checkout}
    print(table(found))
    bad = [line for count in found.values() for line in (*count.raised, *count.broken)]
    bad += [line for count in found.values() for line in count.repeated]
    print("\n".join(bad), file=sys.stderr)
    return bool(bad)


def measure(root: Path) -> Count:
    """Take one checkout through every transform."""
    count = Count()
    tree = FolderTree(root)
    count.files = sum(path.endswith(ENDINGS) for path in tree.paths)
    start = time.monotonic()
    facts = gather(tree)
    count.jobs = len(facts.jobs)
    for what, change in _changes(facts):
        _judge(count, what, change, facts)
    print(f"{root.name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    return count


def _changes(facts: ProjectFacts) -> Iterator[tuple[str, Change]]:
    """Names and functions that work the outcome out on a project."""
    for recipe in recipes().values():
        for module in facts.training_modules:
            path = module.path
            yield f"{recipe.id} {path}", partial(_recipe, recipe, path)
    for job in facts.jobs:
        for row in sorted(SETTINGS):
            yield f"{row} {job.id}", partial(_row, job, row)


def _recipe(recipe: Recipe, path: str, facts: ProjectFacts) -> Outcome:
    return recipe.apply(facts.tree.read(path))


def _row(job: TrainingJob, row: str, facts: ProjectFacts) -> Outcome | None:
    found = list(named([row], job, facts))
    outcome = found[0][1] if found else None
    inapplicable = isinstance(outcome, Refused) and outcome.reason.startswith("the job is not one")
    return None if inapplicable else outcome


def _judge(count: Count, what: str, change: Change, facts: ProjectFacts) -> None:
    try:
        outcome = change(facts)
        if outcome is None:
            return
        count.tried += 1
        if isinstance(outcome, Refused):
            count.refused[_kind(outcome.reason)] += 1
        elif isinstance(outcome, Changed):
            count.changed += 1
            count.edits += len(outcome.patch.edits) + len(outcome.patch.new_files)
            _read_again(outcome.patch, facts)
            if _twice(what, outcome.patch, facts):
                count.repeated.append(f"{what}: changes its own result")
    except (SyntaxError, UnicodeError) as error:
        count.broken.append(f"{what}: {error}")
    except Exception as error:
        count.raised.append(f"{what}: {type(error).__name__}: {error}")


def _read_again(patch: Patch, facts: ProjectFacts) -> None:
    """Every changed file as its own reader reads it. Raises what the reader raises."""
    texts = dict(patch.new_files)
    for path in {edit.path for edit in patch.edits}:
        texts[path] = apply_edits(facts.tree.read(path), patch.edits)
    for path, text in texts.items():
        if path.endswith(".py"):
            ast.parse(text.removeprefix("\ufeff"))
        elif path.endswith((".yaml", ".yml", ".json", ".toml")):
            read_config(SourceFile(path, text))
        elif path.endswith((".sh", ".bash")):
            read_script(SourceFile(path, text), facts.tree)


def _twice(what: str, patch: Patch, facts: ProjectFacts) -> bool:
    """Whether a change finds something to do in its own result: in a file, or in the jobs that
    the changed files take part in."""
    tree = EditedTree(facts.tree, patch.edits, patch.new_files)
    name = what.partition(" ")[0]
    if name in recipes():
        path = what.partition(" ")[2]
        return isinstance(recipes()[name].apply(tree.read(path)), Changed)
    job = next(one for one in facts.jobs if one.id == what.partition(" ")[2])
    after = gather(
        EditedTree(tree_of_job(job, facts), patch.edits, patch.new_files), hardware=job.hardware
    )
    return any(
        isinstance(outcome, Changed)
        for one in after.jobs
        if (one.entry, one.location) == (job.entry, job.location)
        for _, outcome in named([name], one, after)
    )


def _kind(reason: str) -> str:
    """A reason without names, so that equal ones add up."""
    return re.sub(r"[\w./\-]*[./_\d][\w./\-]*", "…", reason)


def table(found: dict[str, Count]) -> str:
    """Markdown: a row for each checkout, then the commonest reasons of refusals."""
    lines = [
        "| repository | files | jobs | tried | changed | edits | refused | raised "
        "| unreadable after | changed twice |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    reasons: collections.Counter[str] = collections.Counter()
    for name, one in found.items():
        reasons += one.refused
        bad = (len(one.raised), len(one.broken), len(one.repeated))
        cells = (name, one.files, one.jobs, one.tried, one.changed, one.edits, one.refused.total())
        lines.append(f"| {' | '.join(map(str, (*cells, *bad)))} |")
    lines += ["", "| refused because | times |", "| --- | --: |"]
    lines += [f"| {reason} | {times} |" for reason, times in reasons.most_common(25)]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
