"""Set and remove keys of a YAML file by splicing its text; nothing is dumped anew."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from pitstop.rules.configs import ConfigFile
from pitstop.rules.finding import Scalar, Span, Unknown
from pitstop.rules.tree import SourceFile, UnreadableError
from pitstop.transforms import yaml_scalars
from pitstop.transforms.config_proof import (
    ABSENT,
    Path,
    dotted,
    find,
    proved,
    read_or_refuse,
    same,
)
from pitstop.transforms.members import (
    Members,
    insert_member,
    line_end,
    line_start,
    newline,
    remove_member,
)
from pitstop.transforms.patch import Edit, Outcome, Refused, Unchanged
from pitstop.transforms.yaml_nodes import Node, aliases, comments, documents

Edits = tuple[Edit, ...] | Refused


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a path leads: its pair, or the mapping that lacks `rest`."""

    mapping: Node
    index: int | None
    rest: Path


def set_key(
    file: SourceFile, path: Path, value: Scalar, *, document: int = 0, beside: Path | None = None
) -> Outcome:
    """Set `path` to `value`, inserting it (behind key `beside`, else last) where it is missing."""
    config = read_or_refuse(file)
    if isinstance(config, Refused):
        return config
    entry = find(config, path, document)
    if entry is not None and same(entry.value, value):
        return Unchanged()
    if entry is not None and isinstance(entry.value, Unknown):
        return Refused(f"{dotted(path)} is computed: {entry.value.why}")
    root = _root(file, document)
    if isinstance(root, Refused):
        return root
    place = _locate(config, root, path, document)
    if isinstance(place, Refused):
        return place
    if place is None:
        edits = _first_key(file, root, path, value)
    elif place.index is None:
        edits = _insert(file, root, place, value, _sibling(place, path, beside))
    else:
        edits = _replace(file, root, place, value)
    return _checked(file, config, edits, {path: value}, document)


def remove_key(file: SourceFile, path: Path, *, document: int = 0) -> Outcome:
    """Remove `path` with everything below it; comments on lines of their own stay."""
    config = read_or_refuse(file)
    if isinstance(config, Refused):
        return config
    root = _root(file, document)
    if isinstance(root, Refused):
        return root
    place = _locate(config, root, path, document)
    if isinstance(place, Refused):
        return place
    if place is None or place.index is None:
        shared = find(config, path, document)
        return Refused(f"{dotted(path)} comes from a merge") if shared else Unchanged("not set")
    edits = _remove(file, root, place)
    return _checked(file, config, edits, {path: ABSENT}, document)


def rename_key(
    file: SourceFile, path: Path, name: str, value: Scalar, *, document: int = 0
) -> Outcome:
    """Write `name: value` in place of the key at `path`: one spelling instead of another."""
    config = read_or_refuse(file)
    if isinstance(config, Refused):
        return config
    root = _root(file, document)
    if isinstance(root, Refused):
        return root
    place = _locate(config, root, path, document)
    if isinstance(place, Refused):
        return place
    if place is None or place.index is None:
        return Refused(f"{dotted(path)} is not written here")
    if find(config, (*path[:-1], name), document) is not None:
        return Refused(f"{name} is already written beside {dotted(path)}")
    key = place.mapping.pairs[place.index][0]
    text = yaml_scalars.written(name, key.style or "", flow=place.mapping.flow, key=True)
    edits: tuple[Edit, ...] = (Edit.replace(file, key.span, text or name),)
    entry = find(config, path, document)
    if key.anchor or key.tag or entry is None:
        return Refused(f"{dotted(path)} is not a plain key with a value")
    if not same(entry.value, value):
        valued = _replace(file, root, place, value)
        if isinstance(valued, Refused):
            return valued
        edits += valued
    return _checked(file, config, edits, {path: ABSENT, (*path[:-1], name): value}, document)


def _checked(
    file: SourceFile,
    config: ConfigFile,
    edits: Edits,
    changes: Mapping[Path, Scalar | object],
    document: int,
) -> Outcome:
    if isinstance(edits, Refused):
        return edits
    return proved(file, config, edits, changes, document, comments)


def _root(file: SourceFile, document: int) -> Node | Refused | None:
    try:
        roots = documents(file)
    except UnreadableError as error:
        return Refused(f"{file.path} cannot be read: {error}")
    if document < len(roots):
        return roots[document]
    return None if document == 0 else Refused(f"{file.path} has no document {document + 1}")


