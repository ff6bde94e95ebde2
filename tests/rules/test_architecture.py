"""Parameter counts against the modules that transformers builds, on the meta device."""

from __future__ import annotations

import warnings

import pytest

from pitstop.rules.architecture import from_config

FAMILIES = (
    "bloom", "cohere", "deepseek_v2", "deepseek_v3", "gemma", "gemma2", "gemma3_text", "glm",
    "glm4", "gpt2", "gpt_neox", "gpt_oss", "granite", "llama", "mistral", "mixtral", "olmo",
    "olmo2", "olmo3", "opt", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe",
    "smollm3", "stablelm", "starcoder2",
)  # fmt: skip


@pytest.mark.parametrize("tied", [None, True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_count_equals_that_of_the_built_model(family: str, tied: bool | None) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    options = {} if tied is None else {"tie_word_embeddings": tied}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = AutoConfig.for_model(family, **options)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    built = sum(parameter.numel() for parameter in model.parameters())
    shape = from_config(config.to_dict())
    assert shape is not None
    assert shape.parameters == built


@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe", "deepseek_v3"])
def test_a_token_passes_through_its_experts_only(family: str) -> None:
    from transformers import AutoConfig

    shape = from_config(AutoConfig.for_model(family).to_dict())
    assert shape is not None
    idle = shape.moe_layers * (shape.experts - shape.top_k) * shape.expert_parameters
    assert shape.active_parameters == shape.parameters - idle
    assert shape.active_parameters < shape.parameters


def test_multimodal_config_gives_its_language_model() -> None:
    text = {
        "model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
        "vocab_size": 1000,
    }  # fmt: skip
    inner = from_config(text)
    assert inner is not None
    assert from_config({"model_type": "llava", "text_config": text}) == inner
    nested = {"model_type": "omni", "thinker_config": {"text_config": text, "model_type": "x"}}
    assert from_config(nested) == inner


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "never-heard-of"},
        {"model_type": "llama"},
        {"model_type": "llama", "hidden_size": "many"},
        {"model_type": ["llama"]},
        {"model_type": "llama", "hidden_size": 8, "num_attention_heads": 0},
    ],
)
def test_what_does_not_say_enough_gives_nothing(config: dict[str, object]) -> None:
    assert from_config(config) is None
