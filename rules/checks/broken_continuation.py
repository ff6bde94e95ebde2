"""A command whose later flags are lost to a comment or blank inside its continuation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Priority, Severity
from pitstop.rules.rule import Bad, Check, Good

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.finding import Location
    from pitstop.rules.shell import Script
    from pitstop.rules.tree import SourceFile


class BrokenContinuation(Check):
    r"""A command ends before its last flags.

    ## What it finds

    A comment, an empty line or a blank after the backslash inside a command that is continued
    over several lines of a launch script, or a line of flags above which the backslash is missing.

    ## Why it costs

    The shell ends the command there. The flags below become a command of their own, which fails
    as "command not found" while training runs on with defaults.

    ## When it is right

    Never.

    ## Fix

    Move the comment above the command, delete the empty line, and let the backslash be the last
    character of its line.

    ## Fix safety

    never: the flags then take effect, which changes the run.
    """

    id = "GEN-X02"
    name = "broken-continuation"
    category = "names"
    severity = Severity.CRITICAL
    priority = Priority.HIGH
    resource = "stability"
    cost = "Every flag below the place is lost; the run uses defaults instead."
    sources = ("https://www.gnu.org/software/bash/manual/html_node/Escape-Character.html",)
    bad = (
        Bad(
            {
                "run.sh": """\
torchrun --nproc_per_node 8 run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --output_dir out \\
  --per_device_train_batch_size 4 \\
  # --learning_rate 1e-4 \\
  --bf16 True
"""
            },
            "run.sh",
            3,
        ),
        Bad(
            {
                "run.sh": """\
torchrun --nproc_per_node 8 run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --output_dir out \\
  --per_device_train_batch_size 4
  --bf16 True
"""
            },
            "run.sh",
            3,
        ),
    )
    good = (
        Good(
            {
                "run.sh": """\
# --learning_rate 1e-4
torchrun --nproc_per_node 8 run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --output_dir out \\
  --per_device_train_batch_size 4 \\
  --bf16 True
"""
            },
            "the comment stands above the command",
        ),
        Good(
            {
                "run.sh": """\
torchrun --nproc_per_node 8 run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --output_dir out \\
  --per_device_train_batch_size 4 \\
  --bf16 True \\

# a note at the end
"""
            },
            "a last backslash loses nothing",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Broken continuations in the scripts of training jobs."""
        for job in facts.jobs:
            for path in sorted(job.files):
                script = facts.scripts.get(path)
                file = facts.sources.file(path)
                if script is None or file is None:
                    continue
                for at in script.broken_continuations:
                    if at.path == path and _flags_follow(file, at):
                        yield self.info.finding(
                            at,
                            "The command ends here; what follows is not passed to it.",
                            jobs=(job.id,),
                        )
                for at in _stray_flags(script, file):
                    yield self.info.finding(
                        at,
                        "These flags are a command of their own: the line above has no backslash.",
                        jobs=(job.id,),
                    )


def _flags_follow(file: SourceFile, at: Location) -> bool:
    """Whether anything is lost: the next line that is neither empty nor a comment is a flag."""
    for number in range(at.line + 1, len(file.line_starts) + 1):
        text = file.line_text(number).strip()
        if text and not text.startswith("#") and text != "\\":
            return text.startswith("-")
    return False


def _stray_flags(script: Script, file: SourceFile) -> Iterator[Location]:
    """Commands that begin with a flag, directly below a line that does not continue."""
    for command in script.commands:
        at = command.location
        if at.path != script.path or not command.words or at.line < 2:
            continue
        above = file.line_text(at.line - 1).strip()
        continued = not above or above.startswith("#") or above.endswith("\\")
        if command.words[0].text.startswith("--") and not continued:
            yield command.words[0].location
