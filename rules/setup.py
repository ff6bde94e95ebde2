"""From a job's settings to training runs as numbers.

What is written or known by default becomes one number. What is not known is never guessed: it
becomes every alternative that it may be, so that estimates are ranges; each is named, with the
knob that would settle it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pitstop.rules import job_facts
from pitstop.rules.activations import Attention
from pitstop.rules.architecture import Architecture
from pitstop.rules.finding import Unknown
from pitstop.rules.job import TrainingJob
from pitstop.rules.memory import Layout
from pitstop.rules.models import by_name, shapes_near
from pitstop.rules.optimizers import OPTIMIZERS, optimizer_named
from pitstop.rules.setup_formats import frozen_bits, ways_of_keeping
from pitstop.rules.setup_layout import bucket_bytes, layouts
from pitstop.rules.trained import ALL_LINEAR, Method, Setup

MAX_SETUPS = 256
"""Combinations of unknowns that are still worked out."""

SHORT, LONG = 256, 8192
"""Tokens between which an unknown length of samples is taken to lie."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a person says where the job does not: sizes to use instead."""

    gpus: int | None = None
    micro_batch: int | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Sized:
    """Every setup that the job may be: one when all is known. `assumed` says what was taken as
    given, `missing` what would narrow the estimate."""

    setups: tuple[Setup, ...]
    assumed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unsized:
    """A job that cannot be sized, and why."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Aspect:
    """One thing about a setup: the alternatives for some of its fields, and what to say."""

    choices: Sequence[Mapping[str, Any]]
    assumed: str = ""
    missing: str = ""


def setup_of(job: TrainingJob, given: Overrides | None = None) -> Sized | Unsized:
    """The setups that a job may be, or why there is none."""
    said = given or Overrides()
    reasons = tuple(_hindrances(job))
    if reasons:
        return Unsized(reasons)
    models = _models(job)
    gpus = said.gpus or job_facts.gpu_count(job)
    spread = layouts(job, gpus)
    aspects = [
        models,
        Aspect([{"layout": layout} for layout in spread.layouts], spread.assumed, spread.missing),
        _sequence(job, said.sequence),
        _micro_batch(job, said.micro_batch),
        _accumulation(job),
        _finetuning(job),
        Aspect(*ways_of_keeping(job)),
        Aspect([{"frozen_bits": bits} for bits in frozen_bits(job)]),
        _optimizer(job),
        _checkpointing(job),
        _attention(job),
        _kernels(job),
        _references(job),
    ]
    setups = [_buckets(job, setup) for setup in _combine(aspects)]
    return Sized(
        tuple(dict.fromkeys(setups)),
        assumed=tuple(a.assumed for a in aspects if a.assumed),
        missing=tuple(a.missing for a in aspects if a.missing),
    )


def _combine(aspects: Iterable[Aspect]) -> Iterable[Setup]:
    """Every combination; beyond MAX_SETUPS only the first and last choice of each aspect."""
    choices = [tuple(aspect.choices) for aspect in aspects]
    count = 1
    for found in choices:
        count *= len(found)
    if count > MAX_SETUPS:
        choices = [found if len(found) < 3 else (found[0], found[-1]) for found in choices]
    for combination in itertools.islice(itertools.product(*choices), MAX_SETUPS):
        yield Setup(**{k: v for choice in combination for k, v in choice.items()})


def _hindrances(job: TrainingJob) -> Iterable[str]:
    if job.purpose != "train":
        yield "it serves a model"
    if job.value("device.cpu") is True:
        yield "it trains on the CPU"
    model = job.model
    if model.name is None and model.parameters is None:
        yield "the model is not known: give --model"
    elif not _shapes(job):
        kind = f" ({model.kind})" if model.kind else ""
        yield f"the sizes of {model.name}{kind} are not known: only decoder models are counted"
    if job.value("finetuning.method") == "oft":
        yield "orthogonal fine-tuning is not counted"
    if job.value("kernels.ktransformers") is True:
        yield "experts run on the CPU with KTransformers"
    if job_facts.FACTS["job.accelerator"].get(job) is not None:
        yield "it does not run on GPUs"


def _shapes(job: TrainingJob) -> list[Architecture]:
    """The model's shape, or those of known models of its size, with its own count."""
    model = job.model
    shape = model.shape or (by_name(model.name).shape if model.name else None)
    if shape is not None:
        return [shape]
    if model.kind not in (None, "llm") or model.parameters is None or model.moe:
        return []
    return shapes_near(model.parameters)


