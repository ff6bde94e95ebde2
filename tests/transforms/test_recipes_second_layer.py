"""The table of code changes is whole: every recipe stands in it, and every verdict is usable."""

import pytest

from pitstop.rules.frameworks import frameworks
from pitstop.transforms.recipe import Numerics, recipes
from pitstop.transforms.second_layer import CodeChange, Verdict, second_layer

ROWS = second_layer()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.scope}: {row.change}")
def test_a_row_is_complete(row: CodeChange) -> None:
    assert row.scope == "general" or row.scope in frameworks()
    assert len(row.why) > 15
    if row.verdict is Verdict.LIBRARY:
        assert row.by
    if row.numerics is Numerics.SEMANTICS:
        assert row.opt_in
        assert row.verdict is Verdict.ADVICE


@pytest.mark.parametrize("row", [r for r in ROWS if r.verdict is Verdict.RECIPE])
def test_a_row_says_of_its_recipe_what_the_recipe_says(row: CodeChange) -> None:
    recipe = recipes()[row.by]
    assert row.numerics is recipe.numerics
    assert row.opt_in or not recipe.opt_in
    assert set(row.items) & set(recipe.answers)


def test_every_recipe_stands_in_the_table() -> None:
    assert {r.by for r in ROWS if r.verdict is Verdict.RECIPE} == set(recipes())


def test_no_change_stands_twice() -> None:
    keys = [(row.scope, row.change) for row in ROWS]
    assert len(keys) == len(set(keys))
