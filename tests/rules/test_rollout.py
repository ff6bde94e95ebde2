"""An inference engine's memory beside training."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitstop.rules.architecture import Architecture, LatentAttention
from pitstop.rules.memory import GIB
from pitstop.rules.rollout import (
    Engine,
    cache_bytes_per_token,
    cache_tokens,
    colocated,
    engine_weights,
    reserve,
    separate,
    static_fraction,
    tokens_needed,
)

FOUR = Architecture(
    family="qwen3", layers=36, hidden=2560, heads=32, kv_heads=8, head_dim=128,
    intermediate=9728, vocabulary=151936, tied=True,
)  # fmt: skip
LATENT = replace(FOUR, latent=LatentAttention(1536, 512, 128, 64, 128))
H20 = int(95.6 * GIB)


def test_keys_and_values_of_grouped_heads() -> None:
    assert cache_bytes_per_token(Engine(FOUR)) == 2 * 36 * 8 * 128 * 2
    assert cache_bytes_per_token(Engine(FOUR, tensor=4)) == 2 * 36 * 2 * 128 * 2


def test_no_gpu_keeps_less_than_one_head() -> None:
    assert cache_bytes_per_token(Engine(FOUR, tensor=32)) == 2 * 36 * 1 * 128 * 2


def test_the_compressed_cache_of_latent_attention_is_not_divided() -> None:
    one, many = Engine(LATENT), Engine(LATENT, tensor=8)
    assert cache_bytes_per_token(one) == cache_bytes_per_token(many) == 36 * (512 + 64) * 2


def test_layers_of_linear_attention_keep_no_cache() -> None:
    hybrid = Engine(FOUR, full_attention_layers=9)
    assert cache_bytes_per_token(hybrid) == cache_bytes_per_token(Engine(FOUR)) / 4


@pytest.mark.parametrize(("kind", "size"), [("bf16", 2.0), ("fp8", 1.0), ("int4", 0.55)])
def test_weights_by_format(kind: str, size: float) -> None:
    assert engine_weights(Engine(FOUR, tensor=2, weights=kind)) == size * FOUR.parameters / 2


def test_large_cards_reserve_at_least_ten_gib() -> None:
    assert reserve(Engine(FOUR), H20) >= 10 * GIB
    assert static_fraction(Engine(FOUR, fraction=0.8), H20) == 0.8


def test_the_cache_is_what_weights_leave() -> None:
    engine = Engine(FOUR, fraction=0.8)
    held = cache_tokens(engine, H20)
    pool = 0.8 * H20 - 2 * FOUR.parameters
    assert held == int(pool / cache_bytes_per_token(engine))
    assert held > tokens_needed(64, 1024, 8192)
    assert cache_tokens(engine, 4 * GIB) == 0


def test_who_holds_what_on_shared_cards() -> None:
    engine = Engine(FOUR, fraction=0.8)
    moments = colocated(engine, H20, train_total=44.5 * GIB, buffer=GIB, largest_layer=0.2 * GIB)
    generation, update, handing = moments
    assert generation.rollout > 0.8 * H20
    assert generation.total > H20  # 0.8 leaves no room for a sleeping trainer's 8 GiB
    assert (update.training, update.rollout) == (44.5 * GIB, 0)
    assert handing.rollout == engine_weights(engine)
    lower = colocated(
        replace(engine, fraction=0.7), H20, train_total=44.5 * GIB, buffer=GIB, largest_layer=0
    )
    assert max(moment.total for moment in lower) <= H20


def test_cards_of_their_own_share_nothing() -> None:
    training, rollout = separate(Engine(FOUR, fraction=0.8), H20, train_total=44.5 * GIB)
    assert training.rollout == 0 == rollout.training


@given(st.floats(0.3, 0.9), st.floats(0.3, 0.9))
def test_a_larger_fraction_never_holds_fewer_tokens(one: float, other: float) -> None:
    small, large = sorted((one, other))
    held = [cache_tokens(Engine(FOUR, fraction=f), H20) for f in (small, large)]
    assert held[0] <= held[1]
