"""The single tensors of a model against those that transformers builds, on the meta device."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest

from pitstop.rules.architecture import from_config
from pitstop.rules.tensors import tensors

FAMILIES = (
    "bloom", "cohere", "deepseek_v3", "gemma2", "gemma3_text", "glm4", "gpt2", "gpt_neox",
    "llama", "mixtral", "olmo", "olmo2", "opt", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3",
    "qwen3_moe", "smollm3", "stablelm", "starcoder2",
)  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_shapes_are_those_of_the_built_model(family: str) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = AutoConfig.for_model(family, num_hidden_layers=2, n_layer=2)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    built = Counter(_oriented(tuple(parameter.shape)) for parameter in model.parameters())
    shape = from_config(config.to_dict())
    assert shape is not None
    counted: Counter[tuple[int, ...]] = Counter()
    for tensor in tensors(shape):
        counted[_oriented(tensor.shape)] += tensor.count
    assert counted == built
    assert sum(tensor.total for tensor in tensors(shape)) == shape.parameters


def _oriented(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Families differ in whether rows are inputs or outputs."""
    return shape if len(shape) != 2 else (min(shape), max(shape))
