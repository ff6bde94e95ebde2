from __future__ import annotations

from pathlib import Path

import pytest

from pitstop.rules.facts import ProjectFacts, gather
from pitstop.rules.finding import Surface, Unknown, UserError
from pitstop.rules.job import HardwareFacts, MultiNode, TrainingJob
from pitstop.rules.tree import DictTree, FolderTree

REPOS = Path(__file__).parents[1] / "repos"

LOOP = """
for batch in loader:
    loss = model(batch)
    loss.backward()
    optimizer.step()
"""


def facts_of(files: dict[str, str]) -> ProjectFacts:
    return gather(DictTree(files))


def jobs_of(files: dict[str, str]) -> tuple[TrainingJob, ...]:
    return facts_of(files).jobs


def only(files: dict[str, str]) -> TrainingJob:
    (job,) = jobs_of(files)
    return job


def sample(name: str) -> ProjectFacts:
    return gather(FolderTree(REPOS / name))


def place(job: TrainingJob, knob: str) -> str:
    """Where the deciding setting is written: `path:line`."""
    setting = job.get(knob)
    assert setting is not None
    assert setting.where is not None
    return f"{setting.where.path}:{setting.where.line}"


# --- sample repositories ----------------------------------------------------------------------


def test_a_trainer_script_started_by_torchrun_on_slurm() -> None:
    (job,) = sample("hf-clm").jobs
    assert [use.name for use in job.frameworks] == ["hf_trainer", "deepspeed"]
    assert job.frameworks[0].version == "==4.57.6"
    assert job.entry == "train.py"
    assert job.configs == ("configs/zero2.json",)
    assert job.files >= {"run.sh", "train.py", "configs/zero2.json"}
    assert job.launch is not None
    assert (job.launch.processes, job.launch.nodes) == (8, 2)
    assert job.launch.multi_node is MultiNode.B
    assert (job.hardware.gpu, job.hardware.gpus_per_node) == ("a100-80gb", 8)
    assert (job.model.family, job.model.parameters) == ("qwen2", 7_615_616_512)
    assert job.value("precision.compute") == "bf16"
    assert job.value("training.remove_unused_columns") is False
    assert job.value("sharding.stage") == 2
    assert job.value("sharding.offload_optimizer") == "cpu"
    assert job.value("parallel.strategy") == "deepspeed"
    assert job.value("attention.backend") == "sdpa"
    assert job.value("debug.nccl") == "INFO"
    assert place(job, "dataloader.workers") == "run.sh:17"
    assert place(job, "sharding.overlap_comm") == "configs/zero2.json:5"
    assert place(job, "optimizer.name") == "train.py:16"


def test_a_field_of_a_derived_class_is_a_default_that_the_command_line_beats() -> None:
    (job,) = sample("hf-clm").jobs
    setting = job.get("optimizer.name")
    assert setting is not None
    assert (setting.value, setting.surface) == ("adamw_torch", Surface.PY_DEFAULT)


def test_overrides_beat_the_config_file_and_undo_what_they_contradict() -> None:
    job = sample("llamafactory-sft").job("train.sh > llamafactory-cli > configs/qwen_lora.yaml")
    rates = job.settings["training.learning_rate"]
    assert [(s.value, s.surface) for s in rates[:2]] == [(2e-5, Surface.FLAG), (1e-4, Surface.YAML)]
    assert [s.value for s in job.settings["precision.compute"] if s.written] == ["fp16"]
    assert job.value("activation_checkpointing.enabled") is True
    assert not job.settings["activation_checkpointing.enabled"][0].written
    assert job.launch is not None
    assert job.launch.processes == 4
    assert job.hardware.gpu == "h100-80gb"
    assert job.value("sharding.stage") == 3
    assert isinstance(job.value("sharding.reduce_bucket"), Unknown)


def test_configs_are_jobs_by_themselves_once_and_exports_are_none() -> None:
    found = {job.id: job.configs for job in sample("llamafactory-sft").jobs}
    assert found == {
        "train.sh > llamafactory-cli > configs/qwen_lora.yaml": (
            "configs/qwen_lora.yaml", "configs/z3.json",
        ),
        "configs/alone.yaml": ("configs/alone.yaml",),
    }  # fmt: skip


