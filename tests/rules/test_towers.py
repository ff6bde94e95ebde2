"""Vision towers and video transformers against what autograd keeps in the real modules."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from pitstop.rules.activations import Running, layer_bytes
from pitstop.rules.towers import (
    WAN,
    VideoTransformer,
    VisionTower,
    tower_activations,
    tower_layer_parameters,
    video_activations,
    video_layer_bytes,
    vision_tower,
)

WIDTH, FEED_FORWARD, HEADS, SIDE = 128, 352, 8, 8
PATCHES = SIDE * SIDE
FORMATS = [Running.FP32, Running.PURE]


def dtype_of(running: Running) -> Any:
    import torch

    return torch.float32 if running is Running.FP32 else torch.bfloat16


def plain(kind: str, running: Running) -> tuple[Any, Callable[[], Any], Any]:
    import torch
    import transformers

    config = getattr(transformers, f"{kind}VisionConfig")(
        hidden_size=WIDTH, intermediate_size=FEED_FORWARD, num_hidden_layers=2,
        num_attention_heads=HEADS, image_size=16 * SIDE, patch_size=16,
    )  # fmt: skip
    model = getattr(transformers, f"{kind}VisionModel")(config).to(dtype_of(running)).train()
    pixels = torch.randn(1, 3, 16 * SIDE, 16 * SIDE, dtype=dtype_of(running))
    layers = next(m for m in model.modules() if isinstance(m, torch.nn.ModuleList))
    return layers[1], lambda: model(pixels), config


def qwen(version: str, running: Running) -> tuple[Any, Callable[[], Any], Any]:
    import importlib

    import torch

    name = f"transformers.models.qwen{version}_vl"
    modeling = importlib.import_module(f"{name}.modeling_qwen{version}_vl")
    configuration = importlib.import_module(f"{name}.configuration_qwen{version}_vl")
    word = version.replace("2_5", "2_5_")
    sizes: dict[str, Any] = {"depth": 2, "num_heads": HEADS, "patch_size": 14}
    if version == "2":
        config = configuration.Qwen2VLVisionConfig(
            embed_dim=WIDTH, hidden_size=256, mlp_ratio=4, **sizes
        )
    else:
        config = configuration.Qwen2_5_VLVisionConfig(
            hidden_size=WIDTH, intermediate_size=FEED_FORWARD, out_hidden_size=256,
            fullatt_block_indexes=[0, 1], **sizes,
        )  # fmt: skip
    model = getattr(modeling, f"Qwen{word}VisionTransformerPretrainedModel")(config)
    model = model.to(dtype_of(running)).train()
    pixels = torch.randn(PATCHES, 3 * 2 * 14 * 14, dtype=dtype_of(running))
    grid = torch.tensor([[1, SIDE, SIDE]])
    return model.blocks[1], lambda: model(pixels, grid_thw=grid), config


TOWERS: dict[str, Callable[[Running], tuple[Any, Callable[[], Any], Any]]] = {
    "clip": lambda running: plain("CLIP", running),
    "siglip": lambda running: plain("Siglip", running),
    "qwen2_vl": lambda running: qwen("2", running),
    "qwen2_5_vl": lambda running: qwen("2_5", running),
}


@pytest.mark.parametrize("running", FORMATS)
@pytest.mark.parametrize("name", TOWERS)
def test_a_towers_layer_keeps_what_is_counted(name: str, running: Running) -> None:
    layer, forward, config = TOWERS[name](running)
    tower = vision_tower(config.to_dict())
    assert tower is not None
    tokens = PATCHES + (name == "clip")
    counted = layer_bytes(tower.shape, running).total(tokens)
    assert counted == pytest.approx(kept_in(layer, forward) / tokens, rel=0.02)
    assert tower_layer_parameters(tower) == sum(p.numel() for p in layer.parameters())


def kept_in(layer: Any, forward: Callable[[], Any]) -> int:
    """Bytes that the backward pass waits for in one layer."""
    import torch

    own = {p.untyped_storage().data_ptr() for p in layer.parameters()}
    kept: dict[int, tuple[int, Any, bool]] = {}
    inside = False

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept.setdefault(storage.data_ptr(), (storage.nbytes(), tensor, inside))
        return tensor

    def switch(on: bool) -> Callable[..., None]:
        def act(*_: Any) -> None:
            nonlocal inside
            inside = on

        return act

    layer.register_forward_pre_hook(switch(True))
    layer.register_forward_hook(switch(False))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        forward()
    return sum(size for size, _, mine in kept.values() if mine)


SMALL = VideoTransformer(2, WIDTH, HEADS, FEED_FORWARD, text=7, compression=(1, 1, 1))


@pytest.mark.parametrize("running", FORMATS)
def test_a_video_layer_keeps_what_is_counted(running: Running) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from diffusers import WanTransformer3DModel

        model: Any = WanTransformer3DModel(
            patch_size=(1, 2, 2), num_attention_heads=HEADS, attention_head_dim=WIDTH // HEADS,
            in_channels=4, out_channels=4, text_dim=32, freq_dim=32, ffn_dim=FEED_FORWARD,
            num_layers=2, cross_attn_norm=True, qk_norm="rms_norm_across_heads",
        )  # fmt: skip
        model = model.to(dtype_of(running)).train()
    latents = torch.randn(1, 4, 3, 16, 16, dtype=dtype_of(running))
    words = torch.randn(1, SMALL.text, 32, dtype=dtype_of(running))
    tokens = SMALL.tokens(3, 16, 16)
    kept = kept_in(model.blocks[1], lambda: model(latents, torch.tensor([5]), words))
    counted = video_activations(SMALL, running, frames=3, height=16, width=16) / SMALL.layers
    assert counted == pytest.approx(kept, rel=0.02)
    assert tokens == 3 * 8 * 8
    assert SMALL.layer_parameters == sum(p.numel() for p in model.blocks[1].parameters())


@pytest.mark.parametrize(
    ("name", "clip", "tokens", "billions"),
    [
        ("wan2.1-1.3b", (81, 480, 832), 32_760, 1.3),
        ("wan2.1-14b", (81, 720, 1280), 75_600, 14),
        ("wan2.2-5b", (121, 704, 1280), 27_280, 5),
    ],
)
def test_published_video_models(
    name: str, clip: tuple[int, int, int], tokens: int, billions: float
) -> None:
    model = WAN[name]
    assert model.tokens(*clip) == tokens
    assert model.layers * model.layer_parameters / 1e9 == pytest.approx(billions, rel=0.1)


def test_longer_and_larger_clips_keep_more_and_checkpointing_less() -> None:
    model = WAN["wan2.1-1.3b"]

    def size(frames: int, height: int, width: int, *, checkpointing: bool = False) -> float:
        return video_activations(
            model, Running.PURE, frames=frames, height=height, width=width,
            checkpointing=checkpointing,
        )  # fmt: skip

    assert size(49, 480, 832) < size(81, 480, 832) < size(81, 720, 1280)
    assert size(81, 480, 832, checkpointing=True) < size(81, 480, 832) / 10
    assert size(81, 480, 832) > model.layers * 32_760 * video_layer_bytes(model, Running.PURE)


def test_an_images_patches_and_their_activations() -> None:
    tower = vision_tower(
        {"model_type": "qwen2_5_vl", "depth": 32, "hidden_size": 1280, "num_heads": 16,
         "intermediate_size": 3420, "patch_size": 14, "spatial_merge_size": 2}
    )  # fmt: skip
    assert isinstance(tower, VisionTower)
    patches = tower.patches(1092, 1092)
    assert patches == 78 * 78
    whole = tower_activations(tower, Running.PURE, patches)
    assert tower_activations(tower, Running.PURE, patches, checkpointing=True) < whole / 10
    assert tower_activations(tower, Running.PURE, 2 * patches) == 2 * whole
    assert 32 * tower_layer_parameters(tower) / 1e6 == pytest.approx(630, rel=0.02)


@pytest.mark.parametrize(
    "config", [{}, {"model_type": "eye"}, {"model_type": "clip_vision_model", "hidden_size": 8}]
)
def test_towers_that_are_not_known(config: dict[str, Any]) -> None:
    assert vision_tower(config) is None
