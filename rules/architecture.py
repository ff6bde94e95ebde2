"""The shape of a transformer and its exact parameter count, from a Hugging Face config.json.

A family's differences are data (architectures.yaml); this module evaluates them. Counts are in
parameters, sizes in elements. Only what a config states is used: an unknown family gives None.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pitstop.rules.data import load_data

Config = Mapping[str, Any]

NORM_VECTORS = {"rms": 1, "rms_fp32": 1, "layer": 2, "layer_fp32": 0, "layer_python": 1}
"""Vectors of the hidden size that a normalisation owns, by the way it is computed."""

NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys under which multimodal configs keep their language model."""


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, section 2.1): ranks and per-head sizes."""

    q_rank: int | None
    kv_rank: int
    nope: int
    rope: int
    value: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder-only transformer. `moe_layers` of `layers` hold `experts` routed experts each,
    of which `top_k` take a token; `shared` is the intermediate size of the shared experts."""

    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    tied: bool
    gated: bool = True
    experts: int = 0
    top_k: int = 0
    expert_intermediate: int = 0
    shared: int = 0
    moe_layers: int = 0
    positions: int = 0
    latent: LatentAttention | None = None
    bias_qkv: bool = False
    bias_o: bool = False
    bias_mlp: bool = False
    bias_head: bool = False
    bias_router: bool = False
    norm: str = "rms"
    norms: int = 2
    qk_norm: str = "none"
    activation: str = "silu"
    fused_qkv: bool = False
    fused_gate: bool = False
    partial_rotary: bool = False
    parallel: bool = False
    softcap: bool = False
    output_gate: bool = False
    extra_per_layer: int = 0
    extra: int = 0

    @property
    def moe(self) -> bool:
        """True for mixture of experts."""
        return self.moe_layers > 0

    @property
    def attention_parameters(self) -> int:
        """One layer's attention projections, biases and query/key norms."""
        if self.latent:
            return self._latent_parameters(self.latent)
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        count = self.hidden * (q * (2 if self.output_gate else 1) + 2 * kv) + q * self.hidden
        count += (q + 2 * kv) * self.bias_qkv + self.hidden * self.bias_o
        return count + {"none": 0, "head": 2 * self.head_dim, "full": q + kv}[self.qk_norm]

    def _latent_parameters(self, mla: LatentAttention) -> int:
        per_head = mla.nope + mla.rope
        if mla.q_rank:
            q = self.hidden * mla.q_rank + mla.q_rank + mla.q_rank * self.heads * per_head
        else:
            q = self.hidden * self.heads * per_head
        kv = self.hidden * (mla.kv_rank + mla.rope) + mla.kv_rank
        kv += mla.kv_rank * self.heads * (mla.nope + mla.value)
        return q + kv + self.heads * mla.value * self.hidden

    def _mlp(self, width: int, *, biased: bool) -> int:
        matrices = 3 if self.gated else 2
        bias = ((2 if self.gated else 1) * width + self.hidden) * biased
        return matrices * self.hidden * width + bias

    @property
    def mlp_parameters(self) -> int:
        """One dense layer's feed-forward block."""
        return self._mlp(self.intermediate, biased=self.bias_mlp)

    @property
    def expert_parameters(self) -> int:
        """One routed expert."""
        return self._mlp(self.expert_intermediate, biased=self.bias_mlp)

    @property
    def router_parameters(self) -> int:
        """The router of one mixture-of-experts layer."""
        return self.experts * (self.hidden + self.bias_router)

    @property
    def shared_parameters(self) -> int:
        """The shared experts of one mixture-of-experts layer."""
        return self._mlp(self.shared, biased=False) if self.shared else 0

    @property
    def norm_parameters(self) -> int:
        """One normalisation layer over the hidden size."""
        return self.hidden * NORM_VECTORS[self.norm]

    @property
    def embedding_parameters(self) -> int:
        """Token and position embeddings."""
        return (self.vocabulary + self.positions) * self.hidden

    @property
    def head_parameters(self) -> int:
        """The output projection, 0 when it shares the embedding."""
        bias = self.vocabulary * self.bias_head
        return bias if self.tied else self.vocabulary * self.hidden + bias

    @property
    def routed_parameters(self) -> int:
        """All routed experts: what expert parallelism divides."""
        return self.moe_layers * self.experts * self.expert_parameters

    @property
    def parameters(self) -> int:
        """All parameters of the language model."""
        per_layer = self.attention_parameters + self.norms * self.norm_parameters
        moe = self.router_parameters + self.shared_parameters + self.extra_per_layer * self.moe
        every = 0 if self.moe else self.extra_per_layer
        return (
            self.layers * (per_layer + every)
            + (self.layers - self.moe_layers) * self.mlp_parameters
            + self.moe_layers * moe
            + self.routed_parameters
            + self.embedding_parameters
            + self.head_parameters
            + self.norm_parameters
            + self.extra
        )

    @property
    def active_parameters(self) -> int:
        """Parameters that one token passes through."""
        idle = self.moe_layers * (self.experts - self.top_k) * self.expert_parameters
        return self.parameters - idle

    @property
    def largest_layer(self) -> int:
        """Parameters of the biggest layer: what ZeRO-3 and FSDP gather at once."""
        moe = self.router_parameters + self.shared_parameters
        moe += self.experts * self.expert_parameters
        mlp = moe if self.moe else self.mlp_parameters
        return self.attention_parameters + self.norms * self.norm_parameters + mlp


