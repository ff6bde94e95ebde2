"""The tables of docs/memory.md: our figures beside those that others publish."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pitstop.bot.estimate_words import gib, gib_range
from pitstop.rules.architecture import Architecture
from pitstop.rules.estimate import estimate, states_of
from pitstop.rules.megatron import (
    Loss,
    MegatronRun,
    Recompute,
    megatron_estimate,
    megatron_layout,
    megatron_states,
)
from pitstop.rules.memory import GIB, Keeping, Layout, Sharding, local_parameters
from pitstop.rules.models import by_name
from pitstop.rules.ranges import Range
from pitstop.rules.trained import Method, Setup


def _shape(name: str) -> Architecture:
    found = by_name(name).shape
    if found is None:
        raise ValueError(f"{name} is not in the table of models")
    return found


def _table(head: str, rows: Iterator[str]) -> str:
    columns = head.count("|") + 1
    return "\n".join([f"| {head} |", "|" + " --- |" * columns, *rows]) + "\n"


SIZES = {"7B": "Qwen2.5-7B", "14B": "Qwen2.5-14B", "30B": "Qwen2.5-32B", "70B": "Llama-2-70b"}
README = (
    ("full, mixed precision", (120, 240, 600, 1200), {"keeping": Keeping.MASTER}),
    ("full, pure bf16", (60, 120, 300, 600), {"keeping": Keeping.PURE}),
    ("LoRA, 16 bits", (16, 32, 64, 160), {"method": Method.LORA, "keeping": Keeping.AUTOCAST}),
    (
        "QLoRA, 8 bits",
        (10, 20, 40, 80),
        {"method": Method.LORA, "keeping": Keeping.AUTOCAST, "frozen_bits": 8},
    ),
    (
        "QLoRA, 4 bits",
        (6, 12, 24, 48),
        {"method": Method.LORA, "keeping": Keeping.AUTOCAST, "frozen_bits": 4},
    ),
)


def llama_factory() -> str:
    """The table of LLaMA-Factory's README, in GB, beside ours for one sample of 512 tokens."""
    return _table(
        "training | " + " | ".join(f"{size}: README | ours" for size in SIZES), _readme_rows()
    )


def _readme_rows() -> Iterator[str]:
    for words, published, fields in README:
        cells = []
        for (_, name), figure in zip(SIZES.items(), published, strict=True):
            setup = Setup(_shape(name), 1, 512, checkpointing=True)
            total = estimate(replace(setup, **fields)).total
            cells += [str(figure), f"{total.low / 1e9:.0f} to {total.high / 1e9:.0f}"]
        yield f"| {words} | {' | '.join(cells)} |"


@dataclass(frozen=True, slots=True)
class DeepSpeedCase:
    """One configuration of DeepSpeed's estimators."""

    sharding: Sharding
    optimizer: bool = False
    weights: bool = False

    @property
    def words(self) -> str:
        """Stage and what is offloaded."""
        away = [w for w, on in (("optimizer", self.optimizer), ("weights", self.weights)) if on]
        return f"stage {self.sharding.value[-1]}" + (f", {' and '.join(away)} away" if away else "")

    def theirs(self, parameters: int, largest: int, gpus: int) -> float:
        """Bytes per GPU by estimate_zero2_model_states_mem_needs and its like for stage 3."""
        if self.sharding is Sharding.ZERO2:
            shared = 0.0 if self.optimizer else 18 * parameters / gpus
            return 2 * parameters + shared
        live = 4.0 * largest
        if self.weights:
            return live
        return live + (2 if self.optimizer else 18) * parameters / gpus


CASES = (
    DeepSpeedCase(Sharding.ZERO2),
    DeepSpeedCase(Sharding.ZERO2, optimizer=True),
    DeepSpeedCase(Sharding.ZERO3),
    DeepSpeedCase(Sharding.ZERO3, optimizer=True),
    DeepSpeedCase(Sharding.ZERO3, optimizer=True, weights=True),
)


def deepspeed() -> str:
    """DeepSpeed's own estimators beside ours: states of a 7B model on eight GPUs, in GiB."""
    return _table("case | DeepSpeed's estimator | ours, kept | ours, step included", _zero_rows())


def _zero_rows() -> Iterator[str]:
    model = _shape("Qwen2.5-7B")
    for case in CASES:
        layout = Layout(
            data=8, sharding=case.sharding, offload_optimizer=case.optimizer,
            offload_weights=case.weights,
        )  # fmt: skip
        states = states_of(Setup(model, 1, 512, layout=layout))
        largest = max(model.largest_layer, model.embedding_parameters)
        theirs = case.theirs(model.parameters, largest, 8)
        step = states.kept + max(states.scratch, states.gathered.low)
        yield f"| {case.words} | {gib(theirs)} | {gib(states.kept)} | {gib(step)} |"


MEGATRON = (
    ("Qwen2.5-7B", 8, {"tensor": 2}),
    ("Qwen2.5-14B", 8, {"tensor": 4}),
    ("Llama-2-70b", 64, {"tensor": 8, "pipeline": 4}),
    ("Qwen3-30B-A3B", 16, {"tensor": 4, "pipeline": 2, "expert": 8, "expert_tensor": 1}),
)


def megatron() -> str:
    """Megatron's theoretical weights and optimizer beside ours, in GiB, worst stage."""
    return _table("model | GPUs | layout | Megatron's formula | ours", _megatron_rows())


