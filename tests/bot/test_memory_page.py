"""Our figures beside those that others publish: how far apart they may be."""

from __future__ import annotations

import pytest

from pitstop.bot import memory_page


def rows(table: str) -> list[list[str]]:
    lines = table.splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def bounds(cell: str) -> tuple[float, float]:
    low, _, high = cell.partition(" to ")
    return float(low), float(high or low)


@pytest.mark.parametrize("row", rows(memory_page.reported()), ids=lambda row: row[0])
def test_reported_runs_are_within_ten_per_cent_of_the_range(row: list[str]) -> None:
    low, high = bounds(row[2])
    assert 0.9 * low <= float(row[1]) <= 1.1 * high
    assert high < 1.25 * low


@pytest.mark.parametrize("row", rows(memory_page.deepspeed()), ids=lambda row: row[0])
def test_with_the_step_deepspeeds_estimators_say_the_same(row: list[str]) -> None:
    assert float(row[3]) == pytest.approx(float(row[1]), rel=0.05)


@pytest.mark.parametrize("row", rows(memory_page.megatron()), ids=lambda row: row[0])
def test_megatrons_formula_says_the_same(row: list[str]) -> None:
    assert float(row[4]) == pytest.approx(float(row[3]), rel=0.01)


@pytest.mark.parametrize("row", rows(memory_page.accelerate()), ids=lambda row: row[0])
def test_accelerate_says_the_same(row: list[str]) -> None:
    assert (row[1], row[3]) == (row[2], row[4])


@pytest.mark.parametrize("row", rows(memory_page.llama_factory()), ids=lambda row: row[0])
def test_llama_factorys_table_is_near(row: list[str]) -> None:
    for published, ours in zip(row[1::2], row[2::2], strict=True):
        low, high = bounds(ours)
        assert 0.8 * low <= float(published) <= 1.2 * high
