"""Conditions: their text, what they ask of a variable, and whether the script alone decides them.

A test is decided only by values that nobody can change from outside: `${MODE:-a}` and `$1` leave
both ways open.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pitstop.rules.shell_commands import CommandReader
from pitstop.rules.shell_expand import Expander
from pitstop.rules.shell_lexer import Literal, Parameter, RawWord
from pitstop.rules.shell_text import ShellText
from pitstop.rules.shell_tree import flattened
from pitstop.rules.shell_values import Field, Scope, known, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_BRACKETS = frozenset({"[", "[[", "test"})
_LEAVING = re.compile(r"(?:exit|return|break|continue)\b")
_MAX_CONDITION = 160
_NUMBER = re.compile(r"-?\d{1,15}", re.ASCII)
_NUMERIC: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Way:
    """One way through a condition: its text, what runs, whether it is (not) taken when the
    script alone decides. `empty` and `filled` name a variable found to be so; `rest` is the
    way that takes everything else."""

    condition: str
    truth: bool | None = None
    empty: str | None = None
    filled: str | None = None
    rest: bool = False
    body: Sequence[Node] = field(default=())

    def opposite(self) -> Way:
        """The way taken when this one is not; nothing runs in it yet."""
        truth = None if self.truth is None else not self.truth
        return Way(negated(self.condition), truth, self.filled, self.empty, True)


def negated(condition: str) -> str:
    """The opposite of a condition, as text."""
    return condition[3:-1] if condition.startswith("! (") else f"! ({condition})"


def none_of(ways: Sequence[Way]) -> Way:
    """The else after several tests."""
    return Way(negated(" || ".join(w.condition for w in ways)), rest=True)


def possible_ways(ways: Sequence[Way]) -> Iterator[bool]:
    """For each way whether it may be the one taken; one at least is."""
    settled = False
    flags: list[bool] = []
    for way in ways:
        flags.append(not settled and way.truth is not False)
        settled = settled or (way.truth is True)
    yield from flags if any(flags) else [True] * len(flags)


class Tests:
    """The conditions of one text."""

    def __init__(
        self, text: ShellText, reader: CommandReader, expander: Callable[[Scope], Expander]
    ) -> None:
        self.text = text
        self.reader = reader
        self.expander = expander

    def source(self, nodes: Sequence[Node]) -> str:
        """The text of some nodes on one line."""
        if not nodes:
            return ""
        text = self.text.text[nodes[0].start_byte : nodes[-1].end_byte]
        text = re.sub(r"\s*\\?\s+", " ", text).strip(" ;")
        return text if len(text) <= _MAX_CONDITION else text[:_MAX_CONDITION] + "..."

    def is_test(self, node: Node) -> bool:
        """True for `[ ]`, `[[ ]]`, `test ...` and their negation."""
        if node.type == "command":
            return self.text.text.startswith("test ", node.start_byte)
        return node.type in ("test_command", "negated_command")

    def leaves(self, node: Node) -> bool:
        """True for a statement after which nothing below is reached."""
        return _LEAVING.match(self.text.text, node.start_byte) is not None

    def way(self, nodes: Sequence[Node], scope: Scope) -> Way:
        """The way taken when a condition holds."""
        named = [n for n in nodes if n.is_named and n.type != "comment"]
        words = self._words(named[0]) if len(named) == 1 else ()
        truth = self._truth(named[0], scope, 0) if len(named) == 1 else None
        empty, filled = tested_variable(words)
        return Way(self.source(nodes), truth, empty, filled)

    def case_way(self, subject: Sequence[Node], pattern: Sequence[Node], scope: Scope) -> Way:
        """The way taken when a value matches a pattern of `case`."""
        shown = self.source(pattern)
        condition = f"{self.source(subject)} is {shown}"
        if shown == "*":
            return Way(condition, True, rest=True)
        named = [n for n in subject if n.is_named]
        if len(named) != 1 or re.search(r"[*?\[\]$\\]", shown):
            return Way(condition)
        value = self._value(self.reader.lexer.word(named[0].start_byte, named[0].end_byte), scope)
        choices = [p.strip().strip("\"'") for p in shown.lstrip("(").split("|")]
        return Way(condition, None if value is None else value in choices)

    def case_rest(self, subject: Sequence[Node]) -> Way:
        """The way taken when no pattern matches."""
        return Way(f"{self.source(subject)} is anything else", rest=True)

    # --- deciding ------------------------------------------------------------------------

    def _words(self, node: Node) -> Sequence[RawWord]:
        """The words inside a test's brackets; none when it holds anything else than words."""
        simple = self.reader.read(node.start_byte, node.end_byte)
        if simple.name not in _BRACKETS or simple.redirects:
            return ()
        if self.text.text[simple.end : node.end_byte].strip():
            return ()
        return [w for w in simple.words[1:] if w.bare not in ("]", "]]")]

    def _truth(self, node: Node, scope: Scope, depth: int) -> bool | None:
        if depth > 5:
            return None
        if node.type == "negated_command":
            inner = self._truth(node.children[-1], scope, depth + 1)
            return None if inner is None else not inner
        if node.type == "list":
            return self._combined(node, scope, depth)
        if node.type == "command" and not self.is_test(node):
            return {"true": True, ":": True, "false": False}.get(self.source([node]))
        words = self._words(node)
        return self._decided(words, scope) if words else None

    def _combined(self, node: Node, scope: Scope, depth: int) -> bool | None:
        result: bool | None = None
        for joint, item in flattened(node):
            value = self._truth(item, scope, depth + 1)
            if joint == "":
                result = value
            elif joint == "&&":
                result = False if False in (result, value) else (result and value)
            elif joint == "||":
                result = True if True in (result, value) else (result or value)
            else:
                return None
        return result

    def _value(self, word: RawWord, scope: Scope) -> str | None:
        """A word's text when the script alone decides it."""
        fields = self.expander(scope).fields(word)
        if len(fields) != 1:
            return "" if not fields and word.bare is None else None
        return text_of(fields[0]) if _fixed(fields[0]) else None

    def _decided(self, words: Sequence[RawWord], scope: Scope) -> bool | None:
        if words[0].bare == "!":
            inner = self._decided(words[1:], scope) if len(words) > 1 else None
            return None if inner is None else not inner
        if len(words) == 1:
            value = self._value(words[0], scope)
            return None if value is None else value != ""
        if len(words) == 2 and words[0].bare in ("-z", "-n"):
            value = self._value(words[1], scope)
            return None if value is None else (value == "") == (words[0].bare == "-z")
        if len(words) != 3 or words[1].bare is None:
            return None
        left, right = self._value(words[0], scope), self._value(words[2], scope)
        if left is None or right is None or re.search(r"[*?\[]", words[2].bare or ""):
            return None
        return _compared(left, words[1].bare, right)


