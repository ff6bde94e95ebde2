"""Each rule of the perf-doctor by its own example: silent in a good launch, and firing in it once
the example's options are changed."""

from typing import Any

import pytest

from pitstop.rules.data import load_data
from pitstop.rules.facts import gather
from pitstop.rules.finding import Severity
from pitstop.rules.hardware import find_gpu
from pitstop.rules.relax.arguments import distance, is_known, misspelt_of, table
from pitstop.rules.relax.context import Run, script_name
from pitstop.rules.relax.rule import anchor_of, is_relax, on_card, relax_rules
from pitstop.rules.tree import DictTree

DATA: dict[str, Any] = load_data("pitstop.rules.relax", "examples.yaml")
RULES = {rule.info.id: rule for rule in relax_rules()}


def options_of(base: dict[str, Any]) -> dict[str, Any]:
    found = options_of(DATA["bases"][base["like"]]) if "like" in base else {}
    found = {k: v for k, v in found.items() if k not in base.get("drop", ())}
    return {**found, **base["options"]}


def written(options: dict[str, Any], array: str) -> str:
    def line(name: str, value: Any) -> str:
        if value is None:
            return f"   --{name}"
        text = f"'{value}'" if str(value).startswith("{") else str(value)
        return f"   --{name} {text}"

    body = "\n".join(line(name, value) for name, value in options.items())
    return f"{array}=(\n{body}\n)\n"


def tree_of(
    base: dict[str, Any], options: dict[str, Any], env: dict[str, Any], extra: str = ""
) -> DictTree:
    model = base.get("model") or "dense"
    name = base["script"].removeprefix("run-").rsplit("-", 1)[0].split("-8x")[0].split("-128x")[0]
    exports = "".join(f"export {key}={value}\n" for key, value in env.items())
    script = (
        "#!/bin/bash\nset -ex\n"
        'SCRIPT_DIR="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"\n'
        f'source "${{SCRIPT_DIR}}/../models/{name}.sh"\n{exports}'
        + written(options, "ALL_ARGS")
        + extra
        + 'ray job submit --address="http://127.0.0.1:8265" -- python3 -m relax.entrypoints.train'
        ' "${MODEL_ARGS[@]}" "${ALL_ARGS[@]}"\n'
    )
    return DictTree(
        {
            f"scripts/training/{base['script']}": script,
            f"scripts/models/{name}.sh": written(DATA["models"][model], "MODEL_ARGS"),
        }
    )


def run_of_example(row: dict[str, Any], *, changed: bool) -> tuple[Run, Any]:
    base = DATA["bases"][row["base"]]
    options = options_of(base)
    if changed:
        options = {k: v for k, v in options.items() if k not in row.get("drop", ())}
        options |= row.get("set", {})
    if "gpus" in row:
        gpus = row["gpus"]
        options["resource"] = f'{{"actor": [1, {gpus}], "rollout": [1, {gpus}]}}'
    env, extra = (row.get("env", {}), row.get("script", "")) if changed else ({}, "")
    facts = gather(tree_of(base, options, env, extra))
    (job,) = [job for job in facts.jobs if is_relax(job)]
    return on_card(job, facts, row.get("gpu")), facts


@pytest.mark.parametrize("identity", sorted(RULES))
def test_each_rule_fires_in_its_example_and_not_in_the_base(identity):
    row = DATA["fires"][identity]
    base, _ = run_of_example(row, changed=False)
    if "gpus" not in row:
        assert list(RULES[identity].judge(base)) == []
    changed, _ = run_of_example(row, changed=True)
    found = list(RULES[identity].judge(changed))
    assert [one.rule for one in found] == [identity]
    (finding,) = found
    assert "?" not in finding.cost
    assert "?" not in finding.advice.replace("did you mean", "").replace("?", "", 1)
    assert finding.primary.path == changed.script or "/models/" in finding.primary.path


def test_every_rule_has_an_example_and_every_example_a_rule():
    assert sorted(RULES) == sorted(DATA["fires"])


@pytest.mark.parametrize("base", sorted(DATA["bases"]))
def test_a_good_launch_has_nothing_critical(base):
    run, _ = run_of_example({"base": base}, changed=False)
    found = [one for rule in relax_rules() for one in rule.judge(run)]
    assert [f"{one.rule} {one.cost}" for one in found if one.severity is Severity.CRITICAL] == []
    assert [f"{one.rule} {one.cost}" for one in found if one.rule.startswith("V-")] == []


