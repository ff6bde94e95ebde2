"""Triggers of R-P rules about rollout, data and checkpoints."""

from __future__ import annotations

import math

from pitstop.rules.finding import Severity
from pitstop.rules.memory import GIB
from pitstop.rules.relax.context import Run
from pitstop.rules.relax.rule import Hit, trigger

RL_MODES = ("colocate", "hybrid", "fully-async", "split-sync")


@trigger("R-P01")
def weights_read_for_nothing(run: Run) -> Hit | None:
    a = run.args
    if run.mode not in RL_MODES or run.device != "gpu" or a.value("sglang-load-format") != "auto":
        return None
    if a.on("debug-rollout-only") or a.on("rollout-external"):
        return None
    if a.given("genrm-model-path") and "load_format" not in str(a.value("genrm-engine-config")):
        return None
    if a.given("sglang-speculative-algorithm") and a.off("enable-mtp-training"):
        return None
    gib = 2 * run.parameters / GIB if run.parameters else None
    values = {"gib": gib, "seconds": round(2 * run.parameters / 1e9)} if run.parameters else {}
    return Hit(("sglang-load-format",), values)


@trigger("R-P02")
def eager_dataset(run: Run) -> Hit | None:
    a = run.args
    if not run.rl or not a.given("prompt-data") or a.on("disable-rollout-global-dataset"):
        return None
    if not a.off("use-streaming-dataset"):
        return None
    given = a.at("prompt-data")
    names = [word.text for word in given.values if word.known] if given is not None else []
    files = [name for name in names if "." in name.rsplit("/", 1)[-1]]
    if files and not any(name.endswith((".jsonl", ".parquet")) for name in files):
        return None
    severity = Severity.INFO if run.modality == "text" else Severity.WARNING
    return Hit(("use-streaming-dataset", "prompt-data"), severity=severity)


@trigger("R-P03")
def pipeline_unbalanced(run: Run) -> Hit | None:
    a = run.args
    if run.mode not in ("fully-async", "hybrid"):
        return None
    if a.whole("max-staleness") == 0 and not a.unknown("max-staleness"):
        what = "training waits for fresh samples in every step: rollout is 60 to 70 % of it"
        return Hit(("max-staleness",), {"what": what, "advice": "--max-staleness 1"})
    gpus, total = run.rollout_gpus, run.total_gpus
    if gpus and total and run.answer and run.answer > 1024:
        share = gpus / total
        if (share < 0.35 and run.answer >= 4096) or share > 0.75:
            what = f"rollout has {gpus} of {total} GPUs"
            advice = "about 50 to 60 % of the GPUs for rollout, 25 to 30 % for the actor"
            return Hit(("resource",), {"what": what, "advice": advice})
    iterations = a.whole("num-iters-per-train-update")
    if iterations and run.batch:
        part = iterations * run.samples
        if run.batch % part:
            what = f"{run.batch} samples do not divide into {iterations} parts of whole groups"
            values = {"what": what, "advice": f"--num-iters-per-train-update of {run.batch}"}
            return Hit(("num-iters-per-train-update", "global-batch-size"), values)
    return None


@trigger("R-P12")
def decode_without_graphs(run: Run) -> Hit | None:
    a = run.args
    if run.device != "gpu" or not run.rl:
        return None
    if a.on("sglang-disable-cuda-graph"):
        return Hit(("sglang-disable-cuda-graph",), {"advice": "remove --sglang-disable-cuda-graph"})
    listed, most = a.value("sglang-cuda-graph-bs"), a.whole("sglang-cuda-graph-max-bs")
    largest = max((n for n in listed or () if isinstance(n, int)), default=0) or most
    if not largest or not run.samples_per_step or not run.engines:
        return None
    wanted = running_requests(run)
    if wanted and wanted > largest:
        name = "sglang-cuda-graph-bs" if listed else "sglang-cuda-graph-max-bs"
        values = {"advice": f"--sglang-cuda-graph-max-bs {wanted}"}
        return Hit((name,), values, Severity.INFO)
    return None


def running_requests(run: Run) -> int | None:
    """Requests that one engine has at once, at most."""
    a = run.args
    if not run.samples_per_step or not run.engines:
        return None
    limits = [run.samples_per_step / run.engines, a.number("sglang-server-concurrency") or 512]
    running = a.number("sglang-max-running-requests")
    if running:
        limits.append(running)
    split = a.whole("sglang-dp-size") or 1 if a.on("sglang-enable-dp-attention") else 1
    return math.ceil(min(limits) / split)


