"""Kept steps, rates of work, and what is not comparable."""

import math

import pytest

from pitstop.runners.measurement import (
    kept_pairs,
    overhead,
    step_time,
    throughput,
    uneven,
    unsteady,
    void,
    work_done,
)
from pitstop.runners.probing import ProbeRun, RankRun
from pitstop.runners.verify import Pair


def ticks(*seconds: float) -> tuple[float, ...]:
    """A clock that ran from 100 s for so many seconds each step."""
    return (100.0, *(100.0 + math.fsum(seconds[: n + 1]) for n in range(len(seconds))))


def made(times, *, ranks: int = 1, **others) -> ProbeRun:
    return ProbeRun(
        tuple(RankRun(n, ranks, 1, host_ticks=ticks(*times), **others) for n in range(ranks))
    )


def test_all_runs_lose_the_same_first_steps_and_those_of_an_arm_are_as_long():
    late = made([0.5] * 6 + [0.1] * 34)
    early = made([0.1] * 60)
    pairs = kept_pairs([(late, early), (early, early)], least=3)
    assert [(len(pair.before), len(pair.after)) for pair in pairs] == [(36, 56), (36, 56)]
    assert not any(pair.matched for pair in pairs)


def test_bursts_never_settle_and_still_leave_steps():
    calm, bursts = made([0.08] * 28), made(([0.073] + [0.001] * 7) * 40)
    (pair,) = kept_pairs([(calm, bursts)], least=3)
    assert len(pair.before) >= 14
    assert len(pair.after) >= 300
    assert pair.ratio == pytest.approx(8, rel=0.05)


def test_nothing_measured_keeps_nothing():
    assert kept_pairs([], 3) == []
    assert kept_pairs([(ProbeRun(), ProbeRun())], 3) == [Pair((), ())]


def test_steps_of_different_work_are_matched():
    lengths = tuple(100 + 50 * (n % 4) for n in range(31))
    run = made([0.1] * 30, tokens=lengths)
    (pair,) = kept_pairs([(run, run)], 3)
    assert pair.matched
    assert uneven(run, 3)


def test_a_few_odd_batches_do_not_make_steps_uneven():
    run = made([0.1] * 30, samples=(16, *(16 if n % 10 else 8 for n in range(30))))
    assert not uneven(run, 3)
    assert not uneven(made([0.1] * 30), 3)


def test_throughput_is_the_work_of_all_ranks_over_the_step():
    run = made([0.5] * 10, ranks=2, samples=(8,) * 11, tokens=(None,) * 11)
    found = throughput([run, run], 4, "samples")
    assert found is not None
    assert found.median == pytest.approx(32)
    assert found.text == "32 samples/s (2 runs of 6 steps)"
    assert throughput([run], 4, "tokens") is None
    assert throughput([], 4, "samples") is None


def test_a_rank_that_counts_nothing_leaves_the_work_unknown():
    one = RankRun(0, 2, 1, host_ticks=ticks(1, 1), samples=(4, 4, 4))
    two = RankRun(1, 2, 1, host_ticks=ticks(1, 1), samples=(None,) * 3)
    assert work_done(ProbeRun((one, two)), "samples") is None
    assert work_done(ProbeRun((one, one)), "samples") == (8, 8, 8)


def test_the_step_time_is_that_of_the_slowest_rank():
    run = ProbeRun(
        (
            RankRun(0, 2, 1, host_ticks=ticks(0.1, 0.1, 0.1)),
            RankRun(1, 2, 1, host_ticks=ticks(0.1, 0.3, 0.1)),
        )
    )
    found = step_time([run], 1)
    assert found is not None
    assert found.runs[0] == pytest.approx((0.3, 0.1))
    assert step_time([ProbeRun()], 1) is None


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ([0.1] * 50, None),
        ([0.1] * 46 + [0.25] * 4, None),
        ([0.1] * 40 + [0.25] * 10, "10 of 50 steps took more than twice the usual time"),
        ([0.1] * 49 + [1.5], None),
        ([0.1] * 48 + [1.5] * 2, "2 steps took more than ten times the usual time"),
        ([], None),
    ],
)
def test_unsteady_runs_are_told_apart(times, why):
    assert unsteady(times) == why


def test_a_pair_is_void_when_only_one_run_was_unsteady():
    calm, wild = (0.1,) * 50, (0.1,) * 48 + (1.5,) * 2
    assert void(Pair(calm, calm)) is None
    assert void(Pair(wild, wild)) is None
    assert str(void(Pair(calm, wild))).startswith("after the change, 2 steps")
    assert str(void(Pair(wild, calm))).startswith("before the change, 2 steps")
    assert void(Pair(calm, wild, matched=True)) is None


def test_overhead_is_the_share_of_the_hooks():
    assert overhead(made([0.5] * 4, hook_seconds=0.02)) == pytest.approx(0.01)
    assert math.isnan(overhead(ProbeRun()))
