"""Every rule on its own examples: files in, findings out. The one test of all rules."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from pitstop.rules import engine
from pitstop.rules.engine import Audit, all_rules, audit
from pitstop.rules.facts import ProjectFacts, gather
from pitstop.rules.finding import Finding, Safety
from pitstop.rules.knobs import knobs
from pitstop.rules.row_reader import rows
from pitstop.rules.rule import SECTION_TITLES, Bad, Good, RuleInfo
from pitstop.rules.tree import DictTree
from pitstop.transforms.patch import Changed, Refused, apply_patches
from pitstop.transforms.recipe import recipes

RULES = tuple(info for info in all_rules() if info.catalogue != "relax")  # test_relax_rules.py


def bad_examples() -> Iterator[object]:
    for info in RULES:
        for number, example in enumerate(info.bad, 1):
            yield pytest.param(info, example, id=f"{info.id}-{number}")


def good_examples() -> Iterator[object]:
    for info in RULES:
        for example in info.good:
            yield pytest.param(info, example, id=f"{info.id}-{example.why.replace(' ', '-')}")


def judge(info: RuleInfo, files: dict[str, str]) -> tuple[ProjectFacts, Audit]:
    facts = gather(DictTree(files))
    return facts, audit(facts, select=[info.name])


@pytest.mark.parametrize(("info", "example"), list(bad_examples()))
def test_a_bad_example_fires_once_at_its_line(info: RuleInfo, example: Bad) -> None:
    _, found = judge(info, dict(example.files))
    places = [(f.rule, f.primary.path, f.primary.line) for f in found.findings]
    assert places == [(info.id, example.path, example.line)]
    assert found.skipped == ()


@pytest.mark.parametrize(("info", "example"), list(good_examples()))
def test_a_good_example_is_silent(info: RuleInfo, example: Good) -> None:
    facts, found = judge(info, dict(example.files))
    assert [f.message for f in found.findings] == []
    assert found.skipped == ()
    assert facts.jobs or "no job" in example.why, "nothing was judged"


@pytest.mark.parametrize(("info", "example"), list(bad_examples()))
def test_a_fix_makes_the_example_quiet_and_nothing_else_loud(info: RuleInfo, example: Bad) -> None:
    fixes = pytest.importorskip("pitstop.transforms.fixes")
    outcome_for = fixes.outcome_for
    facts, found = judge(info, dict(example.files))
    (finding,) = found.findings
    outcome = outcome_for(finding, facts)
    if finding.fix is None:
        assert info.safety is Safety.NEVER
        assert isinstance(outcome, Refused)
        return
    assert isinstance(outcome, Changed), outcome
    texts, dropped = apply_patches(facts.tree, [outcome.patch])
    assert not dropped
    after = {**example.files, **texts}
    if example.fixed:
        assert after == {**example.files, **example.fixed}
    facts_after, quiet = judge(info, after)
    assert [f.message for f in quiet.findings] == []
    everything_before = audit(facts).findings
    everything_after = audit(facts_after).findings
    assert len(everything_after) < len(everything_before)
    assert {f.rule for f in everything_after} <= {f.rule for f in everything_before}


def test_ids_and_names_are_unique() -> None:
    assert len({info.id for info in RULES}) == len(RULES)
    assert len({info.name for info in RULES}) == len(RULES)
    assert not {info.id for info in RULES} & {info.name for info in RULES}


def test_most_rules_are_rows() -> None:
    assert len(RULES) >= 30
    assert len(rows()) >= 2 * len(RULES) / 3


@pytest.mark.parametrize("info", RULES, ids=lambda info: info.id)
def test_a_rule_says_everything_about_itself(info: RuleInfo) -> None:
    assert re.fullmatch(r"(GEN|HF|LF|SW|VX|FF|VL|SG)-[A-Z]\d\d[a-d]?", info.id)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", info.name)
    assert info.bad, "no bad example"
    assert info.good, "no good example"
    assert all(source.startswith("https://") for source in info.sources)
    assert not info.title.endswith(".")
    assert len(info.cost) > 15
    for name in SECTION_TITLES:
        assert len(getattr(info.sections, name)) > 5
    assert info.sections.fix_safety.startswith(f"{info.safety}: ")


@pytest.mark.parametrize("info", RULES, ids=lambda info: info.id)
def test_examples_of_python_parse(info: RuleInfo) -> None:
    for example in (*info.bad, *info.good):
        for path, text in example.files.items():
            if path.endswith(".py"):
                ast.parse(text)


def findings_of_all() -> Iterator[tuple[RuleInfo, Finding]]:
    for info in RULES:
        for example in info.bad:
            _, found = judge(info, dict(example.files))
            yield from ((info, finding) for finding in found.findings)


def test_fixes_name_knobs_and_have_the_rule_s_safety() -> None:
    for info, finding in findings_of_all():
        if finding.fix is not None:
            assert finding.fix.safety is info.safety, info.id
            recipe = recipes().get(finding.fix.transform)
            if recipe is not None:
                assert recipe.safety is info.safety, info.id
                continue
            assert finding.fix.transform in ("set_knob", "unset_knob"), info.id
            assert finding.fix.args["knob"] in knobs(), info.id


def test_findings_can_be_placed_and_told_apart() -> None:
    for info, finding in findings_of_all():
        assert finding.anchor, info.id
        assert finding.jobs, info.id
        assert "{" not in finding.message, info.id


def test_a_check_file_is_named_after_its_rule() -> None:
    for rule in engine._rules():
        module = PurePosixPath(type(rule).__module__.replace(".", "/"))
        if module.parent.name == "checks":
            assert module.name.replace("_", "-") == rule.info.name
