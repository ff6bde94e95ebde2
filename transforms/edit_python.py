"""Change literals, keywords and dict items of Python code by splicing its text.

Each edit is proved on the syntax tree: the result must parse to the old tree with exactly the
intended node changed, and hold the same comments.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pitstop.rules.finding import Scalar, Span
from pitstop.rules.tree import SourceFile, UnreadableError
from pitstop.transforms import python_text
from pitstop.transforms.members import insert_member, line_end, line_start, remove_member
from pitstop.transforms.patch import (
    Changed,
    Edit,
    Outcome,
    Patch,
    Refused,
    Unchanged,
    apply_edits,
)


@dataclass(frozen=True, slots=True)
class Code:
    """An expression to be written as it is: `torch.bfloat16`."""

    text: str


Literal = Scalar | Code


def replace_value(file: SourceFile, at: Span, value: Literal) -> Outcome:
    """Replace the expression that is written at `at`."""
    tree = _parse(file)
    if isinstance(tree, Refused):
        return tree
    node = python_text.node_at(file, tree, at, ast.expr)
    if not isinstance(node, ast.expr):
        return Refused(f"no expression of its own stands at {file.location(at.start, at.end)}")
    return _replaced(file, tree, node, value)


def replace_for_use(file: SourceFile, name_at: Span, at: Span, value: Literal) -> Outcome:
    """Replace what is passed under the keyword, dictionary key or position at `name_at`, where
    the deciding expression stands at `at`: there when it is used only once, else at the use."""
    tree = _parse(file)
    if isinstance(tree, Refused):
        return tree
    use = python_text.passed_at(file, tree, name_at)
    if use is None:
        return Refused(f"nothing is passed at {file.location(name_at.start, name_at.end)}")
    if python_text.span(file, use) == at or python_text.uses(tree, use) == 1:
        return replace_value(file, at, value)
    return _replaced(file, tree, use, value)


def set_keyword(
    file: SourceFile, call_at: Span, keyword: str, value: Literal, *, position: int | None = None
) -> Outcome:
    """Give the call at `call_at` the keyword; where it is passed by position (`position` counts
    from 0), that argument is replaced."""
    tree = _parse(file)
    if isinstance(tree, Refused):
        return tree
    call = python_text.node_at(file, tree, call_at, ast.Call)
    if not isinstance(call, ast.Call):
        return Refused(f"no call stands at {file.location(call_at.start, call_at.end)}")
    for given in call.keywords:
        if given.arg == keyword:
            return _replaced_literal(file, tree, given.value, value)
    if position is not None and position < len(call.args):
        if any(isinstance(arg, ast.Starred) for arg in call.args[: position + 1]):
            return Refused(f"{keyword} may be among the arguments unpacked with *")
        return _replaced_literal(file, tree, call.args[position], value)
    if any(isinstance(arg, ast.Starred) for arg in call.args):
        return Refused(f"{keyword} may be among the arguments unpacked with *")
    for given in call.keywords:
        if given.arg is None:
            done = _in_unpacked(file, tree, given.value, keyword, value)
            if done is not None:
                return done
    return _added(file, tree, call, keyword, value)


def rename_keyword(
    file: SourceFile, call_at: Span, keyword: str, name: str, value: Literal
) -> Outcome:
    """Write `name=value` in place of a keyword of the call: one spelling instead of another."""
    tree = _parse(file)
    if isinstance(tree, Refused):
        return tree
    call = python_text.node_at(file, tree, call_at, ast.Call)
    if not isinstance(call, ast.Call):
        return Refused(f"no call stands at {file.location(call_at.start, call_at.end)}")
    found = next((k for k in call.keywords if k.arg == keyword), None)
    new = _expression(written(value))
    if found is None or new is None or any(k.arg == name for k in call.keywords):
        return Refused(f"{keyword} cannot become {name} in this call")
    start, at = python_text.span(file, found).start, python_text.span(file, found.value)
    text = written(value, file.text[at.start : at.end], quote=_quote(file))
    found.arg, found.value = name, new
    return _proved(
        file,
        tree,
        (
            Edit.replace(file, Span(start, start + len(keyword)), name),
            Edit.replace(file, at, text),
        ),
    )


def remove_keyword(file: SourceFile, call_at: Span, keyword: str) -> Outcome:
    """Take a keyword out of the call at `call_at`."""
    tree = _parse(file)
    if isinstance(tree, Refused):
        return tree
    call = python_text.node_at(file, tree, call_at, ast.Call)
    if not isinstance(call, ast.Call):
        return Refused(f"no call stands at {file.location(call_at.start, call_at.end)}")
    members, nodes = python_text.arguments(file, call)
    for index, node in enumerate(nodes):
        if isinstance(node, ast.keyword) and node.arg == keyword:
            call.keywords.remove(node)
            return _proved(file, tree, remove_member(members, index))
    return Unchanged("not set")


def set_item(file: SourceFile, dict_at: Span, key: str, value: Literal) -> Outcome:
    """Set a key of the dict display at `dict_at`."""
    tree = _parse(file)
    if isinstance(tree, Refused):
        return tree
    node = python_text.node_at(file, tree, dict_at, ast.Dict)
    if not isinstance(node, ast.Dict):
        return Refused(f"no dict stands at {file.location(dict_at.start, dict_at.end)}")
    return _item(file, tree, node, key, value)


def remove_statement(file: SourceFile, at: Span) -> Outcome:
    """Remove the statement at `at`, where it stands alone on its lines and its block has others."""
    tree = _parse(file)
    if isinstance(tree, Refused):
        return tree
    found = python_text.node_at(file, tree, at, ast.stmt)
    for parent in ast.walk(tree):
        for block in (getattr(parent, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list) and found in block:
                return _without_statement(file, tree, block, found)
    return Refused(f"no statement stands at {file.location(at.start, at.end)}")


def written(value: Literal, old: str = "", *, quote: str = '"') -> str:
    """The Python text of a value; an old string's quotes are kept."""
    if isinstance(value, Code):
        return value.text
    if not isinstance(value, str):
        return repr(value) if not isinstance(value, float) else _number(value)
    quote = old[:1] if old[:1] in ("'", '"') else quote
    text = repr(value)
    if text[0] != quote and quote not in value and "\\" not in text:
        return quote + value + quote
    return text


