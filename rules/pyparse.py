"""Python text to a syntax tree, whatever the text is, and ast's positions to ours."""

from __future__ import annotations

import ast
import bisect
import itertools
import re
import warnings
from array import array

from pitstop.rules.tree import SourceFile, UnreadableError

_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_ONE_BYTE = frozenset({"latin-1", "latin1", "iso-8859-1", "iso-latin-1", "cp1252", "ascii"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_PYTHON_2 = re.compile(r"^\s*(?:print\s+[^(=\s]|exec\s+['\"\w]|raise\s+\w+\s*,)", re.MULTILINE)


class Offsets:
    """Character offsets of (line from 1, column in UTF-8 bytes from 0), as ast counts them."""

    def __init__(self, file: SourceFile, text: str) -> None:
        self._starts = file.line_starts
        self._text = text
        self._ascii = text.isascii()
        self._bom = text.startswith("\ufeff")
        self._columns: dict[int, array[int] | None] = {}

    def offset(self, line: int, column: int) -> int:
        """The offset in the file's text."""
        start = self._starts[line - 1] + (self._bom and line == 1)
        if self._ascii or not column:
            return start + column
        if line not in self._columns:
            self._columns[line] = self._widths(line, start)
        widths = self._columns[line]
        return start + (column if widths is None else bisect.bisect_left(widths, column))

    def _widths(self, line: int, start: int) -> array[int] | None:
        """The byte column at which each character of a line begins; None when all are ASCII."""
        end = self._starts[line] if line < len(self._starts) else len(self._text)
        content = self._text[start:end]
        if content.isascii():
            return None
        sizes = (len(c.encode("utf-8", "replace")) for c in content)
        return array("L", itertools.accumulate(sizes, initial=0))


def parse(file: SourceFile) -> tuple[ast.Module, Offsets]:
    """The tree of a file and how to place its nodes.

    Raises UnreadableError("line 7: ...") for what the running Python cannot parse, and for
    nesting that would exhaust it.
    """
    text = _decoded(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.removeprefix("\ufeff"))
    except SyntaxError as error:
        raise UnreadableError(_reason(error, text)) from error
    except (RecursionError, MemoryError) as error:
        raise UnreadableError("line 1: nested too deeply to parse") from error
    except ValueError as error:
        raise UnreadableError(f"line 1: {error}") from error
    return tree, Offsets(file, text)


def _decoded(file: SourceFile) -> str:
    """The text with bytes that are not UTF-8 read as the coding cookie says, one character
    each, so that offsets stay."""
    text = file.text
    found = _SURROGATE.search(text)
    if not found:
        return text
    cookies = (_COOKIE.match(file.line_text(number)) for number in (1, 2))
    cookie = next((m.group(1).lower().replace("_", "-") for m in cookies if m), "utf-8")
    if cookie not in _ONE_BYTE:
        line = file.position(found.start())[0]
        raise UnreadableError(f"line {line}: a character that is not {cookie}")
    return _SURROGATE.sub(lambda m: chr(ord(m.group()) & 0xFF), text)


def _reason(error: SyntaxError, text: str) -> str:
    line = max(1, error.lineno or 1)
    if _PYTHON_2.search(text) and "print" in (error.msg or "") + (error.text or ""):
        return f"line {line}: Python 2"
    return f"line {line}: {error.msg or 'not Python'}"
