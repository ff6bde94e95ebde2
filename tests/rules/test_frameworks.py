from __future__ import annotations

import pytest

from pitstop.rules.finding import Scalar, Surface, Unknown, Value
from pitstop.rules.frameworks import Framework, accepted, frameworks, main_frameworks
from pitstop.rules.frameworks.loading import SchemaError, load
from pitstop.rules.frameworks.spelling import SILENT, Unwritable, surface_text
from pitstop.rules.knobs import closest, knobs

NINE = {
    "pytorch", "hf_trainer", "llamafactory", "swift", "videox_fun", "flow_factory", "vllm",
    "sglang", "relax",
}  # fmt: skip


def framework(name: str) -> Framework:
    return frameworks()[name]


def row(text: str, on: str = "flag") -> str:
    """A framework file with one spelled name."""
    return head(spellings=f"[{{on: [{on}], names: {{x: {{{text}}}}}}}]")


def head(name: str = "toy", **more: object) -> str:
    lines = [f"name: {name}", "title: Toy", "kind: main", "detect: {}"]
    return "\n".join([*lines, *(f"{key}: {value}" for key, value in more.items())]) + "\n"


# --- the shipped files ------------------------------------------------------------------------


def test_all_nine_frameworks_and_their_helpers_load() -> None:
    assert set(frameworks()) >= NINE | {"deepspeed", "accelerate", "trl"}


def test_precedence_of_main_frameworks() -> None:
    order = [f.name for f in main_frameworks() if f.name != "relax"]
    assert order == [
        "llamafactory", "swift", "videox_fun", "flow_factory", "hf_trainer", "pytorch",
    ]  # fmt: skip
    engines = [framework("vllm").rank, framework("sglang").rank]
    assert framework("flow_factory").rank < engines[0] < engines[1] < framework("hf_trainer").rank


def test_every_framework_says_how_it_is_recognised_and_what_is_not_enough() -> None:
    for one in frameworks().values():
        assert one.detection.strong, one.name
        assert one.detection.not_enough, one.name


@pytest.mark.parametrize("name", sorted(frameworks()))
def test_what_a_name_can_write_it_reads_back(name: str) -> None:
    for row in frameworks()[name].rows:
        if row.values is None or row.extra or row.knob is None:
            continue
        for canonical in {v for v in row.values.values() if v not in (None, "*")}:
            written = row.written(canonical)
            if not isinstance(written, Unwritable):
                assert row.read(written) == canonical, (row.name, canonical)


@pytest.mark.parametrize("name", sorted(frameworks()))
def test_defaults_are_canonical(name: str) -> None:
    one = frameworks()[name]
    for knob, alternatives in one.defaults.items():
        for alternative in alternatives:
            value = alternative.value
            if isinstance(value, Unknown) or value is None:
                continue
            expected = {
                "bool": bool, "int": int, "float": float, "str": str, "enum": str, "list": tuple,
            }[knobs()[knob].type]  # fmt: skip
            assert isinstance(value, expected), (knob, value)
            if knobs()[knob].type == "enum":
                assert value in knobs()[knob].values


@pytest.mark.parametrize("name", sorted(frameworks()))
def test_only_a_default_can_be_doubted(name: str) -> None:
    one = frameworks()[name]
    assert set(one.doubts) <= set(one.defaults)


@pytest.mark.parametrize("name", sorted(frameworks()))
def test_renamed_names_lead_to_a_known_one(name: str) -> None:
    one = frameworks()[name]
    for known in one.known.values():
        if known.renamed_to:
            assert one.knows(known.renamed_to), known


# --- reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "surface", "written", "expected"),
    [
        ("bf16", Surface.YAML, True, ("precision.compute", "bf16")),
        ("--bf16", Surface.FLAG, "True", ("precision.compute", "bf16")),
        ("bf16", Surface.YAML, False, None),
        ("bf16", Surface.YAML, None, None),
        ("fp16", Surface.JSON, True, ("precision.compute", "fp16")),
        ("dataloader_num_workers", Surface.FLAG, "4", ("dataloader.workers", 4)),
        ("--dataloader-num-workers", Surface.FLAG, "4", ("dataloader.workers", 4)),
        ("learning_rate", Surface.YAML, "1e-4", ("training.learning_rate", 1e-4)),
        ("optim", Surface.YAML, "adafactor", ("optimizer.name", "adafactor")),
        ("max_steps", Surface.YAML, -1, None),
        ("max_steps", Surface.YAML, 100, ("training.max_steps", 100)),
        ("report_to", Surface.YAML, "wandb", ("log.report_to", ("wandb",))),
        ("report_to", Surface.YAML, ("wandb", "x"), ("log.report_to", ("wandb", "x"))),
        ("train_sampling_strategy", Surface.YAML, "random", ("data.group_by_length", False)),
        ("eval_strategy", Surface.YAML, "no", ("eval.strategy", "no")),
        ("no_such_name", Surface.YAML, True, None),
    ],
)  # fmt: skip
def test_trainer_names_are_read(
    name: str, surface: Surface, written: Value, expected: tuple[str, object] | None
) -> None:
    assert framework("hf_trainer").decode(name, written, surface) == expected