@trigger("R-P15")
def idle_roles(run: Run) -> Hit | None:
    idle: dict[str, int] = {}
    if run.mode == "fully-async":
        if run.true_on_policy and run.role("actor_fwd"):
            idle["actor_fwd"] = run.role("actor_fwd")
        coefficient = run.args.number("kl-loss-coef")
        nothing = not run.kl or (coefficient == 0 and run.args.number("kl-coef") == 0)
        if nothing and run.role("reference"):
            idle["reference"] = run.role("reference")
    elif run.mode in ("colocate", "hybrid"):
        idle = {r: n for r in ("actor_fwd", "reference", "advantages") if (n := run.role(r))}
    total = run.total_gpus
    if not idle or not total:
        return None
    gpus = sum(idle.values())
    values = {"gpus": gpus, "total": total, "roles": ", ".join(idle)}
    severity = Severity.CRITICAL if gpus / total >= 0.2 else Severity.WARNING
    return Hit(("resource",), values, severity)


@trigger("R-P17")
def diagnostics_on(run: Run) -> Hit | None:
    a = run.args
    if a.on("enable-cuda-memory-check"):
        values = {"what": "about 20 % of the time", "flag": "--enable-cuda-memory-check"}
        return Hit(("enable-cuda-memory-check",), values, Severity.CRITICAL)
    start, end = a.whole("profile-step-start"), a.whole("profile-step-end")
    long = start is not None and end is not None and end - start > 5
    deep = a.on("profile-with-stack") or a.on("profile-with-memory")
    if a.on("use-pytorch-profiler") and (deep or long):
        values = {"what": "stacks and large traces", "flag": "--use-pytorch-profiler"}
        return Hit(("use-pytorch-profiler",), values)
    for name in ("record-memory-history", "memory-snapshot-num-steps"):
        if a.given(name):
            values = {"what": "stacks of every allocation", "flag": f"--{name}"}
            return Hit((name,), values)
    bounds = ("sglang-profile-steps", "sglang-profile-step-start", "sglang-profile-step-end")
    if a.on("sglang-profile") and not any(map(a.given, bounds)):
        values = {"what": "a profile without an end", "flag": "--sglang-profile"}
        return Hit(("sglang-profile",), values)
    for name in (
        "dump-details",
        "save-debug-rollout-data",
        "save-debug-train-data",
        "check-weight-update-equal",
        "sglang-enable-nan-detection",
    ):
        if a.given(name):
            values = {"what": "files or checks in every step", "flag": f"--{name}"}
            return Hit((name,), values, Severity.INFO)
    return None


@trigger("R-P18")
def media_in_threads(run: Run) -> Hit | None:
    size = run.args.whole("mm-processor-pool-size")
    if run.modality == "text" or not run.rl or size != 0:
        return None
    return Hit(("mm-processor-pool-size", "multimodal-keys"))


@trigger("R-P20")
def oversampling_lost(run: Run) -> Hit | None:
    a, size = run.args, run.args.whole("over-sampling-batch-size")
    if not size or not run.prompts or size <= run.prompts or not a.off("partial-rollout"):
        return None
    if run.mode not in ("colocate", "split-sync"):
        return None
    filtered = a.given("dynamic-sampling-filter-path")
    values = {"share": (size - run.prompts) / size}
    return Hit(("over-sampling-batch-size",), values, Severity.INFO if filtered else None)


@trigger("R-P21")
def long_tail(run: Run) -> Hit | None:
    a = run.args
    if run.mode != "colocate" or not run.answer or run.answer < 8192 or not run.prompts:
        return None
    if not a.off("partial-rollout") or not a.off("use-rollout-routing-replay"):
        return None
    return Hit(("rollout-max-response-len",), {"size": 2 * run.prompts})