def _megatron_rows() -> Iterator[str]:
    for name, gpus, sizes in MEGATRON:
        model, layout = _shape(name), megatron_layout(gpus, **sizes)
        theirs = megatron_theory(model, layout)
        ours = megatron_states(MegatronRun(model, layout, 4096)).kept
        words = ", ".join(f"{kind} {size}" for kind, size in sizes.items())
        yield f"| {name} | {gpus} | {words} | {gib(theirs)} | {gib(ours)} |"


def megatron_theory(model: Architecture, layout: Layout) -> float:
    """Bytes of the most loaded shard as Megatron counts them: what tensor parallelism divides,
    norms and routers in full, experts by their own groups; 6 bytes for each parameter and 12
    shared among the ranks that hold it."""
    whole = model.layers * model.norms * model.norm_parameters + model.norm_parameters
    whole += model.moe_layers * model.router_parameters
    inner = model.parameters - model.embedding_parameters - model.head_parameters
    divided = inner - whole - model.routed_parameters
    ends = model.embedding_parameters
    if layout.pipeline == 1:
        ends += model.head_parameters
    dense = (divided / layout.pipeline + ends) / layout.tensor + whole / layout.pipeline
    experts = local_parameters(model, layout).experts
    return dense * (6 + 12 / layout.shards) + experts * (6 + 12 / layout.expert_shards)


def accelerate() -> str:
    """`accelerate estimate-memory` beside ours for full training with AdamW, in GiB."""
    return _table(
        "model | accelerate, fp32 | ours, fp32 | accelerate, bf16 mixed | ours, autocast",
        _accelerate_rows(),
    )


def _accelerate_rows() -> Iterator[str]:
    for name in ("Qwen2.5-0.5B", "Qwen2.5-7B", "Llama-2-70b"):
        model = _shape(name)
        whole = 4.0 * model.parameters
        ours = []
        for keeping in (Keeping.FP32, Keeping.AUTOCAST):
            states = states_of(Setup(model, 1, 512, keeping=keeping))
            ours.append(states.kept + states.casts)
        # training_usage: weights, gradients and optimizer add up to 4 times the fp32 size; the
        # gradients of mixed precision are counted with a 16-bit copy beside them
        yield (
            f"| {name} | {gib(4 * whole)} | {gib(ours[0])} | {gib(4.5 * whole)} | {gib(ours[1])} |"
        )


@dataclass(frozen=True, slots=True)
class Reported:
    """A published run: what its authors write, in GiB per GPU, and our range."""

    words: str
    reported: str
    ours: Range


PACKED = {"micro_batch": 1, "sequence": 8192, "checkpointing": True, "kept_gradients": True}


def reported() -> str:
    """Memory that a project reports for its example scripts, beside ours."""
    rows = (f"| {one.words} | {one.reported} | {gib_range(one.ours)} |" for one in _runs())
    return _table("run | reported | ours", rows)


def _runs() -> Iterator[Reported]:
    liger = {"fused_kernels": True, "fused_loss": True}
    for name, gpus, stage, more, figure in (
        ("Qwen2.5-14B", 8, Sharding.ZERO2, {}, "80"),
        ("Qwen2.5-14B", 8, Sharding.ZERO3, {}, "58"),
        ("Qwen2.5-7B", 4, Sharding.ZERO3, liger, "44"),
        ("Qwen2.5-32B", 8, Sharding.ZERO3, liger, "80"),
    ):
        layout = Layout(data=gpus, sharding=stage, bucket_view=True)
        setup = Setup(_shape(name), layout=layout, **PACKED, **more)  # type: ignore[arg-type]
        words = f"{name} full, ZeRO {stage.value[-1]}, {gpus} GPUs, packed to 8192"
        yield Reported(words + (", Liger" if more else ""), figure, estimate(setup).total)
    pure = {"keeping": Keeping.PURE, "optimizer": "adamw_foreach"}
    three = Setup(_shape("Qwen2.5-3B"), **PACKED, **pure, **liger)  # type: ignore[arg-type]
    words = "Qwen2.5-3B full, pure bf16, 1 GPU, packed to 8192, Liger"
    yield Reported(words, "35", estimate(three).total)
    seven = replace(three, model=_shape("Qwen2.5-7B"), sequence=512, fused_loss=False)
    words = "Qwen2.5-7B full, pure bf16, 1 GPU, samples of at most 2048"
    longer = estimate(replace(seven, sequence=2048)).total
    yield Reported(words, "76", Range(estimate(seven).total.low, longer.high))
    yield from _megatron_runs()


def _megatron_runs() -> Iterator[Reported]:
    for name, tensor, recompute, offloaded, figure in (
        ("Qwen2.5-14B", 4, Recompute.NONE, 0.0, "65"),
        ("Qwen3-32B", 8, Recompute.FULL, 0.0, "80"),
        ("Qwen2.5-72B", 8, Recompute.FULL, 1.0, "65"),
    ):
        run = MegatronRun(
            _shape(name), megatron_layout(8, tensor=tensor), 8192, recompute=recompute,
            loss=Loss.NEXT_TOKEN, offloaded=offloaded,
        )  # fmt: skip
        total = megatron_estimate(run).total
        words = f"{name} full, Megatron TP {tensor}, 8 GPUs, packed to 8192"
        if offloaded:
            words += ", optimizer away"
        # context, communicators and fragmentation, which the model leaves out
        yield Reported(words, figure, Range(total + 2 * GIB, 1.12 * total + 4 * GIB))
