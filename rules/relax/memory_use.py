"""Triggers of R-M rules."""

from __future__ import annotations

import math

from pitstop.rules.finding import Severity
from pitstop.rules.megatron import Recompute, host_per_node
from pitstop.rules.memory import GIB
from pitstop.rules.relax.context import ASSUMED_PROMPT, Run
from pitstop.rules.relax.rollout_time import running_requests
from pitstop.rules.relax.rule import Hit, trigger
from pitstop.rules.relax.sizes import (
    AIM,
    COMFORTABLE,
    TOO_MUCH,
    engine,
    engine_cache_tokens,
    engine_fraction,
    estimate,
    megatron_run,
    offloaded,
    recompute,
    train_gib,
)
from pitstop.rules.rollout import cache_bytes_per_token

RESIDUAL, RESERVE = 8, 10
"""GiB that a sleeping trainer holds, and that an engine needs outside its share (SGLang's own
least reserve on cards above 60 GB)."""


@trigger("R-M01")
def offload_without_need(run: Run) -> Hit | None:
    if offloaded(run) != 1.0:
        return None
    found, gib = estimate(run), train_gib(run, offloaded=0.0)
    most = 0.60 if run.modality != "text" else COMFORTABLE
    if found is None or gib is None or gib > most * run.gpu_gib:
        return None
    values = {"optimizer": found.optimizer / GIB, "gib": gib, "card": round(run.gpu_gib)}
    return Hit(("optimizer-cpu-offload",), values)


@trigger("R-M02")
def recompute_without_need(run: Run) -> Hit | None:
    if run.args.value("recompute-granularity") != "full" or (run.longest or 0) > 16384:
        return None
    gib = train_gib(run, recompute=Recompute.NONE)
    if gib is None or gib > COMFORTABLE * run.gpu_gib:
        return None
    severity = None if gib <= 0.55 * run.gpu_gib else Severity.INFO
    values = {"gib": gib, "card": round(run.gpu_gib)}
    return Hit(("recompute-granularity",), values, severity)


