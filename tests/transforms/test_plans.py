"""Plans are data: every row names a recipe, bottlenecks that exist, and arguments that it has;
the tables' examples say what a row makes of a file."""

import pytest

from pitstop.rules.facts import ProjectFacts, gather
from pitstop.rules.hardware import find_gpu
from pitstop.rules.knobs import knobs
from pitstop.rules.tree import DictTree
from pitstop.runners.diagnosis import thresholds
from pitstop.transforms.patch import Changed, apply_patches
from pitstop.transforms.plans import BOTTLENECKS, PlanExample, candidates, named, plan_rows, tables
from pitstop.transforms.recipe import Numerics, recipes

ROWS = plan_rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_is_about_things_that_exist(row):
    assert row.title and row.why
    assert row.search is None or len(set(row.search[1])) == len(row.search[1]) > 1
    recipe = recipes().get(row.change)
    if recipe is not None and row.search is not None:
        assert row.search[0] in recipe.arguments
    if row.change == "set_knob":
        knob = knobs()[row.args["knob"]]
        assert knob.values is None or not knob.values or row.args["value"] in knob.values


def test_every_kind_of_the_diagnosis_can_be_answered():
    assert set(thresholds()["kinds"]) <= BOTTLENECKS


def test_ids_and_orders_are_unique_and_nearly_every_recipe_is_planned():
    assert len({row.order for row in ROWS}) == len({row.id for row in ROWS}) == len(ROWS)
    unplanned = set(recipes()) - {row.change for row in ROWS}
    assert unplanned == {"frozen-weights-bf16"}  # for one finding, at its place


def test_items_are_ids_of_catalogues():
    prefixes = {"GEN", "HF", "LF", "SW", "VX", "FF", "VL", "SG", "DS"}
    for row in ROWS:
        assert {item.partition("-")[0] for item in row.items} <= prefixes


def test_another_training_is_never_tried_unasked():
    assert all(row.opt_in for row in ROWS if row.numerics is Numerics.SEMANTICS)


def test_what_processes_exchange_is_marked():
    marked = {row.id for row in ROWS if row.several_processes}
    assert {"no-sync", "ddp-bucket-views"} <= marked


EXAMPLES = [
    pytest.param(example, row, id=row)
    for table in tables()
    for example in table.examples
    for row in example.rows
]


def read(example: PlanExample, files: dict[str, str]) -> ProjectFacts:
    hardware = find_gpu(example.gpu) if example.gpu else None
    return gather(DictTree(files), launch=example.launch, hardware=hardware)


@pytest.mark.parametrize(("example", "row"), EXAMPLES)
def test_a_row_makes_of_its_example_what_it_says_and_then_has_nothing_to_do(example, row):
    facts = read(example, dict(example.files))
    (job,) = facts.jobs
    found = {one.id: one for one in candidates(job, facts, BOTTLENECKS)}
    assert row in found
    outcome = found[row].outcome()
    assert isinstance(outcome, Changed)
    texts, dropped = apply_patches(facts.tree, [outcome.patch])
    old, new = example.rows[row]
    ((path, text),) = texts.items()
    assert not dropped and example.files[path].count(old) == 1
    assert text == example.files[path].replace(old, new)
    facts = read(example, {**example.files, path: text})
    assert row not in {one.id for one in candidates(facts.jobs[0], facts, BOTTLENECKS)}


def test_a_table_takes_rows_of_another_for_jobs_of_its_own():
    rows = {row.id for row in plan_rows("llamafactory")}
    assert {"lf-liger", "hf-workers", "fused-optimizer"} <= rows
    assert "hf-liger" not in rows


LOOP = """
import torch
from torch import nn
from torch.utils.data import DataLoader

def main(data):
    model = nn.Linear(8, 4).cuda()
    loader = DataLoader(data, batch_size=8)
    optimizer = torch.optim.AdamW(model.parameters())
    for inputs, labels in loader:
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(model(inputs.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        print(loss.item())

if __name__ == "__main__":
    main([])
"""


def test_what_applies_to_a_loop_is_offered_in_order_and_can_be_made():
    facts = gather(DictTree({"train.py": LOOP}), launch="python train.py")
    found = candidates(facts.jobs[0], facts, ())
    assert [one.order for one in found] == sorted(one.order for one in found)
    assert {"loader-arguments", "fused-optimizer"} <= {one.id for one in found}
    assert all(isinstance(one.outcome(), Changed) for one in found)
    loader = next(one for one in found if one.id == "loader-arguments")
    assert [label for label, _ in loader.variants][:2] == ["workers 1", "workers 2"]
    texts = {make().patch.edits for _, make in loader.variants}
    assert len(texts) == len(loader.variants)


def test_what_costs_time_is_offered_only_against_its_bottleneck():
    facts = gather(DictTree({"train.py": LOOP}), launch="python train.py")
    without = {one.id for one in candidates(facts.jobs[0], facts, ())}
    assert "activation-checkpointing" not in without
    assert "eight-bit-optimizer" not in without


def test_a_package_that_a_row_needs_is_asked_for():
    files = {
        "train.yaml": "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nstage: sft\ndo_train: true\n"
        "finetuning_type: lora\ntemplate: qwen\ncutoff_len: 512\ndataset: mine\n",
        "requirements.txt": "accelerate\ntransformers==4.57.0\n",
    }
    facts = gather(DictTree(files), launch="llamafactory-cli train train.yaml")
    ((_, outcome),) = named(["lf-liger"], facts.jobs[0], facts)
    assert isinstance(outcome, Changed), outcome
    texts, _ = apply_patches(facts.tree, [outcome.patch])
    assert texts["requirements.txt"] == (
        "accelerate\nliger-kernel>=0.5.5,<1\ntransformers==4.57.0\n"
    )
    assert "enable_liger_kernel: true" in texts["train.yaml"]
