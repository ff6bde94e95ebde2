"""Names that the pinned version of a framework no longer accepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Priority, Severity, Surface
from pitstop.rules.frameworks import accepted
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.versions import allows

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts


class RetiredName(Check):
    """The pinned version no longer knows a name.

    ## What it finds

    A flag, config key or keyword of a framework that was removed or renamed before the version
    that the project pins.

    ## Why it costs

    The program stops with an error when it parses its arguments: a job that waited for its GPUs
    ends in its first seconds.

    ## When it is right

    The pin describes another environment than the one that runs the job.

    ## Fix

    Write the new name, or delete the old one where it has no successor.

    ## Fix safety

    never: a change by hand.
    """

    id = "HF-I08"
    name = "retired-name"
    catalogue = "hf_trainer"
    category = "names"
    severity = Severity.CRITICAL
    priority = Priority.HIGH
    resource = "stability"
    cost = "The run does not start."
    sources = (
        "https://github.com/huggingface/transformers/blob/main/MIGRATION_GUIDE_V5.md",
        "https://huggingface.co/docs/transformers/main_classes/trainer",
    )
    bad = (
        Bad(
            {
                "requirements.txt": "transformers==4.57.6\n",
                "train.py": """\
from transformers import Trainer, TrainingArguments
from project import data, model

args = TrainingArguments(
    output_dir="out",
    bf16=True,
    evaluation_strategy="steps",
)
Trainer(model=model, args=args, train_dataset=data).train()
""",
            },
            "train.py",
            7,
        ),
        Bad(
            {
                "requirements.txt": "transformers>=5.4\n",
                "run.sh": """\
torchrun --nproc_per_node 8 run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --bf16 True \\
  --output_dir out --group_by_length True --per_device_train_batch_size 4
""",
            },
            "run.sh",
            2,
        ),
    )
    good = (
        Good(
            {
                "requirements.txt": "transformers==4.40.0\n",
                "train.py": """\
from transformers import Trainer, TrainingArguments
from project import data, model

args = TrainingArguments(output_dir="out", bf16=True, evaluation_strategy="steps")
Trainer(model=model, args=args, train_dataset=data).train()
""",
            },
            "the pinned version still takes it",
        ),
        Good(
            {
                "requirements.txt": "transformers\n",
                "train.py": """\
from transformers import Trainer, TrainingArguments
from project import data, model

args = TrainingArguments(output_dir="out", bf16=True, evaluation_strategy="steps")
Trainer(model=model, args=args, train_dataset=data).train()
""",
            },
            "nothing pins a version",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Names whose last version lies before the pin."""
        for job in facts.jobs:
            for name in facts.written_names(job):
                known = name.known
                if known is None or known.until is None or name.surface is Surface.ENV:
                    continue
                pin = facts.versions.get(known.package, "")
                gone = accepted(known, facts.versions) is False
                if not gone or allows(pin, f">={known.until}") is not True:
                    continue
                instead = f"; write {known.renamed_to}" if known.renamed_to else ""
                yield self.info.finding(
                    name.at,
                    f"`{name.spelled}` is gone since {known.package} {known.until}, and the project"
                    f" asks for {known.package}{pin}{instead}.",
                    jobs=(job.id,),
                )
