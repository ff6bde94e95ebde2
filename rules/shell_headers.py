"""`#SBATCH` lines: what a script asks of the scheduler before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pitstop.rules.job import Word
from pitstop.rules.tree import SourceFile

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


def read_headers(file: SourceFile) -> dict[str, Word]:
    """Options by long name, the first of each (as sbatch takes them); up to the first command."""
    out: dict[str, Word] = {}
    if "#SBATCH" not in file.text:
        return out
    for line in range(1, min(len(file.line_starts), _MAX_LINES) + 1):
        text = file.line_text(line)
        if text.strip() and not text.lstrip().startswith("#"):
            break
        if found := _LINE.match(text):
            start = file.line_starts[line - 1] + found.start(1)
            for name, word in _options(file, start, found[1]):
                out.setdefault(name, word)
    return out


def _options(file: SourceFile, start: int, text: str) -> Iterator[tuple[str, Word]]:
    at = 0
    while found := _OPTION.search(text, at):
        comment = text.find(" #", at)
        if 0 <= comment < found.start():
            return
        dashes, name = found[1], found[2]
        span = found.span(3)
        if dashes == "-" and len(name) > 1:  # -N4
            span, name = (found.start(2) + 1, found.end(2)), name[0]
        value = text[span[0] : span[1]] if span[0] >= 0 else ""
        if value.startswith("-") and not re.match(r"-\d", value):
            span, value = (-1, -1), ""
        at = span[1] if span[1] >= 0 else found.end(2)
        if value[:1] in ("'", '"'):
            span, value = (span[0] + 1, span[1] - 1), value[1:-1]
        if span[0] < 0:
            span = found.span(2)
            yield _LONG.get(name, name), Word("", file.location(start + span[1], start + span[1]))
        else:
            place = file.location(start + span[0], start + span[1])
            yield _LONG.get(name, name), Word(value, place)