def test_one_name_can_decide_several_knobs() -> None:
    found = dict(
        framework("hf_trainer").decode_all("fsdp", "full_shard auto_wrap offload", Surface.YAML)
    )
    assert found == {
        "parallel.strategy": "fsdp",
        "sharding.mode": "full_shard",
        "sharding.offload_params": "cpu",
    }


def test_a_share_of_all_steps_is_no_number_of_steps() -> None:
    knob, value = framework("hf_trainer").decode("logging_steps", 0.1, Surface.YAML) or ("", None)
    assert knob == "log.steps"
    assert isinstance(value, Unknown)


def test_an_unresolved_value_stays_unknown() -> None:
    found = framework("hf_trainer").decode("bf16", Unknown("$BF16"), Surface.FLAG)
    assert found == ("precision.compute", Unknown("$BF16"))


def test_a_word_outside_the_vocabulary_is_unknown() -> None:
    found = framework("hf_trainer").decode("save_strategy", "sometimes", Surface.YAML)
    assert found is not None
    assert isinstance(found[1], Unknown)


@pytest.mark.parametrize(
    ("name", "written", "expected"),
    [
        ("flash_attn", "fa2", ("attention.backend", "flash_attention_2")),
        ("flash_attn", "disabled", ("attention.backend", "eager")),
        ("disable_gradient_checkpointing", True, ("activation_checkpointing.enabled", False)),
        ("disable_gradient_checkpointing", False, ("activation_checkpointing.enabled", True)),
        ("gradient_checkpointing", True, None),  # accepted, and without effect there
        ("finetuning_type", "full", ("finetuning.method", "full")),
        ("lora_target", "q_proj,v_proj", ("finetuning.targets", ("q_proj", "v_proj"))),
        ("cutoff_len", 4096, ("data.max_length", 4096)),
        ("per_device_train_batch_size", 2, ("batch.micro", 2)),
    ],
)
def test_llamafactory_keys_are_read(
    name: str, written: Value, expected: tuple[str, object] | None
) -> None:
    assert framework("llamafactory").decode(name, written, Surface.YAML) == expected


def test_neat_packing_packs() -> None:
    found = dict(framework("llamafactory").decode_all("neat_packing", True, Surface.YAML))
    assert found == {"data.packing_isolated": True, "data.packing": True}


def test_deepspeed_auto_says_nothing() -> None:
    deepspeed = framework("deepspeed")
    for name in ("bf16.enabled", "train_micro_batch_size_per_gpu", "gradient_clipping"):
        assert deepspeed.decode(name, "auto", Surface.JSON) is None
    assert deepspeed.decode("bf16.enabled", True, Surface.JSON) == ("precision.compute", "bf16")
    assert deepspeed.decode("zero_optimization.stage", 3, Surface.JSON) == ("sharding.stage", 3)


def test_deepspeed_sizes_may_be_written_as_floats() -> None:
    found = framework("deepspeed").decode("zero_optimization.reduce_bucket_size", 5e8, Surface.JSON)
    assert found == ("sharding.reduce_bucket", 500_000_000)


def test_accelerate_file_and_flags_mean_the_same() -> None:
    accelerate = framework("accelerate")
    for name, surface in (("mixed_precision", Surface.YAML), ("--mixed_precision", Surface.FLAG)):
        assert accelerate.decode(name, "bf16", surface) == ("precision.compute", "bf16")
        assert accelerate.decode(name, "no", surface) is None
    name = "fsdp_config.fsdp_sharding_strategy"
    found = accelerate.decode(name, "SHARD_GRAD_OP", Surface.YAML)
    assert found == ("sharding.mode", "shard_grad_op")


