"""`#SBATCH` lines: what a script asks of the scheduler before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pitstop.rules.job import Word
from pitstop.rules.shell_text import ShellText

_LINE = re.compile(r"#SBATCH[ \t]+(.*)")
_OPTION = re.compile(
    r"(--?)([A-Za-z][\w-]*)(?:[= \t]?[ \t]*(\"[^\"]*\"|'[^']*'|[^\s#\"'][^\s#]*))?"
)
_MAX_LINES = 2_000

_LONG = {
    "A": "account", "a": "array", "c": "cpus-per-task", "C": "constraint", "D": "chdir",
    "d": "dependency", "e": "error", "G": "gpus", "J": "job-name", "N": "nodes", "n": "ntasks",
    "o": "output", "p": "partition", "q": "qos", "t": "time", "w": "nodelist", "x": "exclude",
}  # fmt: skip

SLURM_VARIABLES = {
    "SLURM_NNODES": "nodes",
    "SLURM_JOB_NUM_NODES": "nodes",
    "SLURM_NTASKS": "ntasks",
    "SLURM_NPROCS": "ntasks",
    "SLURM_NTASKS_PER_NODE": "ntasks-per-node",
    "SLURM_CPUS_PER_TASK": "cpus-per-task",
    "SLURM_GPUS_PER_NODE": "gpus-per-node",
    "SLURM_GPUS": "gpus",
    "SLURM_JOB_NAME": "job-name",
}
"""Variables that Slurm sets in the job to what the headers ask for."""


def read_headers(text: ShellText) -> dict[str, Word]:
    """Options by long name, the first of each (as sbatch takes them); up to the first command."""
    out: dict[str, Word] = {}
    if "#SBATCH" not in text.text:
        return out
    at = 0
    for line in text.text.split("\n", _MAX_LINES)[:_MAX_LINES]:
        if line.strip() and not line.lstrip().startswith("#"):
            break
        if found := _LINE.match(line):
            for name, word in _options(text, at + found.start(1), found[1].rstrip("\r")):
                out.setdefault(name, word)
        at += len(line) + 1
    return out


def _options(text: ShellText, start: int, line: str) -> Iterator[tuple[str, Word]]:
    at = 0
    while found := _OPTION.search(line, at):
        comment = line.find(" #", at)
        if 0 <= comment < found.start():
            return
        dashes, name = found[1], found[2]
        span = found.span(3)
        if dashes == "-" and len(name) > 1:  # -N4
            span, name = (found.start(2) + 1, found.end(2)), name[0]
        value = line[span[0] : span[1]] if span[0] >= 0 else ""
        if value.startswith("-") and not re.match(r"-\d", value):
            span, value = (-1, -1), ""
        at = span[1] if span[1] >= 0 else found.end(2)
        if value[:1] in ("'", '"'):
            span, value = (span[0] + 1, span[1] - 1), value[1:-1]
        if span[0] < 0:
            span = (found.end(2), found.end(2))
        place, exact = text.place(start + span[0], start + span[1])
        yield _LONG.get(name, name), Word(value, place, exact=exact)