def _locate(
    config: ConfigFile, root: Node | None, path: Path, document: int
) -> _Place | Refused | None:
    node = root
    place: _Place | None = None
    for at, part in enumerate(path):
        if node is None or _empty(node):
            if at == 0:
                return None
            return Refused(f"{dotted(path[:at])} is empty, not a mapping")
        if node.kind == "alias":
            return Refused(f"{dotted(path[:at])} is an alias of &{node.text}")
        if node.kind == "sequence" and isinstance(part, int) and part < len(node.items):
            place, node = None, node.items[part]
            continue
        if node.kind != "mapping":
            return Refused(f"{dotted(path[:at]) or 'the file'} is not a mapping")
        found = [i for i, (key, _) in enumerate(node.pairs) if key.text == str(part)]
        if len(found) > 1:
            return Refused(f"{dotted(path[: at + 1])} is written {len(found)} times")
        place = _Place(node, found[0] if found else None, path[at:])
        if not found:
            return place
        node = node.pairs[found[0]][1]
    return place or Refused(f"{dotted(path)} is an item of a list")


def _empty(node: Node) -> bool:
    return node.kind == "scalar" and node.style is None and node.text in ("", "~", "null")


def _replace(file: SourceFile, root: Node | None, place: _Place, value: Scalar) -> Edits:
    assert place.index is not None and root is not None  # noqa: S101
    key, node = place.mapping.pairs[place.index]
    old = file.text[node.start : node.end]
    if node.style in ("|", ">"):
        return Refused(f"{key.text} is a block scalar")
    if node.kind in ("mapping", "sequence") and not node.flow:
        return Refused(f"{key.text} is a block collection")
    if node.tag:
        return Refused(f"{key.text} has the tag {node.tag}")
    if node.anchor and aliases(root).get(node.anchor):
        return Refused(f"{key.text} is the anchor &{node.anchor}, which other keys use")
    start = node.start + (len(node.anchor) + 1 if node.anchor else 0)
    start += len(file.text[start : node.end]) - len(file.text[start : node.end].lstrip())
    text = yaml_scalars.written(
        value,
        file.text[start : node.end],
        quote=_quote(file, root),
        flow=place.mapping.flow,
    )
    if text is None:
        return Refused(f"{value} cannot be written in YAML")
    if not old:
        if file.text[node.start - 1] != ":":
            return Refused(f"{key.text} has no colon")
        text = " " + text
    elif start == node.end:
        text = " " + text
    return (Edit.replace(file, Span(start, node.end), text),)


def _sibling(place: _Place, path: Path, beside: Path | None) -> int | None:
    """The pair behind which a new key goes."""
    parent = path[: len(path) - len(place.rest)]
    if beside is None or beside[: len(parent)] != parent or len(beside) <= len(parent):
        return None
    for index, (key, _) in enumerate(place.mapping.pairs):
        if key.text == str(beside[len(parent)]):
            return index
    return None


def _insert(
    file: SourceFile, root: Node | None, place: _Place, value: Scalar, after: int | None
) -> Edits:
    mapping = place.mapping
    assert root is not None  # noqa: S101
    if any(not isinstance(part, str) for part in place.rest):
        return Refused(f"{dotted(place.rest)} names an item of a list that is not there")
    flow = mapping.flow
    text = yaml_scalars.written(value, quote=_quote(file, root), flow=flow or len(place.rest) > 1)
    if text is None:
        return Refused(f"{value} cannot be written in YAML")
    keys = [_key(file, mapping, str(part), flow) for part in place.rest]
    if flow:
        inner = "".join(f"{key}: {{" for key in keys[:-1]) + f"{keys[-1]}: {text}"
        return insert_member(_members(file, mapping), inner + "}" * (len(keys) - 1), after)
    indent = _indent(file, mapping)
    if indent is None:
        return Refused("the mapping's indent cannot be continued")
    step = _step(file, root)
    lines = [f"{indent}{step * level}{key}:" for level, key in enumerate(keys)]
    lines[-1] += f" {text}"
    return _insert_lines(file, mapping, lines, after)


def _insert_lines(file: SourceFile, mapping: Node, lines: list[str], after: int | None) -> Edits:
    _, sibling = mapping.pairs[len(mapping.pairs) - 1 if after is None else after]
    if _kept_block(file, sibling):
        end = sibling.end
        mark = newline(file, sibling.start)
        return (Edit.replace(file, Span(end, end), "".join(line + mark for line in lines)),)
    end = line_end(file, sibling.end)
    rest = file.text[sibling.end : end]
    if rest.strip() and not rest.lstrip().startswith("#"):
        return Refused("something else stands on the line before the new key")
    if end == len(file.text) and _last_scalar(sibling).style in ("|", ">"):
        return Refused("the block of text before the new key would get a line end")
    mark = newline(file, sibling.end)
    return (Edit.replace(file, Span(end, end), "".join(mark + line for line in lines)),)


def _kept_block(file: SourceFile, node: Node) -> bool:
    """The node ends in a `|+` block, whose blank lines are content."""
    last = _last_scalar(node)
    return last.style in ("|", ">") and file.position(last.end)[1] == 1