def test_options_of_a_plain_script_follow_the_command_line() -> None:
    (job,) = sample("torch-vision").jobs
    assert job.framework == "pytorch"
    assert job.launch is not None
    assert job.launch.processes == 4
    workers = job.settings["dataloader.workers"]
    assert [(s.value, s.surface.value, s.where.line if s.where else 0) for s in workers[:2]] == [
        (0, "flag", 4), (2, "py_default", 12),
    ]  # fmt: skip
    assert job.value("batch.micro") == 128
    assert job.value("dataloader.pin_memory") is False
    assert job.value("parallel.strategy") == "ddp"
    assert job.value("ddp.find_unused_parameters") is True
    assert job.value("cudnn.benchmark") is True


def test_settings_of_imported_files_count() -> None:
    (job,) = sample("torch-vision").jobs
    assert "engine.py" in job.files
    assert (job.value("precision.compute"), place(job, "precision.compute")) == (
        "fp16",
        "engine.py:6",
    )


def test_a_variable_of_the_command_beats_a_weak_one_in_code() -> None:
    (job,) = sample("torch-vision").jobs
    assert [s.value for s in job.settings["threads.omp"]] == [8, 1]


def test_a_program_that_evaluates_is_no_training_job() -> None:
    assert all(job.entry != "evaluate.py" for job in sample("torch-vision").jobs)


def test_trl_counts_as_the_trainer_with_its_own_defaults() -> None:
    (job,) = sample("trl-sft").jobs
    assert [use.name for use in job.frameworks] == ["hf_trainer", "accelerate", "trl"]
    assert job.value("precision.compute") == "bf16"  # accelerate says "no", TRL turns it on
    assert job.value("activation_checkpointing.enabled") is True
    assert job.value("parallel.strategy") == "fsdp2"
    assert job.value("attention.backend") == "eager"
    assert place(job, "attention.backend") == "sft.py:9"
    assert job.value("sharding.offload_params") == "cpu"
    assert (job.model.moe, job.model.parameters) == (True, 30_532_122_624)
    assert job.launch is not None
    assert (job.launch.processes, job.launch.nodes) == (8, 2)


def test_a_config_written_by_the_script_is_read_in_place() -> None:
    (job,) = sample("deepspeed-loop").jobs
    assert [use.name for use in job.frameworks] == ["pytorch", "deepspeed"]
    assert job.value("sharding.stage") == 3
    setting = job.get("sharding.overlap_comm")
    assert setting is not None
    assert setting.value_at is not None
    at = setting.value_at
    text = (REPOS / "deepspeed-loop" / at.path).read_text()
    assert text[at.span.start : at.span.end] == "false"


def test_servers_and_engines_are_jobs_that_serve() -> None:
    found = sample("serve-llm").jobs
    assert {(job.entry or (job.launch and job.launch.entry), job.purpose) for job in found} == {
        ("vllm", "serve"), ("client.py", "serve"),
    }  # fmt: skip


# --- what a job is ----------------------------------------------------------------------------


def test_set_up_and_data_commands_are_no_jobs() -> None:
    files = {
        "run.sh": "python setup.py install\npip install torch\npython prepare_data.py\n",
        "prepare_data.py": "import torch\nprint(torch.zeros(1))\n",
    }
    assert jobs_of(files) == ()


def test_import_of_torch_alone_is_no_training() -> None:
    code = "import torch\nif __name__ == '__main__':\n    print(torch.load('m.pt'))\n"
    assert jobs_of({"predict.py": code}) == ()


@pytest.mark.parametrize("folder", ["tests", "docs", "third_party/other", "vendor"])
def test_tests_docs_and_copies_make_no_jobs(folder: str) -> None:
    code = "import torch\n" + LOOP
    assert jobs_of({f"{folder}/train.py": code, f"{folder}/run.sh": "python train.py\n"}) == ()


def test_a_framework_s_own_source_makes_no_jobs() -> None:
    trainer = "import torch\nclass Trainer:\n    def train(self):\n" + LOOP.replace(
        "\n", "\n        "
    )
    files = {
        "src/transformers/trainer.py": trainer
        + "\nif __name__ == '__main__':\n    Trainer().train()\n",
        "examples/run.py": "import torch\n" + LOOP,
    }
    assert [job.entry for job in jobs_of(files)] == ["examples/run.py"]


