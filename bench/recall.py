"""`make bench-recall ARGS="CHECKOUT ..."`: is a fault put into real jobs found, at its line?

For each rule that judges settings, and each value that its own examples show as a fault: jobs of
the given checkouts in which that value, were it set, would be a finding and which have none of it
yet. The value is written into the job's files by the same edits as fixes are, the files are read
anew, and the rule must find it on a line that the edit changed (what is left to a default: in one
of the job's files). At most three files for each rule; no file is written.
"""

import argparse
import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pitstop.rules.engine import audit
from pitstop.rules.facts import ProjectFacts, gather
from pitstop.rules.finding import Finding, Scalar, Setting, Surface, Unknown
from pitstop.rules.job import TrainingJob
from pitstop.rules.row_reader import rows
from pitstop.rules.rows import Row
from pitstop.rules.tree import DictTree, FolderTree
from pitstop.transforms.edited_tree import EditedTree, tree_of_job
from pitstop.transforms.patch import Changed, Patch
from pitstop.transforms.set_knob import set_knob, unset_knob

FILES = 3

Fault = tuple[str, Scalar, bool]
"""A knob, its bad value, and whether the value is the default."""


def faults(row: Row) -> set[Fault]:
    """What the rule's own examples show."""
    found: set[Fault] = set()
    for example in row.info.bad:
        facts = gather(DictTree(dict(example.files)))
        for job in facts.jobs:
            for finding in row.judge(job, facts.versions):
                chosen = finding.deciding
                if chosen is not None and not isinstance(chosen.value, Unknown | tuple):
                    found.add((chosen.knob, chosen.value, chosen.surface is Surface.DEFAULT))
    return found


def with_fault(job: TrainingJob, fault: Fault) -> TrainingJob | None:
    """The job as it would be resolved with the fault in it; None where it is there already, or
    where the job leaves open what it does now."""
    knob, value, default = fault
    now = job.get(knob)
    if now is not None and (not now.known or now.value == value or now.condition):
        return None
    if default and (now is None or not now.written):
        return None
    name = now.name if now else knob
    framework = now.framework if now else job.framework
    surface = Surface.DEFAULT if default else Surface.YAML
    place = None if default or now is None else now.value_at
    bad = Setting(knob, value, surface, name, framework, value_at=place, name_at=place)
    return dataclasses.replace(job, settings={**job.settings, knob: (bad,)})


def tried(row: Row, fault: Fault, facts: ProjectFacts) -> Iterator[tuple[TrainingJob, str, str]]:
    """Each job into which the fault was put: the outcome, and what was seen."""
    for job in facts.jobs:
        if job.location is None or list(row.judge(job, facts.versions)):
            continue
        worse = with_fault(job, fault)
        if worse is None or not list(row.judge(worse, facts.versions)):
            continue
        knob, value, default = fault
        outcome = unset_knob(job, knob, facts) if default else set_knob(job, knob, value, facts)
        if not isinstance(outcome, Changed):
            yield job, "refused", getattr(outcome, "reason", "nothing to change")
            continue
        before = tree_of_job(job, facts)
        if job.id not in {one.id for one in gather(before).jobs}:
            yield job, "refused", "the job needs more than its own files"
            continue
        after = gather(EditedTree(before, outcome.patch.edits))
        if any(one.id == job.id and isinstance(one.value(knob), Unknown) for one in after.jobs):
            yield job, "open", "the program may set it in a way that is not understood"
            continue
        found = audit(after, select=[row.info.name]).findings
        hit = any(at_the_edit(one, outcome.patch, facts, default) for one in found)
        seen = ", ".join(str(one.primary) for one in found) or "nothing"
        yield job, "hit" if hit else "miss", seen


def at_the_edit(finding: Finding, patch: Patch, facts: ProjectFacts, default: bool) -> bool:
    """Whether a finding stands where the fault was put."""
    for edit in patch.edits:
        if finding.primary.path != edit.path:
            continue
        first = facts.tree.read(edit.path).text.count("\n", 0, edit.span.start) + 1
        lines = range(first, first + edit.text.count("\n") + 1)
        if default or finding.primary.line in lines:
            return True
    return default and any(finding.jobs)


def main() -> int:
    """Print a line for each rule, and the totals."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkouts", nargs="*", type=Path)
    parser.add_argument("--show", action="store_true", help="tell each miss")
    chosen = parser.parse_args()
    projects = [gather(FolderTree(path)) for path in chosen.checkouts]
    total: Counter[str] = Counter()
    untried = []
    for row in rows():
        count: Counter[str] = Counter()
        files: set[str] = set()
        for fault in sorted(faults(row), key=str):
            for facts in projects:
                for job, outcome, seen in tried(row, fault, facts):
                    assert job.location is not None
                    if outcome == "miss" and chosen.show:
                        print(f"    {outcome}: {row.info.id} {fault} in {job.id}: {seen}")
                    if outcome in ("hit", "miss"):
                        files.add(job.location.path)
                    count[outcome] += 1
                    if len(files) >= FILES:
                        break
                if len(files) >= FILES:
                    break
            if len(files) >= FILES:
                break
        if not count["hit"] + count["miss"]:
            untried.append(row.info.id)
        else:
            print(f"{row.info.id:10} {count['hit']:3} hits {count['miss']:3} misses", flush=True)
        total += count
    done = total["hit"] + total["miss"]
    print(f"{total['hit']} of {done} found at the line")
    print(f"{total['refused']} edits refused, {total['open']} left the value open")
    print(f"no job to try on: {', '.join(untried)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