# --- writing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "knob", "surface", "versions", "expected"),
    [
        ("hf_trainer", "precision.compute", Surface.YAML, {}, "bf16"),
        ("hf_trainer", "activation_checkpointing.enabled", Surface.YAML, {},
         "gradient_checkpointing"),
        ("hf_trainer", "activation_checkpointing.enabled", Surface.YAML,
         {"transformers": "==5.24.0"}, "activation_checkpointing"),
        ("hf_trainer", "data.group_by_length", Surface.YAML, {"transformers": "==4.57.6"},
         "group_by_length"),
        ("hf_trainer", "data.group_by_length", Surface.YAML, {"transformers": ">=5.4"},
         "train_sampling_strategy"),
        ("hf_trainer", "data.group_by_length", Surface.YAML, {}, None),
        ("hf_trainer", "batch.micro", Surface.FLAG, {}, "per_device_train_batch_size"),
        ("hf_trainer", "eval.strategy", Surface.YAML, {"transformers": ">=4.46"}, "eval_strategy"),
        ("hf_trainer", "eval.strategy", Surface.YAML, {"transformers": "==4.40.0"},
         "evaluation_strategy"),
        ("llamafactory", "kernels.liger", Surface.YAML, {}, "enable_liger_kernel"),
        ("llamafactory", "attention.backend", Surface.YAML, {}, "flash_attn"),
        ("llamafactory", "dataloader.workers", Surface.YAML, {}, "dataloader_num_workers"),
        ("trl", "data.max_length", Surface.YAML, {"trl": ">=0.24"}, "max_length"),
        ("deepspeed", "sharding.stage", Surface.JSON, {}, "zero_optimization.stage"),
        ("pytorch", "debug.cuda_launch_blocking", Surface.ENV, {}, "CUDA_LAUNCH_BLOCKING"),
    ],
)  # fmt: skip
def test_spelling_follows_the_pinned_version(
    name: str, knob: str, surface: Surface, versions: dict[str, str], expected: str | None
) -> None:
    row = framework(name).spelling(knob, surface, versions)
    assert (row.name if row else None) == expected


def test_a_name_cannot_write_what_it_cannot_say() -> None:
    row = framework("hf_trainer").named("bf16", Surface.YAML)[0]
    assert row.written("bf16") is True
    assert isinstance(row.written("fp32"), Unwritable)


@pytest.mark.parametrize(
    ("value", "surface", "expected"),
    [
        (True, Surface.YAML, "true"), (True, Surface.JSON, "true"), (True, Surface.KEYWORD, "True"),
        (True, Surface.FLAG, "True"), ("no", Surface.YAML, '"no"'), ("fa2", Surface.YAML, "fa2"),
        ("fa2", Surface.JSON, '"fa2"'), ("fa2", Surface.KEYWORD, '"fa2"'),
        ("fa2", Surface.ENV, "fa2"),
        ("torch.bfloat16", Surface.KEYWORD, "torch.bfloat16"), (None, Surface.KEYWORD, "None"),
        (None, Surface.YAML, "null"), (4, Surface.FLAG, "4"),
    ],
)  # fmt: skip
def test_values_look_as_their_surface_wants(value: Scalar, surface: Surface, expected: str) -> None:
    assert surface_text(value, surface) == expected


# --- defaults and versions --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "knob", "versions", "expected"),
    [
        ("hf_trainer", "optimizer.name", {"torch": ">=2.8"}, "adamw_torch_fused"),
        ("hf_trainer", "optimizer.name", {"torch": "==2.4.0"}, "adamw_torch"),
        ("hf_trainer", "precision.weights", {"transformers": "<5"}, "fp32"),
        ("hf_trainer", "precision.weights", {"transformers": ">=5"}, "auto"),
        ("hf_trainer", "dataloader.workers", {}, 0),
        ("llamafactory", "activation_checkpointing.enabled", {}, True),
        ("llamafactory", "finetuning.targets", {}, ("all",)),
        ("trl", "precision.compute", {"trl": ">=0.24"}, "bf16"),
        ("trl", "precision.compute", {"trl": "==0.15.2"}, "fp32"),
        ("deepspeed", "sharding.stage", {}, 0),
    ],
)
def test_defaults_follow_the_pinned_version(
    name: str, knob: str, versions: dict[str, str], expected: object
) -> None:
    assert framework(name).default(knob, versions) == expected


@pytest.mark.parametrize(
    ("name", "knob"),
    [("hf_trainer", "optimizer.name"), ("trl", "precision.compute"), ("trl", "log.steps")],
)
def test_without_a_pin_a_versioned_default_is_unknown(name: str, knob: str) -> None:
    assert isinstance(framework(name).default(knob), Unknown)