@pytest.mark.parametrize("identity", sorted(RULES))
def test_what_cannot_be_resolved_never_fires(identity):
    row = DATA["fires"][identity]
    base = DATA["bases"][row["base"]]
    options = {name: "$SOMETHING_ELSEWHERE" if value is not None else None
               for name, value in options_of(base).items()}  # fmt: skip
    facts = gather(tree_of(base, options, {}))
    (job,) = [job for job in facts.jobs if is_relax(job)]
    assert list(RULES[identity].judge(on_card(job, facts, None))) == []


def test_a_reason_beside_the_option_lowers_or_silences():
    row = {"base": "dense", "set": {"use-kl-loss": None, "kl-loss-coef": 0.0}}
    base = DATA["bases"]["dense"]
    options = options_of(base) | row["set"]
    tree = tree_of(base, options, {})
    path = "scripts/training/run-qwen3-4B-8xgpu.sh"
    text = tree.read(path).text
    noted = text.replace(
        "   --use-kl-loss", "   # NOTE(team): the KL curve is wanted\n   --use-kl-loss"
    )
    files = {p: tree.read(p).text for p in tree.paths} | {path: noted}
    for asked, silent in ((DictTree(files), True), (tree, False)):
        facts = gather(asked)
        (job,) = [job for job in facts.jobs if is_relax(job)]
        assert (list(RULES["R-P14"].judge(on_card(job, facts, None))) == []) is silent


def test_the_engine_gives_relax_jobs_its_own_findings_only():
    from pitstop.rules.engine import audit

    _, facts = run_of_example(DATA["fires"]["V-02"], changed=True)
    found = audit(facts).findings
    assert "V-02" in {one.rule for one in found}
    assert {one.rule[:2] for one in found} <= {"R-", "V-"}


def test_an_assumed_card_lowers_what_rests_on_its_memory():
    row = DATA["fires"]["R-M02"]
    assumed, _ = run_of_example(row, changed=True)
    (lowered,) = RULES["R-M02"].judge(assumed)
    known, _ = run_of_example({**row, "gpu": "H20"}, changed=True)
    (full,) = RULES["R-M02"].judge(known)
    assert lowered.severity < full.severity


def test_a_known_configuration_is_quoted_when_ours_is_far_away():
    row = {"base": "dense", "set": {"max-tokens-per-gpu": 1024}}
    run, _ = run_of_example(row, changed=True)
    assert anchor_of(run) is not None
    (finding,) = RULES["R-M06"].judge(run)
    assert "sets --max-tokens-per-gpu" in finding.cost


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/run-qwen3-4B-8xgpu.sh", ("qwen3-4B", 8, "gpu", set())),
        ("run-qwen35-9B-8xgpu-openr1mm-hybrid-async.sh",
         ("qwen35-9B", 8, "gpu", {"openr1mm", "hybrid", "async"})),
        ("run_relax_qwen3_4b_thinking_sft_8xGPU.sh", ("qwen3_4b_thinking_sft", 8, "gpu", set())),
        ("run-qwen35-35B-A3B-16xnpu-colocate.sh", ("qwen35-35B-A3B", 16, "npu", {"colocate"})),
        ("run_deepeyes.sh", None),
    ],
)  # fmt: skip
def test_names_of_scripts(path, expected):
    found = script_name(path)
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert (found.model, found.gpus, found.device, set(found.suffixes)) == expected


def test_contradictions_between_name_and_options_are_said():
    run, _ = run_of_example(
        {"base": "dense", "set": {"resource": '{"actor": [1, 4]}'}}, changed=True
    )
    assert list(run.contradictions()) == ["the name says 8 GPUs, the roles add up to 4"]


def test_options_are_known_by_name_prefix_mirror_and_negation():
    assert is_known("sglang-mem-fraction-static")
    assert is_known("teacher-sglang-mem-fraction-static")
    assert is_known("router-anything")
    assert is_known("no-rope-fusion")
    assert not is_known("vision-dp-when-cp")
    assert misspelt_of("vision-dp-when-cp") == "vision-dp-when-tp"
    assert misspelt_of("something-quite-other") is None
    assert table().options["kl-coef"].default == 0.0


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [("abc", "abc", 0), ("abc", "abd", 1), ("abc", "bca", 2), ("a", "abcd", 3)],
)
def test_distance(one, two, expected):
    assert distance(one, two) == expected


def test_the_card_is_found_by_name():
    assert find_gpu("H20") is not None
