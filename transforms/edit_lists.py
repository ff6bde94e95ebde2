"""Commands written as lists: `CMD ["python", "t.py"]`, `args: [t.py, --x]`, one word a line.

Only ways to write a change; `edit_shell` proves them by reading the file again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from pitstop.rules.finding import Span
from pitstop.rules.job import Word
from pitstop.rules.tree import SourceFile
from pitstop.transforms import yaml_scalars
from pitstop.transforms.members import line_end, line_start, newline
from pitstop.transforms.patch import Edit

_ITEM = re.compile(r"[ \t]*-[ \t]+")


def list_additions(
    file: SourceFile, last: Word, words: Sequence[str]
) -> Iterator[tuple[Edit, ...]]:
    """New words behind the list's last one."""
    where = _with_quotes(file, last)
    dash = _dash(file, where)
    if dash is not None:
        end = line_end(file, where.end)
        items = (f"{dash}{yaml_scalars.written(word)}" for word in words)
        text = "".join(newline(file, end) + item for item in items)
        yield (Edit.replace(file, Span(end, end), text),)
    elif re.match(r"\s*[,\]]", file.text[where.end :]):
        quoted = where != last.location.span
        items = (
            json.dumps(w) if quoted else str(yaml_scalars.written(w, flow=True)) for w in words
        )
        text = "".join(f", {item}" for item in items)
        yield (Edit.replace(file, Span(where.end, where.end), text),)


def list_removals(file: SourceFile, first: Word, last: Word) -> Iterator[tuple[Edit, ...]]:
    """The list without the words from the first to the last."""
    start, end = _with_quotes(file, first), _with_quotes(file, last)
    if _dash(file, start) is not None and _dash(file, end) is not None:
        stop = line_end(file, end.end)
        after = stop + (2 if file.text.startswith("\r\n", stop) else int(stop < len(file.text)))
        yield (Edit.replace(file, Span(line_start(file, start.start), after), ""),)
        return
    behind = re.match(r"\s*+,\s*+", file.text[end.end :])
    if behind:
        yield (Edit.replace(file, Span(start.start, end.end + behind.end()), ""),)
    before = file.text[: start.start].rstrip()
    if before.endswith(","):
        yield (Edit.replace(file, Span(len(before[:-1].rstrip()), end.end), ""),)


def _dash(file: SourceFile, where: Span) -> str | None:
    """`  - ` where the word is a list item that has its line to itself."""
    start = line_start(file, where.start)
    before = file.text[start : where.start]
    rest = file.text[where.end : line_end(file, where.end)].strip()
    return before if _ITEM.fullmatch(before) and (not rest or rest.startswith("#")) else None


def _with_quotes(file: SourceFile, word: Word) -> Span:
    span = word.location.span
    before, after = file.text[span.start - 1 : span.start], file.text[span.end : span.end + 1]
    quoted = before == after and before in ("'", '"')
    return Span(span.start - 1, span.end + 1) if quoted else span
