"""A training job that a person describes on the command line instead of in a repository."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pitstop.rules.architecture import from_config
from pitstop.rules.finding import Scalar, Setting, Surface, UserError, Value
from pitstop.rules.job import FrameworkUse, HardwareFacts, ModelFacts, TrainingJob
from pitstop.rules.models import by_name, from_shape
from pitstop.rules.optimizers import OPTIMIZERS, optimizer_named


def typed_job(options: argparse.Namespace, hardware: HardwareFacts | None) -> TrainingJob:
    """The job that the options describe; what they leave open stays unknown."""
    if optimizer_named(options.optimizer) is None:
        raise UserError(
            f"--optimizer {options.optimizer}: not known; known are {', '.join(OPTIMIZERS)}."
        )
    settings = {knob: (_setting(knob, value),) for knob, value in _knobs(options)}
    model = model_named(options.model, options.params)
    return TrainingJob(
        id=options.model or f"a model of {options.params / 1e9:.3g} billion parameters",
        title="from the command line",
        purpose="train",
        frameworks=(FrameworkUse("hf_trainer"),),
        settings=settings,
        model=model,
        hardware=hardware or HardwareFacts(),
    )


def model_named(name: str | None, parameters: int | None) -> ModelFacts:
    """What is known of the model; a path of a config.json, or of its folder, is read."""
    if name is None:
        return ModelFacts(name=None, parameters=parameters, kind="llm", moe=False)
    path = Path(name)
    file = path / "config.json" if path.is_dir() else path
    if file.suffix == ".json" and file.is_file():
        return _read(file, name)
    found = by_name(name)
    if found.shape is None and found.parameters is None and parameters is None:
        raise UserError(
            f"--model {name}: not known, and no count in its name; add --params 7B, or give the"
            " path of its config.json."
        )
    if parameters is not None and found.shape is None:
        return ModelFacts(name=name, parameters=parameters, kind="llm", moe=False)
    return found


def _read(file: Path, name: str) -> ModelFacts:
    try:
        config = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"--model {file}: not a readable config.json ({error}).") from error
    shape = from_config(config) if isinstance(config, dict) else None
    if shape is None:
        raise UserError(f"--model {file}: no decoder family that Pitstop knows.")
    return from_shape(shape, name, "llm", str(file), None)


def _setting(knob: str, value: Value) -> Setting:
    return Setting(knob, value, Surface.FLAG, "the command line", "hf_trainer", str(value))


def _knobs(options: argparse.Namespace) -> list[tuple[str, Scalar | tuple[Scalar, ...]]]:
    """The settings of the command line, in knobs."""
    precision = options.precision
    found: list[tuple[str, Scalar | tuple[Scalar, ...]]] = [
        ("precision.compute", "bf16" if precision == "pure-bf16" else precision),
        ("precision.pure_bf16", precision == "pure-bf16"),
        ("precision.weights", "fp32" if options.method in ("full", "freeze") else "bf16"),
        ("optimizer.name", options.optimizer),
        ("activation_checkpointing.enabled", options.checkpointing),
        ("attention.backend", "eager" if options.eager else "sdpa"),
        ("kernels.liger", options.fused_loss),
        ("batch.accumulation", options.accumulation),
        *_method(options.method, options.rank),
        *_sharding(options.sharding, offload=options.offload),
    ]
    return found


def _method(method: str, rank: int) -> list[tuple[str, Scalar | tuple[Scalar, ...]]]:
    if method in ("full", "freeze"):
        return [("finetuning.method", method)]
    bits = [("quantization.bits", 4)] if method == "qlora" else []
    return [
        ("finetuning.method", "lora"),
        ("finetuning.rank", rank),
        ("finetuning.targets", ("all",)),
        ("finetuning.dora", method == "dora"),
        *bits,
    ]


def _sharding(kind: str, *, offload: bool) -> list[tuple[str, Scalar | tuple[Scalar, ...]]]:
    where = ("sharding.offload_optimizer", "cpu" if offload else "none")
    if kind.startswith("zero"):
        return [("parallel.strategy", "deepspeed"), ("sharding.stage", int(kind[4:])), where]
    if kind.startswith("fsdp"):
        mode = "shard_grad_op" if kind == "fsdp-grad-op" else "full_shard"
        return [("parallel.strategy", "fsdp"), ("sharding.mode", mode), where]
    return [("parallel.strategy", "ddp")]
