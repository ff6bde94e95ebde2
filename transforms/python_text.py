"""Where things stand in Python text: spans of nodes, of arguments, commas and comments."""

from __future__ import annotations

import ast
import io
import itertools
import tokenize
import warnings
from collections.abc import Iterator, Sequence

from pitstop.rules.finding import Span
from pitstop.rules.pycomments import read_comments
from pitstop.rules.tree import SourceFile, UnreadableError
from pitstop.transforms.members import Members

BOM = "\ufeff"
MAX_LINE = 20_000
"""Characters; longer lines are generated, and slow to find places in."""

_SILENT = frozenset({tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT})


def parse(file: SourceFile) -> ast.Module:
    """The file's tree. Raises UnreadableError with the line where it stops being Python, or that
    is too long to be written by hand."""
    starts = [*file.line_starts, len(file.text)]
    for line, (start, end) in enumerate(itertools.pairwise(starts), 1):
        if end - start > MAX_LINE:
            raise UnreadableError(f"line {line}: longer than {MAX_LINE} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(file.text.removeprefix(BOM))
    except SyntaxError as error:
        raise UnreadableError(f"line {error.lineno or 1}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnreadableError(f"not Python: {error}") from error


def same(one: ast.AST, other: ast.AST) -> bool:
    """Whether two trees mean the same: what comparing their dumps says, sooner."""
    pairs: list[tuple[object, object]] = [(one, other)]
    while pairs:
        a, b = pairs.pop()
        if a.__class__ is not b.__class__:
            return False
        if isinstance(a, ast.AST):
            pairs += ((getattr(a, f, None), getattr(b, f, None)) for f in a._fields)
        elif isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                return False
            pairs += zip(a, b, strict=True)
        elif (a != b or isinstance(a, float)) and repr(a) != repr(b):  # NaN, and the sign of 0
            return False
    return True


def span(file: SourceFile, node: ast.AST) -> Span:
    """The characters of a node (the tree counts bytes)."""
    return Span(
        _offset(file, node.lineno, node.col_offset),  # type: ignore[attr-defined]
        _offset(file, node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
    )


def _offset(file: SourceFile, line: int, column: int) -> int:
    start = file.line_starts[line - 1]
    if line == 1 and file.text.startswith(BOM):
        start += 1
    end = file.line_starts[line] if line < len(file.line_starts) else len(file.text)
    text = file.text[start : min(end, start + column)]
    if text.isascii():
        return start + column
    return start + len(text.encode("utf-8")[:column].decode("utf-8", "ignore"))


def node_at(
    file: SourceFile, tree: ast.Module, where: Span, *kinds: type[ast.AST]
) -> ast.AST | None:
    """The innermost node of one of the kinds that is written exactly there."""
    found: ast.AST | None = None
    line = file.position(where.start)[0]
    for node in ast.walk(tree):
        near = isinstance(node, kinds) and getattr(node, "lineno", 0) == line
        if near and span(file, node) == where:
            found = node
    return found


def arguments(file: SourceFile, call: ast.Call) -> tuple[Members, list[ast.expr | ast.keyword]]:
    """A call's arguments in the order they are written, and where."""
    nodes: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    nodes.sort(key=lambda n: span(file, n))
    start = span(file, call.func).end
    members = _between(file, start, span(file, call).end, "(", [span(file, n) for n in nodes])
    return members, nodes


def dict_items(file: SourceFile, node: ast.Dict) -> Members:
    """The items of a dict display, in the order of its `values`."""
    where = span(file, node)
    values = [span(file, v) for v in node.values]
    keys = [span(file, k) if k else v for k, v in zip(node.keys, values, strict=True)]
    inner = [Span(k.start, v.end) for k, v in zip(keys, values, strict=True)]
    return _between(file, where.start, where.end, "{", inner)


def _between(
    file: SourceFile, start: int, end: int, opening: str, nodes: Sequence[Span]
) -> Members:
    """Split at the commas that are not inside a node (a lambda's parameters have some)."""
    depth = 0
    inside_start = inside_end = end
    spans: list[Span] = []
    commas: list[int | None] = []
    first = last = -1
    for token, at, until in _tokens(file, start, end):
        if depth == 0:
            if token.string == opening:
                depth, inside_start = 1, until
            continue
        depth += (
            (token.string in "([{") - (token.string in ")]}") if token.type == tokenize.OP else 0
        )
        if depth == 0:
            inside_end = at
            break
        if token.string == "," and depth == 1 and not any(n.start <= at < n.end for n in nodes):
            spans.append(Span(first, last))
            commas.append(at)
            first = -1
        elif token.type not in _SILENT:
            first, last = (at if first < 0 else first), until
    if first >= 0:
        spans.append(Span(first, last))
        commas.append(None)
    return Members(file, Span(inside_start, inside_end), tuple(spans), tuple(commas))


def _tokens(
    file: SourceFile, start: int, end: int
) -> Iterator[tuple[tokenize.TokenInfo, int, int]]:
    """Tokens of a bracketed piece of the file, with their offsets in the file."""
    piece = SourceFile(file.path, file.text[start:end])
    # The tokenizer wants LF; lines and columns, which are all that is used, stay.
    text = piece.text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            (line, column), (end_line, end_column) = token.start, token.end
            if line <= len(piece.line_starts) and token.type != tokenize.ENDMARKER:
                at = piece.line_starts[line - 1] + column
                until = piece.line_starts[min(end_line, len(piece.line_starts)) - 1] + end_column
                yield token, start + at, start + until
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return


def comments(file: SourceFile) -> list[str]:
    """The text of every comment of a file that parses, in order."""
    return [comment.rstrip() for comment in read_comments(file).values()]


def call_around(file: SourceFile, tree: ast.Module, at: Span) -> ast.Call | None:
    """The innermost call around a place."""
    found: ast.Call | None = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            where = span(file, node)
            inner = found is None or where.end - where.start <= len_of(file, found)
            if where.start <= at.start and at.end <= where.end and inner:
                found = node
    return found


def len_of(file: SourceFile, node: ast.AST) -> int:
    """Characters of a node."""
    where = span(file, node)
    return where.end - where.start


def passed_at(file: SourceFile, tree: ast.Module, name_at: Span) -> ast.expr | None:
    """The expression passed under the keyword or dictionary key at a place, or the argument
    itself that stands there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg:
            if span(file, node).start == name_at.start:
                return node.value
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None and span(file, key) == name_at:
                    return value
    found = node_at(file, tree, name_at, ast.expr)
    return found if isinstance(found, ast.expr) else None


def uses(tree: ast.Module, expression: ast.expr) -> int:
    """How often the file reads the same expression."""
    wanted = ast.dump(expression)
    kinds = ast.Name | ast.Attribute | ast.Subscript
    return sum(isinstance(n, kinds) and ast.dump(n) == wanted for n in ast.walk(tree))


def bound_once(tree: ast.Module, name: ast.Name) -> ast.expr | None:
    """The only value a name ever gets in the file, if it is never changed or handed on."""
    values: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            values += [node.value for t in targets if isinstance(t, ast.Name) and t.id == name.id]
        if isinstance(node, ast.arg) and node.arg == name.id:
            return None
    stores = loads = unpackings = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == name.id:
            stores += not isinstance(node.ctx, ast.Load)
            loads += isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.keyword) and node.arg is None:
            unpackings += isinstance(node.value, ast.Name) and node.value.id == name.id
    return values[0] if len(values) == stores == 1 and loads == unpackings else None


def imported(tree: ast.Module) -> set[str]:
    """The names that imports bind."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return found
