"""Vision towers and video transformers: parameters and activations besides language models.

A vision tower is a transformer without a head, so `pitstop.rules.activations` counts its layers;
a video transformer of Wan's kind has layers of its own. Both are checked against the tensors
that autograd keeps in the real modules (tests/rules/test_towers.py). Sizes are bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pitstop.rules.activations import Running, layer_bytes
from pitstop.rules.architecture import Architecture

_TOWERS: Mapping[str, Mapping[str, Any]] = {
    "clip_vision_model": {"activation": "quick_gelu"},
    "siglip_vision_model": {"activation": "gelu_pytorch_tanh"},
    "qwen2_vl": {"activation": "quick_gelu", "fused_qkv": True, "partial_rotary": True},
    "qwen2_5_vl": {
        "activation": "silu", "fused_qkv": True, "partial_rotary": True, "gated": True,
        "norm": "rms",
    },
}  # fmt: skip
"""How the towers of transformers differ from a plain vision transformer."""


@dataclass(frozen=True, slots=True)
class VisionTower:
    """`shape` is that of its layers, `patch` pixels on a side, `merge` patches on a side that
    become one token of the language model."""

    shape: Architecture
    patch: int
    merge: int = 1

    def patches(self, height: int, width: int) -> int:
        """Patches of an image in pixels: what the tower's layers work on."""
        return (height // self.patch) * (width // self.patch)


def vision_tower(config: Mapping[str, Any]) -> VisionTower | None:
    """The tower that a `vision_config` describes; None for one that is not known here."""
    kind = str(config.get("model_type")).removesuffix("_vision")
    family = _TOWERS.get(kind)
    if family is None:
        return None
    try:
        width = int(config["embed_dim"] if kind == "qwen2_vl" else config["hidden_size"])
        heads = int(config.get("num_attention_heads") or config["num_heads"])
        inner = config.get("intermediate_size") or width * config["mlp_ratio"]
        layers = int(config.get("num_hidden_layers") or config["depth"])
        shape = Architecture(
            family=kind, layers=layers, hidden=width, heads=heads, kv_heads=heads,
            head_dim=width // heads, intermediate=int(inner), vocabulary=0, tied=True,
            bias_qkv=True, bias_o=True, bias_mlp=True,
            **{"norm": "layer", "gated": False, **family},
        )  # fmt: skip
        return VisionTower(
            shape, int(config["patch_size"]), int(config.get("spatial_merge_size") or 1)
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def tower_layer_parameters(tower: VisionTower) -> int:
    """Parameters of one layer of a tower."""
    shape = tower.shape
    return shape.attention_parameters + shape.norms * shape.norm_parameters + shape.mlp_parameters


def tower_activations(
    tower: VisionTower, running: Running, patches: float, *, checkpointing: bool = False
) -> float:
    """Activations of all layers for the patches of a micro batch; tensor parallelism leaves them
    whole. Layers with windows keep the same."""
    each = layer_bytes(tower.shape, running).total(patches)
    if checkpointing:
        kept = running.residual * tower.shape.hidden
        return (kept * tower.shape.layers + each) * patches
    return each * tower.shape.layers * patches


@dataclass(frozen=True, slots=True)
class VideoTransformer:
    """A diffusion transformer of Wan's kind: self-attention over all latent patches,
    cross-attention to `text` tokens, modulation by the time step. `compression` and `patch` are
    (frames, height, width)."""

    layers: int
    hidden: int
    heads: int
    intermediate: int
    text: int = 512
    compression: tuple[int, int, int] = (4, 8, 8)
    patch: tuple[int, int, int] = (1, 2, 2)

    @property
    def layer_parameters(self) -> int:
        """One layer: two attentions with biases and norms of queries and keys, a norm between
        them, the feed-forward block and six vectors of modulation."""
        h, width = self.hidden, self.intermediate
        attention = 4 * (h * h + h) + 2 * h
        return 2 * attention + 2 * h + 2 * h * width + width + h + 6 * h

    def tokens(self, frames: int, height: int, width: int) -> int:
        """Latent patches of a clip in pixels: the first frame stands alone, the others are
        compressed together."""
        time, down, across = self.compression
        sizes = ((frames - 1) // time + 1, height // down, width // across)
        return math.prod(size // part for size, part in zip(sizes, self.patch, strict=True))


WAN = {
    "wan2.1-1.3b": VideoTransformer(30, 1536, 12, 8960),
    "wan2.1-14b": VideoTransformer(40, 5120, 40, 13824),
    "wan2.2-5b": VideoTransformer(30, 3072, 24, 14336, compression=(4, 16, 16)),
    "wan2.2-a14b": VideoTransformer(40, 5120, 40, 13824),
}
"""Published configurations; of the last, one of the two experts works at a time."""


def video_layer_bytes(model: VideoTransformer, running: Running) -> float:
    """What one layer keeps per latent patch. The stream, its norms, those of queries and keys
    and the modulation are fp32 (diffusers transformer_wan.py)."""
    size, h = running.element, model.hidden
    modulated = 4 + 4 + size  # a norm's input and output, and the next product's input
    normalised = 4 + 4  # queries or keys before and after their norm
    own = modulated + 2 * normalised + 4 * size + size  # q, k, v, output; what the gate scales
    crossed = 4 + size + normalised + 2 * size
    feed_forward = modulated + 4
    statistics = 3 * 8 + 3 * 4 + 2 * 4 * model.heads
    return h * (own + crossed + feed_forward) + 2 * size * model.intermediate + statistics


def video_activations(
    model: VideoTransformer,
    running: Running,
    *,
    frames: int,
    height: int,
    width: int,
    clips: int = 1,
    checkpointing: bool = False,
) -> float:
    """Activations of all layers for a micro batch of clips in pixels."""
    tokens = clips * model.tokens(frames, height, width)
    each = video_layer_bytes(model, running)
    text = clips * model.text * model.hidden * (8 + 2 * running.element)  # keys and values
    if checkpointing:
        return (4 * model.hidden * model.layers + each) * tokens + text
    return (each * tokens + text) * model.layers