def test_of_a_copy_of_a_framework_only_the_user_s_configs_count() -> None:
    config = "finetuning_type: lora\ntemplate: qwen\ndo_train: true\nstage: sft\n"
    files = {
        "LLaMA-Factory/src/llamafactory/launcher.py": "",
        "LLaMA-Factory/examples/train_lora/x.yaml": config,
        "LLaMA-Factory/mine/y.yaml": config,
    }
    assert [job.id for job in jobs_of(files)] == ["LLaMA-Factory/mine/y.yaml"]


def test_in_the_framework_s_own_repository_its_examples_count() -> None:
    config = "finetuning_type: lora\ntemplate: qwen\ndo_train: true\nstage: sft\n"
    files = {"src/llamafactory/launcher.py": "", "examples/train_lora/x.yaml": config}
    assert [job.id for job in jobs_of(files)] == ["examples/train_lora/x.yaml"]


def test_a_library_that_trains_without_an_entry_is_no_job_but_what_uses_it_is() -> None:
    library = "import torch\ndef train(model, loader, optimizer):\n" + LOOP.replace("\n", "\n    ")
    assert jobs_of({"lib/loop.py": library}) == ()
    entry = (
        "from lib.loop import train\nimport torch\nif __name__ == '__main__':\n    train(1, 2, 3)\n"
    )
    job = only({"lib/loop.py": library, "main.py": entry})
    assert (job.entry, job.files) == ("main.py", frozenset({"main.py", "lib/loop.py"}))


def test_a_program_is_one_job_for_each_launch_and_none_for_itself() -> None:
    files = {
        "train.py": "import torch\n" + LOOP,
        "a.sh": "python train.py\n",
        "b.sh": "torchrun --nproc_per_node 2 train.py\n",
    }
    assert [job.id for job in jobs_of(files)] == ["a.sh > train.py", "b.sh > train.py"]


def test_a_followed_script_is_read_with_what_it_is_given() -> None:
    files = {
        "train.py": "from transformers import TrainingArguments, Trainer, HfArgumentParser\n"
        "HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\nTrainer().train()\n",
        "inner.sh": "python train.py --learning_rate $1 --output_dir x\n",
        "outer.sh": "bash inner.sh 3e-4\n",
    }
    job = only(files)
    assert job.value("training.learning_rate") == 3e-4


def test_jobs_with_the_same_name_are_numbered() -> None:
    script = "OMP_NUM_THREADS=1 python train.py\nOMP_NUM_THREADS=2 python train.py\n"
    files = {"train.py": "import torch\n" + LOOP, "run.sh": script}
    assert [job.id for job in jobs_of(files)] == ["run.sh > train.py", "run.sh > train.py (2)"]


def test_a_loop_that_starts_the_same_job_often_is_one_job() -> None:
    script = "for seed in 1 2 3; do python train.py --seed $seed; done\n"
    assert len(jobs_of({"train.py": "import torch\n" + LOOP, "run.sh": script})) == 1


def test_what_a_script_hides_is_reported() -> None:
    files = {"train.py": "import torch\n" + LOOP, "run.sh": "source env.sh\npython train.py\n"}
    assert [(u.path, u.line) for u in facts_of(files).unread] == [("run.sh", 1)]


def test_ids_survive_moved_lines() -> None:
    files = {"train.py": "import torch\n" + LOOP, "run.sh": "python train.py\n"}
    moved = {**files, "run.sh": "# a comment\n\npython train.py\n"}
    assert [j.id for j in jobs_of(files)] == [j.id for j in jobs_of(moved)]


