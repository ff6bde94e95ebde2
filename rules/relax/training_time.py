"""Triggers of R-P rules about training: parallel sizes, kernels, batches."""

from __future__ import annotations

from pitstop.rules.finding import Severity
from pitstop.rules.megatron import Recompute
from pitstop.rules.memory import GIB
from pitstop.rules.relax.context import Run
from pitstop.rules.relax.rule import Hit, trigger
from pitstop.rules.relax.sizes import (
    AIM,
    COMFORTABLE,
    bubble,
    estimate,
    micro_batches,
    recompute,
    train_gib,
)


@trigger("R-P04")
def context_parallel(run: Run) -> Hit | None:
    a = run.args
    if not run.cp or not run.longest or a.on("dynamic-context-parallel"):
        return None
    if run.cp > 1 and run.longest <= 8192 and run.modality == "text":
        half = train_gib(run, cp=run.cp // 2)
        if half is not None and half <= 0.85 * run.gpu_gib:
            values = {
                "what": f"5 to 15 % of train time for samples of {run.longest} tokens (estimate)",
                "advice": f"--context-parallel-size {run.cp // 2}",
            }
            return Hit(("context-parallel-size",), values)
    one_node = run.world is not None and run.world <= run.gpus_per_node
    short = run.tokens is not None and run.tokens < run.longest
    if run.cp == 1 and (run.answer or 0) >= 16384 and one_node and short:
        values = {
            "what": "samples longer than the budget: out of memory, or a third more training",
            "advice": "--context-parallel-size 2 --calculate-per-token-loss",
        }
        return Hit(("context-parallel-size", "rollout-max-response-len"), values)
    return None


@trigger("R-P05")
def no_expert_parallel(run: Run) -> Hit | None:
    shape, world = run.shape, run.world
    if not run.moe or run.ep != 1 or not world or world <= 1 or shape is None:
        return None
    if run.args.unknown("expert-model-parallel-size") or not run.pp or not run.etp:
        return None
    experts = shape.moe_layers * 3 * shape.hidden * shape.expert_intermediate * shape.experts
    held = 6 * experts / (run.pp * run.etp) / GIB
    sizes = [
        size
        for size in range(2, min(run.gpus_per_node, shape.experts) + 1)
        if shape.experts % size == 0 and world % (run.pp * size) == 0
    ]
    if not sizes:
        return None
    size = max(sizes)
    values = {"gib": held, "size": size, "less": 6 * experts / (run.pp * size) / GIB}
    severity = Severity.CRITICAL if held > 0.4 * run.gpu_gib else Severity.WARNING
    return Hit(("expert-model-parallel-size",), values, severity)


@trigger("R-P06")
def tensor_parallel_across_nodes(run: Run) -> Hit | None:
    tp, node = run.tp, run.gpus_per_node
    if tp and tp > 1 and (tp > node or node % tp):
        values = {"advice": f"--tensor-model-parallel-size {max(1, node)} or less"}
        return Hit(("tensor-model-parallel-size",), values, Severity.CRITICAL)
    if (run.engine_gpus or 1) > node and run.args.off("sglang-enable-dp-attention"):
        size = run.engine_gpus
        advice = f"--sglang-enable-dp-attention --sglang-dp-size {size} --sglang-ep-size {size}"
        return Hit(("rollout-num-gpus-per-engine",), {"advice": advice})
    return None


@trigger("R-P07")
def pipeline_without_need(run: Run) -> Hit | None:
    if not run.pp or run.pp <= 1 or not run.world or (run.longest or 0) > 32768:
        return None
    if not run.moe and (run.parameters or 0) >= 200e9:
        return None
    count = micro_batches(run)
    if count is not None and count >= 8 * run.pp:
        return None
    gib, share = train_gib(run, pp=1), bubble(run, run.pp)
    if gib is None or gib > AIM * run.gpu_gib or share is None:
        return None
    values = {"bubble": share, "gib": gib, "card": round(run.gpu_gib)}
    return Hit(("pipeline-model-parallel-size",), values)


@trigger("R-P08")
def moe_dispatcher(run: Run) -> Hit | None:
    a = run.args
    kind = a.value("moe-token-dispatcher-type")
    if run.device != "gpu" or not run.moe or a.unknown("moe-token-dispatcher-type"):
        return None
    if kind == "flex" or a.on("moe-shared-expert-overlap"):
        return None
    if a.on("moe-pad-expert-input-to-capacity"):
        return None
    if a.given("moe-flex-dispatcher-backend"):
        names = ("moe-flex-dispatcher-backend", "moe-token-dispatcher-type")
        return Hit(names, severity=Severity.WARNING)
    return Hit(("moe-token-dispatcher-type",)) if (run.ep or 1) > 1 else None


@trigger("R-P09")
def attention_not_pinned(run: Run) -> Hit | None:
    kind = run.args.value("attention-backend")
    if run.device != "gpu" or kind is None or kind in ("flash", "fused"):
        return None
    if kind in ("unfused", "local"):
        return Hit(("attention-backend",), severity=Severity.WARNING)
    return Hit(("attention-backend",)) if kind == "auto" else None


@trigger("R-P10")
def rope_fusion_off(run: Run) -> Hit | None:
    a = run.args
    given = a.at("no-rope-fusion")
    if given is None or run.device != "gpu" or run.vision_checkpoint:
        return None
    if "/models/" in given.flag.location.path or a.on("multi-latent-attention"):
        return None
    return Hit(("no-rope-fusion",))


@trigger("R-P11")
def static_micro_batches(run: Run) -> Hit | None:
    a = run.args
    if not a.off("use-dynamic-batch-size") or a.value("qkv-format") == "bshd":
        return None
    if run.device == "npu" or not run.rl:
        return None
    return Hit(("use-dynamic-batch-size", "micro-batch-size"))


@trigger("R-P13")
def tokens_unbalanced(run: Run) -> Hit | None:
    a = run.args
    long = (run.answer or 0) >= 4096 or a.on("use-dynamic-batch-size")
    if run.mode in ("colocate", "hybrid", "split-sync"):
        if a.off("balance-data") and (run.dp or 1) > 1 and long:
            values = {
                "what": "10 to 30 % of train time with long answers",
                "advice": "--balance-data",
            }
            return Hit(("balance-data", "global-batch-size"), values)
    elif run.mode == "fully-async" and a.on("balance-data"):
        values = {"what": "nothing: it has no effect here", "advice": "remove --balance-data"}
        return Hit(("balance-data",), values, Severity.INFO)
    return None


@trigger("R-P14")
def kl_of_zero(run: Run) -> Hit | None:
    a = run.args
    if not run.rl or not a.on("use-kl-loss") or a.given("custom-config-path"):
        return None
    if a.number("kl-loss-coef") != 0 or a.number("kl-coef") != 0:
        return None
    share = 1 / 6 if recompute(run) is Recompute.FULL else 1 / 5
    heavy = (run.parameters or 0) >= 20e9
    waits = run.mode == "fully-async" and run.role("reference") > 0
    severity = Severity.WARNING if heavy or waits else None
    return Hit(("use-kl-loss", "kl-loss-coef"), {"share": share}, severity)


@trigger("R-P16")
def scoring_budget(run: Run) -> Hit | None:
    a = run.args
    scoring = a.whole("log-probs-max-tokens-per-gpu", run.tokens)
    if not a.on("use-dynamic-batch-size") or not run.tokens or scoring != run.tokens:
        return None
    if run.mode in ("colocate", "hybrid", "split-sync"):
        scores = run.kl or a.value("opd-type") == "megatron"
    else:
        scores = run.mode == "fully-async" and (
            run.role("reference") > 0 or (run.role("actor_fwd") > 0 and run.true_on_policy is False)
        )
    if not scores or run.shape is None or not run.tp:
        return None
    for times in (3, 2):
        logits = 6 * times * run.tokens * run.shape.vocabulary / run.tp / GIB
        if logits <= 0.3 * run.gpu_gib:
            return Hit(
                ("log-probs-max-tokens-per-gpu", "max-tokens-per-gpu"),
                {"tokens": times * run.tokens},
            )
    return None


@trigger("R-P19")
def vision_on_every_rank(run: Run) -> Hit | None:
    tp = run.tp or 1
    if (
        run.modality == "text"
        or tp <= 1
        or run.device != "gpu"
        or not run.args.off("vision-dp-when-tp")
    ):
        return None
    return Hit(("vision-dp-when-tp", "multimodal-keys"), {"share": (tp - 1) / tp})


@trigger("R-P23")
def communication_overlap(run: Run) -> Hit | None:
    a = run.args
    unsupported = run.moe or (run.vision_checkpoint and (run.cp or 1) > 1)
    on = [n for n in ("overlap-grad-reduce", "overlap-param-gather") if a.on(n)]
    if unsupported and on:
        values = {
            "what": "not supported for this model",
            "advice": f"remove --{' and --'.join(on)}",
        }
        return Hit(tuple(on), values, Severity.WARNING)
    ranks = (run.dp or 1) * (run.cp or 1)
    if (
        not unsupported
        and ranks > 1
        and a.off("optimizer-cpu-offload")
        and a.off("overlap-grad-reduce")
    ):
        values = {
            "what": "2 to 8 % of train time, more across nodes",
            "advice": "--overlap-grad-reduce --overlap-param-gather",
        }
        return Hit(("overlap-grad-reduce", "optimizer"), values)
    return None


@trigger("R-P24")
def fusions_off(run: Run) -> Hit | None:
    a = run.args
    if run.device != "gpu":
        return None
    if run.moe and run.shape is not None:
        missing = [n for n in ("moe-grouped-gemm", "moe-permute-fusion") if a.off(n)]
        if missing:
            flags = " ".join(f"--{name}" for name in missing)
            what = "experts run as a loop of small products, often over 30 % of their time"
            return Hit(
                (missing[0], "num-experts"), {"what": what, "advice": f"{flags} in MODEL_ARGS"}
            )
    for name in (
        "no-gradient-accumulation-fusion",
        "no-bias-swiglu-fusion",
        "no-masked-softmax-fusion",
        "no-persist-layer-norm",
        "no-bias-dropout-fusion",
    ):
        if a.given(name):
            return Hit(
                (name,), {"what": "a few percent", "advice": f"remove --{name}"}, Severity.INFO
            )
    return None


@trigger("R-P31")
def padded_layout(run: Run) -> Hit | None:
    return Hit(("qkv-format",)) if run.args.value("qkv-format") == "bshd" else None


@trigger("R-P32")
def expert_tensor_parallel(run: Run) -> Hit | None:
    a = run.args
    if not run.moe or (run.tp or 1) <= 1 or a.maybe("expert-tensor-parallel-size"):
        return None
    if not a.given("expert-tensor-parallel-size"):
        return Hit(("expert-tensor-parallel-size", "expert-model-parallel-size"))
    etp, width = run.etp or 1, run.shape.expert_intermediate if run.shape else 0
    if etp > 1 and width and width / etp < 512:
        return Hit(("expert-tensor-parallel-size",))
    return None


@trigger("R-P33")
def deep_pipeline(run: Run) -> Hit | None:
    a, pp, count = run.args, run.pp or 1, micro_batches(run)
    names = ("num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank")
    if pp < 4 or any(map(a.given, names)) or count is None or count >= 4 * pp or run.shape is None:
        return None
    uneven = ("decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers")
    if a.on("enable-mtp-training") or any(map(a.given, uneven)) or run.mode == "fully-async":
        return None
    layers = run.shape.layers // pp
    if run.shape.layers % pp or layers % 2:
        return None
    values = {"bubble": (pp - 1) / (count + pp - 1), "layers": layers // 2}
    return Hit(("pipeline-model-parallel-size",), values)


@trigger("R-P34")
def manual_offload(run: Run) -> Hit | None:
    fits = run.device == "gpu" and run.mode == "colocate"
    return Hit(("manual-offload",)) if fits and run.args.on("manual-offload") else None


@trigger("R-P35")
def tensor_parallel_too_large(run: Run) -> Hit | None:
    a, tp = run.args, run.tp or 1
    if tp < 2 or tp % 2 or not run.rl or run.shape is None or not a.off("optimizer-cpu-offload"):
        return None
    if a.given("recompute-granularity"):
        return None
    found = estimate(run, tp=tp // 2)
    if found is None or found.total / GIB > COMFORTABLE * run.gpu_gib:
        return None
    if found.logits > 0.5 * found.total:
        return None
    values = {"gib": found.total / GIB, "card": round(run.gpu_gib), "size": tp // 2}
    return Hit(("tensor-model-parallel-size",), values)
