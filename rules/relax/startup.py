"""Triggers of V rules: launches that stop at their start, and options that nobody reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pitstop.rules.relax.arguments import is_known, misspelt_of, table
from pitstop.rules.relax.context import Run
from pitstop.rules.relax.rule import Hit, trigger

ENTRY_SWITCHES = ("working-dir", "address", "runtime-env-json", "no-wait", "submission-id")


@trigger("V-01")
def two_modes(run: Run) -> Hit | None:
    a = run.args
    if a.on("fully-async") and a.on("colocate") and a.off("hybrid"):
        return Hit(("fully-async", "colocate"))
    return None


@trigger("V-02")
def sizes_do_not_divide(run: Run) -> Hit | None:
    if not run.world or None in (run.tp, run.pp, run.cp, run.ep):
        return None
    tp, pp, cp, ep = run.tp or 1, run.pp or 1, run.cp or 1, run.ep or 1
    if run.world % (tp * pp * cp):
        names = ("tensor-model-parallel-size", "pipeline-model-parallel-size")
        what = f"{run.world} GPUs are no multiple of TP {tp} x PP {pp} x CP {cp}"
        return Hit(names, {"what": what})
    experts = run.args.whole("num-experts")
    if run.moe and run.etp and run.world % (pp * ep * run.etp):
        what = f"{run.world} GPUs are no multiple of PP {pp} x EP {ep} x ETP {run.etp}"
        return Hit(("expert-model-parallel-size",), {"what": what})
    if experts and ep > 1 and experts % ep:
        what = f"{experts} experts do not divide over {ep} ranks"
        return Hit(("expert-model-parallel-size",), {"what": what})
    if ep > 1 and experts is not None and experts <= 1:
        what = "expert parallelism in a model without experts"
        return Hit(("expert-model-parallel-size",), {"what": what})
    return None


@trigger("V-03")
def layers_do_not_divide(run: Run) -> Hit | None:
    a, layers, pp = run.args, run.args.whole("num-layers"), run.pp
    each = a.whole("num-layers-per-virtual-pipeline-stage")
    uneven = a.given("decoder-first-pipeline-num-layers") or a.given(
        "decoder-last-pipeline-num-layers"
    )
    if each and uneven:
        what = "virtual stages by layers do not go with uneven first or last stages"
        return Hit(("num-layers-per-virtual-pipeline-stage",), {"what": what})
    if not layers or not pp:
        return None
    if each and pp <= 1:
        return Hit(("num-layers-per-virtual-pipeline-stage",), {"what": "there is one stage"})
    free = uneven or a.given("pipeline-model-parallel-layout") or _account(run)
    if pp > 1 and layers % pp and not free:
        what = f"{layers} layers, {pp} stages"
        return Hit(("pipeline-model-parallel-size",), {"what": what})
    if each and not layers % pp and (layers // pp) % each:
        what = f"{layers // pp} layers of a stage, {each} of a virtual one"
        return Hit(("num-layers-per-virtual-pipeline-stage",), {"what": what})
    return None


def _account(run: Run) -> bool:
    """Embedding and loss counted as layers make another number of them."""
    return run.args.given("account-for-embedding-in-pipeline-split") or run.args.given(
        "account-for-loss-in-pipeline-split"
    )


@trigger("V-04")
def offload_needs_precision_aware(run: Run) -> Hit | None:
    a = run.args
    if a.on("optimizer-cpu-offload") and a.off("use-precision-aware-optimizer"):
        return Hit(("optimizer-cpu-offload", "use-precision-aware-optimizer"))
    return None


@trigger("V-05")
def context_parallel_loss(run: Run) -> Hit | None:
    a = run.args
    dynamic = a.on("dynamic-context-parallel")
    if ((run.cp or 1) > 1 or dynamic) and a.off("calculate-per-token-loss"):
        return Hit(("context-parallel-size", "calculate-per-token-loss"))
    return None


@trigger("V-06")
def rope_fusion_needed_off(run: Run) -> Hit | None:
    if run.vision_checkpoint and run.args.off("no-rope-fusion") and run.device == "gpu":
        return Hit(("no-rope-fusion",))
    return None


@trigger("V-07")
def context_over_budget(run: Run) -> Hit | None:
    a, longest = run.args, run.args.whole("rollout-max-context-len")
    if not (a.on("use-dynamic-batch-size") and longest and run.tokens and run.cp):
        return None
    if a.on("dynamic-context-parallel") or run.tokens * run.cp >= longest:
        return None
    what = f"{longest} tokens against {run.tokens} x CP {run.cp}"
    values = {"what": what, "tokens": -(-longest // run.cp)}
    return Hit(("max-tokens-per-gpu", "rollout-max-context-len"), values)


@trigger("V-08")
def sft_incomplete(run: Run) -> Hit | None:
    a = run.args
    if run.rl:
        return None
    if a.off("use-dynamic-batch-size"):
        values = {"what": "dynamic batches are required", "advice": "--use-dynamic-batch-size"}
        return Hit(("use-dynamic-batch-size",), values)
    custom = a.given("custom-dataset-class-path") or a.given("sft-dataset-class-path")
    if not a.given("prompt-data") and not a.maybe("prompt-data") and not custom:
        return Hit(("prompt-data",), {"what": "no data are named", "advice": "--prompt-data PATH"})
    if run.resource is not None and "sft" not in run.resource:
        values = {"what": "the producer's role is missing", "advice": '"sft": [1, 0] in --resource'}
        return Hit(("resource",), values)
    return None


@trigger("V-09")
def stage_layers_without_stages(run: Run) -> Hit | None:
    for name in ("decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"):
        if run.pp == 1 and run.args.given(name):
            return Hit((name,))
    return None


@trigger("V-10")
def batches_do_not_divide(run: Run) -> Hit | None:
    if run.mode not in ("colocate", "hybrid") or not (
        run.samples_per_step and run.batch and run.dp
    ):
        return None
    if run.args.on("use-dynamic-global-batch-size") or not run.prompts:
        return None
    names = ("global-batch-size", "rollout-batch-size")
    values: dict[str, object] = {"dp": run.dp}
    if run.samples_per_step % run.batch:
        values["what"] = f"{run.samples_per_step} samples, {run.batch} of a training step"
        return Hit(names, values)
    steps = run.samples_per_step // run.batch
    if run.prompts % steps:
        return Hit(names, {**values, "what": f"{run.prompts} prompts, {steps} training steps"})
    if run.prompts // steps % run.dp:
        what = f"{run.prompts // steps} prompts of a training step, {run.dp} data parallel ranks"
        return Hit(names, {**values, "what": what})
    return None


@trigger("V-11")
def batch_contradiction(run: Run) -> Hit | None:
    steps = run.args.whole("num-steps-per-rollout")
    if not steps or not run.batch or not run.samples_per_step:
        return None
    if run.batch == run.samples_per_step // steps:
        return None
    what = f"{run.samples_per_step} samples in {steps} steps are not {run.batch}"
    return Hit(("num-steps-per-rollout", "global-batch-size"), {"what": what})


@trigger("V-12")
def role_missing(run: Run) -> Hit | None:
    if run.mode != "fully-async" or run.resource is None:
        return None
    if run.true_on_policy is False and "actor_fwd" not in run.resource:
        what = "a rollout is not one training step, so old log-probabilities are needed"
        return Hit(("resource",), {"what": what, "role": "actor_fwd"})
    if run.kl and "reference" not in run.resource:
        return Hit(("resource",), {"what": "a KL term needs the reference", "role": "reference"})
    return None


@trigger("V-13")
def no_token_budget(run: Run) -> Hit | None:
    a = run.args
    missing = not a.given("max-tokens-per-gpu") and not a.maybe("max-tokens-per-gpu")
    return Hit(("use-dynamic-batch-size",)) if a.on("use-dynamic-batch-size") and missing else None


@trigger("V-14")
def oversampling_too_small(run: Run) -> Hit | None:
    size = run.args.whole("over-sampling-batch-size")
    if size and run.prompts and size < run.prompts:
        return Hit(("over-sampling-batch-size",), {"size": run.prompts})
    return None


@trigger("V-15")
def corrections_exclude(run: Run) -> Hit | None:
    a = run.args
    if a.number("kl-coef") and a.number("kl-loss-coef"):
        return Hit(("kl-coef", "kl-loss-coef"), {"what": "KL in the reward and in the loss"})
    if a.on("use-rollout-logprobs") and a.on("use-tis"):
        what = "log-probabilities of the rollout and truncated importance sampling"
        return Hit(("use-rollout-logprobs", "use-tis"), {"what": what})
    if a.on("get-mismatch-metrics") and not a.given("custom-tis-function-path"):
        what = "mismatch metrics need a function"
        return Hit(("get-mismatch-metrics", "custom-tis-function-path"), {"what": what})
    return None


@trigger("V-16")
def layout_and_dynamic(run: Run) -> Hit | None:
    a = run.args
    if a.value("qkv-format") == "bshd" and a.on("use-dynamic-batch-size"):
        return Hit(("qkv-format", "use-dynamic-batch-size"))
    return None


@trigger("V-17")
def partial_and_replay(run: Run) -> Hit | None:
    names = ("partial-rollout", "use-rollout-routing-replay")
    return Hit(names) if all(map(run.args.on, names)) else None


@trigger("V-18")
def estimator_and_mode(run: Run) -> Hit | None:
    a = run.args
    if run.mode == "fully-async":
        for name in ("normalize-advantages", "use-dynamic-global-batch-size"):
            if a.on(name):
                return Hit((name,), {"what": f"--{name} is not known in this mode"})
        if a.value("opd-type") == "megatron":
            return Hit(("opd-type",), {"what": "a Megatron teacher is not known in this mode"})
    estimator = str(a.value("advantage-estimator"))
    if estimator.startswith("reinforce_plus_plus") and a.off("normalize-advantages"):
        return Hit(("advantage-estimator",), {"what": "it needs --normalize-advantages"})
    return None


@trigger("V-19")
def resource_malformed(run: Run) -> Hit | None:
    given = run.args.at("resource")
    if given is None or not given.known or not given.values:
        return None
    if run.resource is None:
        return Hit(("resource",), {"what": "--resource is no JSON object of role: [1, GPUs]"})
    return None


@trigger("V-20")
def option_ignored(run: Run) -> Hit | None:
    found = [given for given in run.args if not is_known(given.name) and given.known]
    found = [given for given in found if given.name not in ENTRY_SWITCHES]
    near = [(given, misspelt_of(given.name)) for given in found]
    sure = [(given, name) for given, name in near if name is not None]
    if not sure:
        return None
    said = "; ".join(f"--{given.name}: did you mean --{name}?" for given, name in sure)
    return Hit(tuple(given.name for given, _ in sure), {"advice": said})


@trigger("V-21")
def value_not_allowed(run: Run) -> Hit | None:
    for name, option in table().options.items():
        value = run.args.value(name) if run.args.given(name) else None
        if option.choices and isinstance(value, str) and value not in option.choices:
            allowed = ", ".join(option.choices)
            return Hit((name,), {"what": f"{value} is none of {allowed}", "advice": allowed})
    return None


@trigger("V-22")
def recompute_options(run: Run) -> Hit | None:
    a = run.args
    if a.maybe("recompute-method") or a.maybe("recompute-num-layers"):
        return None
    kind = a.value("recompute-granularity")
    both = [a.given(name) for name in ("recompute-method", "recompute-num-layers")]
    if kind == "full" and not all(both):
        return Hit(("recompute-granularity",), {"what": "full without method or layers"})
    if kind == "selective" and any(both):
        return Hit(("recompute-granularity",), {"what": "selective with method or layers"})
    return None


@trigger("V-23")
def engine_sizes(run: Run) -> Hit | None:
    return next(_engine_faults(run), None)


def _engine_faults(run: Run) -> Iterator[Hit]:
    a = run.args
    size = a.whole("sglang-dp-size") or a.whole("sglang-data-parallel-size") or 1
    if size > 1 and a.off("sglang-enable-dp-attention"):
        what = "data parallel engines need data parallel attention"
        yield Hit(("sglang-dp-size",), {"what": what, "advice": "--sglang-enable-dp-attention"})
    gpus, each = run.rollout_gpus, run.engine_gpus
    if gpus and each and gpus % each:
        values = {"what": f"{gpus} GPUs, {each} of an engine", "advice": "a size that divides"}
        yield Hit(("rollout-num-gpus-per-engine",), values)
    stages = a.whole("sglang-pipeline-parallel-size") or 1
    if each and each % stages:
        values = {"what": f"{each} GPUs, {stages} stages", "advice": "a size that divides"}
        yield Hit(("sglang-pipeline-parallel-size",), values)


@trigger("V-24")
def no_weight_copies(run: Run) -> Hit | None:
    teacher = run.args.value("opd-type") == "megatron"
    if run.args.on("disable-weights-backuper") and (run.kl or teacher):
        return Hit(("disable-weights-backuper",)) if run.mode in ("colocate", "hybrid") else None
    return None


@trigger("V-25")
def dynamic_context_incomplete(run: Run) -> Hit | None:
    a = run.args
    if not a.on("dynamic-context-parallel"):
        return None
    for name in ("use-dynamic-batch-size", "rollout-max-context-len", "max-tokens-per-gpu"):
        if not a.given(name) and not a.maybe(name):
            return Hit(
                ("dynamic-context-parallel",), {"what": f"no --{name}", "advice": f"--{name}"}
            )
    return None


@trigger("V-26")
def interval_without_object(run: Run) -> Hit | None:
    a = run.args

    def lacks(*names: str) -> bool:
        return not any(a.given(name) or a.maybe(name) for name in names)

    if a.given("save-interval") and lacks("save"):
        return Hit(("save-interval",), {"what": "no --save", "advice": "--save PATH"})
    evaluated = ("eval-prompt-data", "eval-config", "eval-function-path")
    if run.rl and a.given("eval-interval") and lacks(*evaluated):
        values = {"what": "no data to evaluate", "advice": "--eval-prompt-data NAME PATH"}
        return Hit(("eval-interval",), values)
    if a.on("rotate-ckpt") and any(lacks(n) for n in ("save", "save-interval", "async-save")):
        values = {"what": "rotation needs an asynchronous save", "advice": "--async-save"}
        return Hit(("rotate-ckpt",), values)
    if run.rl and lacks("num-rollout", "num-epoch"):
        return Hit(("resource",), {"what": "nothing ends the run", "advice": "--num-rollout N"})
    return None


@trigger("V-27")
def chunked_logits_exclude(run: Run) -> Hit | None:
    a = run.args
    if not a.on("sft-chunked-logits"):
        return None
    for name in ("enable-mtp-training", "overlap-moe-expert-parallel-comm"):
        if a.on(name):
            return Hit(("sft-chunked-logits", name), {"what": f"with --{name}"})
    if run.shape is not None and run.shape.tied:
        return Hit(("sft-chunked-logits",), {"what": "with tied embeddings"})
    return None


@trigger("V-28")
def speculative_version(run: Run) -> Hit | None:
    word = run.env.get("SGLANG_ENABLE_SPEC_V2")
    on = word is not None and word.known and word.text.lower() in ("1", "true", "yes")
    return (
        Hit(("sglang-speculative-algorithm",))
        if on and run.args.given("sglang-speculative-algorithm")
        else None
    )


@trigger("V-29")
def mtp_without_layers(run: Run) -> Hit | None:
    a = run.args
    missing = not a.given("mtp-num-layers") and not a.maybe("mtp-num-layers")
    return Hit(("enable-mtp-training",)) if a.on("enable-mtp-training") and missing else None


@trigger("V-30")
def connections_lost(run: Run) -> Hit | None:
    split = (run.tp or 1) > 1 or (run.cp or 1) > 1
    own = re.search(r"^\s*(?:export\s+)?RUNTIME_ENV_JSON=[\"']?\{", run.text, re.MULTILINE)
    kept = "CUDA_DEVICE_MAX_CONN" in run.text or "/entrypoint/" in run.text  # helpers set it
    if not split or own is None or kept or run.device != "gpu":
        return None
    return Hit(("tensor-model-parallel-size",))


@trigger("V-31")
def options_never_passed(run: Run) -> Hit | None:
    arrays = re.findall(r"^\s*(\w+_ARGS)\+?=\(\s*\S", run.text, re.MULTILINE)
    lost = [name for name in dict.fromkeys(arrays) if not _mentioned(name, run.text)]
    return Hit((), {"what": ", ".join(lost)}) if lost else None


def _mentioned(name: str, text: str) -> bool:
    """Whether an array is read anywhere: as `${NAME...}` or `$NAME`, or handed on by name."""
    plain = re.sub(rf"^\s*{name}\+?=\(", "", text, flags=re.MULTILINE)
    return re.search(rf"\b{name}\b", re.sub(r"(?m)^\s*#.*$", "", plain)) is not None


@trigger("V-32")
def ppo_refused(run: Run) -> Hit | None:
    return Hit(("advantage-estimator",)) if run.args.value("advantage-estimator") == "ppo" else None