# --- which framework --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"x.sh": "llamafactory-cli train --stage sft --do_train True\n"}, "llamafactory"),
        ({"x.sh": "swift sft --model Qwen/Qwen2.5-7B --train_type lora\n"}, "swift"),
        ({"x.sh": "NPROC_PER_NODE=2 megatron sft --model x\n"}, "swift"),
        ({"x.sh": "ff-train config.yaml\n"}, "flow_factory"),
        ({"x.sh": "accelerate launch scripts/wan2.1/train.py --vae_mini_batch 1\n"},
         "videox_fun"),
        ({"x.sh": "python3 -m relax.entrypoints.train --resource '{}'\n"}, "relax"),
        ({"x.sh": "vllm serve m\n"}, "vllm"),
        ({"x.sh": "python -m sglang.launch_server --model-path m\n"}, "sglang"),
        ({"x.sh": "torchrun run_clm.py --per_device_train_batch_size 1 --output_dir o\n"},
         "hf_trainer"),
        ({"x.sh": "trl sft --model_name_or_path m --dataset_name d\n"}, "hf_trainer"),
        ({"train.py": "import torch\n" + LOOP}, "pytorch"),
        ({"train.py": "from lightning import Trainer\nt = Trainer()\nt.fit(m)\n"}, "pytorch"),
        ({"c.yaml": "model: {}\ntrain: {trainer_type: nft}\nscheduler: {dynamics_type: CPS}\n"},
         "flow_factory"),
    ],
)  # fmt: skip
def test_strong_signs_recognise(files: dict[str, str], expected: str) -> None:
    assert [job.framework for job in jobs_of(files)] == [expected]


@pytest.mark.parametrize(
    "files",
    [
        {"requirements.txt": "transformers\nllamafactory\nvllm\n"},
        {"train.py": "from transformers import AutoTokenizer as T\nT.from_pretrained('x')\n"},
        {"a.py": "from transformers import TrainingArguments\ndef f(a: TrainingArguments): ...\n"},
        {"data/dataset_info.json": '{"a": {"file_name": "x"}}'},
        {"a.py": "lora_target = 'all'\nfinetuning_type = 'lora'\n"},
        {"examples/deepspeed/z.json": '{"zero_optimization": {"stage": 2}}'},
        {"c.yaml": "trainer_type: grpo\nrewards: []\n"},
        {"x.sh": "swift build\nswift package update\n"},
        {"a.py": "import relax\nif __name__ == '__main__':\n    relax.train()\n"},
        {"x.sh": "trl vllm-serve --model m\n", "ignored": ""},
    ],
)
def test_what_is_not_enough_makes_no_training_job(files: dict[str, str]) -> None:
    assert [job for job in jobs_of(files) if job.purpose == "train"] == []


def test_llamafactory_precedes_the_trainer_that_it_builds_on() -> None:
    files = {
        "c.yaml": "finetuning_type: lora\ntemplate: x\ndo_train: true\n"
        "per_device_train_batch_size: 1\nlr_scheduler_type: cosine\nwarmup_ratio: 0.1\n"
    }
    assert only(files).framework == "llamafactory"


def test_an_engine_stands_beside_a_training_framework() -> None:
    code = "import vllm\nfrom trl import GRPOTrainer\nGRPOTrainer(args=1).train()\n"
    job = only({"train.py": code})
    assert [use.name for use in job.frameworks] == ["hf_trainer", "vllm", "trl"]
    assert job.purpose == "train"


def test_own_training_code_beside_an_engine_trains() -> None:
    code = "import torch\nfrom vllm import LLM\nllm = LLM('m')\n" + LOOP
    job = only({"train.py": code})
    assert (job.framework, job.purpose) == ("pytorch", "train")


# --- values -----------------------------------------------------------------------------------

PARSER = (
    "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
    "args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
    "Trainer(args=args).train()\n"
)


def trainer_job(flags: str, **more: str) -> TrainingJob:
    return only({"train.py": PARSER, "run.sh": f"python train.py {flags}\n", **more})


@pytest.mark.parametrize(
    ("flags", "knob", "expected"),
    [
        ("--bf16", "precision.compute", "bf16"),
        ("--bf16 True", "precision.compute", "bf16"),
        ("--bf16=true --fp16 False", "precision.compute", "bf16"),
        ("--bf16 --learning_rate 1e-5", "precision.compute", "bf16"),
        ("--bf16 False", "precision.compute", "fp32"),
        ("--no_dataloader_pin_memory", "dataloader.pin_memory", False),
        ("--dataloader-num-workers 4", "dataloader.workers", 4),
        ("--learning_rate 1e-5 --learning_rate 2e-5", "training.learning_rate", 2e-5),
        ("--report_to wandb tensorboard", "log.report_to", ("wandb", "tensorboard")),
        ("--save_total_limit 2", "save.limit", 2),
        ("--max_steps -1", "training.max_steps", None),
    ],
)
def test_flags_as_the_trainer_reads_them(flags: str, knob: str, expected: object) -> None:
    assert trainer_job(flags).value(knob) == expected


