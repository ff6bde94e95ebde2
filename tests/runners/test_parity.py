"""What counts as the same training, by class of change."""

import math

import pytest

from pitstop.runners.parity import compare_losses, same_work
from pitstop.runners.probing import ProbeRun, RankRun

LOSSES = [2.3 - 0.05 * n for n in range(20)]


def run(losses, **others) -> ProbeRun:
    steps = tuple((loss,) for loss in losses)
    return ProbeRun((RankRun(0, 1, 1, losses=steps, **others),))


def scaled(by: float) -> list[float]:
    return [loss * by for loss in LOSSES]


@pytest.mark.parametrize(
    ("numerics", "half", "by", "ok"),
    [
        ("exact", False, 1.0, True),
        ("exact", False, 1 + 1e-9, False),
        ("equivalent", False, 1 + 1e-6, True),
        ("equivalent", False, 1 + 1e-3, False),
        ("equivalent", True, 1 + 8e-4, True),
        ("equivalent", True, 1 + 9e-3, False),
        ("precision", False, 1 + 3e-3, True),
        ("precision", False, 1 + 9e-3, False),
        ("precision", True, 1 + 2e-2, False),
        ("semantics", False, 2.0, True),
    ],
)
def test_the_limit_is_that_of_the_class(numerics, half, by, ok):
    found = compare_losses(run(LOSSES), run(scaled(by)), None, numerics, half=half)
    assert found.ok is ok


def test_a_drift_within_the_limit_is_refused_for_fewer_bits():
    drifting = [loss * (1 + 0.0006 * n) for n, loss in enumerate(LOSSES)]
    found = compare_losses(run(LOSSES[:17]), run(drifting[:17]), None, "precision")
    assert not found.ok
    assert "drift" in found.text


def test_noise_of_the_job_itself_is_allowed_three_times():
    again = run(scaled(1 + 1e-4))
    assert compare_losses(run(LOSSES), run(scaled(1 + 2e-4)), again, "exact").ok
    assert not compare_losses(run(LOSSES), run(scaled(1 + 4e-4)), again, "exact").ok


def test_noise_never_allows_more_than_the_precision_class():
    again = run(scaled(1.5))
    found = compare_losses(run(LOSSES), run(scaled(1.02)), again, "exact")
    assert not found.ok
    assert found.limit == 0.01


def test_the_first_step_over_the_limit_is_named():
    changed = [*LOSSES[:6], *(loss + 0.1 for loss in LOSSES[6:])]
    found = compare_losses(run(LOSSES), run(changed), None, "equivalent")
    assert found.step == 7
    assert "step 7" in found.text


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_refused_in_every_class(bad):
    for numerics in ("exact", "equivalent", "precision"):
        broken = run([*LOSSES[:3], bad, *LOSSES[4:]])
        for found in (
            compare_losses(run(LOSSES), broken, None, numerics),
            compare_losses(broken, run(LOSSES), None, numerics),
        ):
            assert not found.ok
            assert found.step == 4


def test_without_losses_nothing_is_said_to_be_the_same():
    assert not compare_losses(run([]), run(LOSSES), None, "exact").ok


def test_steps_whose_losses_were_never_seen_are_not_the_same_by_that():
    unseen = ProbeRun((RankRun(0, 1, 1, losses=((),) * 20),))
    assert unseen.step_losses() == ()
    assert not compare_losses(unseen, unseen, None, "exact").ok


def test_a_job_that_ends_sooner_is_another_one():
    found = compare_losses(run(LOSSES), run(LOSSES[:15]), None, "exact")
    assert not found.ok
    assert found.text == "the changed job made 15 steps instead of 20"


@pytest.mark.parametrize(
    ("numerics", "by", "ok"),
    [
        ("equivalent", 1 + 1e-4, True),
        ("equivalent", 1 + 1e-2, False),
        ("precision", 1 + 1e-2, True),
        ("precision", 1.3, False),
    ],
)
def test_gradients_are_compared_where_losses_agree(numerics, by, ok):
    one = run(LOSSES, grad_norms=(2.0,) * 20)
    two = run(LOSSES, grad_norms=(2.0 * by,) * 20)
    found = compare_losses(one, two, None, numerics)
    assert found.ok is ok
    assert ok or found.text.startswith("norms of the gradients differ")
    noisy = run(LOSSES, grad_norms=(2.0 * by,) * 20)
    assert compare_losses(one, two, noisy, numerics).ok


def test_gradients_that_were_not_seen_or_nearly_vanish_say_nothing():
    one = run(LOSSES, grad_norms=(None, 1e-12, *[1.0] * 18))
    two = run(LOSSES, grad_norms=(1.0, 1e-10, *[1.0] * 18))
    assert compare_losses(one, two, None, "equivalent").ok


def test_losses_are_those_of_the_ranks_that_have_one():
    first = RankRun(0, 2, 1, losses=((),) * 20)
    last = RankRun(1, 2, 1, losses=tuple((x,) for x in LOSSES))
    assert ProbeRun((first, last)).step_losses() == tuple(LOSSES)


def test_an_accumulated_step_is_the_sum_of_its_parts():
    parts = ProbeRun((RankRun(0, 1, 1, losses=tuple((x / 2, x / 2) for x in LOSSES)),))
    assert compare_losses(run(LOSSES), parts, None, "equivalent").ok


def test_the_same_work_is_the_same_ranks_parameters_samples_and_tokens():
    one = run(LOSSES, trainable_parameters=10, samples=(8,) * 20, tokens=(512,) * 20)
    assert same_work(one, one) is None
    fewer = run(LOSSES, trainable_parameters=10, samples=(4,) * 20, tokens=(512,) * 20)
    assert same_work(one, fewer) == "a step has 4 samples instead of 8"
    lora = run(LOSSES, trainable_parameters=3, samples=(8,) * 20, tokens=(512,) * 20)
    assert "3 parameters are trained" in str(same_work(one, lora))
    assert "processes" in str(same_work(one, ProbeRun((*one.ranks, *one.ranks))))
    assert same_work(one, ProbeRun()) is not None
    unknown = run(LOSSES, trainable_parameters=10, samples=(None,) * 20, tokens=(None,) * 20)
    assert same_work(one, unknown) is None


def test_padding_is_no_work_where_it_is_known():
    shorter = run(LOSSES, tokens=(512,) * 20, useful_tokens=(400,) * 20)
    longer = run(LOSSES, tokens=(768,) * 20, useful_tokens=(400,) * 20)
    other = run(LOSSES, tokens=(512,) * 20, useful_tokens=(300,) * 20)
    unknown = run(LOSSES, tokens=(768,) * 20)
    assert same_work(shorter, longer) is None
    assert same_work(shorter, other) == "a step has 300 useful tokens instead of 400"
    assert same_work(shorter, unknown) == "a step has 768 tokens instead of 512"
