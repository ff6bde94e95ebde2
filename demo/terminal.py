"""Prints a review to a terminal: colours only where somebody sees them."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from demo.markdown import without_comments
from demo.shapes import Json

STYLES = {
    "plain": "0",
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}
TAG = re.compile(r"</?(details|summary|sub|sup|br|b|i|kbd)\b[^>]*>")
FENCE = re.compile(r"^\s*(`{3,})(\w*)")


class Terminal:
    """A place to print to."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._coloured = out.isatty() and "NO_COLOR" not in os.environ
        self._width = min(shutil.get_terminal_size((110, 40)).columns, 120)

    def line(self, text: str = "") -> None:
        """One line."""
        print(text, file=self._out, flush=True)

    def step(self, text: str, seconds: float | None = None) -> None:
        """Something that was done, with how long it took."""
        took = "" if seconds is None else self._styled(f"  {seconds:.1f} s", "dim")
        self.line(f"{self._styled('==>', 'cyan')} {text}{took}")

    def heading(self, text: str) -> None:
        """A heading with a rule."""
        self.line()
        self.line(self._styled(f"── {text} ".ljust(self._width, "─"), "bold"))

    def place(self, title: str, where: str | Path) -> None:
        """A place to look at: an address, or a file as one."""
        shown = where.resolve().as_uri() if isinstance(where, Path) else where
        self.line(f"  {title + ':':26}{self._styled(shown, 'cyan')}")

    def failure(self, log: str) -> None:
        """The end of a log, when no review appeared."""
        self.heading("No review appeared. The action printed")
        self.line("\n".join(log.splitlines()[-40:]) or "nothing")

    def review(
        self, talk: Iterable[Json], comments: Iterable[Json], checks: Iterable[Json]
    ) -> None:
        """The summary, each comment under its place with the suggestion, and the checks."""
        for comment in talk:
            self.heading(f"Summary by {comment['user']['login']}")
            self.markdown(comment["body"])
        for comment in comments:
            self.heading(_place(comment))
            self._code(comment["diff_hunk"].split("\n")[1:][-3:])
            self.line()
            self.markdown(comment["body"])
        for check in checks:
            self.heading(f"Check {check['name']}: {check['conclusion'] or check['status']}")
            annotations = f"{len(check['annotations'])} annotations"
            self.line(f"  {check['output']['title'] or ''} ({annotations})")

    def markdown(self, text: str) -> None:
        """Markdown as it reads: markers and tags gone, code and suggestions in colour."""
        word: str | None = None
        marks = ""
        rows: list[list[str]] = []
        for line in [*without_comments(text).strip().splitlines(), ""]:
            if word is None and line.lstrip().startswith("|"):
                if not re.fullmatch(r"[\s|:-]+", line):
                    rows.append([_plain(cell) for cell in _cells(line)])
                continue
            self._table(rows)
            rows = []
            fence = FENCE.match(line)
            if word is None and fence:
                marks, word = fence[1], fence[2]
                if word == "mermaid":
                    self.line(self._styled("    (a figure, on the page)", "dim"))
                if word == "suggestion":
                    self.line(self._styled("    Suggested change:", "dim"))
            elif word is not None and line.strip() == marks:
                word = None
            elif word == "mermaid":
                continue
            elif word is not None:
                self._code([f"+{line}" if word == "suggestion" else line])
            else:
                self._prose(TAG.sub("", line))

    def _prose(self, line: str) -> None:
        if not line.strip():
            self.line()
            return
        heading = re.match(r"#{1,6} (.*)", line)
        text = self._styled(_plain(heading[1]), "bold") if heading else _plain(line)
        indent = "  " + " " * (len(line) - len(line.lstrip()))
        wrapped = textwrap.wrap(text, self._width - 2, break_long_words=False)
        for piece in wrapped or [""]:
            self.line(indent + piece)

    def _table(self, rows: list[list[str]]) -> None:
        """Columns side by side; a first cell that only repeats the one above is left out."""
        if not rows:
            return
        columns = range(max(len(row) for row in rows))
        wanted = [max((len(row[n]) for row in rows if n < len(row)), default=0) for n in columns]
        widths = column_widths(wanted, self._width - 2 - 2 * len(wanted))
        above = ""
        for number, row in enumerate(rows):
            shown = ["" if row[0] == above else row[0], *row[1:]]
            above = row[0]
            pairs = list(zip(shown, widths, strict=False))
            cells = [textwrap.wrap(cell, width) or [""] for cell, width in pairs]
            for at in range(max(len(cell) for cell in cells)):
                words = [cell[at] if at < len(cell) else "" for cell in cells]
                text = "  ".join(word.ljust(w) for word, w in zip(words, widths, strict=False))
                self.line("  " + self._styled(text.rstrip(), "bold" if number == 0 else "plain"))

    def _code(self, lines: Iterable[str]) -> None:
        styles = {"+": "green", "-": "red"}
        for line in lines:
            self.line("    " + self._styled(line, styles.get(line[:1], "dim")))

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self._coloured else text


def _place(comment: Json) -> str:
    path: Any = comment["path"]
    if comment["line"] is None:
        return str(path)
    start = f"{comment['start_line']}-" if comment["start_line"] else ""
    return f"{path}:{start}{comment['line']}"


def _cells(line: str) -> list[str]:
    return re.split(r"(?<!\\)\|", line.strip().strip("|"))


def column_widths(wanted: list[int], total: int) -> list[int]:
    """As much as each column wants, while the widest share what is left."""
    widths = dict.fromkeys(range(len(wanted)), 1)
    left = max(total, len(wanted))
    waiting = sorted(widths, key=lambda column: wanted[column])
    while waiting:
        column = waiting.pop(0)
        widths[column] = max(1, min(wanted[column], left // (len(waiting) + 1)))
        left -= widths[column]
    return list(widths.values())


def _plain(text: str) -> str:
    """Without the marks of emphasis, code and links."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\*\*|`|~~|&\w+;|(?<![\w\\])\*(?=\S)|(?<=[^\s\\])\*(?!\w)", "", text)
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text).strip()
