"""What is known of the model that a job trains: from a config.json in the repository, from a
small table of well-known models, else from what its name says. The rest is unknown."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pitstop.rules.architecture import Architecture, from_config
from pitstop.rules.data import load_data
from pitstop.rules.finding import Location, Setting
from pitstop.rules.job import ModelFacts
from pitstop.rules.sources import Sources
from pitstop.rules.tree import SourceFile

_SIZES = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "intermediate_size", "vocab_size", "tie_word_embeddings", "head_dim",
)  # fmt: skip

_OTHER_NAMES: Mapping[str, Mapping[str, str]] = {
    "gpt2": {
        "hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
        "intermediate_size": "n_inner",
    },
    "opt": {"intermediate_size": "ffn_dim"},
}  # fmt: skip
"""What the config.json of a family calls a size."""

_FIXED: Mapping[str, Mapping[str, int | str]] = {
    "gpt2": {"n_positions": 1024, "activation_function": "gelu_new"},
    "opt": {"max_position_embeddings": 2048, "activation_function": "relu"},
    "gpt_neox": {"hidden_act": "gelu"},
    "phi": {"hidden_act": "gelu_new"},
    "gemma": {"hidden_act": "gelu_pytorch_tanh"},
    "gemma2": {"hidden_act": "gelu_pytorch_tanh"},
    "gemma3_text": {"hidden_act": "gelu_pytorch_tanh"},
}
"""What every shipped config.json of a family says; the others have `silu`."""

_NOT_TEXT = re.compile(r"(?<![a-z])(tts|asr|audio|speech|omni|voice)(?![a-z])")
"""Relatives of a language model that have further heads or towers."""
_SUFFIXES = re.compile(
    r"[-_](instruct|chat|hf|it|base|sft|thinking|preview|gptq|awq|gguf|bnb|fp8|bf16|int[48]|[48]bit|w4a16"
    r"|unsloth|8k|32k|1m|v\d+\.\d+|\d{4}|npu|abliterated|abliterate)(?=[-_]|$)"
)
_PREFIXES = re.compile(r"^(meta-|hf-|openai-)")
_COUNT = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)\s?([bm])(?![a-z0-9])")
_EXPERTS = re.compile(r"(?<![a-z0-9.])(\d+)x(\d+(?:\.\d+)?)b(?![a-z0-9])")
_ACTIVE = re.compile(r"(?<![a-z0-9.])a(\d+(?:\.\d+)?)b(?![a-z0-9])")

_FAMILIES: tuple[tuple[str, str, str], ...] = (
    (r"qwen3[-_.]?vl.*-a\d", "qwen3_vl_moe", "vlm"), (r"qwen3[-_.]?vl", "qwen3_vl", "vlm"),
    (r"qwen3.*-a\d", "qwen3_moe", "llm"),
    (r"qwen2\.?5[-_.]?vl", "qwen2_5_vl", "vlm"), (r"qwen2[-_.]?vl", "qwen2_vl", "vlm"),
    (r"qwen3", "qwen3", "llm"), (r"qwen2.*-a\d|qwen1\.5-moe", "qwen2_moe", "llm"),
    (r"qwen(2|1\.5)", "qwen2", "llm"), (r"mixtral", "mixtral", "llm"),
    (r"mistral|ministral|zephyr", "mistral", "llm"), (r"gemma-?3n", "gemma3n", "vlm"),
    (r"gemma-?3", "gemma3", "vlm"), (r"gemma-?2", "gemma2", "llm"), (r"gemma", "gemma", "llm"),
    (r"llava", "llava", "vlm"), (r"internvl", "internvl", "vlm"),
    (r"minicpm-?v", "minicpmv", "vlm"),
    (r"llama-?4", "llama4", "vlm"), (r"llama-3\.2-(11|90)b", "mllama", "vlm"),
    (r"(code|tiny)?llama|vicuna|alpaca", "llama", "llm"), (r"phi-?[34]", "phi3", "llm"),
    (r"phi-?2", "phi", "llm"), (r"deepseek-(v3|r1$)", "deepseek_v3", "llm"),
    (r"deepseek-v2", "deepseek_v2", "llm"), (r"internlm-?2", "internlm2", "llm"),
    (r"internlm3", "internlm3", "llm"), (r"baichuan", "baichuan", "llm"),
    (r"falcon", "falcon", "llm"),
    (r"pythia|gpt-neox", "gpt_neox", "llm"), (r"gpt-?2", "gpt2", "llm"), (r"opt-", "opt", "llm"),
    (r"bloom", "bloom", "llm"), (r"olmo-?2", "olmo2", "llm"), (r"smollm3", "smollm3", "llm"),
    (r"smollm", "llama", "llm"), (r"gpt-oss", "gpt_oss", "llm"), (r"glm-4", "chatglm", "llm"),
    (r"deberta-v[23]", "deberta-v2", "encoder"), (r"distilbert", "distilbert", "encoder"),
    (r"(xlm-)?roberta", "roberta", "encoder"), (r"bert", "bert", "encoder"),
    (r"(flan-|m|by)?t5", "t5", "seq2seq"),
    (r"bart", "bart", "seq2seq"), (r"vit-", "vit", "vision"), (r"whisper", "whisper", "other"),
    (r"stable-diffusion-xl|sdxl", "stable-diffusion-xl", "diffusion"),
    (r"stable-diffusion", "stable-diffusion", "diffusion"), (r"flux", "flux", "diffusion"),
    (r"wan[-_]?2", "wan", "video"), (r"hunyuanvideo|cogvideo", "video", "video"),
)  # fmt: skip
"""Beginnings or parts of a model's name, its family (model_type) and kind; the first that
matches."""


def model_of(
    settings: Mapping[str, tuple[Setting, ...]], sources: Sources, folders: tuple[str, ...]
) -> ModelFacts:
    """The model that the job's `model.name` names."""
    found = settings.get("model.name")
    name = found[0].value if found else None
    if not found or not isinstance(name, str) or not name.strip():
        return ModelFacts()
    path = sources.resolve(f"{name.rstrip('/')}/config.json", *folders)
    file = sources.file(path) if path else None
    if file is not None:
        described = from_file(file, name)
        if described is not None:
            return described
    return by_name(name, found[0].where)


