"""A configuration file that a job lacks: written beside its own, used, and never over another."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pitstop.bot.apply import SnapshotTree, write_patches
from pitstop.rules.engine import audit
from pitstop.rules.facts import gather
from pitstop.rules.finding import UserError
from pitstop.rules.tree import DictTree, FolderTree
from pitstop.transforms.creations import creations
from pitstop.transforms.patch import Changed, Outcome, Refused, apply_patches

TRAINER = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments
(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(model=model, args=args).train()
"""
LOOP = """\
from accelerate import Accelerator
accelerator = Accelerator()
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    accelerator.backward(model(**batch).loss)
    optimizer.step()
    optimizer.zero_grad()
"""
FLAGS = {
    "train.py": TRAINER,
    "run.sh": "torchrun --nproc_per_node 4 train.py --output_dir out --bf16 true\n",
}
YAML = {
    "run.sh": "llamafactory-cli train conf/train.yaml\n",
    "conf/train.yaml": "stage: sft\ndo_train: true\nmodel_name_or_path: m\nfinetuning_type: full\n"
    "template: qwen\ncutoff_len: 512\ndataset: mine\n",
}
ACCELERATE = {"train.py": LOOP, "run.sh": "accelerate launch --num_processes 4 train.py\n"}
STAGE_2 = {"stage": 2, "offload": False}


def made(files: dict[str, str], name: str = "create_deepspeed_config") -> Outcome:
    facts = gather(DictTree(files))
    (job,) = facts.jobs
    given = STAGE_2 if name == "create_deepspeed_config" else {}
    return creations()[name](job, facts, **given)


def texts(files: dict[str, str], outcome: Outcome) -> dict[str, str]:
    assert isinstance(outcome, Changed), outcome
    new, dropped = apply_patches(DictTree(files), [outcome.patch])
    assert not dropped
    return new


def test_a_flag_names_the_new_file() -> None:
    new = texts(FLAGS, made(FLAGS))
    assert set(new) == {"run.sh", "ds_zero2.json"}
    assert new["run.sh"] == FLAGS["run.sh"].replace("\n", " --deepspeed ds_zero2.json\n")
    config = json.loads(new["ds_zero2.json"])
    assert config["zero_optimization"] == {"stage": 2} and "share" in config["_comment"]
    (job,) = gather(DictTree({**FLAGS, **new})).jobs
    assert job.value("sharding.stage") == 2
    rules = {f.rule for f in audit(gather(DictTree({**FLAGS, **new}))).findings}
    assert not {rule for rule in rules if rule.startswith("DS-")}


def test_it_stands_beside_the_configuration_that_names_it() -> None:
    new = texts(YAML, made(YAML))
    assert set(new) == {"conf/train.yaml", "conf/ds_zero2.json"}
    assert "deepspeed: conf/ds_zero2.json\n" in new["conf/train.yaml"]


def test_accelerate_is_told_where_its_file_is() -> None:
    new = texts(ACCELERATE, made(ACCELERATE, "create_fsdp_config"))
    assert set(new) == {"run.sh", "fsdp.yaml"}
    assert "--config_file fsdp.yaml" in new["run.sh"].split("train.py")[0]
    (job,) = gather(DictTree({**ACCELERATE, **new})).jobs
    assert job.value("parallel.strategy") == "fsdp2"


def test_a_second_time_there_is_nothing_to_do() -> None:
    assert isinstance(made({**FLAGS, **texts(FLAGS, made(FLAGS))}), Refused)
    new = {**ACCELERATE, **texts(ACCELERATE, made(ACCELERATE, "create_fsdp_config"))}
    assert isinstance(made(new, "create_fsdp_config"), Refused)


@pytest.mark.parametrize(
    ("files", "name", "reason"),
    [
        ({**FLAGS, "ds_zero2.json": "{}"}, "create_deepspeed_config", "is there already"),
        ({**ACCELERATE, "fsdp.yaml": ""}, "create_fsdp_config", "is there already"),
        (FLAGS, "create_fsdp_config", "not started by accelerate"),
    ],
)
def test_refused(files: dict[str, str], name: str, reason: str) -> None:
    outcome = made(files, name)
    assert isinstance(outcome, Refused) and reason in outcome.reason


def test_git_applies_the_diff_and_a_file_that_appeared_stops_it(tmp_path: Path) -> None:
    for path, text in FLAGS.items():
        (tmp_path / path).write_text(text)
    outcome = made(FLAGS)
    assert isinstance(outcome, Changed)
    tree = SnapshotTree(FolderTree(tmp_path))
    written = write_patches(tree, [outcome.patch], dry=True)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    apply = ["git", "apply", "--check", "-"]
    subprocess.run(apply, cwd=tmp_path, check=True, input=written.diff.encode())
    (tmp_path / "ds_zero2.json").write_text("{}")
    with pytest.raises(UserError, match="appeared"):
        write_patches(tree, [outcome.patch])
    assert (tmp_path / "run.sh").read_text() == FLAGS["run.sh"]
