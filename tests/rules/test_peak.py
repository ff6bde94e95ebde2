"""The predicted peak against the most that real training steps allocate, on the CPU.

Small models, but real ones: forward, loss, backward and optimizer step of transformers with
PyTorch's own record of every allocation. What only a GPU has (context, allocator, communication)
is left out on both sides.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from pitstop.rules.activations import Running
from pitstop.rules.architecture import Architecture, from_config
from pitstop.rules.estimate import Moment, estimate
from pitstop.rules.memory import Keeping
from pitstop.rules.trained import Setup

BATCH, SEQUENCE = 2, 256
SIZES = {
    "hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 8,
    "num_key_value_heads": 4, "intermediate_size": 704, "vocab_size": 3000,
    "max_position_embeddings": 512, "tie_word_embeddings": False, "head_dim": 32,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
GPT2 = {
    "n_embd": 256, "n_head": 8, "n_layer": 6, "n_positions": 512, "vocab_size": 3000,
    "bos_token_id": 1, "eos_token_id": 2,
    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
}  # fmt: skip
FAMILIES = ("llama", "qwen2", "qwen3", "gpt2", "gemma", "mistral", "olmo2", "phi3", "granite")
WAYS = [
    (Running.PURE, Keeping.PURE),
    (Running.FP32, Keeping.FP32),
    (Running.AUTOCAST, Keeping.AUTOCAST),
]
STANDING = ("weights", "optimizer state", "fragmentation", "CUDA context and NCCL")


@pytest.mark.parametrize("checkpointing", [False, True], ids=["whole", "checkpointed"])
@pytest.mark.parametrize(("running", "keeping"), WAYS, ids=lambda way: str(way))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_steps_peak_is_the_predicted_one(
    family: str, running: Running, keeping: Keeping, checkpointing: bool
) -> None:
    model, shape = built(family, running)
    setup = Setup(
        shape, BATCH, SEQUENCE, keeping=keeping, running=running, checkpointing=checkpointing
    )
    predicted = max(moving(moment) for moment in estimate(setup).moments)
    measured = peak_of(training_step(model, running, checkpointing=checkpointing))
    assert predicted == pytest.approx(measured, rel=0.1)


def moving(moment: Moment) -> float:
    """Bytes that a step allocates: not what stands from step to step."""
    return sum(part.size.middle for part in moment.parts if part.name not in STANDING)


def built(family: str, running: Running) -> tuple[Any, Architecture]:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = AutoConfig.for_model(family, **(GPT2 if family == "gpt2" else SIZES))
        model = AutoModelForCausalLM.from_config(
            config,
            attn_implementation="sdpa",
            dtype=torch.bfloat16 if running is Running.PURE else torch.float32,
        )
    shape = from_config(config.to_dict())
    assert shape is not None
    return model.train(), shape


def training_step(model: Any, running: Running, *, checkpointing: bool) -> Callable[[], None]:
    """A step, done once before so that the optimizer has its state."""
    import torch

    if checkpointing:
        model.activation_checkpointing_enable({"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    ids = torch.randint(3, 200, (BATCH, SEQUENCE))

    def step() -> None:
        mixed: Any = contextlib.nullcontext()
        if running is Running.AUTOCAST:
            mixed = torch.autocast("cpu", dtype=torch.bfloat16)
        with mixed:
            loss = model(ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    return step


def peak_of(step: Callable[[], None]) -> int:
    """The most bytes allocated at once in a call, over what was before."""
    import torch

    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        step()
    inner: Any = profile.profiler
    events = [e for e in inner.kineto_results.events() if e.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most
