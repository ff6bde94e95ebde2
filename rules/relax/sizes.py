"""Memory of a Relax launch in GiB per GPU, as it is and with one thing changed."""

from __future__ import annotations

import math
from typing import Any

from pitstop.rules.megatron import (
    Loss,
    MegatronEstimate,
    MegatronRun,
    Recompute,
    megatron_estimate,
    megatron_layout,
)
from pitstop.rules.memory import GIB
from pitstop.rules.relax.context import Run
from pitstop.rules.rollout import Engine, cache_tokens, static_fraction

COMFORTABLE, AIM, TOO_MUCH = 0.70, 0.80, 0.92
"""Shares of a card: nothing of contexts, communication buffers and fragments is counted in the
estimate, so it must stay below these. Known good runs reach 0.52 without recomputation and 0.77
with it."""


def megatron_run(run: Run, **changed: Any) -> MegatronRun | None:
    """The training of a launch; `changed` may name tp, pp, cp, ep, tokens, recompute, offloaded.
    None when something that is needed is not known."""
    sizes = {name: changed.get(name, getattr(run, name)) for name in ("tp", "pp", "cp", "ep")}
    etp = run.etp if run.args.given("expert-tensor-parallel-size") else sizes["tp"]
    tokens = changed.get("tokens", _tokens(run))
    if run.shape is None or not run.world or not tokens or None in sizes.values() or not etp:
        return None
    try:
        layout = megatron_layout(
            run.world,
            tensor=sizes["tp"],
            pipeline=sizes["pp"],
            context=sizes["cp"],
            expert=sizes["ep"],
            expert_tensor=etp,
        )
    except ValueError:
        return None
    return MegatronRun(
        run.shape,
        layout,
        tokens,
        recompute=changed.get("recompute", recompute(run)),
        blocks=run.args.whole("recompute-num-layers") or 0,
        loss=_loss(run),
        micro_batches=max(1, micro_batches(run) or 1 << 10),
        chunks=run.args.whole("num-virtual-stages-per-pipeline-rank") or 1,
        gradient_bytes=2.0 if _half_gradients(run) else 4.0,
        offloaded=changed.get("offloaded", offloaded(run)),
        sequence_parallel=run.args.on("sequence-parallel") or sizes["tp"] == 1,
    )


def estimate(run: Run, **changed: Any) -> MegatronEstimate | None:
    """The estimate of the worst stage, or None."""
    found = megatron_run(run, **changed)
    return megatron_estimate(found) if found is not None else None


def train_gib(run: Run, **changed: Any) -> float | None:
    """GiB of training on the worst stage, or None."""
    found = estimate(run, **changed)
    return found.total / GIB if found is not None else None


def recompute(run: Run) -> Recompute:
    """Which activations are computed again."""
    if run.args.value("recompute-granularity") != "full":
        return Recompute.NONE
    return Recompute.BLOCK if run.args.value("recompute-method") == "block" else Recompute.FULL


def offloaded(run: Run) -> float:
    """The share of optimizer state on the host."""
    if not run.args.on("optimizer-cpu-offload"):
        return 0.0
    fraction = run.args.number("optimizer-offload-fraction")
    return 1.0 if fraction is None else min(1.0, max(0.0, fraction))


def _half_gradients(run: Run) -> bool:
    return run.args.value("main-grads-dtype") == "bf16" or run.args.on("grad-reduce-in-bf16")


def _loss(run: Run) -> Loss:
    if run.rl:
        return Loss.POLICY
    return Loss.CHUNKED if run.args.on("sft-chunked-logits") else Loss.NEXT_TOKEN


def _tokens(run: Run) -> int | None:
    """Tokens of a micro batch on one GPU."""
    if run.args.on("use-dynamic-batch-size"):
        return run.tokens
    size = run.args.whole("micro-batch-size")
    if not size or not run.longest or not run.cp:
        return None
    return math.ceil(size * run.longest / run.cp)


def micro_batches(run: Run) -> int | None:
    """Micro batches of a step on each data parallel rank, with answers of half their limit."""
    if not run.batch or not run.dp or not run.cp or not run.tokens or not run.answer:
        return None
    mean = ASSUMED_PROMPT_SHARE + 0.5 * run.answer
    return max(1, math.ceil(run.batch / run.dp * mean / (run.tokens * run.cp)))


ASSUMED_PROMPT_SHARE = 512
"""Tokens of a typical prompt, where only its limit is known."""


def bubble(run: Run, stages: int) -> float | None:
    """The share of a step that pipeline stages wait (arXiv 2104.04473)."""
    count = micro_batches(run)
    return None if count is None else (stages - 1) / (count + stages - 1)


def engine(run: Run) -> Engine | None:
    """The inference engine of a launch, or None."""
    if run.shape is None or not run.engine_gpus:
        return None
    pipeline = run.args.whole("sglang-pipeline-parallel-size") or 1
    tensor = max(1, run.engine_gpus // pipeline)
    split = tensor
    if run.args.on("sglang-enable-dp-attention"):
        split = max(1, tensor // (run.args.whole("sglang-dp-size") or 1))
    name = run.model_name.lower()
    hybrid = name.startswith(("qwen35", "qwen36", "qwen3.5", "qwen3.6"))
    script = run.script.lower()
    weights = "int4" if "int4" in script else "fp8" if "fp8" in script else "bf16"
    return Engine(
        run.shape,
        tensor=tensor,
        attention=split,
        weights=weights,
        fraction=run.args.number("sglang-mem-fraction-static"),
        full_attention_layers=run.shape.layers // 4 if hybrid else None,
        speculative=run.args.given("sglang-speculative-algorithm"),
    )


def engine_cache_tokens(run: Run) -> int | None:
    """Tokens that the cache of one engine holds."""
    found = engine(run)
    return None if found is None else cache_tokens(found, int(run.gpu_gib * GIB))


def engine_fraction(run: Run) -> float | None:
    """The share of the card for weights and cache: as written, else as SGLang works it out."""
    if run.args.unknown("sglang-mem-fraction-static"):
        return None
    written = run.args.number("sglang-mem-fraction-static")
    found = engine(run)
    if written is not None:
        return written
    return None if found is None else static_fraction(found, int(run.gpu_gib * GIB))