def test_unresolved_words_are_unknown_and_open_the_command_line() -> None:
    job = trainer_job('--learning_rate $LR "$@"')
    assert isinstance(job.value("training.learning_rate"), Unknown)
    assert isinstance(job.value("dataloader.workers"), Unknown)
    assert isinstance(job.value("precision.compute"), Unknown)


def test_what_is_written_stays_known_beside_an_open_end() -> None:
    assert trainer_job('--bf16 "$@"').value("precision.compute") == "bf16"


def test_arguments_parsed_by_nobody_we_know_leave_defaults_unknown() -> None:
    job = only({"train.py": PARSER})
    assert isinstance(job.value("dataloader.workers"), Unknown)


def test_arguments_in_code_leave_the_others_at_their_defaults() -> None:
    code = (
        "from transformers import Trainer, TrainingArguments\n"
        "args = TrainingArguments(output_dir='x', bf16=True)\nTrainer(args=args).train()\n"
    )
    job = only({"train.py": code})
    assert (job.value("precision.compute"), job.value("dataloader.workers")) == ("bf16", 0)
    default = job.get("dataloader.workers")
    assert default is not None
    assert default.where is not None
    assert (default.written, default.where.line) == (False, 2)


def test_arguments_from_a_dictionary_that_cannot_be_followed_leave_defaults_unknown() -> None:
    code = (
        "from transformers import Trainer, TrainingArguments\nimport json\n"
        "args = TrainingArguments(**json.load(open('c.json')))\nTrainer(args=args).train()\n"
    )
    job = only({"train.py": code})
    assert isinstance(job.value("dataloader.workers"), Unknown)


def test_a_missing_config_file_leaves_defaults_unknown() -> None:
    job = only({"x.sh": "llamafactory-cli train conf/missing.yaml\n"})
    assert isinstance(job.value("dataloader.workers"), Unknown)


def test_a_config_without_telling_keys_is_read_where_it_is_used() -> None:
    files = {
        "x.sh": "llamafactory-cli train c.yaml\n",
        "c.yaml": "model_name_or_path: gpt2\ndo_train: true\ndataloader_num_workers: 2\n",
    }
    assert only(files).value("dataloader.workers") == 2


def test_each_loader_speaks_for_itself() -> None:
    code = (
        "import torch\nfrom torch.utils.data import DataLoader\n"
        "a = DataLoader(x, num_workers=4)\nb = DataLoader(y)\n" + LOOP
    )
    job = only({"train.py": code})
    found = [
        (s.value, s.written, s.where.line) for s in job.settings["dataloader.workers"] if s.where
    ]
    assert found == [(4, True, 3), (0, False, 4)]


def test_loaders_of_evaluation_do_not_count() -> None:
    code = (
        "import torch\nfrom torch.utils.data import DataLoader\n"
        "def evaluate():\n    return DataLoader(y, num_workers=0)\n" + LOOP
    )
    assert "dataloader.workers" not in only({"train.py": code}).settings


def test_loaders_of_held_out_data_do_not_count() -> None:
    code = (
        "import torch\nfrom torch.utils.data import DataLoader\n"
        "val_loader = DataLoader(y, num_workers=0)\nloader = DataLoader(x, num_workers=8)\n"
        "other = DataLoader(test_set, num_workers=1)\n" + LOOP
    )
    job = only({"train.py": code})
    assert [s.value for s in job.settings["dataloader.workers"]] == [8]


def test_a_file_of_arguments_is_read_where_the_program_is_given_it() -> None:
    files = {
        "train.py": PARSER,
        "args.json": '{"per_device_train_batch_size": 2, "bf16": true}',
        "run.sh": "python train.py args.json\n",
    }
    job = only(files)
    assert (job.value("batch.micro"), job.value("precision.compute")) == (2, "bf16")
    assert place(job, "batch.micro") == "args.json:1"


