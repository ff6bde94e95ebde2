"""From jobs as repositories write them to setups as numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pitstop.rules.activations import Attention, Running
from pitstop.rules.facts import gather
from pitstop.rules.job import HardwareFacts
from pitstop.rules.memory import Keeping, Sharding
from pitstop.rules.setup import LONG, SHORT, Overrides, Sized, Unsized, setup_of
from pitstop.rules.trained import ALL_LINEAR, Method, Setup
from pitstop.rules.tree import DictTree

SCRIPT = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

def main(dataset):
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B"{dtype})
    Trainer(model=model, args=args, train_dataset=dataset).train()

main(None)
"""
RUN = "torchrun --nproc_per_node 8 train.py --output_dir out --max_seq_length 2048 {}\n"
PINS = {"requirements.txt": "torch==2.9.0\ntransformers=={}\n"}


def sized(files: dict[str, str], said: Overrides | None = None) -> Sized | Unsized:
    (job,) = gather(DictTree(files)).jobs
    return setup_of(job, said)


def only(files: dict[str, str], said: Overrides | None = None) -> Setup:
    found = sized(files, said)
    assert isinstance(found, Sized), found
    assert len(found.setups) == 1, (found.assumed, found.missing)
    return found.setups[0]


def trainer(flags: str, *, dtype: str = "", transformers: str = "4.57.0") -> dict[str, str]:
    return {
        "train.py": SCRIPT.format(dtype=f", torch_dtype={dtype!r}" if dtype else ""),
        "run.sh": RUN.format(flags),
        "requirements.txt": PINS["requirements.txt"].format(transformers),
    }


@pytest.mark.parametrize(
    ("flags", "dtype", "keeping", "running"),
    [
        ("--bf16 True", "float32", Keeping.AUTOCAST, Running.AUTOCAST),
        ("--bf16 True", "bfloat16", Keeping.PURE, Running.PURE),
        ("--bf16 False", "float32", Keeping.FP32, Running.FP32),
    ],
)
def test_how_the_trainer_keeps_weights(
    flags: str, dtype: str, keeping: Keeping, running: Running
) -> None:
    setup = only(trainer(flags, dtype=dtype))
    assert (setup.keeping, setup.running) == (keeping, running)


def test_before_version_5_weights_are_loaded_in_fp32() -> None:
    assert only(trainer("--bf16 True")).keeping is Keeping.AUTOCAST


def test_from_version_5_on_the_checkpoint_decides() -> None:
    found = sized(trainer("--bf16 True", transformers="5.24.0"))
    assert isinstance(found, Sized)
    assert {s.keeping for s in found.setups} == {Keeping.PURE, Keeping.AUTOCAST}
    assert "the format in which weights are loaded (dtype)" in found.missing


def test_deepspeed_keeps_fp32_copies_and_shards_them() -> None:
    zero = {
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 1000},
        "bf16": {"enabled": True},
    }
    files = trainer("--bf16 True --deepspeed ds.json", dtype="bfloat16")
    setup = only({**files, "ds.json": json.dumps(zero)})
    assert (setup.keeping, setup.layout.sharding) == (Keeping.MASTER, Sharding.ZERO2)
    assert (setup.layout.data, setup.buckets.low) == (8, 2 * 1000)


@pytest.mark.parametrize(
    ("zero", "field", "value"),
    [
        ({"stage": 3}, "sharding", Sharding.ZERO3),
        ({"stage": 2, "offload_optimizer": {"device": "cpu"}}, "offload_optimizer", True),
        ({"stage": 3, "offload_param": {"device": "cpu"}}, "offload_weights", True),
        ({"stage": 3, "zero_hpz_partition_size": 8}, "second_shards", 8),
        ({"stage": 3, "zero_hpz_partition_size": 1}, "second_shards", None),
    ],
)
def test_what_deepspeeds_file_spreads(zero: dict[str, Any], field: str, value: Any) -> None:
    files = trainer("--bf16 True --deepspeed ds.json", dtype="bfloat16")
    setup = only({**files, "ds.json": json.dumps({"zero_optimization": zero})})
    assert getattr(setup.layout, field) == value


FSDP = """\
distributed_type: FSDP
mixed_precision: bf16
num_processes: 8
num_machines: 1
fsdp_config: {{fsdp_version: {version}, {more}}}
"""


@pytest.mark.parametrize(
    ("version", "more", "kind"),
    [
        (1, "fsdp_sharding_strategy: FULL_SHARD", Sharding.FSDP_FULL),
        (1, "fsdp_sharding_strategy: SHARD_GRAD_OP", Sharding.FSDP_GRAD_OP),
        (2, "fsdp_reshard_after_forward: true", Sharding.FSDP_FULL),
        (2, "fsdp_reshard_after_forward: false", Sharding.FSDP_GRAD_OP),
    ],
)
def test_accelerates_fsdp_keeps_fp32_shards(version: int, more: str, kind: Sharding) -> None:
    run = "accelerate launch --config_file a.yaml train.py --output_dir o --max_seq_length 2048\n"
    files = {
        **trainer("", dtype="bfloat16"),
        "run.sh": run,
        "a.yaml": FSDP.format(version=version, more=more),
    }
    setup = only(files)
    assert (setup.layout.sharding, setup.layout.data) == (kind, 8)
    assert (setup.keeping, setup.running) == (Keeping.SHARDS, Running.PURE)