@trigger("R-P22")
def engine_too_large(run: Run) -> Hit | None:
    a, size, fraction = run.args, run.engine_gpus, run.args.number("sglang-mem-fraction-static")
    if not size or size < 2 or size % 2 or not run.shape or not run.parameters or not fraction:
        return None
    if not a.off("sglang-enable-dp-attention") or not run.engines or not run.samples_per_step:
        return None
    half = 2 * run.parameters / (size / 2) / GIB
    if half > 0.35 * run.gpu_gib * fraction or run.samples_per_step / run.engines < 128:
        return None
    return Hit(("rollout-num-gpus-per-engine",), {"size": size // 2})


@trigger("R-P25")
def one_storage_unit(run: Run) -> Hit | None:
    a, units = run.args, run.args.whole("num-data-storage-units")
    if units is None or not run.world:
        return None
    if a.on("per-rank-fetch") and a.off("use-rollout-routing-replay"):
        wanted = run.tp or 1
    elif run.world >= 64:
        wanted = 8
    else:
        wanted = 2 if run.modality != "text" and (run.dp or 0) >= 4 else 1
    return Hit(("num-data-storage-units",), {"size": wanted}) if units < wanted else None


@trigger("R-P26")
def evaluation_share(run: Run) -> Hit | None:
    a, interval = run.args, run.args.whole("eval-interval")
    given = a.at("eval-prompt-data")
    names = " ".join(word.text for word in given.values).lower() if given is not None else ""
    if not interval or "aime" not in names or not run.samples_per_step or not run.answer:
        return None
    longest = a.whole("eval-max-response-len") or run.answer
    tokens = 30 * (a.whole("n-samples-per-eval-prompt") or 1) * longest
    share = tokens / (interval * run.samples_per_step * run.answer)
    if share < 0.08:
        return None
    values = {"share": min(share, 0.99), "interval": math.ceil(interval * share / 0.05)}
    return Hit(("eval-interval",), values, Severity.WARNING if share >= 0.2 else Severity.INFO)


@trigger("R-P27")
def checkpoint_stalls(run: Run) -> Hit | None:
    a = run.args
    background = a.on("async-save") and a.on("use-persistent-ckpt-worker")
    bytes_each = 2 if a.on("no-save-optim") else 14
    gib = bytes_each * run.parameters / GIB if run.parameters else None
    if a.on("async-save") and a.off("use-persistent-ckpt-worker"):
        return Hit(("async-save",), {"gib": gib, "advice": "--use-persistent-ckpt-worker"})
    interval = a.whole("save-interval")
    if not run.parameters or run.parameters < 8e9 or not interval or not a.given("save"):
        return None
    if interval < 20 and not background:
        advice = "a larger --save-interval, or --async-save --use-persistent-ckpt-worker"
        return Hit(("save-interval",), {"gib": gib, "advice": advice})
    return None


@trigger("R-P28")
def small_weight_chunks(run: Run) -> Hit | None:
    size = run.args.whole("update-weight-buffer-size")
    if not run.parameters or run.parameters < 100e9 or not size or size > 536_870_912:
        return None
    if run.mode not in ("colocate", "hybrid", "split-sync"):
        return None
    return Hit(("update-weight-buffer-size",), {"chunks": math.ceil(2 * run.parameters / size)})


@trigger("R-P29")
def requests_queue(run: Run) -> Hit | None:
    a = run.args
    if run.device != "gpu" or not run.engines or not run.prompts or a.given("genrm-model-path"):
        return None
    wanted = (a.whole("over-sampling-batch-size") or run.prompts) * run.samples
    limit = min(
        a.number("sglang-server-concurrency") or 512,
        a.number("sglang-max-running-requests") or math.inf,
    )
    if limit * run.engines >= wanted:
        return None
    values = {
        "waves": math.ceil(wanted / (limit * run.engines)),
        "size": math.ceil(wanted / run.engines),
    }
    return Hit(("sglang-server-concurrency", "sglang-max-running-requests"), values)


@trigger("R-P30")
def engine_features_off(run: Run) -> Hit | None:
    a = run.args
    if run.device != "gpu":
        return None
    if a.on("sglang-disable-radix-cache") and run.samples > 1:
        share = (run.samples - 1) / run.samples
        values = {
            "what": f"{share:.0%} of prompt computation",
            "flag": "--sglang-disable-radix-cache",
        }
        return Hit(("sglang-disable-radix-cache",), values, Severity.WARNING)
    for name in ("sglang-disable-overlap-schedule", "sglang-disable-custom-all-reduce"):
        if a.on(name) and (name.endswith("schedule") or (run.engine_gpus or 1) > 1):
            return Hit((name,), {"what": "a few percent", "flag": f"--{name}"})
    return None


@trigger("R-P36")
def rewards_throttled(run: Run) -> Hit | None:
    a = run.args
    judged = a.value("rm-type") in ("remote_rm", "dapo-genrm") or any(
        map(a.given, ("custom-rm-path", "genrm-model-path"))
    )
    prompts = a.whole("over-sampling-batch-size") or run.prompts
    if not judged or a.given("reward-max-concurrency") or not prompts:
        return None
    samples = prompts * run.samples
    if samples < 512:
        return None
    return Hit(("reward-max-concurrency",), {"waves": math.ceil(samples / 64)})


@trigger("R-P37")
def health_check(run: Run) -> Hit | None:
    a, timeout = run.args, run.args.number("rollout-health-check-timeout")
    heavy = (run.answer or 0) >= 16384 or (run.parameters or 0) >= 200e9 or run.modality == "video"
    if a.on("use-fault-tolerance") and timeout is not None and timeout <= 30 and heavy:
        return Hit(("use-fault-tolerance", "rollout-health-check-timeout"))
    return None


@trigger("R-P38")
def cold_checkpoint(run: Run) -> Hit | None:
    a = run.args
    large = run.parameters is not None and run.parameters >= 25e9
    bridged = a.value("megatron-to-hf-mode") == "bridge"
    if large and bridged and a.off("warm-hf-checkpoint-page-cache"):
        return Hit(("warm-hf-checkpoint-page-cache", "hf-checkpoint"))
    return None
