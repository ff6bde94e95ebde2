"""How a job spreads its model over GPUs: every layout that its settings allow."""

from __future__ import annotations

from dataclasses import dataclass

from pitstop.rules.finding import Unknown
from pitstop.rules.job import TrainingJob
from pitstop.rules.memory import Layout, Sharding
from pitstop.rules.ranges import Range

FEW, MANY = 2, 16
"""GPUs between which an unknown number is taken to lie where state is shared."""

_MODES = {
    "full_shard": Sharding.FSDP_FULL,
    "shard_grad_op": Sharding.FSDP_GRAD_OP,
    "hybrid_shard": Sharding.FSDP_HYBRID,
    "hybrid_shard_zero2": Sharding.FSDP_HYBRID,
    "no_shard": Sharding.NONE,
}
_STAGES = (Sharding.NONE, Sharding.ZERO1, Sharding.ZERO2, Sharding.ZERO3)


@dataclass(frozen=True, slots=True)
class Spread:
    """Alternatives, what was assumed and what is missing."""

    layouts: tuple[Layout, ...]
    assumed: str = ""
    missing: str = ""


def layouts(job: TrainingJob, gpus: int | None) -> Spread:
    """The layouts that a job may have; `gpus` in all, None when not known."""
    kinds, missing = _shardings(job)
    shared = any(kind is not Sharding.NONE for kind in kinds)
    if gpus is not None:
        counts, assumed = [gpus], ""
    elif shared:
        counts = [FEW, MANY]
        assumed = f"{FEW} to {MANY} GPUs"
        missing = "the number of GPUs (--gpus)"
    else:
        counts, assumed = [1], "one GPU, or several that share nothing"
    found = [_layout(job, count, kind) for count in counts for kind in kinds]
    return Spread(tuple(dict.fromkeys(found)), assumed, missing)


def _shardings(job: TrainingJob) -> tuple[list[Sharding], str]:
    strategy = job.value("parallel.strategy")
    if strategy == "deepspeed":
        stage = job.value("sharding.stage")
        if isinstance(stage, int) and 0 <= stage <= 3:
            return [_STAGES[stage]], ""
        if stage is None:
            return [Sharding.NONE], ""
        return list(_STAGES), "the ZeRO stage"
    if strategy == "megatron":
        return [Sharding.ZERO1], ""
    if strategy not in ("fsdp", "fsdp2"):
        return [Sharding.NONE], ""
    mode = job.value("sharding.mode")
    if isinstance(mode, Unknown):
        return [Sharding.FSDP_FULL, Sharding.FSDP_GRAD_OP], "the FSDP sharding strategy"
    if isinstance(mode, str) and mode in _MODES:
        return [_MODES[mode]], ""
    keeps = job.value("sharding.reshard_after_forward") is False
    return [Sharding.FSDP_GRAD_OP if keeps else Sharding.FSDP_FULL], ""


def _layout(job: TrainingJob, gpus: int, sharding: Sharding) -> Layout:
    tensor, pipeline, context, expert = (
        _size(job, f"parallel.{kind}") for kind in ("tensor", "pipeline", "context", "expert")
    )
    group = None
    if sharding is Sharding.FSDP_HYBRID:
        group = job.hardware.gpus_per_node or (job.launch.processes if job.launch else None)
    # FSDP moves gradients and optimizer with the weights (fully_sharded_data_parallel.py)
    weights = job.value("sharding.offload_params") in ("cpu", "nvme")
    optimizer = job.value("sharding.offload_optimizer") in ("cpu", "nvme")
    return Layout(
        data=max(1, gpus // (tensor * pipeline * context)),
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        expert=expert,
        sharding=sharding,
        shard_group=group,
        second_shards=_size(job, "sharding.second_shards", none=True) or None,
        offload_optimizer=sharding is not Sharding.NONE
        and (optimizer or (weights and sharding.fsdp)),
        offload_weights=weights and sharding.shards_weights,
        bucket_view=job.value("ddp.gradient_as_bucket_view") is True or _own_reduction(job),
    )


def _own_reduction(job: TrainingJob) -> bool:
    """DeepSpeed reduces without DDP's buckets."""
    return job.value("parallel.strategy") in ("deepspeed", "megatron")


def _size(job: TrainingJob, knob: str, *, none: bool = False) -> int:
    value = job.value(knob)
    known = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return int(value) if known else 0 if none else 1  # type: ignore[arg-type]


BUCKET = 500_000_000
"""Elements of DeepSpeed's buckets by default (deepspeed/runtime/zero/config.py)."""


def bucket_bytes(job: TrainingJob, layout: Layout, hidden: int) -> Range:
    """Bytes of ZeRO's communication buffers: one reduction bucket (two that take turns with
    overlap_comm); at most 4.5 times both buckets with overlap, as transformers' DeepSpeed page
    counts. "auto" becomes the square of the hidden size (integrations/deepspeed.py)."""
    if not layout.sharding.value.startswith("zero") or layout.shards == 1:
        return Range.exact(0.0)
    reduce, gather = (
        _bucket(job, f"sharding.{kind}_bucket", hidden) for kind in ("reduce", "allgather")
    )
    if layout.sharding is Sharding.ZERO3:
        gather = 0.0
    if job.value("sharding.overlap_comm") is True:
        return Range(2 * 2 * reduce, max(2 * 2 * reduce, 4.5 * 2 * min(reduce, gather or reduce)))
    return Range(2 * reduce, 2 * (reduce + gather))


def _bucket(job: TrainingJob, knob: str, hidden: int) -> float:
    value = job.value(knob)
    if isinstance(value, Unknown):
        return float(hidden * hidden)
    return float(value) if isinstance(value, int | float) and value > 0 else float(BUCKET)