def _models(job: TrainingJob) -> Aspect:
    shapes = _shapes(job)
    if len(shapes) == 1:
        name = job.model.evidence
        return Aspect([{"model": shapes[0]}], f"sizes from {name}" if name else "")
    return Aspect(
        [{"model": shape} for shape in shapes],
        "activations as in known models of this parameter count",
        "the model's config.json",
    )


def _known_int(job: TrainingJob, knob: str) -> int | None:
    value = job.value(knob)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _sequence(job: TrainingJob, given: int | None) -> Aspect:
    found = given or _known_int(job, "data.max_length")
    if found is not None:
        return Aspect([{"sequence": found}], f"a batch of samples of {found} tokens, the longest")
    return Aspect(
        [{"sequence": SHORT}, {"sequence": LONG}],
        f"samples between {SHORT} and {LONG} tokens",
        "the longest sequence (--sequence)",
    )


def _micro_batch(job: TrainingJob, given: int | None) -> Aspect:
    found = given or _known_int(job, "batch.micro")
    pairs = 2 if job.value("training.stage") in ("dpo", "rm") else 1
    if found is not None:
        say = "two answers to each prompt in one batch" if pairs == 2 else ""
        return Aspect([{"micro_batch": found * pairs}], say)
    return Aspect(
        [{"micro_batch": pairs}, {"micro_batch": 8 * pairs}],
        "1 to 8 samples per GPU",
        "the micro batch (--micro-batch)",
    )


def _accumulation(job: TrainingJob) -> Aspect:
    """Accumulated gradients live through the forward pass, as do those that a framework keeps
    in one buffer."""
    if job.get("batch.accumulation") is None:
        return Aspect([{"accumulation": 1}])
    found = _known_int(job, "batch.accumulation")
    counts = [found] if found is not None else [1, 8]
    choices = [{"accumulation": count, "kept_gradients": count > 1} for count in counts]
    return Aspect(choices, missing="" if found is not None else "gradient accumulation steps")


_MODULES = {
    "qkv_proj": "qkv", "c_attn": "qkv", "query_key_value": "qkv", "W_pack": "qkv",
    "gate_up_proj": "gate_up", "o_proj": "o", "out_proj": "o", "dense": "o",
    "fc1": "up", "c_fc": "up", "dense_h_to_4h": "up", "fc2": "down", "c_proj": "down",
    "dense_4h_to_h": "down", "w1": "gate", "w2": "down", "w3": "up",
}  # fmt: skip


def _finetuning(job: TrainingJob) -> Aspect:
    value = job.value("finetuning.method")
    if job.get("finetuning.method") is None or value == "full":
        say = "" if value == "full" else "every weight is trained: no adapter is set up"
        return Aspect([{"method": Method.FULL}], say)
    if value == "freeze":
        layers = _known_int(job, "finetuning.trained_layers") or 2
        return Aspect([{"method": Method.FREEZE, "trained_layers": layers}])
    lora: dict[str, Any] = {
        "method": Method.LORA,
        "rank": _known_int(job, "finetuning.rank") or 8,
        "magnitudes": job.value("finetuning.dora") is True,
    }
    choices = [{**lora, "adapted": names} for names in _targets(job)]
    missing = "the modules that get adapters" if len(choices) > 1 else ""
    if isinstance(value, Unknown):
        return Aspect(
            [{"method": Method.FULL}, *choices], missing="which weights are trained: full or LoRA"
        )
    return Aspect(choices, missing=missing)


def _targets(job: TrainingJob) -> list[frozenset[str]]:
    value = job.value("finetuning.targets")
    words = value if isinstance(value, tuple) else (value,) if isinstance(value, str) else None
    if words is None:
        return [frozenset({"q", "v"}), ALL_LINEAR]
    if {"all", "all-linear"} & set(words):
        return [ALL_LINEAR | {"qkv", "gate_up"}]
    names = [part for word in words for part in str(word).split(",")]
    return [frozenset(_MODULES.get(n.strip(), n.strip().removesuffix("_proj")) for n in names)]


