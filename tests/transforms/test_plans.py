"""Plans are data: every row names a recipe, bottlenecks that exist, and arguments that it has."""

import pytest

from pitstop.rules.facts import gather
from pitstop.rules.tree import DictTree
from pitstop.runners.diagnosis import thresholds
from pitstop.transforms.patch import Changed
from pitstop.transforms.plans import candidates, plan_rows
from pitstop.transforms.recipe import recipes

KNOWN = {*thresholds()["kinds"], "PADDING"}


@pytest.mark.parametrize("row", plan_rows(), ids=lambda row: row.recipe)
def test_a_row_is_about_things_that_exist(row):
    recipe = recipes()[row.recipe]
    assert set(row.answers) <= KNOWN
    if row.search is not None:
        argument, values = row.search
        assert argument in recipe.arguments
        assert len(set(values)) == len(values) > 1


def test_orders_are_unique_and_nearly_every_recipe_is_planned():
    rows = plan_rows()
    assert len({row.order for row in rows}) == len(rows)
    unplanned = set(recipes()) - {row.recipe for row in rows}
    assert unplanned == {"frozen-weights-bf16"}  # for one finding, at its place


def test_what_processes_exchange_is_marked():
    marked = {row.recipe for row in plan_rows() if row.several_processes}
    assert marked == {"no-sync", "ddp-bucket-views"}


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
