"""Where nested shell constructs end: quotes, `${}`, `$()`, `$(())` and heredocs in each other.

One pass with a stack of its own, so that nesting of any depth neither recurses nor hangs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

COMMAND, PARAMETER, ARITHMETIC, DOUBLE, BACKTICK = ")", "}", "))", '"', "`"
QUOTED_PARAMETER = '}"'
"""`${}` within double quotes, where a single quote is an ordinary character."""
_TOP, _GROUP, _CASE = "", "(", "esac"

_IN_COMMANDS = re.compile(r"[^\\'\"`$()#<\nec]+")
_PLAIN = {
    _TOP: _IN_COMMANDS,
    COMMAND: _IN_COMMANDS,
    _CASE: _IN_COMMANDS,
    PARAMETER: re.compile(r"[^\\'\"`$}]+"),
    QUOTED_PARAMETER: re.compile(r"[^\\\"`$}]+"),
    ARITHMETIC: re.compile(r"[^\\\"`$()]+"),
    _GROUP: re.compile(r"[^\\\"`$()]+"),
    DOUBLE: re.compile(r"[^\\\"`$]+"),
    BACKTICK: re.compile(r"[^\\`]+"),
}
_CASE_WORD = re.compile(
    r"(?<![\w./-])(?:(case)(?=[ \t][^\n]{1,200}?\sin\b)|esac(?![\w./=-]))", re.ASCII
)
_HEREDOC = re.compile(r"<<(-?)[ \t]*(\\?[\w.+-]+|'[^'\n]*'|\"[^\"\n]*\")")


@dataclass(frozen=True, slots=True)
class HeredocRange:
    """`<<EOF`: the range of operator and delimiter, of its body, and where the line after the
    closing delimiter begins. `expands` unless the delimiter is quoted."""

    start: int
    end: int
    body: tuple[int, int]
    after: int
    expands: bool


def closing(text: str, at: int, end: int, kind: str) -> int:
    """The offset after the token that closes what was opened just before `at`; -1 if none."""
    scanner = _Scanner(text, end, kind)
    stop = scanner.run(at)
    return stop if not scanner.stack and stop <= end else -1


def heredocs(text: str) -> tuple[HeredocRange, ...]:
    """Every heredoc of a text, also those inside `$()`, in the order of their bodies."""
    if "<<" not in text:
        return ()
    scanner = _Scanner(text, len(text), _TOP)
    scanner.run(0)
    return tuple(scanner.heredocs)


class _Scanner:
    """Walks over a text and keeps a stack of what is open."""

    def __init__(self, text: str, end: int, kind: str) -> None:
        self.text = text
        self.end = end
        self.stack = [kind]
        self.heredocs: list[HeredocRange] = []
        self._pending: list[re.Match[str]] = []

    def run(self, at: int) -> int:
        while at < self.end and self.stack:
            top = self.stack[-1]
            if run := _PLAIN[top].match(self.text, at, self.end):
                at = run.end()
            elif self.text[at] == "\\":
                at += 2
            else:
                at = _STEPS[top](self, at)
        return at

    def opener(self, at: int) -> int:
        """Step over `$...` or a backtick at `at`, entering what it opens."""
        if self.text[at] == "`":
            self.stack.append(BACKTICK)
            return at + 1
        if self.text.startswith("${", at):
            quoted = self.stack[-1] in (DOUBLE, QUOTED_PARAMETER)
            self.stack.append(QUOTED_PARAMETER if quoted else PARAMETER)
            return at + 2
        for opening, kind in (("$((", ARITHMETIC), ("$(", COMMAND)):
            if self.text.startswith(opening, at):
                self.stack.append(kind)
                return at + len(opening)
        return at + 1

    def in_commands(self, at: int) -> int:
        char = self.text[at]
        if char == "'":
            return self.after_single(at)
        if char == '"':
            self.stack.append(DOUBLE)
            return at + 1
        if char in "$`":
            return self.opener(at)
        if char == "(":
            double = self.text.startswith("((", at)
            self.stack.append(ARITHMETIC if double else COMMAND)
            return at + (2 if double else 1)
        if char == ")":
            if self.stack[-1] == COMMAND:
                self.stack.pop()
            return at + 1
        if char == "#" and (at == 0 or self.text[at - 1] in " \t\n\r;&|("):
            line_end = self.text.find("\n", at, self.end)
            return line_end if line_end >= 0 else self.end
        if char == "<":
            return self._operator(at)
        return self._newline(at) if char == "\n" else self._keyword(at)

    def _keyword(self, at: int) -> int:
        """`case` and `esac`: between them a lone `)` ends a pattern."""
        found = _CASE_WORD.match(self.text, at)
        if found is None:
            return at + 1
        if found[1]:
            self.stack.append(_CASE)
        elif self.stack[-1] == _CASE:
            self.stack.pop()
        return found.end()

    def _operator(self, at: int) -> int:
        if self.text.startswith("<<<", at):
            return at + 3
        found = _HEREDOC.match(self.text, at)
        if found is None:
            return at + 1
        self._pending.append(found)
        return found.end()

    def _newline(self, at: int) -> int:
        at += 1
        for found in self._pending:
            delimiter = re.sub(r"[\\'\"]", "", found[2])
            stop, after = body_end(self.text, at, self.end, delimiter, bool(found[1]))
            expands = delimiter == found[2]
            span = (found.start(), found.end())
            self.heredocs.append(HeredocRange(*span, (at, stop), after, expands))
            at = after
        self._pending.clear()
        return at

    def after_single(self, at: int) -> int:
        found = self.text.find("'", at + 1, self.end)
        return found + 1 if found >= 0 else self.end + 1

    def in_parameter(self, at: int) -> int:
        char = self.text[at]
        if char == "}":
            self.stack.pop()
            return at + 1
        if char == "'":
            return self.after_single(at)
        if char == '"':
            self.stack.append(DOUBLE)
            return at + 1
        return self.opener(at)

    def in_arithmetic(self, at: int) -> int:
        char = self.text[at]
        if char == "(":
            self.stack.append(_GROUP)
            return at + 1
        if char == ")":
            double = self.stack.pop() == ARITHMETIC and self.text.startswith("))", at)
            return at + (2 if double else 1)
        return at + 1 if char == '"' else self.opener(at)

    def in_double(self, at: int) -> int:
        if self.text[at] == '"':
            self.stack.pop()
            return at + 1
        return self.opener(at)

    def in_backtick(self, at: int) -> int:
        self.stack.pop()
        return at + 1


_STEPS: dict[str, Callable[[_Scanner, int], int]] = {
    _TOP: _Scanner.in_commands,
    COMMAND: _Scanner.in_commands,
    _CASE: _Scanner.in_commands,
    PARAMETER: _Scanner.in_parameter,
    QUOTED_PARAMETER: _Scanner.in_parameter,
    ARITHMETIC: _Scanner.in_arithmetic,
    _GROUP: _Scanner.in_arithmetic,
    DOUBLE: _Scanner.in_double,
    BACKTICK: _Scanner.in_backtick,
}


def body_end(text: str, at: int, end: int, delimiter: str, tabs: bool) -> tuple[int, int]:
    """Where a heredoc's body ends, and where the line after its delimiter begins.

    Without a delimiter the body is everything up to `end`, as in the shell.
    """
    while at < end:
        line_end = text.find("\n", at, end)
        stop = line_end if line_end >= 0 else end
        line = text[at:stop].rstrip("\r")
        if (line.lstrip("\t") if tabs else line) == delimiter:
            return at, min(stop + 1, end)
        at = stop + 1
    return end, end