def test_a_file_of_arguments_named_by_a_flag_is_read() -> None:
    files = {
        "sft.py": "from trl import SFTConfig, SFTTrainer, TrlParser\n"
        "args, = TrlParser(SFTConfig).parse_args_and_config()\nSFTTrainer(args=args).train()\n",
        "sft.yaml": "max_length: 512\ndataloader_num_workers: 2\nmodel_name_or_path: gpt2\n",
        "run.sh": "accelerate launch sft.py --config sft.yaml --dataloader_num_workers 3\n",
    }
    job = only(files)
    assert job.value("data.max_length") == 512
    assert [s.value for s in job.settings["dataloader.workers"] if s.written] == [3, 2]
    assert job.model.name == "gpt2"


def test_a_condition_in_code_is_told() -> None:
    code = "import torch\nif fast:\n    torch.backends.cudnn.benchmark = True\n" + LOOP
    setting = only({"train.py": code}).get("cudnn.benchmark")
    assert setting is not None
    assert (setting.value, setting.condition) == (True, "fast")


def test_notes_are_carried() -> None:
    job = only({
        "other.yaml": "finetuning_type: lora\ntemplate: x\ndo_train: true\n"
        "dataloader_num_workers: 0  # NOTE: forks deadlock here\n"
    })  # fmt: skip
    setting = job.get("dataloader.workers")
    assert setting is not None
    assert setting.note is not None
    assert "deadlock" in setting.note


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("with torch.cuda.amp.autocast():\n    pass\n", "fp16"),
        ("with torch.autocast('cuda', dtype=torch.bfloat16):\n    pass\n", "bf16"),
        ("model.bfloat16()\n", "bf16"),
        ("model.to(torch.bfloat16)\n", "bf16"),
        ("model.to(device)\n", "fp32"),
        ("", "fp32"),
    ],
)
def test_precision_of_a_plain_loop(code: str, expected: str) -> None:
    assert only({"train.py": "import torch\n" + code + LOOP}).value("precision.compute") == expected


def test_a_word_in_the_program_takes_the_certainty_from_a_default() -> None:
    code = "import torch\nfrom functools import partial\ncast = partial(torch.autocast, 'cuda')\n"
    job = only({"train.py": code + LOOP})
    assert isinstance(job.value("precision.compute"), Unknown)


def test_a_trainer_that_makes_its_own_loader_has_no_default_workers() -> None:
    code = PARSER.replace("Trainer(args=args)", "MyTrainer(args=args)") + (
        "class MyTrainer(Trainer):\n    def get_train_dataloader(self): ...\n"
    )
    job = only({"train.py": code, "run.sh": "python train.py --output_dir x\n"})
    assert isinstance(job.value("dataloader.workers"), Unknown)


# --- processes and strategy -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "strategy", "processes"),
    [
        ("torchrun --nproc_per_node 4 train.py --output_dir x", "ddp", 4),
        ("torchrun --nproc_per_node 1 train.py --output_dir x", "none", 1),
        ("CUDA_VISIBLE_DEVICES=0 python train.py --output_dir x", "none", 1),
        ("CUDA_VISIBLE_DEVICES=0,1 python train.py --output_dir x", "dp", 1),
        ("torchrun --nproc_per_node 8 train.py --fsdp full_shard --output_dir x", "fsdp", 8),
        ("accelerate launch --num_processes 2 --use_fsdp train.py --output_dir x", "fsdp", 2),
    ],
)
def test_strategy_follows_the_launch(command: str, strategy: str, processes: int) -> None:
    job = only({"train.py": PARSER, "run.sh": command + "\n"})
    assert job.value("parallel.strategy") == strategy
    assert job.launch is not None
    assert job.launch.processes in (processes, None)


def test_a_plain_start_without_a_word_on_gpus_says_nothing() -> None:
    assert isinstance(trainer_job("--output_dir x").value("parallel.strategy"), Unknown)


def test_processes_of_an_accelerate_config() -> None:
    files = {
        "train.py": "import torch\nfrom accelerate import Accelerator\na = Accelerator()\n" + LOOP,
        "acc.yaml": "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\n"
        "num_processes: 8\nnum_machines: 1\nmixed_precision: bf16\n",
        "run.sh": "accelerate launch --config_file acc.yaml train.py\n",
    }
    job = only(files)
    assert job.launch is not None
    assert job.launch.processes == 8
    assert (job.value("parallel.strategy"), job.value("precision.compute")) == ("ddp", "bf16")


