"""Simple commands and arrays as written: prefixes, words, redirections, comments, heredocs."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pitstop.rules.notes import comment_text, explains
from pitstop.rules.shell_lexer import Lexer, Literal, Mode, Opaque, RawWord
from pitstop.rules.shell_nesting import HeredocRange, heredocs
from pitstop.rules.shell_tree import parse

if TYPE_CHECKING:
    from tree_sitter import Node

DECLARATIONS = frozenset({"export", "declare", "typeset", "local", "readonly"})
MAX_ELEMENTS = 10_000
"""Words of one command or array; what lies beyond is left out and reported."""

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^\]\n]*\])?(\+?)=", re.ASCII)
_REDIRECT = re.compile(r"(\d*)(<<<|<<-|<<|<>|>>|>\||&>>|&>|>&|<&|<|>)")
_BLANKS = re.compile(r"(?:[ \t]|\r(?=\n))+")
_CONTINUATION = re.compile(r"\\\r?\n")
_SPOILED = re.compile(r"[ \t]*(?:(#[^\n\r]*)|\r?\n)")
_ARGUMENT = re.compile(
    r"""(?:[ \t]*(?:\#[^\n]*)?\r?\n){1,20}[ \t]*  # comments and empty lines, then one of:
    (?: --?[A-Za-z0-9]  # an option
    | [+~]{0,2}[\w-]+(?:\.[\w-]+)+=  # a setting such as optim.lr=1
    | "?\$\{?\w+(?:\[@\])?\}?"?[ \t]*(?:\\?\r?\n|\Z)  # a variable alone
    | "?\$\{\w+\[@\]\}  # an array
    | [\w/-]+\.(?:py|ya?ml|json)\b )  # a script or a configuration""",
    re.VERBOSE | re.ASCII,
)
"""What stands below a broken continuation and was meant for the command above it."""


@dataclass(frozen=True, slots=True)
class RawArray:
    """`( ... )` of an assignment; each element with the reason written beside or above it."""

    start: int
    end: int
    elements: tuple[tuple[RawWord, str | None], ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class RawAssignment:
    """`NAME=value`, `NAME+=value`, `NAME=( ... )`; `value` None for `export NAME`."""

    start: int
    end: int
    name: str
    append: bool = False
    value: RawWord | RawArray | None = None
    indexed: bool = False


@dataclass(frozen=True, slots=True)
class Redirect:
    """`operator` and its target, or a heredoc."""

    operator: str
    target: RawWord
    descriptor: str = ""
    heredoc: HeredocRange | None = None


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One simple command as written. `end` is where its last word ends, `comment` the comment
    behind it. `broken` are ranges that end it early inside a `\\` continuation."""

    start: int
    end: int
    assignments: tuple[RawAssignment, ...] = ()
    words: tuple[RawWord, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    comment: str | None = None
    broken: tuple[tuple[int, int], ...] = ()
    complete: bool = True

    @property
    def name(self) -> str | None:
        """The command's name when it is written literally."""
        return self.words[0].literal if self.words else None


class _Draft:
    """A simple command while it is read."""

    def __init__(self) -> None:
        self.assignments: list[RawAssignment] = []
        self.words: list[RawWord] = []
        self.redirects: list[Redirect] = []
        self.broken: list[tuple[int, int]] = []

    def takes_assignment(self) -> bool:
        if not self.words:
            return True
        return self.words[0].bare in DECLARATIONS

    @property
    def size(self) -> int:
        return len(self.words) + len(self.assignments)


class _Found:
    """What has been found in a text: its heredocs, its statements, and each command with the
    work it took."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.heredocs = heredocs(text)
        self.commands: dict[tuple[int, int], tuple[SimpleCommand, int]] = {}

    @functools.cached_property
    def root(self) -> Node:
        return parse(self.text, self.heredocs)


@functools.lru_cache(maxsize=100)
def _found_before(text: str) -> _Found:
    """Scripts that start each other, and proofs of edits, read the same texts many times."""
    return _Found(text)


class CommandReader:
    """Reads simple commands and arrays of one text."""

    def __init__(self, lexer: Lexer) -> None:
        self.lexer = lexer
        self.text = lexer.text
        self._found = _found_before(self.text) if len(self.text) < 32_768 else _Found(self.text)
        self.heredocs = self._found.heredocs
        self._by_operator = {h.start: h for h in self.heredocs}

    @property
    def root(self) -> Node:
        """The text as the grammar sees it."""
        return self._found.root

    def read(self, at: int, end: int) -> SimpleCommand:
        """The simple command that begins at `at`."""
        known = self._found.commands.get((at, end))
        if known is not None:
            self.lexer.spend(known[1])
            return known[0]
        before = self.lexer.work
        command = self._read(at, end)
        self._found.commands[at, end] = command, self.lexer.work - before
        return command

    def _read(self, at: int, end: int) -> SimpleCommand:
        start, last, draft, comment = at, at, _Draft(), None
        while at < end and draft.size < MAX_ELEMENTS:
            if blanks := _BLANKS.match(self.text, at, end):
                at = blanks.end()
            elif joint := _CONTINUATION.match(self.text, at, end):
                self._continue(at, joint.end(), draft)
                at = joint.end()
            elif self.text[at] == "#":
                comment = self._comment(at, end)
                break
            elif (redirect := _REDIRECT.match(self.text, at, end)) and not (
                self.lexer.placeholder(at, end)
            ):
                if self.text.startswith("(", redirect.end()) and redirect[2] in "<>":
                    at = last = self._word(at, end, draft)
                else:
                    at = last = self._redirect(redirect, end, draft)
            else:
                stop = self._item(at, end, draft)
                if stop <= at:
                    break
                at = last = stop
        return SimpleCommand(
            start,
            last,
            tuple(draft.assignments),
            tuple(draft.words),
            tuple(draft.redirects),
            comment,
            tuple(draft.broken),
            draft.size < MAX_ELEMENTS,
        )

    def _item(self, at: int, end: int, draft: _Draft) -> int:
        """An assignment or a word; `at` itself when an operator stands there."""
        found = _ASSIGNMENT.match(self.text, at, end)
        if found and draft.takes_assignment():
            assignment = self._assignment(found, end)
            draft.assignments.append(assignment)
            return assignment.end
        return self._word(at, end, draft)

    def _word(self, at: int, end: int, draft: _Draft) -> int:
        word = self.lexer.word(at, end)
        if word.end <= at or not word.parts:
            return at
        if draft.words and draft.words[0].bare in DECLARATIONS and _is_name(word.bare):
            draft.assignments.append(RawAssignment(at, word.end, word.bare or ""))
            return word.end
        if (tail := self._blank_tail(word)) is not None:
            draft.broken.append((tail, word.end))
        draft.words.append(word)
        return word.end

    def _blank_tail(self, word: RawWord) -> int | None:
        """Where `\\ ` at the end of a line begins: an escaped blank instead of a continuation."""
        last = word.parts[-1]
        if isinstance(last, Literal) and last.quoted and last.text in (" ", "\t"):
            slash = last.start - 1
            if self.text[slash] == "\\" and self.lexer.ends_line(word.end):
                return slash
        return None

    def _continue(self, at: int, after: int, draft: _Draft) -> None:
        """Note a continuation that leads into a comment or an empty line and so ends there,
        with arguments below."""
        spoiled = _SPOILED.match(self.text, after)
        if spoiled is None or not draft.words or not _ARGUMENT.match(self.text, after):
            return
        if spoiled[1]:
            draft.broken.append(spoiled.span(1))
        else:
            draft.broken.append((at, at + 1))

    def _comment(self, at: int, end: int) -> str:
        stop = self.text.find("\n", at, end)
        return self.text[at : stop if stop >= 0 else end]

    def _assignment(self, found: re.Match[str], end: int) -> RawAssignment:
        at = found.end()
        value: RawWord | RawArray
        value = self.array(at, end) if self.text.startswith("(", at) else self.lexer.word(at, end)
        return RawAssignment(
            found.start(), value.end, found[1], bool(found[3]), value, found[2] is not None
        )

    # --- arrays --------------------------------------------------------------------------

    def array(self, at: int, end: int) -> RawArray:
        """The array whose parenthesis opens at `at`; without a closing one it ends at `end`."""
        start, at = at, at + 1
        notes = _ArrayNotes()
        elements: list[RawWord] = []
        while at < end and len(elements) < MAX_ELEMENTS:
            char = self.text[at]
            if char == ")":
                return RawArray(start, at + 1, notes.attach(elements))
            if char in " \t\r":
                at += 1
            elif char == "\n":
                notes.newline()
                at += 1
            elif joint := _CONTINUATION.match(self.text, at, end):
                notes.newline()
                at = joint.end()
            elif char == "#":
                comment = self._comment(at, end)
                notes.comment(comment)
                at += len(comment)
            else:
                word = self.lexer.word(at, end)
                if word.end <= at:  # an operator, which the shell refuses here
                    at += 1
                    continue
                notes.element()
                elements.append(word)
                at = word.end
        return RawArray(start, at, notes.attach(elements), complete=False)

    # --- redirections and heredocs -------------------------------------------------------

    def _redirect(self, found: re.Match[str], end: int, draft: _Draft) -> int:
        heredoc = self._by_operator.get(found.start(2))
        if heredoc is not None:
            delimiter = RawWord(found.end(), heredoc.end, ())
            draft.redirects.append(Redirect("<<", delimiter, "", heredoc))
            return heredoc.end
        at = found.end()
        if blanks := _BLANKS.match(self.text, at, end):
            at = blanks.end()
        target = self.lexer.word(at, end)
        draft.redirects.append(Redirect(found[2], target, found[1]))
        return max(target.end, found.end())

    def heredoc_word(self, heredoc: HeredocRange) -> RawWord:
        """The body of a heredoc as one word, so that it can be expanded."""
        start, end = heredoc.body
        if heredoc.expands:
            return RawWord(start, end, self.lexer.parts(start, end, Mode.HEREDOC))
        return RawWord(start, end, (Literal(start, end, self.text[start:end], True),))


class _ArrayNotes:
    """Which comment explains which element: the one beside it, else the one above its group
    (up to an empty line or the next comment)."""

    def __init__(self) -> None:
        self._notes: list[str | None] = []
        self._block: list[str] = []
        self._above: str | None = None
        self._line_first = 0
        self._line_empty = False

    def newline(self) -> None:
        if self._line_empty:
            self._block, self._above = [], None
        self._line_first = len(self._notes)
        self._line_empty = True

    def comment(self, comment: str) -> None:
        if self._line_first == len(self._notes):  # a line of its own
            self._block.append(comment_text(comment))
            self._above = None
        elif explains(comment):
            for index in range(self._line_first, len(self._notes)):
                self._notes[index] = comment_text(comment)
        self._line_empty = False

    def element(self) -> None:
        if self._block:
            text = " ".join(self._block)
            self._above = text if explains(text) else None
            self._block = []
        self._notes.append(self._above)
        self._line_empty = False

    def attach(self, elements: list[RawWord]) -> tuple[tuple[RawWord, str | None], ...]:
        return tuple(zip(elements, self._notes, strict=True))


def _is_name(text: str | None) -> bool:
    return bool(text) and re.fullmatch(r"[A-Za-z_]\w*", text or "", re.ASCII) is not None


def unterminated(word: RawWord) -> bool:
    """True when a quote or an expansion in the word never ends."""
    return any(isinstance(p, Opaque) and p.why.endswith("without end") for p in word.parts)
