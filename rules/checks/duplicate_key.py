"""The same key twice in one mapping of a config file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Priority, Related, Severity
from pitstop.rules.rule import Bad, Check, Good

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts


class DuplicateKey(Check):
    """A key is written twice, and the first is lost.

    ## What it finds

    A key that stands twice in the same mapping of a YAML or JSON file that a training job reads.

    ## Why it costs

    PyYAML and Python's JSON reader keep the last one without a word, so whoever edits the first
    changes nothing. DeepSpeed refuses such a file.

    ## When it is right

    Never.

    ## Fix

    Delete the one that is not meant.

    ## Fix safety

    never: only the author knows which one is meant.
    """

    id = "GEN-X01"
    name = "duplicate-key"
    category = "names"
    severity = Severity.WARNING
    priority = Priority.MEDIUM
    resource = "stability"
    cost = "The setting that a reader sees first is not the one that holds."
    sources = (
        "https://yaml.org/spec/1.2.2/#3213-node-comparison",
        "https://github.com/snowflakedb/ArcticTraining/issues/99",
    )
    bad = (
        Bad(
            {
                "sft.yaml": """\
model_name_or_path: Qwen/Qwen2.5-7B-Instruct
stage: sft
do_train: true
finetuning_type: lora
dataset: identity
template: qwen
cutoff_len: 1024
output_dir: saves/qwen
bf16: true
learning_rate: 1.0e-4
cutoff_len: 4096
"""
            },
            "sft.yaml",
            11,
        ),
        Bad(
            {
                "run.sh": """\
deepspeed --num_gpus 8 run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --output_dir out \\
  --deepspeed ds.json --per_device_train_batch_size 4 --bf16 True
""",
                "ds.json": """\
{
  "bf16": {"enabled": true},
  "gradient_clipping": 1.0,
  "zero_optimization": {
    "stage": 2,
    "overlap_comm": true,
    "stage": 3
  }
}
""",
            },
            "ds.json",
            7,
        ),
    )
    good = (
        Good(
            {
                "sft.yaml": """\
base: &base
  cutoff_len: 1024
model_name_or_path: Qwen/Qwen2.5-7B-Instruct
stage: sft
do_train: true
finetuning_type: lora
dataset: identity
template: qwen
<<: *base
cutoff_len: 4096
output_dir: saves/qwen
bf16: true
"""
            },
            "a key that overrides a merged one is no duplicate",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Duplicates in the files of each job."""
        for job in facts.jobs:
            for path in sorted(job.files):
                config = facts.configs.get(path)
                for twice in config.duplicates if config else ():
                    name = ".".join(str(part) for part in twice.path)
                    yield self.info.finding(
                        twice.second,
                        f"`{name}` is already set on line {twice.first.line}; the last one counts.",
                        related=(Related(twice.first, "set here first"),),
                        jobs=(job.id,),
                    )
