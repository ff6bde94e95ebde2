"""The verdict on recorded and made-up samples: right about nothing, something, and noise."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitstop.runners.verify import (
    Faster,
    Inconclusive,
    NotFaster,
    Pair,
    Policy,
    judge,
    judge_memory,
    noise,
    warm_up_of,
)

GIB = 2**30


def made(gain: float, between: float, pairs: int = 3, seed: int = 0) -> list[Pair]:
    """Runs of 25 steps of 0.1 s whose speeds differ by `between` from run to run."""
    source = random.Random(seed)

    def run(factor: float) -> tuple[float, ...]:
        level = 0.1 / factor * (1 + source.gauss(0, between))
        return tuple(level * (1 + abs(source.gauss(0, 0.03))) for _ in range(25))

    return [Pair(run(1.0), run(gain)) for _ in range(pairs)]


def test_a_clear_gain_is_faster():
    verdict = judge(made(1.3, 0.005))
    assert isinstance(verdict, Faster)
    assert verdict.low <= verdict.by <= verdict.high
    assert verdict.by == pytest.approx(1.3, rel=0.03)
    assert verdict.text.startswith("1.3")
    assert "3 pairs of 25 steps" in verdict.text


CALM = (0.08,) * 40
BURSTS = (0.073, *(0.001,) * 7) * 5
"""Eight workers that take 80 ms for a batch: most steps find theirs ready. 10 ms a step."""


def test_batches_that_come_in_bursts_count_with_their_mean():
    assert Pair(CALM, BURSTS).ratio == pytest.approx(8, rel=0.01)
    faster = (0.036, *(0.001,) * 7) * 5
    assert Pair(BURSTS, faster).ratio == pytest.approx(2, rel=0.15)
    verdict = judge([Pair(CALM, BURSTS)] * 3)
    assert isinstance(verdict, Faster)
    assert verdict.by == pytest.approx(8, rel=0.01)


def test_bursts_that_cost_as_much_as_they_save_are_not_faster():
    as_slow = (0.633, *(0.001,) * 7) * 5
    assert isinstance(judge([Pair(CALM, as_slow)] * 3), NotFaster | Inconclusive)


def test_slow_steps_before_never_make_a_change_look_fast():
    stalled = (*(0.08,) * 36, *(0.8,) * 4)
    assert Pair(stalled, CALM).ratio == 1
    assert Pair(CALM, stalled).ratio < 1


def test_a_slowdown_is_not_faster():
    assert isinstance(judge(made(0.9, 0.005)), NotFaster)


def test_a_small_gain_in_large_noise_is_hardly_ever_faster():
    found = [judge(made(1.01, 0.03, seed=n)) for n in range(20)]
    assert sum(isinstance(verdict, Faster) for verdict in found) <= 1
    assert any(isinstance(verdict, Inconclusive) for verdict in found)


def test_equal_runs_are_hardly_ever_faster():
    found = [judge(made(1.0, 0.01, seed=n), Policy(draws=400)) for n in range(100)]
    wrong = sum(isinstance(verdict, Faster) for verdict in found)
    assert wrong <= 3


def test_a_tenth_slower_is_nearly_always_seen():
    found = [judge(made(0.9, 0.01, seed=n), Policy(draws=400)) for n in range(100)]
    assert sum(isinstance(v, NotFaster) and v.high < 1 for v in found) >= 95


def test_two_runs_each_tell_little_of_the_noise():
    two = [Pair((1.0,) * 9, (0.9,) * 9), Pair((1.02,) * 9, (0.92,) * 9)]
    assert judge(two).needed > 5 * noise(two)
    assert judge(two[:1]).needed == Policy().least_gain


def test_one_pair_against_the_gain_is_enough_to_doubt():
    pairs = [*made(1.3, 0.0), Pair((0.1,) * 25, (0.11,) * 25)]
    assert not isinstance(judge(pairs), Faster)


def test_the_needed_gain_grows_with_the_noise_of_equal_runs():
    calm, wild = made(1.1, 0.001), made(1.1, 0.05)
    assert judge(calm).needed == Policy().least_gain
    assert judge(wild).needed > 2 * noise(wild)
    many = made(1.1, 0.05, pairs=5)
    assert judge(many).needed == pytest.approx(2 * noise(many))


@pytest.mark.parametrize(
    "pairs",
    [[], [Pair((), (1.0,))], [Pair((0.0,), (1.0,))], [Pair((float("nan"),), (1.0,))]],
)
def test_what_cannot_be_judged_is_refused(pairs):
    with pytest.raises(ValueError):
        judge(pairs)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.floats(1e-4, 10), min_size=1, max_size=12),
            st.lists(st.floats(1e-4, 10), min_size=1, max_size=12),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_samples_give_an_ordered_interval_and_the_same_verdict_again(samples):
    pairs = [Pair(tuple(a), tuple(b), matched) for a, b, matched in samples]
    policy = Policy(draws=50)
    verdict = judge(pairs, policy)
    assert verdict.low <= verdict.high
    assert judge(pairs, policy) == verdict


def test_steps_of_different_lengths_are_compared_one_by_one():
    source = random.Random(3)
    lengths = [source.choice([0.02, 0.1, 0.4]) for _ in range(40)]
    level = [(1 + source.gauss(0, 0.002), 1 + source.gauss(0, 0.002)) for _ in range(3)]
    pairs = [
        Pair(tuple(t * a for t in lengths), tuple(t * b / 1.2 for t in lengths), matched=True)
        for a, b in level
    ]
    verdict = judge(pairs)
    assert isinstance(verdict, Faster)
    assert verdict.high - verdict.low < 0.02
    assert verdict.by == pytest.approx(1.2, rel=0.01)


def test_memory_is_leaner_only_in_every_pair_and_without_losing_speed():
    fast, slow = judge(made(1.3, 0.0)), judge(made(0.8, 0.0))
    peaks = [(10 * GIB, 8 * GIB), (10 * GIB, 8 * GIB)]
    assert judge_memory(peaks, fast).leaner
    assert not judge_memory(peaks, slow).leaner
    assert not judge_memory([*peaks, (10 * GIB, 10 * GIB)], fast).leaner
    assert not judge_memory([(GIB // 8, GIB // 16)], fast).leaner
    assert judge_memory([(8 * GIB, 10 * GIB)], fast).larger
    assert judge_memory([(None, 8 * GIB)], fast).before is None
    assert judge_memory(peaks, fast).text == "GPU memory 10.00 GiB to 8.00 GiB (-20%)"


def test_the_warm_up_lasts_until_steps_settle():
    assert warm_up_of([1.0] * 30, 3) == 3
    assert warm_up_of([9.0] * 8 + [1.0] * 40, 3) == 6  # the median of the next five is settled
    assert warm_up_of([float(n) for n in range(100, 0, -1)], 3) <= 40
    assert warm_up_of([], 3) == 3
