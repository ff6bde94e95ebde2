"""Words of shell text, cut into literal characters and expansions, each with its offsets.

Structure (if, for, functions ...) is the business of the grammar; this reads one word, one
simple command or one array, also in places where no grammar is at hand: the text of `eval`, a
default inside `${}`, the body of a heredoc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from pitstop.rules.shell_nesting import (
    ARITHMETIC,
    BACKTICK,
    COMMAND,
    DOUBLE,
    PARAMETER,
    QUOTED_PARAMETER,
    closing,
)

MAX_WORK = 5_000_000
"""Work for one script: characters looked at (nested text more than once), words and values."""
WORD = 30
"""What a word costs, in characters."""


class ExhaustedError(Exception):
    """A limit was reached; the message says which."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Characters that stand for themselves; `exact` when the source has them just so."""

    start: int
    end: int
    text: str
    quoted: bool = False
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$NAME` or `${NAME[index] operator argument}`; operator "length" for `${#NAME}`."""

    start: int
    end: int
    name: str
    quoted: bool = False
    index: str | None = None
    operator: str = ""
    argument: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`$((...))`; `inner` is the range of the expression."""

    start: int
    end: int
    inner: tuple[int, int]
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(...)`, backticks, or `<(...)` (`process`); `inner` is the range of the commands."""

    start: int
    end: int
    inner: tuple[int, int]
    quoted: bool = False
    process: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """What is not resolved whatever the variables hold; `why` is for the reader."""

    start: int
    end: int
    why: str
    quoted: bool = False


Part = Literal | Parameter | Arithmetic | Substitution | Opaque


@dataclass(frozen=True, slots=True)
class RawWord:
    """A word as written, before expansion."""

    start: int
    end: int
    parts: tuple[Part, ...]

    @property
    def literal(self) -> str | None:
        """Its text when nothing in it needs expansion."""
        if all(isinstance(p, Literal) for p in self.parts):
            return "".join(p.text for p in self.parts if isinstance(p, Literal))
        return None

    @property
    def bare(self) -> str | None:
        """Its text when it is also free of quotes: the only way to write a reserved word."""
        if any(isinstance(p, Literal) and p.quoted for p in self.parts):
            return None
        return self.literal


class Mode(Enum):
    """In which surroundings a stretch of text is read: what its ordinary characters are, and
    whether they are quoted."""

    BARE = re.compile(r"[^ \t\r\n;&|<>()\\'\"$`]+"), False
    VALUE = re.compile(r"[^\\'\"$`]+"), False
    QUOTED = re.compile(r"[^\\\"$`]+"), True
    HEREDOC = re.compile(r"[^\\$`]+"), True

    def __init__(self, ordinary: re.Pattern[str], quoted: bool) -> None:
        self.ordinary = ordinary.match
        self.quoted = quoted


_NAME = r"[A-Za-z_]\w*|\d+|[@*#?$!-]"
_SIMPLE = re.compile(r"\$([A-Za-z_]\w*|\d|[@*#?$!-])")
_JOINED = re.compile(r"(?:\\\r?\n)+\w")
_BRACED = re.compile(
    rf"(?P<mark>[!#]?)(?P<name>{_NAME})(?:\[(?P<index>[^\]]*)\])?"
    r"(?P<op>:-|:=|:\?|:\+|##|%%|//|/#|/%|\^\^|,,|[-=?+#%/^,@:]|)",
    re.ASCII,
)
_BRACES = re.compile(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}")
_TEMPLATE = re.compile(r"\$\{\{.{0,500}?\}\}", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
PLACEHOLDER = re.compile(
    r"<(?=[^<>\n]* |your|path|my|some|model|data|output|dir)[A-Za-z][\w ./:,-]*[\w.]>"
)
"""`<path to model>`, which examples leave for the reader to fill in."""
_BLANK_TAIL = re.compile(r"[ \t]*(?:\r?\n|\Z)")


class Lexer:
    """Reads one text; counts what it has looked at and raises ExhaustedError past MAX_WORK."""

    def __init__(self, text: str, *, work: int = 0) -> None:
        self.text = text
        self.work = work

    def spend(self, amount: int) -> None:
        """Count work done."""
        self.work += amount
        if self.work > MAX_WORK:
            raise ExhaustedError("it is too much text, or grows to too much")

    def word(self, at: int, end: int) -> RawWord:
        """The word at `at`; empty when an operator or a blank stands there."""
        self.spend(WORD)
        parts, stop = self._parts(at, end, Mode.BARE)
        bare = "".join(p.text for p in parts if isinstance(p, Literal) and not p.quoted)
        if "{" in bare and _BRACES.search(bare):
            return RawWord(at, stop, (Opaque(at, stop, "brace expansion"),))
        return RawWord(at, stop, tuple(parts))

    def parts(self, at: int, end: int, mode: Mode) -> tuple[Part, ...]:
        """All parts of a range, for a default inside `${}` or the body of a heredoc."""
        return tuple(self._parts(at, end, mode)[0])

    def _parts(self, at: int, end: int, mode: Mode) -> tuple[list[Part], int]:
        parts: list[Part] = []
        begin, ordinary = at, mode.ordinary
        while at < end:
            run = ordinary(self.text, at, end)
            if run:
                stop = run.end()
                parts.append(Literal(at, stop, run[0], mode.quoted))
                at = stop
                continue
            step = self._special(at, end, mode, parts)
            if step is None:
                break
            at = step
        self.spend(at - begin + WORD * len(parts))
        return parts, min(at, end)

    def _special(self, at: int, end: int, mode: Mode, parts: list[Part]) -> int | None:
        """Read what starts with a special character; None where a bare word ends."""
        char = self.text[at]
        quoted = mode.quoted
        if char == "\\":
            return self._backslash(at, end, mode, parts)
        if char in "$`":
            return self._dollar(at, end, quoted, parts)
        if char == "'":
            return self._single(at, end, parts)
        if char == '"':
            return at + 1 if mode is Mode.QUOTED else self._double(at, end, parts)
        if char in "<>" and self.text.startswith("(", at + 1) and not parts:
            stop = self._close(at + 2, end, COMMAND)
            parts.append(Substitution(at, stop, (at + 2, stop - 1), process=True))
            return stop
        if found := self.placeholder(at, end):
            parts.append(Opaque(at, found.end(), "left for the reader to fill in"))
            return found.end()
        return None

    def placeholder(self, at: int, end: int) -> re.Match[str] | None:
        """A placeholder in angle brackets at `at`, which is no redirection."""
        if self.text[at] != "<":
            return None
        found = PLACEHOLDER.match(self.text, at, end)
        return found if found and self.text[found.end() : found.end() + 1].strip() == "" else None

    def _backslash(self, at: int, end: int, mode: Mode, parts: list[Part]) -> int:
        text = self.text
        if text.startswith("\\\n", at):
            return at + 2
        if text.startswith("\\\r\n", at):
            return at + 3
        if at + 1 >= end:
            return end
        follower = text[at + 1]
        special = '$`"\\' if mode is Mode.QUOTED else "$`\\"
        if mode.quoted and follower not in special:
            parts.append(Literal(at, at + 2, text[at : at + 2], True))
        else:
            parts.append(Literal(at + 1, at + 2, follower, True))
        return at + 2

    def _single(self, at: int, end: int, parts: list[Part]) -> int:
        stop = self.text.find("'", at + 1, end)
        if stop < 0:
            parts.append(Opaque(at, end, "quote without end"))
            return end
        parts.append(Literal(at + 1, stop, self.text[at + 1 : stop], True))
        return stop + 1

    def _double(self, at: int, end: int, parts: list[Part]) -> int:
        stop = closing(self.text, at + 1, end, DOUBLE)
        if stop < 0:
            self.spend(end - at)
            parts.append(Opaque(at, end, "quote without end"))
            return end
        inner, _ = self._parts(at + 1, stop - 1, Mode.QUOTED)
        parts += inner or [Literal(at + 1, stop - 1, "", True, stop == at + 2)]
        return stop

    def _close(self, at: int, end: int, kind: str) -> int:
        """Like `closing`, but `end` when nothing closes."""
        stop = closing(self.text, at, end, kind)
        self.spend((stop if stop >= 0 else end) - at)
        return stop if stop >= 0 else end

    def _dollar(self, at: int, end: int, quoted: bool, parts: list[Part]) -> int:
        text = self.text
        if text[at] == "`":
            return self._backtick(at, end, quoted, parts)
        if text.startswith("${{", at) and (template := _TEMPLATE.match(text, at, end)):
            parts.append(Opaque(at, template.end(), "template expression", quoted))
            return template.end()
        if text.startswith("${", at):
            return self._braced(at, end, quoted, parts)
        if text.startswith("$((", at):
            stop = closing(text, at + 3, end, ARITHMETIC)
            self.spend((stop if stop >= 0 else end) - at)
            if stop >= 0 and text.startswith("))", stop - 2):
                parts.append(Arithmetic(at, stop, (at + 3, stop - 2), quoted))
                return stop
        if text.startswith("$(", at):
            stop = self._close(at + 2, end, COMMAND)
            parts.append(Substitution(at, stop, (at + 2, stop - 1), quoted))
            return stop
        if simple := _SIMPLE.match(text, at, end):
            after = simple.end()
            if _JOINED.match(text, after, end):
                parts.append(Opaque(at, after, "a name that goes on below", quoted))
            else:
                parts.append(Parameter(at, after, simple[1], quoted))
            return after
        return self._dollar_quote(at, end, quoted, parts)

    def _dollar_quote(self, at: int, end: int, quoted: bool, parts: list[Part]) -> int:
        """`$'...'` with its escapes, `$"..."`, or a lone dollar."""
        text = self.text
        if not quoted and text.startswith("$'", at):
            found = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL).match(text, at, end)
            if found is None:
                parts.append(Opaque(at, end, "quote without end"))
                return end
            plain = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), found[1], flags=re.DOTALL)
            exact = "\\" not in found[1]
            parts.append(Literal(found.start(1), found.end(1), plain, True, exact))
            return found.end()
        if not quoted and text.startswith('$"', at):
            return at + 1
        parts.append(Literal(at, at + 1, "$", quoted))
        return at + 1

    def _backtick(self, at: int, end: int, quoted: bool, parts: list[Part]) -> int:
        stop = self._close(at + 1, end, BACKTICK)
        if "\\" in self.text[at:stop]:
            parts.append(Opaque(at, stop, "command substitution", quoted))
        else:
            parts.append(Substitution(at, stop, (at + 1, stop - 1), quoted))
        return stop

    def _braced(self, at: int, end: int, quoted: bool, parts: list[Part]) -> int:
        stop = closing(self.text, at + 2, end, QUOTED_PARAMETER if quoted else PARAMETER)
        self.spend((stop if stop >= 0 else end) - at)
        if stop < 0:
            parts.append(Opaque(at, end, "`${` without end", quoted))
            return end
        parts.append(self._parameter(at, stop, quoted))
        return stop

    def _parameter(self, at: int, stop: int, quoted: bool) -> Part:
        found = _BRACED.match(self.text, at + 2, stop - 1)
        if found is None or found["mark"] == "!":
            return Opaque(at, stop, "indirect or unusual expansion", quoted)
        argument = (found.end(), stop - 1)
        operator = found["op"]
        if not operator and argument[0] < argument[1]:
            return Opaque(at, stop, "unusual expansion", quoted)
        if found["mark"] == "#":
            operator = "length"
        return Parameter(at, stop, found["name"], quoted, found["index"], operator, argument)

    def ends_line(self, at: int) -> bool:
        """True when only blanks stand between `at` and the end of its line."""
        return _BLANK_TAIL.match(self.text, at) is not None