def _last_scalar(node: Node) -> Node:
    """What the node ends in; itself where that is no scalar of a block collection."""
    while node.kind != "scalar" and not node.flow and (node.pairs or node.items):
        node = node.pairs[-1][1] if node.pairs else node.items[-1]
    return node


def _first_key(file: SourceFile, root: Node | None, path: Path, value: Scalar) -> Edits:
    """Into a document that holds nothing but comments."""
    text = yaml_scalars.written(value)
    if text is None or any(not isinstance(part, str) for part in path):
        return Refused(f"{dotted(path)}: {value} cannot be written in YAML")
    if root is not None and root.start != root.end:
        return Refused("the document is null")
    end = len(file.text)
    if root is not None and file.text[root.end :].strip().startswith(("---", "...")):
        return Refused("an empty document among several")
    mark = newline(file, end)
    lines = ["  " * level + f"{part}:" for level, part in enumerate(path)]
    lines[-1] += f" {text}"
    start = mark if line_start(file, end) != end else ""
    return (Edit.replace(file, Span(end, end), start + mark.join(lines) + mark),)


def _remove(file: SourceFile, root: Node | None, place: _Place) -> Edits:
    assert place.index is not None and root is not None  # noqa: S101
    mapping, index = place.mapping, place.index
    key, node = mapping.pairs[index]
    used = aliases(root)
    if any(used.get(name) for name in _anchors(node)):
        return Refused(f"{key.text} holds an anchor that other keys use")
    if mapping.flow:
        return remove_member(_members(file, mapping), index)
    if len(mapping.pairs) == 1:
        return Refused(f"{key.text} is the only key of its mapping")
    if _kept_block(file, node):
        end = node.end
    else:
        end = line_end(file, node.end)
        rest = file.text[node.end : end]
        if rest.strip() and not rest.lstrip().startswith("#"):
            return Refused(f"something else stands on the line of {key.text}")
    return _remove_lines(file, mapping, index, end)


def _remove_lines(file: SourceFile, mapping: Node, index: int, end: int) -> Edits:
    key = mapping.pairs[index][0]
    start = line_start(file, key.start)
    after = _next_line(file, end)
    if file.text[start : key.start].strip():  # behind the dash of a list item
        following = mapping.pairs[index + 1][0].start if index + 1 < len(mapping.pairs) else None
        if following is None or file.text[after:following].strip():
            return Refused(f"{key.text} shares its line with a list item's dash")
        return (Edit.replace(file, Span(key.start, following), ""),)
    if after == end and start > 0:  # the last line has no end mark: take the one before
        before = line_end(file, start - 1) if file.position(start)[0] > 1 else start
        return (Edit.replace(file, Span(before, end), ""),)
    return (Edit.replace(file, Span(start, after), ""),)


def _next_line(file: SourceFile, end: int) -> int:
    if file.text[end : end + 2] == "\r\n":
        return end + 2
    return end + 1 if file.text[end : end + 1] in ("\n", "\r") else end


def _anchors(node: Node) -> list[str]:
    found = [node.anchor] if node.anchor else []
    for child in node.children():
        found += _anchors(child)
    return found


def _members(file: SourceFile, mapping: Node) -> Members:
    opening = file.text.index("{", mapping.start) + 1
    spans = tuple(Span(key.start, max(key.end, value.end)) for key, value in mapping.pairs)
    return Members.between(file, Span(opening, mapping.end - 1), spans)


def _key(file: SourceFile, mapping: Node, name: str, flow: bool) -> str:
    """A key quoted as its neighbours are."""
    styles = {key.style for key, _ in mapping.pairs}
    quoted = styles.pop() if len(styles) == 1 else None
    return yaml_scalars.written(name, quoted or "", flow=flow, key=True) or name


def _indent(file: SourceFile, mapping: Node) -> str | None:
    for key, _ in mapping.pairs:
        prefix = file.text[line_start(file, key.start) : key.start]
        if not prefix.strip(" "):
            return prefix
    if not prefix.strip(" -"):
        return " " * len(prefix)
    return None


def _step(file: SourceFile, root: Node) -> str:
    """The file's own indent of a nested mapping, two spaces if there is none."""
    waiting = deque([root])
    while waiting:
        node = waiting.popleft()
        for key, value in node.pairs:
            if value.kind == "mapping" and not value.flow and value.pairs:
                outer, inner = (file.position(n.start)[1] for n in (key, value.pairs[0][0]))
                if inner > outer:
                    return " " * (inner - outer)
        waiting.extend(n for n in node.children() if n.kind != "scalar")
    return "  "


def _quote(file: SourceFile, root: Node) -> str:
    """The quote that the file uses most."""
    found: Counter[str] = Counter()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.style in ("'", '"'):
            found[node.style] += 1
        waiting.extend(node.children())
    return "'" if found["'"] > found['"'] else '"'