def _optimizer(job: TrainingJob) -> Aspect:
    setting = job.get("optimizer.name")
    rank = {"projection": _known_int(job, "optimizer.rank") or 128}
    if setting is None:
        return Aspect(
            [{"optimizer": "sgd", **rank}, {"optimizer": "adamw_foreach", **rank}],
            "an optimizer between plain SGD and AdamW",
            "the optimizer",
        )
    if isinstance(setting.value, Unknown):
        if not setting.written:  # of which the version decides
            return Aspect([{"optimizer": "adamw"}, {"optimizer": "adamw_foreach"}])
        choices = [{"optimizer": "sgd"}, {"optimizer": "adamw_foreach"}]
        return Aspect(choices, missing="the optimizer")
    fused = job.value("optimizer.fused")
    name = str(setting.value)
    row = optimizer_named(name, fused=fused if isinstance(fused, bool) else None)
    if row is None:
        choices = [{"optimizer": "sgd"}, {"optimizer": "adamw_foreach"}]
        return Aspect(choices, f"{name} keeps at most what AdamW keeps", f"what {name} keeps")
    if name == "sgd" and setting.framework == "pytorch":
        return Aspect([{"optimizer": "sgd"}, {"optimizer": "sgd_momentum"}])
    plain = row in ("adamw", "adamw_foreach", "sgd")
    say = "" if plain else f"optimizer state as in {OPTIMIZERS[row].source}"
    return Aspect([{"optimizer": row, **rank}], say)


def _checkpointing(job: TrainingJob) -> Aspect:
    value = job.value("activation_checkpointing.enabled")
    if isinstance(value, Unknown):
        choices = [{"checkpointing": True}, {"checkpointing": False}]
        return Aspect(choices, missing="whether activations are recomputed")
    return Aspect([{"checkpointing": value is True}])


def _attention(job: TrainingJob) -> Aspect:
    value = job.value("attention.backend")
    if isinstance(value, Unknown):
        choices = [{"attention": Attention.FUSED}, {"attention": Attention.EAGER}]
        return Aspect(choices, missing="the attention implementation")
    if value == "eager":
        return Aspect([{"attention": Attention.EAGER}])
    say = "" if value in ("sdpa", "flash_attention_2", "flash_attention_3") else "fused attention"
    return Aspect([{"attention": Attention.FUSED}], say)


def _kernels(job: TrainingJob) -> Aspect:
    """Liger and Unsloth replace the loss too, unless something reads the logits."""
    values = [job.value("kernels.liger"), job.value("kernels.unsloth")]
    logits = job.value("loss.reads_logits") is True or job.value("training.stage") in (
        "dpo", "kto", "rm", "ppo",
    )  # fmt: skip
    on = {"fused_kernels": True, "fused_loss": not logits}
    off = {"fused_kernels": False, "fused_loss": False}
    if any(value is True for value in values):
        return Aspect([on])
    if any(isinstance(value, Unknown) for value in values):
        return Aspect([on, off], missing="whether fused kernels are on")
    return Aspect([off])


def _references(job: TrainingJob) -> Aspect:
    """Preference training compares with the model as it was: a copy of it, or with adapters the
    same weights without them (trl/trainer/dpo_trainer.py)."""
    stage, method = job.value("training.stage"), job.value("finetuning.method")
    if stage not in ("dpo", "kto", "ppo", "grpo") or method in ("lora", "oft"):
        return Aspect([{"references": 0}])
    return Aspect([{"references": 1}], "a frozen copy of the model as reference")


def _buckets(job: TrainingJob, setup: Setup) -> Setup:
    """The setup with its communication buffers, which depend on the layout and the model."""
    found = replace(setup, buckets=bucket_bytes(job, setup.layout, setup.model.hidden))
    if found.layout.bucket_view and found.layout.data > 1:
        return replace(found, kept_gradients=True)
    return found


def plain_layout(gpus: int) -> Layout:
    """Data parallelism without anything shared."""
    return Layout(data=gpus)
