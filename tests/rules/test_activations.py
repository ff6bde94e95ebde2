"""Activation bytes against the tensors that autograd really keeps, on the CPU."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import pytest

from pitstop.rules.activations import (
    Adapters,
    Attention,
    Running,
    activation_bytes,
    layer_bytes,
    logits_bytes,
)
from pitstop.rules.architecture import Architecture, from_config

BATCH, SEQUENCE, WIDTH, FEED_FORWARD, HEADS = 1, 72, 128, 352, 8
TOKENS = BATCH * SEQUENCE
NO_SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
MULTI_HEAD = ("gpt2", "opt", "gpt_neox")
DENSE: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {},
    "qwen2": {},
    "qwen3": {},
    "gemma": {},
    "gemma2": {},
    "gemma3_text": {},
    "olmo": {},
    "olmo2": {},
    "granite": {},
    "cohere": {},
    "stablelm": {},
    "smollm3": NO_SPECIAL,
    "glm": NO_SPECIAL,
    "phi3": NO_SPECIAL,
    "phi": {},
    "starcoder2": {"residual_dropout": 0.0, "embedding_dropout": 0.0},
    "opt": {"ffn_dim": FEED_FORWARD, "word_embed_proj_dim": WIDTH, "dropout": 0.0},
    "gpt2": {
        "n_embd": WIDTH, "n_head": HEADS, "n_inner": FEED_FORWARD,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    },
    "gpt_neox": {},
}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 2}
SPARSE: dict[str, dict[str, Any]] = {
    "mixtral": {**EXPERTS, "num_local_experts": 8},
    "qwen3_moe": {**EXPERTS, "num_experts": 8, "moe_intermediate_size": 96},
    "qwen2_moe": {
        **EXPERTS, "num_experts": 8, "moe_intermediate_size": 96,
        "shared_expert_intermediate_size": 160,
    },
}  # fmt: skip


def build(family: str, layers: int, running: Running, attention: Attention) -> Any:
    """A small model of a family, in training mode."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    kv_heads = HEADS if family in MULTI_HEAD else HEADS // 2
    sizes = {
        "hidden_size": WIDTH, "num_hidden_layers": layers, "num_attention_heads": HEADS,
        "num_key_value_heads": kv_heads, "intermediate_size": FEED_FORWARD, "vocab_size": 211,
        "max_position_embeddings": 512, "n_layer": layers, "n_positions": 512,
    }  # fmt: skip
    if family not in ("gpt_neox", "phi", "opt", "gpt2"):
        sizes["head_dim"] = WIDTH // HEADS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = AutoConfig.for_model(family, **{**sizes, **{**DENSE, **SPARSE}[family]})
        model = AutoModelForCausalLM.from_config(
            config,
            attn_implementation="eager" if attention is Attention.EAGER else "sdpa",
            dtype=torch.bfloat16 if running is Running.PURE else torch.float32,
        )
    return model.train()


def kept_bytes(model: Any, running: Running) -> float:
    """Bytes per token that the backward pass waits for in the last layer, weights and their
    casts apart."""
    import torch

    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    shapes = {tuple(p.shape) for p in model.parameters() if p.dim() == 2}
    shapes |= {shape[::-1] for shape in shapes}
    kept: dict[int, tuple[int, Any, bool]] = {}
    inside = False

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:  # kept alive, so that addresses differ
            kept.setdefault(storage.data_ptr(), (storage.nbytes(), tensor, inside))
        return tensor

    def enter(*_: Any) -> None:
        nonlocal inside
        inside = True

    def leave(*_: Any) -> None:
        nonlocal inside
        inside = False

    last = layers_of(model)[-1]
    last.register_forward_pre_hook(enter)
    last.register_forward_hook(leave)
    autocast = running is Running.AUTOCAST
    mixed: Any = (
        torch.autocast("cpu", dtype=torch.bfloat16) if autocast else contextlib.nullcontext()
    )
    ids = torch.randint(3, 200, (BATCH, SEQUENCE), generator=torch.Generator().manual_seed(0))
    with mixed, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model.base_model(ids, use_cache=False)
    counted = sum(
        size
        for size, tensor, mine in kept.values()
        if mine
        and not (autocast and tensor.dtype == torch.bfloat16 and tuple(tensor.shape) in shapes)
    )
    return counted / TOKENS


def layers_of(model: Any) -> Any:
    """The list of a model's decoder layers."""
    import torch

    return next(m for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == 2)


