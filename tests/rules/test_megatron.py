"""The Megatron model against values that were worked out apart from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from pitstop.rules.architecture import Architecture, LatentAttention
from pitstop.rules.megatron import (
    Loss,
    MegatronRun,
    Recompute,
    host_per_node,
    megatron_estimate,
    megatron_layout,
    padded_vocabulary,
    scoring_pass,
    stage_activations,
)
from pitstop.rules.memory import GIB

DATA: dict[str, Any] = YAML(typ="safe").load(
    (Path(__file__).parents[1] / "data" / "relax_memory.yaml").read_text()
)
SPLIT = ("tensor", "pipeline", "context", "expert")


def shape(name: str) -> Architecture:
    row = dict(DATA["models"][name])
    latent = LatentAttention(*row.pop("latent")) if "latent" in row else None
    return Architecture(family=name, **row, latent=latent)


def run_of(row: dict[str, Any]) -> MegatronRun:
    sizes = {key: row[key] for key in SPLIT}
    return MegatronRun(
        shape(row["model"]),
        megatron_layout(row["gpus"], **sizes, expert_tensor=1),
        row["tokens"],
        recompute=Recompute(row["recompute"]),
        loss=Loss(row["loss"]),
        offloaded=row["offloaded"],
    )


def name_of(row: dict[str, Any]) -> str:
    return "-".join([row["model"], *(f"{k[0]}{row[k]}" for k in SPLIT), str(row["tokens"])])


@pytest.mark.parametrize("row", DATA["runs"], ids=name_of)
def test_states_and_totals_are_the_known_ones(row: dict[str, Any]) -> None:
    found, known = megatron_estimate(run_of(row)), row["gib"]
    rounding = 0.06  # the known values have one digit
    for name, size in (
        ("weights", found.weights),
        ("grads", found.gradients),
        ("optimizer", found.optimizer),
    ):
        assert size / GIB == pytest.approx(known[name], rel=0.02, abs=rounding), name
    assert found.total / GIB == pytest.approx(known["total"], rel=0.05, abs=rounding)


@pytest.mark.parametrize(
    ("name", "billions", "active"),
    [
        ("qwen3-4B", 4.02, 4.02), ("qwen35-9B", 8.75, 8.75), ("qwen35-27B", 26.4, 26.4),
        ("qwen3-30B-A3B", 30.5, 3.3), ("qwen35-35B-A3B", 34.5, 3.2),
        ("qwen35-397B-A17B", 396, 16.6), ("glm5-744B-A40B", 740, 38.1), ("kimi-k2.6", 1024, 30.1),
    ],
)  # fmt: skip
def test_counts_agree_with_the_models_names(name: str, billions: float, active: float) -> None:
    model = shape(name)
    assert model.parameters / 1e9 == pytest.approx(billions, rel=0.01)
    ends = model.embedding_parameters  # the known figures count it among the active
    assert model.active_parameters / 1e9 == pytest.approx(active, abs=ends / 1e9 + 0.3)


@pytest.mark.parametrize(
    ("name", "shared", "billions", "active"),
    [("glm5-744B-A40B", 2048, 744, 40), ("kimi-k2.6", 2048, 1027, 32)],
)
def test_with_the_shared_expert_counts_are_the_published_ones(
    name: str, shared: int, billions: float, active: float
) -> None:
    model = replace(shape(name), shared=shared)
    assert model.parameters / 1e9 == pytest.approx(billions, rel=0.005)
    ends = model.embedding_parameters / 1e9
    assert model.active_parameters / 1e9 == pytest.approx(active, abs=2 * ends)


FOUR = {"model": "qwen3-4B", "gpus": 8, "tensor": 2, "pipeline": 1, "context": 1, "expert": 1,
        "tokens": 10240, "recompute": "none", "loss": "policy", "offloaded": 0.0}  # fmt: skip


def test_recomputation_keeps_the_inputs_of_layers() -> None:
    whole = megatron_estimate(run_of(FOUR)).activations / GIB
    full = megatron_estimate(run_of({**FOUR, "recompute": "full"})).activations / GIB
    assert (whole, full) == (pytest.approx(14.6, rel=0.02), pytest.approx(1.28, rel=0.01))


def test_halving_tokens_halves_activations_and_logits_only() -> None:
    one, half = (megatron_estimate(run_of({**FOUR, "tokens": n})) for n in (10240, 5120))
    assert half.activations == one.activations / 2
    assert half.logits == one.logits / 2
    assert (half.weights, half.gradients, half.optimizer) == (
        one.weights, one.gradients, one.optimizer,
    )  # fmt: skip


def test_optimizer_offload_frees_exactly_the_optimizer() -> None:
    here, away = (megatron_estimate(run_of({**FOUR, "offloaded": f})) for f in (0.0, 1.0))
    assert here.total - away.total == here.optimizer
    assert away.host > here.optimizer


def test_expert_parallelism_leaves_the_experts_optimizer_share() -> None:
    row = {**FOUR, "model": "qwen3-30B-A3B"}
    few, many = (megatron_estimate(run_of({**row, "expert": n})) for n in (2, 8))
    assert many.weights < few.weights
    assert many.optimizer == pytest.approx(few.optimizer)


def test_the_first_stage_holds_most_activations_and_the_last_the_logits() -> None:
    run = run_of({**FOUR, "pipeline": 4})
    first, last = stage_activations(run, 0), stage_activations(run, 3)
    assert first == 4 * last
    long = run_of({**FOUR, "pipeline": 4, "loss": "chunked"})
    assert megatron_estimate(long).stage == 0


def test_a_scoring_pass_needs_less_than_training() -> None:
    run = run_of(FOUR)
    assert scoring_pass(run) < megatron_estimate(run).total


def test_host_memory_of_a_documented_run() -> None:
    row = {**FOUR, "model": "qwen36-35B-A3B", "context": 2, "expert": 8, "offloaded": 1.0}
    assert host_per_node(run_of(row), 8) / GIB == pytest.approx(385 + 154, rel=0.1)


def test_sizes_that_do_not_divide_the_gpus_are_refused() -> None:
    with pytest.raises(ValueError, match="no multiple"):
        megatron_layout(8, tensor=3)


def test_vocabularies_are_padded_for_every_rank() -> None:
    assert padded_vocabulary(151_936, 8) == 152_576
    assert padded_vocabulary(152_576, 8) == 152_576