def _fixed(value: Field) -> bool:
    return known(value) and not any(f.default for f in value)


def _compared(left: str, sign: str, right: str) -> bool | None:
    if sign in ("=", "=="):
        return left == right
    if sign == "!=":
        return left != right
    numeric = _NUMERIC.get(sign)
    if numeric and _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right):
        return numeric(int(left), int(right))
    return None


def tested_variable(words: Sequence[RawWord]) -> tuple[str | None, str | None]:
    """The variable that a test finds empty (`-z "$X"`, `"$X" = ""`), or finds not to be."""
    texts = [w.literal for w in words]
    if len(words) == 1:
        return None, _only_parameter(words[0])
    if len(words) == 2 and texts[0] in ("-z", "-n"):
        name = _only_parameter(words[1])
        return (name, None) if texts[0] == "-z" else (None, name)
    if len(words) == 3 and texts[2] == "" and texts[1] in ("=", "==", "!="):
        name = _only_parameter(words[0])
        return (None, name) if texts[1] == "!=" else (name, None)
    return None, None


def _only_parameter(word: RawWord) -> str | None:
    """NAME of a word that is `$NAME`, `${NAME}`, `${NAME:-}` or `${NAME+x}`, quoted or not."""
    parts = [p for p in word.parts if not (isinstance(p, Literal) and not p.text)]
    if len(parts) != 1 or not isinstance(parts[0], Parameter) or parts[0].index:
        return None
    return parts[0].name if parts[0].operator in ("", ":-", "-", "+", ":+") else None