def test_a_default_can_depend_on_another_setting() -> None:
    llamafactory, deepspeed = framework("llamafactory"), framework("deepspeed")
    assert llamafactory.default("data.packing", {}, {"training.stage": "pt"}) is True
    assert llamafactory.default("data.packing", {}, {"training.stage": "sft"}) is False
    assert deepspeed.default("sharding.overlap_comm", {}, {"sharding.stage": 3}) is True
    assert deepspeed.default("sharding.overlap_comm", {}, {"sharding.stage": 2}) is False


def test_no_opinion_is_none() -> None:
    assert framework("deepspeed").default("dataloader.workers") is None


def test_removed_and_new_names_are_told_by_version() -> None:
    known = framework("hf_trainer").known
    assert accepted(known["overwrite_output_dir"], {"transformers": "==4.57.6"}) is True
    assert accepted(known["overwrite_output_dir"], {"transformers": "==5.0.0"}) is False
    assert accepted(known["overwrite_output_dir"], {}) is None
    assert accepted(known["train_sampling_strategy"], {"transformers": "<5"}) is False


# --- misspelt names ---------------------------------------------------------------------------


def test_a_misspelt_key_is_told_from_a_known_one() -> None:
    trainer, llamafactory = framework("hf_trainer"), framework("llamafactory")
    assert trainer.knows("warmup_ratio")
    assert not trainer.knows("dataloader_num_worker")
    assert trainer.closest_name("dataloader_num_worker") == "dataloader_num_workers"
    assert llamafactory.closest_name("gradient_acumulation_steps") == "gradient_accumulation_steps"
    assert llamafactory.closest_name("completely_different") is None


def test_llamafactory_does_not_inherit_names_of_example_scripts() -> None:
    assert framework("hf_trainer").knows("max_seq_length")
    assert not framework("llamafactory").knows("max_seq_length")


def test_every_field_of_training_arguments_is_known() -> None:
    """The fields of transformers 4.57.6 and 5.24.0 that a person may set, by hand-picked ends."""
    trainer = framework("hf_trainer")
    for name in ("output_dir", "adam_beta1", "hub_token", "trackio_space_id", "past_index",
                 "dataloader_in_order", "activation_checkpointing_kwargs"):  # fmt: skip
        assert trainer.knows(name), name


# --- the validator ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (head(detct="{}"), "unknown key 'detct'; did you mean 'detect'?"),
        (head("other"), "its name is 'other', not the file's"),
        ("name: toy\ntitle: Toy\ndetect: {}\n", "'kind' is missing"),
        ("name: toy\ntitle: Toy\nkind: mian\ndetect: {}\n", "kind is one of"),
        (head(extends="nothing"), "extends 'nothing'"),
        (head().replace("{}", "{strong: [{import: [x]}]}"), "did you mean 'imports'?"),
        (row("knob: precision.compte"), "did you mean 'precision.compute'?"),
        (row("knob: log.steps", on="flags"), "did you mean 'flag'?"),
        (row("knob: log.steps, typ: int"), "did you mean 'type'?"),
        (row("knob: log.steps, type: text"), "type is one of"),
        (row("knob: precision.compute, values: {a: bf61}"), "did you mean 'bf16'?"),
        (row("knob: log.steps, values: {A: 1}"), "lower case"),
        (head(spellings="[{names: {x: {knob: log.steps}}}]"), "on which surfaces"),
        (head(defaults="{log.step: 1}"), "did you mean 'log.steps'?"),
        (head(defaults="{log.steps: [{vale: 1}]}"), "did you mean 'value'?"),
    ],
)  # fmt: skip
def test_a_malformed_file_is_refused_with_the_word_that_was_meant(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as refusal:
        load({"toy.yaml": text})
    assert message in str(refusal.value)
    assert str(refusal.value).startswith("toy.yaml: ")


def test_the_smallest_file_is_a_framework() -> None:
    toy = load({"toy.yaml": head()})["toy"]
    assert (toy.rows, toy.known, toy.defaults) == ((), {}, {})


def test_silence_is_no_value() -> None:
    row = framework("hf_trainer").named("bf16", Surface.YAML)[0]
    assert row.read(False) is SILENT


def test_closest_word() -> None:
    assert closest("dataloder.workers", knobs()) == "dataloader.workers"
    assert closest("zzz", knobs()) is None
