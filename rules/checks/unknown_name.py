"""Names that no version of the framework accepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Confidence, Finding, Priority, Severity, Surface
from pitstop.rules.frameworks.spelling import plain_name
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.written_names import WrittenName

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.job import TrainingJob

_ALLOW = "ALLOW_EXTRA_ARGS"
_NOT_ARGUMENTS = frozenset({"help", "config", "config_file", "h"})


class UnknownName(Check):
    """A name that the framework does not have.

    ## What it finds

    A key or flag that no version of the framework accepts, for frameworks that refuse what they
    do not know (LLaMA-Factory, vLLM, SGLang). The nearest accepted name is given where one is near.

    ## Why it costs

    The program stops while it parses its arguments. Where extra names are let through, the
    setting that was meant never takes effect.

    ## When it is right

    A newer version than Pitstop knows has the name.

    ## Fix

    Correct the spelling, or delete the line.

    ## Fix safety

    never: a change by hand.
    """

    id = "LF-X08"
    name = "unknown-name"
    catalogue = "llamafactory"
    category = "names"
    severity = Severity.CRITICAL
    priority = Priority.MEDIUM
    resource = "stability"
    cost = "The run does not start."
    sources = (
        "https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/hparams/parser.py",
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
enable_liger_kernels: true
"""
            },
            "sft.yaml",
            10,
        ),
        Bad(
            {
                "run.sh": """\
llamafactory-cli train --stage sft --do_train --model_name_or_path Qwen/Qwen2.5-7B-Instruct \\
  --finetuning_type lora --dataset identity --template qwen --output_dir saves --bf16 \\
  --cutof_len 2048
"""
            },
            "run.sh",
            3,
        ),
    )
    good = (
        Good(
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
enable_liger_kernel: true
"""
            },
            "every key is known",
        ),
        Good(
            {
                "run.sh": """\
torchrun --nproc_per_node 8 run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --output_dir out \\
  --per_device_train_batch_size 4 --bf16 True --my_own_option 3
""",
            },
            "a script of its own may have options of its own",
        ),
        Good(
            {
                "serve.sh": """\
vllm serve Qwen/Qwen2.5-7B-Instruct --enable-lora --lora-modules first=a/1 second=a/2 \\
  --max-model-len 8192
""",
            },
            "a flag's values may have names",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Unknown names in jobs of frameworks that refuse them."""
        for job in facts.jobs:
            if _lets_extra_through(job) or job.value("parallel.strategy") == "megatron":
                continue  # the Megatron adapters bring arguments of their own
            for name in facts.written_names(job):
                if name.framework.closed and _unknown(name):
                    yield self._found(name, job)

    def _found(self, name: WrittenName, job: TrainingJob) -> Finding:
        near = name.framework.closest_name(name.spelled)
        hint = f" Did you mean `{near}`?" if near else ""
        return self.info.finding(
            name.at,
            f"{name.framework.title} has no `{name.spelled}` and refuses it.{hint}",
            confidence=None if near else Confidence.MEDIUM,
            severity=None if near else Severity.WARNING,
            jobs=(job.id,),
        )


def _unknown(name: WrittenName) -> bool:
    """True for a name that no version has. On a command line a beginning of one will do."""
    plain = plain_name(name.spelled).partition(".")[0]
    if plain in _NOT_ARGUMENTS or name.known is not None or name.surface is Surface.ENV:
        return False
    if name.surface is not Surface.FLAG:
        return True
    positive = plain.removeprefix("no_")
    known = name.framework.known
    return positive not in known and not any(other.startswith(positive) for other in known)


def _lets_extra_through(job: TrainingJob) -> bool:
    word = job.launch.env.get(_ALLOW) if job.launch is not None else None
    return word is not None and (not word.known or word.text.lower() in ("1", "true", "y", "yes"))
