"""The written structure of a YAML file: which mapping, key and value stand where.

Aliases stay leaves here, so a hostile file cannot expand; what a value means is read by
`pitstop.rules.configs`, this module only knows where it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from pitstop.rules.finding import Span
from pitstop.rules.tree import SourceFile, UnreadableError

Kind = Literal["scalar", "mapping", "sequence", "alias"]

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class Node:
    """One written node. `span` runs from its anchor or tag to its last character, for a block
    collection to the last character of its last child. `flow` marks `{}` and `[]`."""

    kind: Kind
    start: int
    end: int
    text: str = ""  # a scalar's value, an alias's anchor
    style: str | None = None  # None, ', ", | or >
    anchor: str | None = None
    tag: str | None = None
    flow: bool = False
    pairs: list[tuple[Node, Node]] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)

    @property
    def span(self) -> Span:
        """Where it is written."""
        return Span(self.start, self.end)

    def children(self) -> Iterator[Node]:
        """Values below it, and keys."""
        for key, value in self.pairs:
            yield key
            yield value
        yield from self.items


def documents(file: SourceFile) -> tuple[Node | None, ...]:
    """The root node of each document, None for an empty one.

    Raises UnreadableError with the line where the file stops being YAML.
    """
    import yaml

    roots: list[Node | None] = []
    loader = getattr(yaml, "CLoader", yaml.Loader)
    text = _SURROGATE.sub("\ufffd", file.text)  # bytes that are no UTF-8: keep the count
    marked = text.startswith("\ufeff")
    if marked:
        text = "\n" + text[1:]  # libyaml does not count a byte order mark
    try:
        events = yaml.parse(text, Loader=loader)
        for event in events:
            if type(event).__name__ == "DocumentStartEvent":
                roots.append(_document(file, events))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 - marked if mark else 1
        raise UnreadableError(f"line {line}: {error.problem or 'not YAML'}") from error
    except (yaml.YAMLError, RecursionError, MemoryError) as error:
        raise UnreadableError("not YAML") from error
    return tuple(roots)


def _document(file: SourceFile, events: Any) -> Node | None:
    root: Node | None = None
    open_nodes: list[tuple[Node, list[Node]]] = []  # a collection and its children so far
    for event in events:
        kind = type(event).__name__
        if kind == "DocumentEndEvent":
            break
        if kind in ("MappingEndEvent", "SequenceEndEvent"):
            node, below = open_nodes.pop()
            _close(file, node, below, event)
            continue
        node = _node(file, event, kind)
        if open_nodes:
            open_nodes[-1][1].append(node)
        else:
            root = node
        if node.kind in ("mapping", "sequence"):
            open_nodes.append((node, []))
    return root


def _node(file: SourceFile, event: Any, kind: str) -> Node:
    start, end = event.start_mark.index, event.end_mark.index
    if kind == "AliasEvent":
        return Node("alias", start, end, text=str(event.anchor))
    anchor = str(event.anchor) if event.anchor else None
    tag = str(event.tag) if event.tag else None
    if kind == "ScalarEvent":
        style = event.style
        if style in ("|", ">"):
            end = _block_end(file, start, end)
        return Node("scalar", start, end, str(event.value), style or None, anchor, tag)
    mapping = kind == "MappingStartEvent"
    node = Node("mapping" if mapping else "sequence", start, end, anchor=anchor, tag=tag)
    node.flow = bool(event.flow_style)
    return node


def _close(file: SourceFile, node: Node, below: list[Node], event: Any) -> None:
    if node.kind == "mapping":
        node.pairs = list(zip(below[::2], below[1::2], strict=False))
        for key, value in node.pairs:
            _place_empty(file, key, value)
    else:
        node.items = below
    if node.flow:
        node.end = event.end_mark.index
    elif below:
        node.end = max(node.end, below[-1].end)


def _place_empty(file: SourceFile, key: Node, value: Node) -> None:
    """An empty value is reported at the next token: it belongs behind its key's colon, or at
    the key's end where there is none (`{a}`)."""
    if value.start != value.end:
        return
    rest = file.text[key.end : value.start]
    colon = len(rest) - len(rest.lstrip())
    at = key.end + colon + 1 if rest.lstrip().startswith(":") else key.end
    value.start = value.end = at


def _block_end(file: SourceFile, start: int, end: int) -> int:
    """The last character of a block scalar's content: what is blank behind it is only kept
    by `|+`."""
    text = file.text[start:end]
    header = text.split("\n", 1)[0]
    return end if "+" in header else start + len(text.rstrip())


def aliases(root: Node) -> dict[str, int]:
    """How often each anchor of a document is used."""
    used: dict[str, int] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.kind == "alias":
            used[node.text] = used.get(node.text, 0) + 1
        waiting.extend(node.children())
    return used


def comments(file: SourceFile) -> list[str]:
    """Every comment's text. Raises UnreadableError as `documents` does."""
    hidden: list[Span] = []
    waiting = [root for root in documents(file) if root is not None]
    while waiting:
        node = waiting.pop()
        if node.kind == "scalar":
            hidden.append(node.span)
        waiting.extend(node.children())
    found: list[str] = []
    at = 0
    for span in [*sorted(hidden), Span(len(file.text), len(file.text))]:
        for line in file.text[at : max(at, span.start)].splitlines():
            mark = line.find("#")
            if mark >= 0:
                found.append(line[mark:].rstrip())
        at = max(at, span.end)
    return found
