"""Names that the framework accepts and ignores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Priority, Severity, Surface
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.versions import Versions, allows

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.written_names import WrittenName


class NameWithoutEffect(Check):
    """A name that is accepted and does nothing.

    ## What it finds

    A key or flag that the framework reads without acting on it. The known case is
    `gradient_checkpointing` in LLaMA-Factory.

    ## Why it costs

    The reader believes that the key decides. LLaMA-Factory turns activation checkpointing on by
    itself: `false` does not turn it off, and `true` only lets the trainer switch it on a second
    time with its reentrant default, which can undo what FSDP2 needs.

    ## When it is right

    Never; at best it is harmless.

    ## Fix

    Delete the key. To trade memory for time write `disable_gradient_checkpointing: true`.

    ## Fix safety

    never: a change by hand.
    """

    id = "LF-C01"
    name = "name-without-effect"
    catalogue = "llamafactory"
    category = "names"
    severity = Severity.WARNING
    priority = Priority.MEDIUM
    resource = "quality"
    cost = "None by itself; what was meant to be set is not."
    sources = (
        "https://github.com/hiyouga/LLaMA-Factory/issues/6232",
        "https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/model/model_utils/checkpointing.py",
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
gradient_checkpointing: true
"""
            },
            "sft.yaml",
            10,
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
"""
            },
            "checkpointing is on by itself",
        ),
        Good(
            {
                "run.sh": """\
torchrun --nproc_per_node 8 run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --output_dir out \\
  --per_device_train_batch_size 4 --bf16 True --gradient_checkpointing True
""",
            },
            "the Trainer obeys it",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Names that the framework's file marks as dead."""
        for job in facts.jobs:
            for name in facts.written_names(job):
                why = _why_dead(name, facts.versions)
                if why:
                    yield self.info.finding(
                        name.at, f"`{name.spelled}` does nothing here: {why}.", jobs=(job.id,)
                    )


def _why_dead(name: WrittenName, versions: Versions) -> str | None:
    """Why nothing reads the name; a variable that the pinned version no longer knows is not
    refused but ignored."""
    known = name.known
    if known is None or known.dead:
        return known.dead if known else None
    if name.surface is not Surface.ENV or known.until is None:
        return None
    if allows(versions.get(known.package, ""), f">={known.until}") is not True:
        return None
    instead = f"; {known.renamed_to} took its place" if known.renamed_to else ""
    return f"{known.package} reads it no more since {known.until}{instead}"