def from_file(file: SourceFile, name: str) -> ModelFacts | None:
    """The model that a config.json describes; None when it is none that we can count."""
    try:
        config = json.loads(file.text)
    except ValueError:
        return None
    if not isinstance(config, dict):
        return None
    shape = from_config(config)
    multimodal = "vision_config" in config
    if shape is None:
        return None
    return from_shape(shape, name, "vlm" if multimodal else "llm", file.path, file.location(0, 0))


def from_shape(
    shape: Architecture, name: str, kind: str, evidence: str, location: Location | None
) -> ModelFacts:
    """What a shape says of a model."""
    return ModelFacts(
        name=name,
        family=shape.family,
        kind=kind,
        moe=shape.moe,
        parameters=shape.parameters,
        active_parameters=shape.active_parameters,
        layers=shape.layers,
        hidden=shape.hidden,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        vocabulary=shape.vocabulary,
        evidence=evidence,
        location=location,
        shape=shape,
    )


def by_name(name: str, location: Location | None = None) -> ModelFacts:
    """What a model's name alone tells: the table's row, else what stands in the name."""
    key = model_key(name)
    known = _table().get(key)
    if isinstance(known, Architecture):
        return from_shape(known, name, "llm", f"the published configuration of {key}", location)
    if known is not None:
        exact = "parameters" in known
        return ModelFacts(
            name=name,
            parameters=known.get("parameters", known.get("about")),
            evidence=f"{'the' if exact else 'about the'} published size of {key}",
            location=location,
            moe=known.get("moe", False),
            **{k: v for k, v in known.items() if k not in ("parameters", "about", "moe")},
        )
    return _from_words(name, key, location)


def _from_words(name: str, key: str, location: Location | None) -> ModelFacts:
    """The family and count that a name spells out: 7b, 30b-a3b, 8x7b."""
    family, kind = next(
        ((family, kind) for pattern, family, kind in _FAMILIES if re.match(pattern, key)),
        (None, None),
    )
    if _NOT_TEXT.search(key):
        family, kind = None, "other"
    experts, active = _EXPERTS.search(key), _ACTIVE.search(key)
    counts = [] if experts else _COUNT.findall(key)
    parameters = _number(*counts[0]) if len(counts) == 1 else None
    moe = True if experts or active else (False if family and "moe" not in family else None)
    if family is None and parameters is None and not moe:
        return ModelFacts(name=name, location=location)
    return ModelFacts(
        name=name,
        family=family,
        kind=kind,
        moe=moe,
        parameters=parameters,
        active_parameters=_number(active[1], "b") if active else (None if moe else parameters),
        evidence="what the model's name says",
        location=location,
    )


def _number(text: str, unit: str) -> int:
    return round(float(text) * (1_000_000_000 if unit == "b" else 1_000_000))


def model_key(name: str) -> str:
    """A model's name as the table spells it: the last part of the path, lower case, without
    what does not change its size (instruct, chat, dates, quantisation)."""
    key = name.rstrip("/").rpartition("/")[2].lower()
    key = _PREFIXES.sub("", key)
    if key in _table():
        return key
    bare = key
    while (shorter := _SUFFIXES.sub("", bare, count=1)) != bare:
        bare = shorter
        if bare in _table():
            return bare
    return bare.removesuffix("-1.0")


def shapes_near(parameters: int) -> list[Architecture]:
    """Shapes of known dense decoders within a quarter of a parameter count, the smallest and
    the largest hidden size among them, each with what is over or under it made up for."""
    known = [shape for shape in _table().values() if isinstance(shape, Architecture)]
    near = [
        shape
        for shape in known
        if not shape.moe and abs(shape.parameters - parameters) <= parameters / 4
    ]
    if not near:
        return []
    near.sort(key=lambda shape: (shape.hidden * shape.layers, shape.vocabulary))
    return [
        replace(shape, extra=shape.extra + parameters - shape.parameters)
        for shape in dict.fromkeys((near[0], near[-1]))
    ]


Known = Architecture | Mapping[str, Any]


@functools.cache
def _table() -> Mapping[str, Known]:
    data: dict[str, Any] = load_data("pitstop.rules", "models.yaml")
    found: dict[str, Known] = dict(data["others"])
    for family, rows in data["decoders"].items():
        for name, sizes in rows.items():
            found[name] = _shape(_config(family, sizes))
    for name, config in data["experts"].items():
        found[name] = _shape(config)
    return found


def _config(family: str, sizes: list[Any]) -> dict[str, Any]:
    """A row of the table as the config.json of its family writes it."""
    other = _OTHER_NAMES.get(family, {})
    config = {other.get(key, key): value for key, value in zip(_SIZES, sizes, strict=False)}
    fixed = _FIXED.get(family, {"hidden_act": "silu"})
    return {"model_type": family, **fixed, **config}


def _shape(config: Mapping[str, Any]) -> Architecture:
    shape = from_config(config)
    if shape is None:
        raise ValueError(f"models.yaml: {config} is no architecture that we can count")
    return shape
