"""A job whose predicted memory is over that of its GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.estimate import Fit
from pitstop.rules.finding import Confidence, Finding, Location, Priority, Severity
from pitstop.rules.job_facts import job_for_debugging
from pitstop.rules.memory import GIB
from pitstop.rules.rule import Bad, Check, Good

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.job import TrainingJob
    from pitstop.rules.job_memory import JobMemory

_CODE = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

def main(dataset):
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype="float32")
    Trainer(model=model, args=args, train_dataset=dataset).train()

main(None)
"""
_RUN = """\
#!/bin/bash
#SBATCH --gres=gpu:{gpu}:8
#SBATCH --nodes=1
torchrun --nproc_per_node 8 train.py --output_dir out --bf16 True --gradient_checkpointing True \\
  --per_device_train_batch_size 1 --max_seq_length 2048{more}
"""
_ZERO = '{{"zero_optimization": {{"stage": {stage}}}, "bf16": {{"enabled": true}}}}\n'
_LAUNCH = "run.sh"


class MemoryExceeded(Check):
    """The job needs more memory than its GPU has.

    ## What it finds

    A training job whose model, precision, sharding and GPU are known, and whose predicted peak
    is over the GPU's memory even at the low end of the estimate.

    ## Why it costs

    The run ends with an out-of-memory error in its first steps, after the time that loading the
    model takes on every GPU. `pitstop estimate` shows where each byte goes; docs/memory.md says
    how it is counted.

    ## When it is right

    The GPU, the number of processes or the lengths of samples are not those that the files name.

    ## Fix

    Take the first of the configurations that fit, as `pitstop estimate` lists them: a smaller micro
    batch, activation checkpointing, a fused loss, a higher ZeRO stage or FSDP, state on the host.

    ## Fix safety

    never: several settings would do, and which of them is a choice.
    """

    id = "GEN-A02"
    name = "memory-exceeded"
    category = "memory"
    severity = Severity.CRITICAL
    priority = Priority.HIGH
    resource = "memory"
    confidence = Confidence.MEDIUM
    cost = "The job does not run."
    sources = (
        "https://arxiv.org/abs/1910.02054",
        "https://huggingface.co/docs/transformers/model_memory_anatomy",
    )
    bad = (
        Bad({"train.py": _CODE, "run.sh": _RUN.format(gpu="a100-80gb", more="")}, _LAUNCH, 4),
        Bad(
            {
                "train.py": _CODE,
                "ds.json": _ZERO.format(stage=2),
                "run.sh": _RUN.format(gpu="rtx-4090", more=" --deepspeed ds.json"),
            },
            _LAUNCH,
            4,
        ),
    )
    good = (
        Good(
            {
                "train.py": _CODE,
                "ds.json": _ZERO.format(stage=2),
                "run.sh": _RUN.format(gpu="a100-80gb", more=" --deepspeed ds.json"),
            },
            "state is shared among eight GPUs",
        ),
        Good(
            {"train.py": _CODE, "run.sh": _RUN.format(gpu="a100", more="")},
            "the memory of the GPU is not known",
        ),
        Good(
            {
                "train.py": _CODE.replace("Qwen2.5-7B", "Qwen2.5-0.5B"),
                "run.sh": _RUN.format(gpu="a100-80gb", more=""),
            },
            "the model is small",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Jobs that fit under no reading of what is unknown."""
        from pitstop.rules.job_memory import memory_of

        for job in facts.jobs:
            if job.purpose != "train" or job_for_debugging(job) or job.hardware.memory is None:
                continue
            found = memory_of(job)
            place = _place(job)
            if found is None or place is None or found.fit is not Fit.DOES_NOT_FIT:
                continue
            yield self.info.finding(place, _message(job, found), jobs=(job.id,))


def _place(job: TrainingJob) -> Location | None:
    return job.launch.location if job.launch is not None else job.location


def _message(job: TrainingJob, found: JobMemory) -> str:
    from pitstop.rules.fitting import options_that_fit
    from pitstop.rules.hardware import gpus
    from pitstop.rules.job_memory import breakdown

    capacity = found.capacity or 0
    least = found.total.low / GIB
    text = (
        f"At least {least:.0f} GiB per GPU are needed and {capacity / GIB:.0f} are there:"
        f" {breakdown(found.found)}."
    )
    gpu = gpus().get(job.hardware.gpu or "")
    options = options_that_fit(found.most, capacity, gpu, job.hardware.gpus_per_node, most=1)
    if options:
        option = options[0]
        text += f" With {' and '.join(option.changes)} it takes {option.total.high / GIB:.0f} GiB."
    return text