@trigger("R-M03")
def token_budget(run: Run) -> Hit | None:
    gib = train_gib(run)
    if not run.args.on("use-dynamic-batch-size") or not run.tokens or gib is None or not run.cp:
        return None
    card, longest = run.gpu_gib, run.longest
    if gib > TOO_MUCH * card:
        fitting = [
            n for n in (1, 2, 4, 8) if (train_gib(run, tokens=run.tokens // n) or gib) <= AIM * card
        ]
        values = {
            "what": f"{gib:.0f} of {card:.0f} GiB: out of memory",
            "tokens": run.tokens // fitting[0] if fitting else run.tokens // 2,
        }
        return Hit(("max-tokens-per-gpu",), values)
    double = train_gib(run, tokens=2 * run.tokens)
    roomy = longest is not None and run.tokens * run.cp >= longest and run.tokens < 32768
    if roomy and double is not None and double <= 0.55 * card:
        what = f"kernels could be twice as large: {double:.0f} of {card:.0f} GiB"
        return Hit(("max-tokens-per-gpu",), {"what": what, "tokens": 2 * run.tokens}, Severity.INFO)
    return None


@trigger("R-M04")
def static_fraction_unusual(run: Run) -> Hit | None:
    a, value = run.args, run.args.number("sglang-mem-fraction-static")
    if value is None or a.given("genrm-model-path") or run.role("teacher"):
        return None
    alone = run.mode in ("fully-async", "hybrid")
    if not (value < 0.60 or value > 0.92 or (alone and value < 0.70)):
        return None
    what = "cache that long answers need" if value < 0.8 else "no room for activations and updates"
    return Hit(
        ("sglang-mem-fraction-static",), {"what": what, "fraction": "0.85" if alone else "0.75"}
    )


@trigger("R-M05")
def no_sequence_parallel(run: Run) -> Hit | None:
    if (run.tp or 1) <= 1 or not run.args.off("sequence-parallel"):
        return None
    severity = Severity.CRITICAL if run.moe and (run.ep or 1) > 1 else None
    return Hit(("sequence-parallel", "tensor-model-parallel-size"), {"tp": run.tp}, severity)


@trigger("R-M06")
def sample_over_budget(run: Run) -> Hit | None:
    a = run.args
    if not run.rl or not a.on("use-dynamic-batch-size") or a.on("dynamic-context-parallel"):
        return None
    if a.given("rollout-max-context-len") or not run.tokens or not run.cp or not run.longest:
        return None
    if run.tokens * run.cp >= run.longest:
        return None
    gib = train_gib(run, tokens=math.ceil(run.longest / run.cp))
    fits = gib is not None and gib <= 0.85 * run.gpu_gib
    values = {
        "longest": run.longest,
        "budget": run.tokens * run.cp,
        "tokens": math.ceil(run.longest / run.cp),
    }
    names = ("max-tokens-per-gpu", "rollout-max-response-len")
    return Hit(names, values, Severity.INFO if fits else None)


@trigger("R-M07")
def logits_dominate(run: Run) -> Hit | None:
    found = estimate(run)
    if found is None or run.args.on("sft-chunked-logits"):
        return None
    if found.logits / GIB <= 0.35 * run.gpu_gib or found.total / GIB <= AIM * run.gpu_gib:
        return None
    advice = "--sft-chunked-logits" if not run.rl else "a smaller --max-tokens-per-gpu, or more TP"
    return Hit(("max-tokens-per-gpu",), {"gib": found.logits / GIB, "advice": advice})


@trigger("R-M08")
def last_stage_heavy(run: Run) -> Hit | None:
    a, found = run.args, megatron_run(run)
    names = (
        "decoder-first-pipeline-num-layers",
        "decoder-last-pipeline-num-layers",
        "pipeline-model-parallel-layout",
    )
    if found is None or (run.pp or 1) <= 1 or any(map(a.given, names)) or run.shape is None:
        return None
    total = estimate(run)
    if total is None or total.stage != found.layout.pipeline - 1:
        return None
    last, other = total.total / GIB, (total.total - total.logits) / GIB
    if last <= 0.90 * run.gpu_gib or last <= 1.15 * other:
        return None
    layers = run.shape.layers // found.layout.pipeline - 1
    values = {"gib": last, "other": other, "layers": layers}
    return Hit(("pipeline-model-parallel-size",), values)


@trigger("R-M09")
def offload_incomplete(run: Run) -> Hit | None:
    a = run.args
    on = a.on("optimizer-cpu-offload")
    if on and a.off("use-precision-aware-optimizer"):
        values = {"what": "the launch stops at an assertion"}
        return Hit(("optimizer-cpu-offload",), values, Severity.CRITICAL)
    if on and a.off("overlap-cpu-optimizer-d2h-h2d"):
        return Hit(("optimizer-cpu-offload",), {"what": "transfers wait for the host's Adam"})
    if a.on("overlap-cpu-optimizer-d2h-h2d") and a.off("optimizer-cpu-offload"):
        values = {"what": "nothing: there is no offload to overlap"}
        return Hit(("overlap-cpu-optimizer-d2h-h2d",), values, Severity.INFO)
    return None


@trigger("R-M10")
def offload_all(run: Run) -> Hit | None:
    if offloaded(run) != 1.0:
        return None
    without, with_all, found = train_gib(run, offloaded=0.0), train_gib(run), estimate(run)
    if without is None or with_all is None or found is None or found.optimizer <= 0:
        return None
    card = run.gpu_gib
    if not (COMFORTABLE * card < without <= 1.1 * card and with_all <= 0.65 * card):
        return None
    share = max(0.1, math.ceil(10 * (without - 0.85 * card) / (found.optimizer / GIB)) / 10)
    if share >= 1:
        return None
    return Hit(
        ("optimizer-cpu-offload", "optimizer-offload-fraction"), {"fraction": f"{share:.1f}"}
    )


@trigger("R-M11")
def host_memory(run: Run) -> Hit | None:
    found = megatron_run(run)
    if found is None or found.offloaded == 0 or run.mode == "fully-async":
        return None
    copies = 1 + run.kl + 2 * run.args.on("keep-old-actor")
    copies += run.args.value("opd-type") == "megatron"
    if run.args.on("disable-weights-backuper"):
        copies = 0
    node = min(run.gpus_per_node, run.world or run.gpus_per_node)
    gib = host_per_node(found, node, weight_copies=copies) / GIB
    return Hit(("optimizer-cpu-offload",), {"gib": round(gib)}) if gib > 1000 else None


@trigger("R-M12")
def colocated_fraction(run: Run) -> Hit | None:
    fraction = engine_fraction(run)
    if run.mode != "colocate" or fraction is None or run.device != "gpu":
        return None
    most = (run.gpu_gib - RESIDUAL - (RESERVE if run.gpu_gib > 60 else 4)) / run.gpu_gib
    if fraction <= most + 0.02:
        return None
    small = run.parameters is not None and run.parameters < 10e9
    values = {
        "fraction": f"{fraction:.2f}",
        "card": round(run.gpu_gib),
        "most": f"{math.floor(most * 20) / 20:.2f}",
    }
    return Hit(("sglang-mem-fraction-static",), values, Severity.INFO if small else None)


@trigger("R-M13")
def rollout_half_used(run: Run) -> Hit | None:
    fraction, tokens, model = (
        run.args.number("sglang-mem-fraction-static"),
        engine_cache_tokens(run),
        engine(run),
    )
    if run.mode not in ("fully-async", "hybrid") or not fraction or fraction > 0.75:
        return None
    if not tokens or model is None or not run.engines or not run.samples_per_step or not run.answer:
        return None
    if run.role("teacher") or run.role("genrm"):
        return None
    if tokens * run.engines >= run.samples_per_step * 0.5 * run.answer:
        return None
    more = (0.85 - fraction) * run.gpu_gib * GIB / cache_bytes_per_token(model)
    return Hit(("sglang-mem-fraction-static",), {"tokens": round(more)})


@trigger("R-M14")
def cache_too_small(run: Run) -> Hit | None:
    have, requests = engine_cache_tokens(run), running_requests(run)
    if have is None or not requests or not run.answer:
        return None
    prompt = run.args.whole("rollout-max-prompt-len", ASSUMED_PROMPT) or ASSUMED_PROMPT
    need = requests * (prompt + 0.5 * run.answer)
    if have >= 0.5 * need:
        return None
    size = max(1, round(have / (prompt + 0.5 * run.answer)))
    values = {"have": have, "need": round(need), "size": size}
    return Hit(("rollout-num-gpus-per-engine", "sglang-mem-fraction-static"), values)


@trigger("R-M15")
def cache_replicated(run: Run) -> Hit | None:
    found = engine(run)
    if found is None or run.args.on("multi-latent-attention") or run.shape is None:
        return None
    heads = run.shape.kv_heads
    if found.heads_split <= heads or (run.engine_gpus or 1) <= 1:
        return None
    values = {"times": found.heads_split // heads, "size": found.heads_split // heads}
    return Hit(("rollout-num-gpus-per-engine",), values)


@trigger("R-M16")
def large_moe_engine(run: Run) -> Hit | None:
    a, size = run.args, run.engine_gpus or 1
    experts = max(a.whole("sglang-ep-size") or 1, a.whole("sglang-expert-parallel-size") or 1)
    large = run.moe and (run.parameters or 0) >= 200e9
    if large and size >= 16 and experts == 1:
        return Hit(("rollout-num-gpus-per-engine",), {"size": size})
    return None


@trigger("R-M17")
def media_tokens_open(run: Run) -> Hit | None:
    a = run.args
    given = a.at("multimodal-keys")
    keys = given.values[0].text if given is not None and given.values else ""
    prompt = a.whole("rollout-max-prompt-len", ASSUMED_PROMPT) or 0
    if not run.rl:
        return None
    if "image" in keys and not a.given("image-max-token-num") and prompt < 16384:
        return Hit(
            ("multimodal-keys", "image-max-token-num"), {"advice": "--image-max-token-num 2048"}
        )
    names = ("video-max-token-num", "video-fps-max-frames")
    if "video" in keys and not any(map(a.given, names)):
        values = {"advice": "--video-max-token-num 256 --video-fps-max-frames 64"}
        return Hit(("multimodal-keys", "video-max-token-num"), values)
    return None


@trigger("R-M18")
def fixed_batch_overflows(run: Run) -> Hit | None:
    a, size = run.args, run.args.whole("micro-batch-size") or 1
    if not a.off("use-dynamic-batch-size") or not run.longest or not run.cp:
        return None
    tokens = math.ceil(size * run.longest / run.cp)
    gib = train_gib(run, tokens=tokens)
    if gib is None or gib <= TOO_MUCH * run.gpu_gib:
        return None
    safe = next(
        (
            n
            for n in range(tokens, 1023, -1024)
            if (train_gib(run, tokens=n) or gib) <= 0.85 * run.gpu_gib
        ),
        None,
    )
    if safe is None or (size == 1 and tokens <= 1.5 * safe) or tokens <= 1.5 * safe:
        return None
    values = {"gib": gib, "card": round(run.gpu_gib), "tokens": safe}
    return Hit(("micro-batch-size", "rollout-max-response-len"), values)


@trigger("R-M19")
def training_does_not_fit(run: Run) -> Hit | None:
    gib = train_gib(run)
    without = recompute(run) is Recompute.NONE
    resident = not run.args.on("optimizer-cpu-offload")
    if gib is None or gib <= TOO_MUCH * run.gpu_gib or not (without or resident):
        return None
    levers = []
    if (run.tp or 1) > 1 and run.args.off("sequence-parallel"):
        levers.append("--sequence-parallel")
    if without:
        levers.append(
            "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
        )
    if run.longest and run.tokens and run.cp and run.tokens * run.cp > run.longest:
        levers.append("a smaller --max-tokens-per-gpu")
    if resident:
        trio = ("optimizer-cpu-offload", "overlap-cpu-optimizer-d2h-h2d")
        levers.append(" ".join(f"--{name}" for name in (*trio, "use-precision-aware-optimizer")))
    values = {"gib": gib, "card": round(run.gpu_gib), "advice": "; then ".join(levers)}
    if run.gpu_assumed:
        return Hit(("max-tokens-per-gpu",), values, Severity.WARNING)
    severity = Severity.CRITICAL if gib > 1.05 * run.gpu_gib else Severity.WARNING
    return Hit(("max-tokens-per-gpu",), values, severity)


@trigger("R-M20")
def large_weight_buffer(run: Run) -> Hit | None:
    size = run.args.whole("update-weight-buffer-size")
    if not size or (run.parameters or 0) >= 100e9:
        return None
    small = run.mode == "colocate" and run.gpu_gib <= 80 and size > 2**30
    if small or size > 4 * 2**30:
        return Hit(("update-weight-buffer-size",), {"gib": 2 * size / GIB})
    return None


@trigger("R-M21")
def allocator_clash(run: Run) -> Hit | None:
    if run.mode != "colocate" or run.device != "gpu" or run.args.on("manual-offload"):
        return None
    word = run.env.get("PYTORCH_CUDA_ALLOC_CONF") or run.env.get("PYTORCH_ALLOC_CONF")
    exported = word is not None and word.known and "expandable_segments:True" in word.text
    given = run.args.at("train-env-vars")
    handed = given is not None and "expandable_segments:True" in given.text
    return Hit(("train-env-vars", "colocate")) if exported or handed else None


@trigger("R-M22")
def long_samples_kept(run: Run) -> Hit | None:
    if run.rl or run.args.value("sft-oversize-strategy") != "keep":
        return None
    return Hit(("sft-oversize-strategy", "max-tokens-per-gpu"))


@trigger("R-M23")
def fp32_gradients(run: Run) -> Hit | None:
    a, found = run.args, estimate(run)
    if found is None or found.total / GIB <= TOO_MUCH * run.gpu_gib:
        return None
    if not a.on("use-precision-aware-optimizer") or a.value("main-grads-dtype") != "fp32":
        return None
    if found.gradients / GIB <= 0.15 * run.gpu_gib:
        return None
    return Hit(("use-precision-aware-optimizer",), {"gib": found.gradients / 2 / GIB})
