from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pitstop.rules.facts import gather
from pitstop.rules.models import by_name, model_key
from pitstop.rules.tree import DictTree

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000, "hidden_act": "silu",
    "tie_word_embeddings": False,
}  # fmt: skip


def job_config(name: str) -> str:
    return f"model_name_or_path: {name}\nfinetuning_type: lora\ntemplate: x\ndo_train: true\n"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # as the hub counts the published weights
        ("meta-llama/Llama-2-7b-chat-hf", 6_738_415_616),
        ("meta-llama/Llama-2-70b", 68_976_648_192),
        ("meta-llama/Meta-Llama-3-8B-Instruct", 8_030_261_248),
        ("meta-llama/Llama-3.1-70B", 70_553_706_496),
        ("meta-llama/Llama-3.1-405B", 405_853_388_800),
        ("meta-llama/Llama-3.2-1B-Instruct", 1_235_814_400),
        ("mistralai/Mistral-7B-v0.1", 7_241_732_096),
        ("mistralai/Mistral-7B-Instruct-v0.3", 7_248_023_552),
        ("mistralai/Mixtral-8x7B-v0.1", 46_702_792_704),
        ("Qwen/Qwen1.5-7B-Chat", 7_721_324_544),
        ("Qwen/Qwen2.5-0.5B", 494_032_768),
        ("Qwen/Qwen2.5-7B-Instruct", 7_615_616_512),
        ("Qwen/Qwen2.5-72B", 72_706_203_648),
        ("Qwen/Qwen3-0.6B", 596_049_920),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", 30_532_122_624),
        ("Qwen/Qwen3-235B-A22B", 235_093_634_560),
        ("google/gemma-2b", 2_506_172_416),
        ("google/gemma-2-9b-it", 9_241_705_984),
        ("google/gemma-3-1b-it", 999_885_952),
        ("microsoft/phi-2", 2_779_683_840),
        ("microsoft/Phi-3-mini-4k-instruct", 3_821_079_552),
        ("microsoft/phi-4", 14_659_507_200),
        ("deepseek-ai/deepseek-llm-7b-base", 6_910_365_696),
        ("deepseek-ai/DeepSeek-V2-Lite", 15_706_484_224),
        ("01-ai/Yi-34B", 34_388_917_248),
        ("openai-community/gpt2", 124_439_808),
        ("gpt2-xl", 1_557_611_200),
        ("facebook/opt-125m", 125_239_296),
        ("facebook/opt-13b", 12_853_473_280),
        ("EleutherAI/pythia-160m", 162_322_944),
        ("EleutherAI/pythia-6.9b", 6_857_302_016),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", 1_100_048_384),
        ("bert-base-uncased", 109_482_240),
        ("HuggingFaceTB/SmolLM2-135M", 134_515_008),
    ],
)  # fmt: skip
def test_well_known_models_are_counted_exactly(name: str, parameters: int) -> None:
    assert by_name(name).parameters == parameters


def test_a_mixture_of_experts_has_fewer_active_parameters() -> None:
    facts = by_name("mistralai/Mixtral-8x7B-Instruct-v0.1")
    assert facts.moe is True
    assert facts.active_parameters == 12_879_925_248


@pytest.mark.parametrize(
    ("name", "family", "kind", "moe", "parameters"),
    [
        ("acme/My-13B-model", None, None, None, 13_000_000_000),
        ("acme/qwen2.5-3.5b-special", "qwen2", "llm", False, 3_500_000_000),
        ("acme/tiny-350M", None, None, None, 350_000_000),
        ("acme/thing-30B-A3B", None, None, True, 30_000_000_000),
        ("acme/thing-8x7B", None, None, True, None),
        ("Qwen/Qwen3-VL-30B-A3B-Instruct", "qwen3_vl_moe", "vlm", True, 30_000_000_000),
        ("llava-hf/llava-1.5-7b-hf", "llava", "vlm", False, 7_060_000_000),
        ("FacebookAI/xlm-roberta-base", "roberta", "encoder", False, None),
        ("./output/checkpoint-500", None, None, None, None),
        ("models/v2", None, None, None, None),
        ("acme/7B-and-13B", None, None, None, None),
    ],
)
def test_other_models_are_what_their_name_says(
    name: str, family: str | None, kind: str | None, moe: bool | None, parameters: int | None
) -> None:
    facts = by_name(name)
    assert (facts.family, facts.kind, facts.moe, facts.parameters) == (
        family,
        kind,
        moe,
        parameters,
    )


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "qwen2.5-7b"),
        ("/data/models/Qwen2.5-7B/", "qwen2.5-7b"),
        ("mistralai/Mistral-7B-v0.3", "mistral-7b-v0.3"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b"),
    ],
)
def test_names_are_compared_without_what_does_not_change_the_size(name: str, key: str) -> None:
    assert model_key(name) == key


def test_a_config_in_the_repository_precedes_the_name() -> None:
    files = {"c.yaml": job_config("models/my-7b"), "models/my-7b/config.json": json.dumps(LLAMA)}
    (job,) = gather(DictTree(files)).jobs
    # 2*1000*64 embeddings and head; per layer q,o 2*64*64, k,v 2*64*32, mlp 3*64*128, norms 2*64
    assert job.model.parameters == 128_000 + 2 * (8_192 + 4_096 + 24_576 + 128) + 64
    assert (job.model.layers, job.model.hidden, job.model.vocabulary) == (2, 64, 1000)
    assert job.model.evidence == "models/my-7b/config.json"


@pytest.mark.parametrize(
    "text", ["{", "[1]", '{"model_type": "unheard_of"}', '{"model_type": "llama"}']
)
def test_a_config_that_cannot_be_counted_leaves_the_name(text: str) -> None:
    files = {"c.yaml": job_config("models/my-7b"), "models/my-7b/config.json": text}
    (job,) = gather(DictTree(files)).jobs
    assert job.model.parameters == 7_000_000_000


def test_no_name_is_no_model() -> None:
    (job,) = gather(
        DictTree({"c.yaml": "finetuning_type: lora\ntemplate: x\ndo_train: true\n"})
    ).jobs
    assert job.model.name is None


def test_a_shape_is_no_part_of_what_is_compared_or_reported() -> None:
    facts = by_name("Qwen/Qwen2.5-7B")
    assert facts.shape is not None
    assert facts.shape.parameters == facts.parameters
    assert facts == replace(facts, shape=None)
