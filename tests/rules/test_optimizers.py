"""Optimizer state against that of real optimizers after one step on the CPU."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from pitstop.rules.architecture import Architecture, from_config
from pitstop.rules.optimizers import OPTIMIZERS, Optimizer, optimizer_named, state_bytes
from pitstop.rules.tensors import Tensor, tensors

SIZES = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 160, "vocab_size": 300,
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "qwen2": {},
    "llama": {"tie_word_embeddings": True},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48},
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32},
}


@pytest.fixture(scope="module")
def built() -> dict[str, tuple[Any, Architecture]]:
    from transformers import AutoConfig, AutoModelForCausalLM

    found = {}
    for family, options in MODELS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = AutoConfig.for_model(family, **SIZES, **options)
            model = AutoModelForCausalLM.from_config(config)
        shape = from_config(config.to_dict())
        assert shape is not None
        found[family] = (model, shape)
    return found


def optimizers() -> dict[str, Any]:
    import torch
    from transformers.optimization import Adafactor

    return {
        "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
        "sgd": lambda p: torch.optim.SGD(p, lr=1e-3),
        "sgd_momentum": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9),
        "adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-3),
        "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3),
        "adafactor": lambda p: Adafactor(p, lr=1e-3, scale_parameter=False, relative_step=False),
    }


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "bf16"])
@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize(
    "name", ["adamw", "sgd", "sgd_momentum", "adagrad", "rmsprop", "adafactor"]
)
def test_weights_gradients_and_state_are_exact(
    built: dict[str, tuple[Any, Architecture]], name: str, family: str, half: bool
) -> None:
    import torch

    model, shape = built[family]
    parameters = [
        torch.nn.Parameter(p.detach().to(torch.bfloat16 if half else torch.float32))
        for p in model.parameters()
    ]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 0.01)
    optimizer = optimizers()[name](parameters)
    optimizer.step()
    weight = 2 if half else 4
    assert _bytes(parameters) == weight * shape.parameters
    assert _bytes(p.grad for p in parameters) == weight * shape.parameters
    kept = _bytes(
        value
        for state in optimizer.state.values()
        for key, value in state.items()
        if torch.is_tensor(value) and key not in ("step", "RMS")
    )
    assert state_bytes(OPTIMIZERS[name], tensors(shape), weight) == kept


def _bytes(found: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in found)


MATRIX = Tensor("linear", (4096, 1024))


def test_low_rank_moments_are_those_of_the_projection() -> None:
    kept = state_bytes(OPTIMIZERS["galore"], [MATRIX], 2, rank=128)
    assert kept == 2 * (2 * 128 * 4096 + 128 * 1024)


def test_a_rank_over_a_matrix_size_projects_nothing_away() -> None:
    small = Tensor("linear", (64, 32))
    assert state_bytes(OPTIMIZERS["galore"], [small], 4, rank=128) == 4 * (2 * 32 * 64 + 32 * 32)


def test_eight_bits_leave_embeddings_and_small_tensors_whole() -> None:
    eight = OPTIMIZERS["adamw_8bit"]
    assert state_bytes(eight, [Tensor("vector", (1024,))], 2) == 8 * 1024
    assert state_bytes(eight, [Tensor("embedding", (1000, 64))], 2) == 8 * 64_000
    assert state_bytes(eight, [MATRIX], 2) == pytest.approx(2.03 * MATRIX.elements, rel=0.01)


def test_muon_keeps_one_moment_for_linear_layers_only() -> None:
    assert state_bytes(OPTIMIZERS["muon"], [MATRIX], 4) == 4 * MATRIX.elements
    assert state_bytes(OPTIMIZERS["muon"], [Tensor("head", (8, 8))], 4) == 8 * 64


@pytest.mark.parametrize(
    ("name", "fused", "row"),
    [
        ("adamw_torch_fused", None, "adamw"),
        ("adamw_torch", None, "adamw_foreach"),
        ("AdamW", None, "adamw"),
        ("adamw", False, "adamw_foreach"),
        ("adamw", True, "adamw"),
        ("OneBitAdam", None, "adamw"),
        ("adamw_bnb_8bit", None, "adamw_8bit"),
        ("paged_adamw_32bit", None, "paged_adamw"),
        ("adafactor", None, "adafactor"),
        ("never_heard_of", None, None),
    ],
)
def test_names_of_frameworks(name: str, fused: bool | None, row: str | None) -> None:
    assert optimizer_named(name, fused=fused) == row


def test_every_optimizer_names_its_source() -> None:
    assert all(row.source for row in OPTIMIZERS.values())
    assert isinstance(OPTIMIZERS["adamw"], Optimizer)
