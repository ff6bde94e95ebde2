"""The grammar's view of a text: which statements there are. Words are read by `shell_lexer`.

The text given to the grammar has the same length as the original, so that its offsets are ours.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pitstop.rules.shell_nesting import HeredocRange

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_BLANKED = re.compile(r"[^\n]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_TEMPLATE = re.compile(r"\$?\{\{.{0,500}?\}\}", re.DOTALL)
_OPEN_END = re.compile(r"\\\s*\Z")

SIMPLE = frozenset(
    {
        "command",
        "declaration_command",
        "unset_command",
        "variable_assignment",
        "variable_assignments",
    }
)


@functools.cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(text: str, heredocs: Sequence[HeredocRange]) -> Node:
    """The root of the text's syntax tree.

    Heredocs are blanked out first: the grammar misreads what follows them on their line, and its
    time grows with the square of their number.
    """
    return _parser().parse(_plain(text, heredocs).encode("ascii", "replace")).root_node


def _plain(text: str, heredocs: Sequence[HeredocRange]) -> str:
    """The same structure in ASCII with LF line ends, character for character."""
    out: list[str] = []
    at = 0
    for start, end in sorted(r for h in heredocs for r in _ranges(h)):
        out += (text[at:start], _BLANKED.sub(" ", text[start:end]))
        at = end
    text = "".join((*out, text[at:]))
    if not text.isascii():
        text = _NOT_ASCII.sub("x", text)
    if "{{" in text:
        text = _TEMPLATE.sub(lambda m: "x" * len(m[0]), text)
    if "<<" in text:
        text = text.replace("<<<", "   ")
    if "\r" in text:
        text = text.replace("\\\r\n", " \\\n").replace("\r\n", "\n\n")
    if found := _OPEN_END.search(text):
        text = text[: found.start()] + "\n" * (found.end() - found.start())
    return text


def _ranges(heredoc: HeredocRange) -> tuple[tuple[int, int], tuple[int, int]]:
    return (heredoc.start, heredoc.end), (heredoc.body[0], heredoc.after)


def statements(node: Node) -> Iterator[Node]:
    """The statements directly inside a node."""
    for child in node.children:
        if (child.is_named and child.type != "comment") or child.is_error:
            yield child


def flattened(node: Node) -> list[tuple[str, Node]]:
    """`a && b || c` as [("", a), ("&&", b), ("||", c)]; the grammar nests it to the left."""
    out: list[tuple[str, Node]] = []
    while node.type == "list" and len(node.children) >= 3:
        children = [c for c in node.children if c.type != "comment"]
        if len(children) < 3:
            break
        out.append((children[1].type, children[2]))
        node = children[0]
    out.append(("", node))
    return out[::-1]


def simple_start(node: Node) -> int | None:
    """Where a simple command begins, redirections before it included; None for other nodes."""
    if node.type in SIMPLE:
        return node.start_byte
    if node.type == "redirected_statement":
        body = node.child_by_field_name("body")
        if body is None or body.type in SIMPLE:
            return node.start_byte
    return None


def between(node: Node, first: str, last: str) -> list[Node]:
    """The children after the token `first` and before the token `last`."""
    out: list[Node] = []
    inside = False
    for child in node.children:
        if child.type == last and not child.is_named:
            break
        if inside:
            out.append(child)
        if child.type == first and not child.is_named:
            inside = True
    return out


def assigned_names(node: Node, limit: int = 20_000) -> set[str]:
    """Variables that something inside the node may change, and "shift" if it moves arguments."""
    found: set[str] = set()
    stack = [node]
    while stack and limit:
        limit -= 1
        current = stack.pop()
        if current.type in ("variable_assignment", "for_statement", "postfix_expression"):
            stack_name = next(
                (c for c in current.children if c.type in ("variable_name", "subscript")), None
            )
            if stack_name is not None:
                found.add(_text(stack_name).partition("[")[0])
        elif current.type == "command":
            found |= _set_by_command([_text(c) for c in current.children if c.is_named])
        stack.extend(c for c in current.children if c.child_count)
    return found


def _set_by_command(words: list[str]) -> set[str]:
    name = words[0] if words else ""
    if name == "shift":
        return {"shift"}
    if name in ("read", "mapfile", "readarray", "getopts"):
        return {w for w in words[1:] if w.isidentifier()}
    if name == "printf" and "-v" in words[:-1]:
        return {words[words.index("-v") + 1]}
    if name == "let":
        return set(re.findall(r"\b([A-Za-z_]\w*)\s*[-+*/]?=", " ".join(words[1:])))
    return set()


def _text(node: Node) -> str:
    return (node.text or b"").decode("ascii", "replace")