def from_config(config: Config) -> Architecture | None:
    """The architecture that a config.json describes, or None when its family is not known here
    or a size is missing. Multimodal configs give their language model (towers not counted)."""
    config = language_config(config)
    family = config.get("model_type")
    row = _families().get(str(family))
    if row is None:
        return None
    try:
        return _build(str(family), row, config)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def language_config(config: Config) -> Config:
    """The part of a multimodal config that describes the language model; else the config."""
    for key in NESTED:
        inner = config.get(key)
        if isinstance(inner, Mapping) and ("model_type" in inner or "hidden_size" in inner):
            kept = {"tie_word_embeddings": config.get("tie_word_embeddings")}
            merged = {k: v for k, v in kept.items() if v is not None and k not in inner}
            return language_config({**inner, **merged})
    return config


@functools.cache
def _families() -> Mapping[str, Mapping[str, Any]]:
    rows: dict[str, dict[str, Any]] = load_data("pitstop.rules", "architectures.yaml")
    default = rows.pop("default")
    return {
        name: {**default, **row, "bias": {**default["bias"], **row.get("bias", {})}}
        for name, row in rows.items()
    }


def _build(family: str, row: Mapping[str, Any], config: Config) -> Architecture:
    sizes: dict[str, int] = {}
    for name in ("hidden", "layers", "heads", "kv_heads", "head_dim", "intermediate"):
        sizes[name] = int(_evaluate(row[name], config, sizes))
    latent = _latent(config) if row.get("attention") == "mla" else None
    experts = int(_evaluate(row["experts"], config, sizes) or 0)
    bias = {part: bool(_evaluate(text, config, sizes)) for part, text in row["bias"].items()}
    return Architecture(
        family=family,
        **sizes,
        vocabulary=int(_evaluate(row["vocabulary"], config, sizes)),
        tied=bool(_evaluate(row["tied"], config, sizes)),
        gated=row["mlp"] == "gated",
        experts=experts,
        top_k=int(_evaluate(row["top_k"], config, sizes) or 0),
        expert_intermediate=int(_evaluate(row["expert_intermediate"], config, sizes)),
        shared=int(_evaluate(row["shared_intermediate"], config, sizes) or 0),
        moe_layers=_moe_layers(row, config, sizes) if experts else 0,
        positions=int(_evaluate(row["positions"], config, sizes)),
        latent=latent,
        bias_qkv=bias["qkv"],
        bias_o=bias["o"],
        bias_mlp=bias["mlp"],
        bias_head=bias["head"],
        bias_router=bias["router"],
        norm=row["norm"],
        norms=row["norms"],
        qk_norm=row["qk_norm"],
        activation=str(_evaluate(row["activation"], config, sizes) or "silu"),
        fused_qkv="qkv" in row["fused"],
        fused_gate="gate_up" in row["fused"],
        partial_rotary=row["partial_rotary"],
        parallel=bool(_evaluate(row["parallel"], config, sizes)),
        softcap=bool(config.get("attn_logit_softcapping")) if row["softcap"] else False,
        output_gate=row["output_gate"],
        extra_per_layer=int(_evaluate(row["extra_per_layer"], config, sizes)),
        extra=int(_evaluate(row["extra"], config, sizes)),
    )


def _latent(config: Config) -> LatentAttention:
    rank = config.get("q_lora_rank")
    return LatentAttention(
        q_rank=int(rank) if rank else None,
        kv_rank=int(config["kv_lora_rank"]),
        nope=int(config["qk_nope_head_dim"]),
        rope=int(config["qk_rope_head_dim"]),
        value=int(config["v_head_dim"]),
    )


def _moe_layers(row: Mapping[str, Any], config: Config, sizes: Mapping[str, int]) -> int:
    """Layers with experts: all but the first dense ones, every `sparse_step`-th, less those
    that the config lists as dense."""
    dense = int(_evaluate(row["dense_layers"], config, sizes) or 0)
    step = int(_evaluate(row.get("sparse_step", 1), config, sizes) or 1)
    listed = set(config.get("mlp_only_layers") or ())
    layers = range(dense, sizes["layers"])
    return sum(1 for layer in layers if layer not in listed and (layer + 1) % step == 0)


def _evaluate(text: Any, config: Config, sizes: Mapping[str, int]) -> Any:
    """A cell of the table: a literal, `$key|fallback`, a size's name, or one `a*b`, `a/b`, `a+b`.

    Raises KeyError when a key is missing and there is no fallback.
    """
    if not isinstance(text, str):
        return text
    if text.startswith("$"):
        text, _, fallback = text[1:].partition("|")
        value = _operate(text, config, sizes)
        if value is not None:
            return value
        if not fallback:
            raise KeyError(text)
        text = fallback
        if text in ("true", "false"):
            return text == "true"
    return _operate(text, config, sizes)


def _operate(text: str, config: Config, sizes: Mapping[str, int]) -> Any:
    for sign in "*/+":
        left, found, right = text.partition(sign)
        if found:
            a, b = _operate(left, config, sizes), _operate(right, config, sizes)
            if a is None or b is None:
                return None
            return a * b if sign == "*" else a // b if sign == "/" else a + b
    if text.isdigit():
        return int(text)
    return sizes[text] if text in sizes else config.get(text)
