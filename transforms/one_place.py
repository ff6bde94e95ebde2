"""Whether two patches that insert at one place may stand there one behind the other."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from pitstop.rules.configs import kind_of, read_config
from pitstop.rules.tree import SourceFile, UnreadableError

_SEPARATES = (" ", "\t", "\n", "\r", ",")


def apart(first: str, second: str) -> bool:
    """Whether two inserted texts stay two words when the second follows the first."""
    return second.startswith(_SEPARATES) or first.endswith(_SEPARATES)


def understood(file: SourceFile, texts: Iterable[str], together: str) -> bool:
    """Whether a file is still read with several changes, and says all that each of `texts`, the
    file with one of them, says; a kind of file that has no reader here is taken as it is."""
    if file.path.endswith(".py"):
        return _parses(together)
    if kind_of(file.path) is None:
        return True
    try:
        before, after = (_said(SourceFile(file.path, t)) for t in (file.text, together))
        added = [_said(SourceFile(file.path, text)) - before for text in texts]
    except UnreadableError:
        return False
    return after - before == set().union(*added) and sum(map(len, added)) == len(after - before)


def _parses(text: str) -> bool:
    try:
        ast.parse(text.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _said(file: SourceFile) -> set[tuple[int, tuple[str | int, ...], str]]:
    entries = read_config(file).entries
    return {(entry.document, entry.path, entry.raw) for entry in entries}
