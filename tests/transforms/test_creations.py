"""Files that a job lacks: created beside the setting that names them, found by the job after."""

from __future__ import annotations

import json

import pytest

from pitstop.rules.facts import gather
from pitstop.rules.tree import DictTree
from pitstop.transforms.creations import create_deepspeed_config, deepspeed_config
from pitstop.transforms.patch import Changed, Refused, apply_patches
from pitstop.transforms.plans import candidates

RUN = (
    "torchrun --nproc_per_node 8 run_clm.py --model_name_or_path Qwen/Qwen2.5-7B"
    " --output_dir out --bf16 True\n"
)
PYTHON = (
    "from transformers import Trainer, TrainingArguments\n"
    "args = TrainingArguments(output_dir='o')\nTrainer(args=args).train()\n"
)
JOBS = [
    {"run.sh": RUN},
    {"run.sh": "cd examples\n" + RUN, "examples/run_clm.py": PYTHON},
    {"run.sh": "torchrun --nproc_per_node 8 train.py\n", "train.py": PYTHON},
]


def created(files: dict[str, str], **more: object):
    facts = gather(DictTree(files))
    (job,) = facts.jobs
    given = {"stage": 2, "offload": False, **more}
    return create_deepspeed_config(job, facts, **given), facts


@pytest.mark.parametrize("files", JOBS)
@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("offload", [False, True])
def test_the_job_finds_what_was_created(files, stage, offload):
    outcome, facts = created(files, stage=stage, offload=offload)
    assert isinstance(outcome, Changed), outcome
    texts, conflicts = apply_patches(facts.tree, (outcome.patch,))
    assert not conflicts
    ((path, text),) = outcome.patch.new_files
    assert json.loads(text) == deepspeed_config(stage, offload=offload)
    assert texts[path] == text
    (job,) = gather(DictTree({**files, **texts})).jobs
    assert job.value("sharding.stage") == stage
    assert job.value("sharding.offload_optimizer") == ("cpu" if offload else "none")
    again, _ = created({**files, **texts})
    assert isinstance(again, Refused)


def test_a_file_of_the_name_is_left_alone():
    outcome, _ = created({"run.sh": RUN, "ds_zero2.json": "{}\n"})
    assert isinstance(outcome, Refused)
    assert "there already" in outcome.reason


def test_a_job_with_a_configuration_keeps_it():
    files = {"run.sh": RUN[:-1] + " --deepspeed own.json\n", "own.json": "{}\n"}
    outcome, _ = created(files)
    assert isinstance(outcome, Refused)


def test_a_program_that_does_not_take_it_is_refused():
    files = {
        "run.sh": "torchrun --nproc_per_node 8 train.py\n",
        "train.py": "import torch\nfor b in data:\n    model(b.cuda()).backward()\n    o.step()\n",
    }
    outcome, _ = created(files)
    assert isinstance(outcome, Refused)


def test_memory_pressure_asks_for_it():
    facts = gather(DictTree({"run.sh": RUN}))
    (job,) = facts.jobs
    assert "hf-zero2" not in {one.id for one in candidates(job, facts, ())}
    found = {one.id: one for one in candidates(job, facts, ("MEMORY_PRESSURE",))}
    outcome = found["hf-zero2"].outcome()
    assert isinstance(outcome, Changed)
    assert outcome.patch.new_files[0][0] == "ds_zero2.json"