LLAMA_FACTORY = {
    "model_name_or_path": "Qwen/Qwen2.5-7B", "stage": "sft", "do_train": True, "template": "qwen",
    "finetuning_type": "lora", "cutoff_len": 4096, "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 8, "bf16": True, "optim": "adamw_torch_fused",
}  # fmt: skip


def llama_factory(**changes: Any) -> dict[str, str]:
    config = {k: v for k, v in {**LLAMA_FACTORY, **changes}.items() if v is not None}
    return {"train.yaml": json.dumps(config)}


def test_llama_factory_trains_adapters_in_fp32_over_a_16_bit_base() -> None:
    setup = only(llama_factory())
    assert (setup.method, setup.rank, setup.adapted >= ALL_LINEAR) == (Method.LORA, 8, True)
    assert (setup.keeping, setup.running) == (Keeping.AUTOCAST, Running.PURE)
    assert (setup.frozen_bits, setup.checkpointing) == (16, True)
    assert (setup.micro_batch, setup.sequence, setup.accumulation) == (2, 4096, 8)


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"finetuning_type": "full"}, "keeping", Keeping.AUTOCAST),
        ({"finetuning_type": "full", "pure_bf16": True, "bf16": None}, "keeping", Keeping.PURE),
        ({"quantization_bit": 4}, "frozen_bits", 4),
        ({"model_name_or_path": "Qwen/Qwen2.5-7B-Instruct-AWQ"}, "frozen_bits", 4),
        ({"use_dora": True}, "magnitudes", True),
        ({"lora_target": "q_proj,v_proj"}, "adapted", frozenset({"q", "v"})),
        ({"finetuning_type": "freeze", "freeze_trainable_layers": 4}, "trained_layers", 4),
        ({"use_galore": True, "galore_rank": 64}, "projection", 64),
        ({"flash_attn": "disabled"}, "attention", Attention.EAGER),
        ({"disable_gradient_checkpointing": True}, "checkpointing", False),
        ({"enable_liger_kernel": True}, "fused_loss", True),
        ({"enable_liger_kernel": True, "stage": "dpo"}, "fused_loss", False),
        ({"stage": "dpo"}, "micro_batch", 4),
        ({"stage": "dpo"}, "references", 0),
        ({"stage": "dpo", "finetuning_type": "full"}, "references", 1),
        ({"optim": "paged_adamw_8bit"}, "optimizer", "paged_adamw_8bit"),
    ],
)
def test_what_a_setting_of_llama_factory_becomes(
    changes: dict[str, Any], field: str, value: Any
) -> None:
    assert getattr(only(llama_factory(**changes)), field) == value


def test_unknown_lengths_span_and_are_named() -> None:
    files = trainer("--bf16 True", dtype="bfloat16")
    files["run.sh"] = files["run.sh"].replace("--max_seq_length 2048", "")
    found = sized(files)
    assert isinstance(found, Sized)
    assert {s.sequence for s in found.setups} == {SHORT, LONG}
    assert "the longest sequence (--sequence)" in found.missing
    assert only(files, Overrides(sequence=512)).sequence == 512


def test_what_a_person_says_goes_first() -> None:
    said = Overrides(gpus=2, micro_batch=3, sequence=100)
    setup = only(trainer("--bf16 True", dtype="bfloat16"), said)
    assert (setup.layout.data, setup.micro_batch, setup.sequence) == (2, 3, 100)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_name_or_path": "somebody/unheard-of"}, "sizes of somebody/unheard-of"),
        ({"finetuning_type": "oft"}, "orthogonal"),
        ({"model_name_or_path": "Qwen/Qwen2.5-VL-7B-Instruct"}, "(vlm)"),
    ],
)
def test_what_cannot_be_sized_says_why(changes: dict[str, Any], reason: str) -> None:
    found = sized(llama_factory(**changes))
    assert isinstance(found, Unsized)
    assert any(reason in text for text in found.reasons)


def test_a_parameter_count_in_a_name_gives_alternatives() -> None:
    found = sized(llama_factory(model_name_or_path="my/own-7b"))
    assert isinstance(found, Sized)
    assert len({s.model.hidden for s in found.setups}) == 2
    assert {s.model.parameters for s in found.setups} == {7_000_000_000}


def test_hardware_is_no_part_of_a_setup() -> None:
    (job,) = gather(DictTree(llama_factory()), hardware=HardwareFacts(gpu="h100-80gb")).jobs
    found = setup_of(job)
    assert isinstance(found, Sized)
    assert found.setups == (only(llama_factory()),)
