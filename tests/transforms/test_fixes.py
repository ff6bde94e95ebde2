"""A finding's fix becomes the change of the repository, or the reason why there is none."""

from __future__ import annotations

import dataclasses

import pytest

from pitstop.rules.engine import audit
from pitstop.rules.facts import ProjectFacts, gather
from pitstop.rules.finding import Finding, Fix, Safety
from pitstop.rules.tree import DictTree
from pitstop.transforms.fixes import outcome_for
from pitstop.transforms.patch import Changed, Refused, Unchanged, apply_patches

FILES = {
    "run.sh": "export NCCL_DEBUG=INFO\ntorchrun --nproc_per_node 2 train.py\n",
    "train.py": (
        "import torch\nfrom torch.utils.data import DataLoader\n"
        "loader = DataLoader(ds, num_workers=2)\n"
        "for epoch in range(3):\n    for x in loader:\n        model(x.cuda()).backward()\n"
        "        optimizer.step()\n"
    ),
}


@pytest.fixture(scope="module")
def facts() -> ProjectFacts:
    return gather(DictTree(FILES))


@pytest.fixture(scope="module")
def finding(facts: ProjectFacts) -> Finding:
    (found,) = audit(facts, select=["nccl-debug-log"]).findings
    return found


def test_the_patch_carries_the_words_of_the_fix(facts: ProjectFacts, finding: Finding) -> None:
    outcome = outcome_for(finding, facts)
    assert isinstance(outcome, Changed)
    assert finding.fix is not None
    assert outcome.patch.why == finding.fix.text
    texts, _ = apply_patches(facts.tree, [outcome.patch])
    assert texts == {"run.sh": FILES["run.sh"].replace("INFO", "WARN")}


def with_fix(finding: Finding, fix: Fix | None) -> Finding:
    return dataclasses.replace(finding, fix=fix)


def test_unset_removes_the_setting(facts: ProjectFacts, finding: Finding) -> None:
    fix = Fix.unset_knob("debug.nccl", safety=Safety.SAFE, text="say less")
    outcome = outcome_for(with_fix(finding, fix), facts)
    assert isinstance(outcome, Changed)
    texts, _ = apply_patches(facts.tree, [outcome.patch])
    assert texts == {"run.sh": "torchrun --nproc_per_node 2 train.py\n"}


def test_a_fix_may_change_another_knob(facts: ProjectFacts, finding: Finding) -> None:
    fix = Fix.set_knob("dataloader.workers", 8, safety=Safety.SAFE, text="more workers")
    outcome = outcome_for(with_fix(finding, fix), facts)
    assert isinstance(outcome, Changed)
    assert outcome.patch.paths == ("train.py",)


def test_what_is_so_already_is_unchanged(facts: ProjectFacts, finding: Finding) -> None:
    fix = Fix.set_knob("debug.nccl", "INFO", safety=Safety.SAFE, text="say more")
    assert isinstance(outcome_for(with_fix(finding, fix), facts), Unchanged)


@pytest.mark.parametrize(
    ("fix", "reason"),
    [
        (None, "no mechanical fix"),
        (Fix.set_knob("debug.nccl", "WARN", safety=Safety.NEVER, text=""), "advice only"),
        (Fix("rewrite_everything", {"knob": "debug.nccl"}, Safety.SAFE, ""), "no transform called"),
        (Fix("set_knob", {}, Safety.SAFE, ""), "names no knob"),
    ],
)
def test_refused(facts: ProjectFacts, finding: Finding, fix: Fix | None, reason: str) -> None:
    outcome = outcome_for(with_fix(finding, fix), facts)
    assert isinstance(outcome, Refused)
    assert reason in outcome.reason


def test_finding_without_a_job(facts: ProjectFacts, finding: Finding) -> None:
    elsewhere = dataclasses.replace(finding.primary, path="other.sh")
    lost = dataclasses.replace(finding, jobs=(), deciding=None, primary=elsewhere)
    assert isinstance(outcome_for(lost, facts), Refused)