def _number(value: float) -> str:
    text = repr(value)
    return f'float("{text}")' if text in ("inf", "-inf", "nan") else text


def _replaced(file: SourceFile, tree: ast.Module, node: ast.expr, value: Literal) -> Outcome:
    where = python_text.span(file, node)
    old = file.text[where.start : where.end]
    new = _expression(written(value))
    if new is None:
        return Refused(f"{written(value)} is not a Python expression")
    if ast.dump(node) == ast.dump(new):
        return Unchanged()
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and "\n" in old):
        return Refused("the value is a text over several lines or an f-string")
    text = written(value, old, quote=_quote(file))
    _swap(tree, node, new)
    return _proved(file, tree, (Edit.replace(file, where, text),))


def _replaced_literal(
    file: SourceFile, tree: ast.Module, node: ast.expr, value: Literal
) -> Outcome:
    """As `_replaced`, for a value that is written out here: not `args.workers`."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call | ast.Subscript | ast.IfExp | ast.Starred | ast.Lambda):
            return Refused(f"the value is computed: {ast.unparse(node)}")
        if isinstance(part, ast.Name) and part.id not in python_text.imported(tree):
            return Refused(f"the value comes from {ast.unparse(node)}")
    return _replaced(file, tree, node, value)


def _added(
    file: SourceFile, tree: ast.Module, call: ast.Call, keyword: str, value: Literal
) -> Outcome:
    new = _expression(written(value))
    if new is None:
        return Refused(f"{written(value)} is not a Python expression")
    members, nodes = python_text.arguments(file, call)
    if any(python_text.span(file, n).start < members.inside.start for n in nodes):
        return Refused("a generator stands alone among the arguments")
    named = [i for i, n in enumerate(nodes) if not (isinstance(n, ast.keyword) and not n.arg)]
    text = f"{keyword}={written(value, quote=_quote(file))}"
    edits = insert_member(members, text, named[-1] if named else None)
    at = sum(1 for n in nodes[: (named[-1] + 1 if named else len(nodes))] if n in call.keywords)
    call.keywords.insert(at, ast.keyword(arg=keyword, value=new))
    return _proved(file, tree, edits)


def _in_unpacked(
    file: SourceFile, tree: ast.Module, unpacked: ast.expr, keyword: str, value: Literal
) -> Outcome | None:
    """The outcome for a `**unpacked` that decides the keyword; None when it surely does not."""
    source = unpacked
    if isinstance(unpacked, ast.Name):
        found = python_text.bound_once(tree, unpacked)
        if found is None:
            return Refused(f"**{unpacked.id} may already hold {keyword}")
        source = found
    if isinstance(source, ast.Dict):
        known = all(isinstance(k, ast.Constant) for k in source.keys)
        if any(isinstance(k, ast.Constant) and k.value == keyword for k in source.keys):
            return _item(file, tree, source, keyword, value)
        return None if known else Refused(f"the unpacked dict may already hold {keyword}")
    if isinstance(source, ast.Call) and _is_dict(source):
        if any(k.arg == keyword for k in source.keywords):
            where = python_text.span(file, source)
            return set_keyword(file, where, keyword, value)
        if all(k.arg for k in source.keywords):
            return None
    return Refused(f"**{ast.unparse(unpacked)} may already hold {keyword}")


def _is_dict(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "dict" and not call.args


def _item(file: SourceFile, tree: ast.Module, node: ast.Dict, key: str, value: Literal) -> Outcome:
    found = [i for i, k in enumerate(node.keys) if isinstance(k, ast.Constant) and k.value == key]
    if len(found) > 1:
        return Refused(f"{key} stands {len(found)} times in the dict")
    if found:
        return _replaced(file, tree, node.values[found[0]], value)
    new = _expression(written(value))
    if new is None or any(k is None for k in node.keys):
        return Refused(f"{key} cannot be added to this dict")
    quote = _quote(file)
    text = f"{written(key, quote=quote)}: {written(value, quote=quote)}"
    edits = insert_member(python_text.dict_items(file, node), text)
    node.keys.append(ast.Constant(key))
    node.values.append(new)
    return _proved(file, tree, edits)


def _without_statement(
    file: SourceFile, tree: ast.Module, block: list[ast.stmt], node: ast.AST | None
) -> Outcome:
    assert isinstance(node, ast.stmt)  # noqa: S101
    where = python_text.span(file, node)
    start, end = line_start(file, where.start), line_end(file, where.end)
    rest = file.text[where.end : end].strip()
    if file.text[start : where.start].strip() or (rest and not rest.startswith("#")):
        return Refused("the statement shares its line with another")
    if len(block) == 1:
        return Refused("the statement is the only one of its block")
    end += 2 if file.text[end : end + 2] == "\r\n" else int(end < len(file.text))
    block.remove(node)
    return _proved(file, tree, (Edit.replace(file, Span(start, end), ""),))


def _swap(tree: ast.Module, old: ast.expr, new: ast.expr) -> None:
    for parent in ast.walk(tree):
        for name, child in ast.iter_fields(parent):
            if child is old:
                setattr(parent, name, new)
            elif isinstance(child, list):
                child[:] = [new if item is old else item for item in child]


def _proved(file: SourceFile, wanted: ast.Module, edits: Iterable[Edit]) -> Outcome:
    edits = tuple(edits)
    after = SourceFile(file.path, apply_edits(file, edits))
    try:
        tree = python_text.parse(after)
    except UnreadableError as error:
        return Refused(f"{file.path} would not parse after the change: {error}")
    if not python_text.same(tree, wanted):
        return Refused("the change would mean something else than intended")
    lost = Counter(python_text.comments(file)) - Counter(python_text.comments(after))
    if any(not any(text in edit.old for edit in edits) for text in lost):
        return Refused("the change would swallow a comment")
    return Changed(Patch(edits))


def _parse(file: SourceFile) -> ast.Module | Refused:
    try:
        return python_text.parse(file)
    except UnreadableError as error:
        return Refused(f"{file.path} cannot be read: {error}")


def _expression(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _quote(file: SourceFile) -> str:
    """The quote that the file uses most."""
    return "'" if file.text.count("'") > file.text.count('"') else '"'
