"""Memory of an inference engine beside training: weights, key-value cache, and who holds what
when both share GPUs.

Defaults are those of SGLang 0.5.12 (server_args.py); sizes are bytes per GPU. A step of colocated
reinforcement learning has three moments: generation (training asleep), the update (the engine
asleep), and handing the new weights over (both awake in part).
"""

from __future__ import annotations

from dataclasses import dataclass

from pitstop.rules.architecture import Architecture
from pitstop.rules.memory import GIB

MIB = 2**20
RESIDUAL = 8 * GIB
"""What a sleeping trainer still holds: contexts, communicators, remains of the allocator (seen
in Relax's documented 35B run)."""

WEIGHT_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int4": 0.55}
"""Bytes per parameter of engine weights."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An inference engine. `tensor` GPUs share one copy, of which `attention` share a head's
    cache (data-parallel attention makes it smaller than `tensor`); `fraction` of the card goes
    to weights and cache (mem_fraction_static, None: worked out by the engine)."""

    model: Architecture
    tensor: int = 1
    attention: int | None = None
    expert: int = 1
    weights: str = "bf16"
    cache_bytes: float = 2.0
    fraction: float | None = None
    chunk: int = 8192
    graph_batch: int | None = None
    full_attention_layers: int | None = None
    speculative: bool = False

    @property
    def heads_split(self) -> int:
        """GPUs that divide the key-value heads."""
        return self.attention or self.tensor


def engine_weights(engine: Engine) -> float:
    """Weights on one GPU; experts are spread like the rest of the copy."""
    return WEIGHT_BYTES[engine.weights] * engine.model.parameters / engine.tensor


def cache_bytes_per_token(engine: Engine) -> float:
    """Key-value cache of one token: keys and values of each head that this GPU keeps (at least
    one), or with latent attention the compressed vector, which every GPU keeps."""
    model = engine.model
    layers = engine.full_attention_layers or model.layers
    if model.latent:
        return layers * (model.latent.kv_rank + model.latent.rope) * engine.cache_bytes
    heads = max(model.kv_heads / engine.heads_split, 1.0)
    return 2 * layers * heads * model.head_dim * engine.cache_bytes


def reserve(engine: Engine, memory: int) -> float:
    """What the engine leaves for activations and CUDA graphs when no fraction is set."""
    batch = engine.graph_batch or (256 if engine.tensor < 4 else 512)
    size = 512 * MIB + 1.5 * MIB * max(engine.chunk, 2048) + 2 * MIB * batch
    size += GIB * engine.tensor / 8
    if engine.speculative:
        size += 5 * GIB
    return max(size, 10 * GIB) if memory > 60 * GIB else size


def static_fraction(engine: Engine, memory: int) -> float:
    """The share of the card for weights and cache."""
    if engine.fraction is not None:
        return engine.fraction
    return (memory - reserve(engine, memory)) / memory


def cache_tokens(engine: Engine, memory: int) -> int:
    """Tokens that the cache of one engine holds; 0 when the weights alone are too large."""
    pool = static_fraction(engine, memory) * memory - engine_weights(engine)
    return max(0, int(pool / cache_bytes_per_token(engine)))


def tokens_needed(requests: int, prompt: int, answer: int) -> int:
    """Tokens of cache for requests that run at once: prompts and about half of the answers."""
    return requests * (prompt + answer // 2)


@dataclass(frozen=True, slots=True)
class SharedMoment:
    """One moment on a card that training and rollout share."""

    name: str
    training: float
    rollout: float

    @property
    def total(self) -> float:
        """Bytes at this moment."""
        return self.training + self.rollout


def colocated(
    engine: Engine, memory: int, *, train_total: float, buffer: float, largest_layer: float
) -> tuple[SharedMoment, ...]:
    """The moments of a step on shared cards. `buffer` is one chunk of weights on its way (two
    are alive), `largest_layer` what is gathered for it."""
    static = static_fraction(engine, memory) * memory
    working = min(memory - static, reserve(engine, memory))
    return (
        SharedMoment("generation", RESIDUAL, static + working),
        SharedMoment("update", train_total, 0.0),
        SharedMoment(
            "handing weights over", RESIDUAL + 2 * buffer + largest_layer, engine_weights(engine)
        ),
    )


def separate(engine: Engine, memory: int, *, train_total: float) -> tuple[SharedMoment, ...]:
    """The same on cards of their own: nobody sleeps."""
    static = static_fraction(engine, memory) * memory
    return (
        SharedMoment("training card", train_total, 0.0),
        SharedMoment("rollout card", 0.0, static + min(memory - static, reserve(engine, memory))),
    )
