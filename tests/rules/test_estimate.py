"""What must hold of every estimate, and figures that others publish."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitstop.rules.activations import Attention, Running
from pitstop.rules.architecture import Architecture
from pitstop.rules.estimate import Fit, estimate, estimates, fit_of, states_of
from pitstop.rules.fitting import largest_that_fits, options_that_fit
from pitstop.rules.hardware import gpus
from pitstop.rules.memory import (
    GIB,
    Keeping,
    Layout,
    LocalParameters,
    Sharding,
    formats,
    local_parameters,
    training_states,
)
from pitstop.rules.models import by_name
from pitstop.rules.optimizers import OPTIMIZERS
from pitstop.rules.ranges import Range
from pitstop.rules.speed import speed_of
from pitstop.rules.trained import Method, Setup, trained_tensors


def shape(name: str) -> Architecture:
    found = by_name(name).shape
    assert found is not None
    return found


NAMES = ("Qwen2.5-0.5B", "Qwen2.5-7B", "Llama-2-7b", "Qwen3-30B-A3B", "gemma-2-9b")
ZERO = (Sharding.NONE, Sharding.ZERO1, Sharding.ZERO2, Sharding.ZERO3)
SETUPS = st.builds(
    Setup,
    model=st.sampled_from([shape(name) for name in NAMES]),
    micro_batch=st.integers(1, 16),
    sequence=st.sampled_from([128, 512, 2048, 8192]),
    method=st.sampled_from(list(Method)),
    keeping=st.sampled_from(list(Keeping)),
    running=st.sampled_from(list(Running)),
    optimizer=st.sampled_from(sorted(set(OPTIMIZERS) - {"badam", "lomo", "adalomo"})),
    layout=st.builds(
        Layout,
        data=st.sampled_from([1, 2, 8, 64]),
        sharding=st.sampled_from(list(Sharding)),
        offload_optimizer=st.booleans(),
    ),
    attention=st.sampled_from(list(Attention)),
    checkpointing=st.booleans(),
    fused_kernels=st.booleans(),
    fused_loss=st.booleans(),
    kept_gradients=st.booleans(),
    frozen_bits=st.sampled_from([4, 8, 16, 32]),
)
few = settings(max_examples=60, deadline=None)


@few
@given(SETUPS)
def test_more_samples_or_tokens_never_need_less(setup: Setup) -> None:
    now = estimate(setup).total
    for more in (
        replace(setup, micro_batch=2 * setup.micro_batch),
        replace(setup, sequence=2 * setup.sequence),
    ):
        then = estimate(more).total
        assert then.low >= now.low and then.high >= now.high


@few
@given(SETUPS)
def test_a_range_has_two_ends_and_parts_add_up(setup: Setup) -> None:
    found = estimate(setup)
    assert 0 < found.total.low <= found.total.high
    for moment in found.moments:
        assert moment.total == Range.total(part.size for part in moment.parts)
        assert all(0 <= part.size.low <= part.size.high for part in moment.parts)
    assert found.total.high == found.peak.total.high


@few
@given(SETUPS, st.sampled_from([2, 8, 64]))
def test_a_higher_stage_never_keeps_more_state(setup: Setup, ranks: int) -> None:
    kept = [
        states_of(replace(setup, layout=Layout(data=ranks, sharding=kind))).kept for kind in ZERO
    ]
    assert kept == sorted(kept, reverse=True)


@few
@given(SETUPS, st.sampled_from([1, 2, 8]))
def test_more_ranks_never_keep_more_state(setup: Setup, ranks: int) -> None:
    few_, many = (
        states_of(replace(setup, layout=replace(setup.layout, data=count))).kept
        for count in (ranks, 2 * ranks)
    )
    assert many <= few_


@few
@given(
    st.sampled_from(NAMES),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from(list(Keeping)),
)
def test_shards_add_up_to_the_whole(name: str, data: int, tensor: int, keeping: Keeping) -> None:
    model, kept = shape(name), formats(keeping)
    layout = Layout(data=data, tensor=tensor, sharding=Sharding.ZERO3)
    states = training_states(local_parameters(model, layout), kept, layout, state=8.0)
    whole = model.parameters * (kept.weight + kept.gradient + kept.master + 8.0)
    assert layout.gpus * states.kept == pytest.approx(whole)


@few
@given(SETUPS)
def test_offloading_moves_state_and_loses_none(setup: Setup) -> None:
    plain = replace(setup.layout, offload_optimizer=False)
    here = states_of(replace(setup, layout=plain))
    away = states_of(replace(setup, layout=replace(plain, offload_optimizer=True)))
    assert away.host >= here.master + here.optimizer
    assert away.kept <= here.kept


@few
@given(SETUPS)
def test_checkpointing_keeps_less_of_the_layers(setup: Setup) -> None:
    def layers(on: bool) -> float:
        moments = estimate(replace(setup, checkpointing=on)).moments
        return sum(p.size.high for p in moments[0].parts if p.name == "activations")

    assert layers(on=True) < layers(on=False)


@few
@given(SETUPS)
def test_adapters_train_what_their_rank_says(setup: Setup) -> None:
    small = sum(t.total for t in trained_tensors(replace(setup, method=Method.LORA, rank=4)))
    large = sum(t.total for t in trained_tensors(replace(setup, method=Method.LORA, rank=8)))
    assert large == 2 * small


@settings(max_examples=15, deadline=None)
@given(SETUPS, st.sampled_from(["a100-80gb", "rtx-4090", "h200"]))
def test_what_is_offered_fits(setup: Setup, name: str) -> None:
    gpu = gpus()[name]
    for option in options_that_fit(setup, gpu.memory, gpu):
        assert estimate(option.setup).fit(gpu.memory) is Fit.FITS
        assert option.setup.tokens_per_step == setup.tokens_per_step
        assert 0 < len(option.changes) <= 3


@settings(max_examples=15, deadline=None)
@given(SETUPS)
def test_the_longest_sample_fits_and_a_longer_one_does_not(setup: Setup) -> None:
    memory = gpus()["a100-80gb"].memory
    longest = largest_that_fits(setup, memory, "sequence", most=1 << 16)
    if longest:
        assert estimate(replace(setup, sequence=longest)).fit(memory) is Fit.FITS
    if longest < 1 << 16:
        one_more = replace(setup, sequence=longest + 1)
        assert estimate(one_more).fit(memory) is not Fit.FITS


@few
@given(SETUPS, st.sampled_from(["a100-80gb", "h100-80gb", "t4"]))
def test_a_bound_of_speed_is_finite(setup: Setup, name: str) -> None:
    speed = speed_of(setup, gpus()[name])
    assert speed is None or 0 < speed.tokens_per_second < 1e12


def test_alternatives_span_the_range() -> None:
    one = Setup(shape("Qwen2.5-7B"), 1, 512)
    other = replace(one, sequence=8192)
    found = estimates((one, other))
    assert (found.total.low, found.total.high) == (
        estimate(one).total.low,
        estimate(other).total.high,
    )
    assert not found.exact


@pytest.mark.parametrize(
    ("total", "memory", "fit"),
    [
        (Range(1, 2), None, Fit.UNKNOWN),
        (Range(1, 2), 2, Fit.FITS),
        (Range(1, 3), 2, Fit.TIGHT),
        (Range(3, 4), 2, Fit.DOES_NOT_FIT),
    ],
)
def test_verdicts(total: Range, memory: int | None, fit: Fit) -> None:
    assert fit_of(total, memory) is fit


SEVEN = LocalParameters(7e9, 0.0, 2e8)


@pytest.mark.parametrize(
    ("sharding", "gigabytes"),
    [
        # arXiv 1910.02054, figure 1, for 7.5 billion parameters on 64 GPUs: 120, 31.4, 16.6, 1.9
        (Sharding.NONE, 120.0),
        (Sharding.ZERO1, 31.4),
        (Sharding.ZERO2, 16.6),
        (Sharding.ZERO3, 1.9),
    ],
)
def test_the_zero_papers_own_figure(sharding: Sharding, gigabytes: float) -> None:
    local = LocalParameters(7.5e9, 0.0, 0.0)
    layout = Layout(data=64, sharding=sharding, bucket_view=True)
    states = training_states(local, formats(Keeping.MASTER), layout, state=8.0)
    assert states.kept / 1e9 == pytest.approx(gigabytes, rel=0.02)


def test_hpz_keeps_a_second_copy_in_each_node() -> None:
    layout = Layout(data=16, sharding=Sharding.ZERO3)
    kept = formats(Keeping.MASTER)
    plain = training_states(SEVEN, kept, layout, state=8.0)
    second = training_states(SEVEN, kept, replace(layout, second_shards=8), state=8.0)
    assert second.weights - plain.weights == 2 * 7e9 / 8


def test_hybrid_sharding_shares_inside_the_group_only() -> None:
    layout = Layout(data=16, sharding=Sharding.FSDP_HYBRID, shard_group=8)
    states = training_states(SEVEN, formats(Keeping.SHARDS), layout, state=8.0)
    assert states.kept == pytest.approx(16 * 7e9 / 8)


def test_ddp_copies_gradients_unless_they_live_in_its_buckets() -> None:
    kept = formats(Keeping.AUTOCAST)
    two = training_states(SEVEN, kept, Layout(data=2), state=8.0)
    view = training_states(SEVEN, kept, Layout(data=2, bucket_view=True), state=8.0)
    one = training_states(SEVEN, kept, Layout(data=1), state=8.0)
    assert (two.buckets, view.buckets, one.buckets) == (4 * 7e9, 0, 0)


def test_four_bits_reach_linear_layers_only() -> None:
    model = shape("Qwen2.5-7B")
    setup = Setup(model, 1, 512, method=Method.LORA, frozen_bits=4, checkpointing=True)
    frozen = next(p for p in estimate(setup).peak.parts if p.name == "frozen weights")
    ends = 2 * model.vocabulary * model.hidden
    assert frozen.size.high > 2 * ends
    assert frozen.size.high < 0.56 * (model.parameters - ends) + 2 * ends * 1.01


def test_dora_adds_a_number_for_each_output() -> None:
    setup = Setup(shape("Llama-2-7b"), 1, 512, method=Method.LORA)
    plain = sum(t.total for t in trained_tensors(setup))
    dora = sum(t.total for t in trained_tensors(replace(setup, magnitudes=True)))
    assert dora - plain == 32 * (4 * 4096 + 2 * 11008 + 4096)


def test_a_reference_model_is_a_frozen_copy() -> None:
    setup = Setup(shape("Qwen2.5-7B"), 1, 512)
    without, having = (estimate(replace(setup, references=n)).total.low for n in (0, 1))
    assert having - without == pytest.approx(2 * setup.model.parameters, rel=0.02)
    assert GIB == 2**30