def measured_and_counted(
    family: str, running: Running, attention: Attention
) -> tuple[float, float]:
    """Bytes per token of one layer: what autograd keeps in the second of two, and our count."""
    model = build(family, 2, running, attention)
    shape = from_config(model.config.to_dict())
    assert shape is not None
    return kept_bytes(model, running), layer_bytes(shape, running, attention).total(SEQUENCE)


@pytest.mark.parametrize("running", list(Running))
@pytest.mark.parametrize("family", DENSE)
def test_a_dense_layer_keeps_what_is_counted(family: str, running: Running) -> None:
    attention = Attention.EAGER if family == "gemma2" else Attention.FUSED
    measured, counted = measured_and_counted(family, running, attention)
    assert counted == pytest.approx(measured, rel=0.02)


@pytest.mark.parametrize("running", [Running.FP32, Running.PURE])
@pytest.mark.parametrize("family", SPARSE)
def test_a_layer_of_experts_keeps_what_is_counted(family: str, running: Running) -> None:
    measured, counted = measured_and_counted(family, running, Attention.FUSED)
    assert counted == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("running", [Running.FP32, Running.PURE])
@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma2"])
def test_eager_attention_keeps_its_scores(family: str, running: Running) -> None:
    measured, counted = measured_and_counted(family, running, Attention.EAGER)
    assert counted == pytest.approx(measured, rel=0.1)


ATTENTION = ("q", "k", "v", "o")
EVERYTHING = (*ATTENTION, "gate", "up", "down")


@pytest.mark.parametrize("adapted", [(), ("q", "v"), ATTENTION, EVERYTHING], ids="-".join)
@pytest.mark.parametrize("running", [Running.FP32, Running.PURE])
@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma"])
def test_frozen_layers_keep_what_adapters_need(
    family: str, running: Running, adapted: tuple[str, ...]
) -> None:
    model = build(family, 2, running, Attention.FUSED)
    shape = from_config(model.config.to_dict())
    adapt(model, adapted, rank=4)
    counted = layer_bytes(shape, running, adapters=Adapters(frozenset(adapted), 4))
    assert counted.total(SEQUENCE) == pytest.approx(kept_bytes(model, running), rel=0.02)


def adapt(model: Any, names: tuple[str, ...], rank: int) -> None:
    """Freeze the weights and put low-rank products beside some modules, as peft does."""
    import torch

    class Adapted(torch.nn.Module):
        def __init__(self, base: Any) -> None:
            super().__init__()
            options = {"bias": False, "dtype": base.weight.dtype}
            self.base = base
            self.down = torch.nn.Linear(base.in_features, rank, **options)
            self.up = torch.nn.Linear(rank, base.out_features, **options)

        def forward(self, x: Any) -> Any:
            return self.base(x) + 2.0 * self.up(self.down(x))

    model.requires_grad_(False)
    embedding = model.get_input_embeddings()
    embedding.register_forward_hook(lambda *call: call[2].requires_grad_(True))
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name.removesuffix("_proj") in names and isinstance(child, torch.nn.Linear):
                setattr(module, name, Adapted(child))


SHAPE = Architecture(
    family="llama", layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128,
    intermediate=14336, vocabulary=128256, tied=False,
)  # fmt: skip


def test_checkpointing_keeps_a_layers_input_and_recomputes_one() -> None:
    options = {"micro_batch": 1, "sequence": 4096}
    plain = activation_bytes(SHAPE, Running.PURE, **options)
    checkpointed = activation_bytes(SHAPE, Running.PURE, checkpointing=True, **options)
    assert checkpointed.layers == 2 * 4096 * 4096 * 32
    assert checkpointed.layer == pytest.approx(plain.layers / 32)
    assert checkpointed.start < plain.start


def test_tensor_and_context_parallelism_divide_activations() -> None:
    one = activation_bytes(SHAPE, Running.PURE, micro_batch=1, sequence=8192)
    many = activation_bytes(SHAPE, Running.PURE, micro_batch=1, sequence=8192, tensor=4, context=2)
    assert many.layers == pytest.approx(one.layers / 8)
    assert many.logits.high == pytest.approx(one.logits.high / 8)


def test_a_fused_loss_never_holds_all_logits() -> None:
    whole = logits_bytes(SHAPE, Running.PURE, 8192)
    assert whole.low == 8192 * 128256 * (4 + 4 + 4)
    assert logits_bytes(SHAPE, Running.PURE, 8192, fused=True).high < whole.low / 10
