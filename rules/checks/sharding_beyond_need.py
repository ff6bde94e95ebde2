"""ZeRO stage 3 where stage 2 would do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pitstop.rules.estimate import estimate
from pitstop.rules.finding import Confidence, Finding, Fix, Location, Priority, Safety, Severity
from pitstop.rules.memory import GIB, Sharding
from pitstop.rules.rule import Bad, Check, Good

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.finding import Setting
    from pitstop.rules.job import TrainingJob

FREE = 0.2
"""Share of the GPU that must stay free at the lower stage."""

_CODE = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

def main(dataset):
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype="bfloat16")
    Trainer(model=model, args=args, train_dataset=dataset).train()

main(None)
"""
_RUN = """\
#!/bin/bash
#SBATCH --gres=gpu:{gpu}:8
#SBATCH --nodes=1
torchrun --nproc_per_node 8 train.py --output_dir out --bf16 True --gradient_checkpointing True \\
  --per_device_train_batch_size 1 --max_seq_length 2048 --deepspeed ds.json
"""
_ZERO = """\
{
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 3
  }
}
"""


class ShardingBeyondNeed(Check):
    """Weights are sharded although they would fit.

    ## What it finds

    DeepSpeed's ZeRO stage 3 in a job whose model, GPU, batch and sequence length are known, where
    the predicted peak at stage 2 leaves at least a fifth of the GPU free.

    ## Why it costs

    Stage 3 gathers every layer's weights before it is used, in the forward and again in the
    backward pass of each micro batch: half as much communication again as stage 2 without
    accumulation, and several times as much with it.

    ## When it is right

    Another part of the job needs the memory: generation beside training, longer samples than
    configured, or a framework that demands the stage.

    ## Fix

    Set `zero_optimization.stage` to 2.

    ## Fix safety

    verify: the same optimizer step; memory rises to what the message says.
    """

    id = "GEN-A02b"
    name = "sharding-beyond-need"
    category = "parallelism"
    severity = Severity.INFO
    priority = Priority.MEDIUM
    resource = "time"
    confidence = Confidence.MEDIUM
    safety = Safety.VERIFY
    cost = "1.5 times the communication of stage 2, more with gradient accumulation."
    sources = ("https://arxiv.org/abs/1910.02054",)
    bad = (
        Bad(
            {"train.py": _CODE, "ds.json": _ZERO, "run.sh": _RUN.format(gpu="a100-80gb")},
            "ds.json",
            4,
            {"ds.json": _ZERO.replace("3", "2")},
        ),
    )
    good = (
        Good(
            {"train.py": _CODE, "ds.json": _ZERO, "run.sh": _RUN.format(gpu="rtx-4090")},
            "stage 2 does not fit",
        ),
        Good(
            {"train.py": _CODE, "ds.json": _ZERO, "run.sh": _RUN.format(gpu="a100")},
            "the memory of the GPU is not known",
        ),
        Good(
            {
                "train.py": _CODE,
                "ds.json": _ZERO,
                "run.sh": _RUN.format(gpu="a100-80gb").replace(" --max_seq_length 2048", ""),
            },
            "the length of samples is not known",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Jobs of stage 3 without offloading, about which everything is known."""
        for job in facts.jobs:
            setting = job.get("sharding.stage")
            if job.purpose != "train" or setting is None or setting.value != 3:
                continue
            place, needed = setting.where, _at_stage_two(job)
            if place is None or needed is None or job.hardware.memory is None:
                continue
            if needed > (1 - FREE) * job.hardware.memory:
                continue
            yield self._finding(place, setting, job, needed / GIB)

    def _finding(
        self, place: Location, setting: Setting, job: TrainingJob, needed: float
    ) -> Finding:
        have = (job.hardware.memory or 0) / GIB
        return self.info.finding(
            place,
            f"Stage 2 would need at most {needed:.0f} of {have:.0f} GiB per GPU.",
            fix=Fix.set_knob("sharding.stage", 2, safety=self.safety, text="share less"),
            deciding=setting,
            jobs=(job.id,),
        )


def _at_stage_two(job: TrainingJob) -> float | None:
    """The most bytes that the job would need at stage 2; None when something is unknown, or
    the weights are offloaded or generated from (which stage 2 cannot, or must not, change)."""
    from pitstop.rules.job_memory import memory_of

    if job.value("training.stage") in ("ppo", "grpo"):
        return None
    found = memory_of(job)
    if found is None or not found.complete or found.most.layout.data < 2:
        return None
    layout = found.most.layout
    if layout.sharding is not Sharding.ZERO3 or layout.offload_weights:
        return None
    lower = replace(layout, sharding=Sharding.ZERO2)
    return estimate(replace(found.most, layout=lower)).total.high
