"""In which number formats a job keeps what it trains and what it freezes.

Sources: transformers modeling_utils.py (`dtype`: fp32 before version 5, "auto" from then on),
peft tuners/tuners_utils.py (autocast_adapter_dtype), accelerate accelerator.py (FSDP upcasts
trainable parameters under mixed precision), LLaMA-Factory model/adapter.py (trainable parameters
are cast to fp32 unless pure_bf16, BAdam, ZeRO-3 or FSDP), deepspeed runtime/bf16_optimizer.py.
"""

from __future__ import annotations

import re
from typing import Any

from pitstop.rules.activations import Running
from pitstop.rules.finding import Unknown, Value
from pitstop.rules.job import TrainingJob
from pitstop.rules.memory import Keeping

HALF = ("bf16", "fp16", "fp8")
Choices = list[dict[str, Any]]


def ways_of_keeping(job: TrainingJob) -> tuple[Choices, str, str]:
    """Alternatives for `keeping` and `running`, what is assumed, and what is missing."""
    compute = job.value("precision.compute")
    if isinstance(compute, Unknown):
        found = [way for value in ("bf16", "fp32") for way in _ways(job, value)]
        return _unique(found), "", "the precision of training"
    found = _unique(_ways(job, compute))
    if len(found) > 1:
        return found, "", "the format in which weights are loaded (dtype)"
    return found, "", ""


def _unique(found: Choices) -> Choices:
    return [way for index, way in enumerate(found) if way not in found[:index]]


def _ways(job: TrainingJob, compute: Value) -> Choices:
    half = compute in HALF
    strategy = job.value("parallel.strategy")
    frozen = job.value("finetuning.method") in ("lora", "oft")
    if strategy == "deepspeed":
        return [_way(Keeping.MASTER, Running.PURE) if half else _way(Keeping.FP32, Running.FP32)]
    if strategy in ("fsdp", "fsdp2") and half:
        return [_way(Keeping.SHARDS, Running.PURE)]
    if strategy == "megatron":
        return [{**_way(Keeping.MASTER, Running.PURE), "gradient_bytes": 4.0}]
    if frozen:
        return [_adapter_way(loaded, half=half) for loaded in loaded_formats(job)]
    if job.value("precision.pure_bf16") is True or _optimizer_is(job, "badam"):
        return [_way(Keeping.PURE, Running.PURE)]
    if _upcasts(job):
        return [_mixed(half)]
    if _cast_as_a_whole(job):
        return [_way(Keeping.PURE, Running.PURE)]
    return [
        _way(Keeping.PURE, Running.PURE) if loaded == "half" else _mixed(half)
        for loaded in loaded_formats(job)
    ]


def _way(keeping: Keeping, running: Running) -> dict[str, Any]:
    return {"keeping": keeping, "running": running}


def _mixed(half: bool) -> dict[str, Any]:
    if half:
        return _way(Keeping.AUTOCAST, Running.AUTOCAST)
    return _way(Keeping.FP32, Running.FP32)


def _adapter_way(loaded: str, *, half: bool) -> dict[str, Any]:
    """Adapters are fp32 (peft upcasts them); the stream has the format of the frozen weights."""
    keeping = Keeping.AUTOCAST if half else Keeping.FP32
    if loaded == "half":
        return _way(keeping, Running.PURE)
    return _way(keeping, Running.AUTOCAST if half else Running.FP32)


def loaded_formats(job: TrainingJob) -> list[str]:
    """`half`, `fp32` or both: in what the weights are loaded."""
    if job.framework == "llamafactory":
        compute = job.value("precision.compute")
        if isinstance(compute, Unknown):
            return ["half", "fp32"]
        return ["half" if compute in HALF else "fp32"]
    setting = job.get("precision.weights")
    if setting is None:
        return ["fp32"] if job.model.name is None else ["half", "fp32"]
    if setting.value in HALF:
        return ["half"]
    return ["fp32"] if setting.value == "fp32" else ["half", "fp32"]


def _upcasts(job: TrainingJob) -> bool:
    return job.framework == "llamafactory"


def _cast_as_a_whole(job: TrainingJob) -> bool:
    """A program's own `model.bfloat16()` or `.to(torch.bfloat16)`, not autocast."""
    setting = job.get("precision.compute")
    if setting is None or setting.framework != "pytorch" or not setting.written:
        return False
    return setting.value in HALF and setting.name.rpartition(".")[2] in ("bfloat16", "half")


def _optimizer_is(job: TrainingJob, name: str) -> bool:
    return job.value("optimizer.name") == name


_QUANTISED = (
    (re.compile(r"(?<![a-z0-9])(awq|gptq|int4|4bit|w4a16|nf4)(?![a-z0-9])", re.IGNORECASE), 4),
    (re.compile(r"(?<![a-z0-9])(int8|8bit|w8a8|fp8)(?![a-z0-9])", re.IGNORECASE), 8),
)
"""Words of a model's name that say in how many bits its weights are stored."""


def frozen_bits(job: TrainingJob) -> list[int]:
    """Bits of frozen weights, every alternative: as the job quantises them, else as the model's
    name says they are."""
    bits = job.value("quantization.bits")
    named = [count for words, count in _QUANTISED if words.search(job.model.name or "")]
    if bits is None and named and job.value("finetuning.method") not in (None, "full"):
        return named[:1]
    if bits in (4, 8):
        return [int(bits)]
    if job.value("finetuning.method") in (None, "full"):
        return [16]
    return [{"half": 16, "fp32": 32}[loaded] for loaded in loaded_formats(job)]