def test_code_beats_the_precision_of_an_accelerate_config() -> None:
    files = {
        "train.py": "import torch\nfrom accelerate import Accelerator\n"
        "a = Accelerator(mixed_precision='fp16')\n" + LOOP,
        "acc.yaml": "distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precision: bf16\n",
        "run.sh": "accelerate launch --config_file acc.yaml train.py\n",
    }
    job = only(files)
    assert [s.value for s in job.settings["precision.compute"] if s.written] == ["fp16", "bf16"]


def test_deepspeed_without_a_readable_config_says_nothing_of_the_stage() -> None:
    code = (
        "import deepspeed, torch\nengine, *_ = deepspeed.initialize(model=m, config=make())\n"
        "for b in loader:\n    engine.backward(engine(b))\n    engine.step()\n"
    )
    job = only({"train.py": code})
    assert job.value("parallel.strategy") == "deepspeed"
    assert isinstance(job.value("sharding.stage"), Unknown)


# --- asking -----------------------------------------------------------------------------------


def test_a_typed_command_is_the_only_job() -> None:
    tree = FolderTree(REPOS / "torch-vision")
    (job,) = gather(tree, launch="torchrun --nproc_per_node 2 main.py --workers 8").jobs
    assert job.value("dataloader.workers") == 8


def test_a_typed_script_means_what_it_starts() -> None:
    (job,) = gather(FolderTree(REPOS / "hf-clm"), launch="bash run.sh").jobs
    assert job.value("batch.micro") == 2


def test_a_typed_command_that_does_not_train_is_refused_in_one_sentence() -> None:
    with pytest.raises(UserError, match="no training job begins there"):
        gather(FolderTree(REPOS / "torch-vision"), launch="python evaluate.py")


def test_what_the_user_says_of_the_machine_goes_first() -> None:
    tree = FolderTree(REPOS / "hf-clm")
    (job,) = gather(tree, hardware=HardwareFacts(gpu="h200", gpus_per_node=4)).jobs
    assert (job.hardware.gpu, job.hardware.gpus_per_node) == ("h200", 4)
    assert job.hardware.capability == (9, 0)
    assert 139 * 2**30 < (job.hardware.memory or 0) < 141 * 2**30


def test_only_keeps_the_jobs_that_touch_a_path() -> None:
    tree = FolderTree(REPOS / "llamafactory-sft")
    assert [job.id for job in gather(tree, only={"configs/alone.yaml"}).jobs] == [
        "configs/alone.yaml"
    ]


def test_training_modules_are_those_of_training_jobs() -> None:
    facts = sample("torch-vision")
    assert [module.path for module in facts.training_modules] == ["engine.py", "main.py"]


def test_versions_are_asked_of_the_project() -> None:
    assert sample("hf-clm").versions["torch"] == "==2.6.0"


def test_broken_files_are_reported_and_do_not_stop_the_rest() -> None:
    files = {
        "train.py": "import torch\n" + LOOP,
        "broken.py": "import torch\ndef train(:\n  loss.backward()\n# __main__\n",
        "broken.yaml": "finetuning_type: lora\n  template: [x\n",
        "run.sh": "python train.py --x 'never closed\n",
    }
    facts = facts_of(files)
    assert {unread.path for unread in facts.unread} >= {"broken.py", "broken.yaml"}


def test_a_default_that_is_spelled_out_stands_where_it_is_written() -> None:
    tree = DictTree(
        {
            "run.sh": "torchrun --nproc_per_node 8 train.py sft.yaml\n",
            "train.py": (
                "import sys\n"
                "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
                "args, = HfArgumentParser((TrainingArguments,)).parse_yaml_file(sys.argv[1])\n"
                "Trainer(args=args).train()\n"
            ),
            "sft.yaml": "output_dir: out\nbf16: false\ndeepspeed: zero2.json\n",
            "zero2.json": '{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}\n',
        }
    )
    (job,) = gather(tree).jobs
    precision = job.get("precision.compute")
    assert precision is not None
    assert (precision.value, precision.written) == ("fp32", False)
    assert str(precision.where) == "sft.yaml:2:1"
