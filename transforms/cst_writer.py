"""Writes changes to Python code with libcst, which keeps every comment, blank and line end that
it was not told to change."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from pitstop.rules.tree import SourceFile
from pitstop.transforms.cst_arguments import with_keyword
from pitstop.transforms.python_text import BOM
from pitstop.transforms.syntax_ops import Insert, Keyword, Op, Remove, Replace, Wrap

_Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


_WIDTH = 100


class UnwritableError(Exception):
    """A change that libcst cannot write into this text; the message says why."""


def written(file: SourceFile, ops: Iterable[Op]) -> str:
    """The file's text after the operations. Raises UnwritableError, with the line where it can."""
    mark = BOM if file.text.startswith(BOM) else ""
    text = file.text.removeprefix(BOM)
    try:
        module = cst.parse_module(text)
    except (cst.ParserSyntaxError, UnicodeError, RecursionError) as error:
        raise UnwritableError(f"libcst cannot read {file.path}") from error
    if module.code != text:
        raise UnwritableError(f"libcst would not keep the text of {file.path}")
    return mark + module.visit(_Writer(module, _Places(file, module), tuple(ops))).code


class _Places:
    """libcst's nodes by the places of the reader's."""

    def __init__(self, file: SourceFile, module: cst.Module) -> None:
        self._file = file
        wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
        self._statements: dict[tuple[int, int], cst.CSTNode] = {}
        self._expressions: dict[tuple[int, int, int, int], cst.CSTNode] = {}
        for node, at in wrapper.resolve(PositionProvider).items():
            if isinstance(at, CodeRange):
                self._note(node, at)

    def _note(self, node: cst.CSTNode, at: CodeRange) -> None:
        start = (at.start.line, at.start.column)
        if isinstance(node, _Statement):
            self._statements[start] = node
        elif isinstance(node, cst.BaseExpression):
            self._expressions.setdefault((*start, at.end.line, at.end.column), node)

    def statement(self, node: ast.stmt) -> cst.CSTNode:
        """The line or compound statement that a statement is."""
        found = self._statements.get((node.lineno, self._column(node.lineno, node.col_offset)))
        shared = isinstance(found, cst.SimpleStatementLine) and len(found.body) > 1
        if found is None or shared:
            where = f"{self._file.path}:{node.lineno}"
            raise UnwritableError(f"{where}: the statement shares its line with another")
        return found

    def expression(self, node: ast.expr) -> cst.CSTNode:
        """The expression that stands at the same place."""
        last, end = node.end_lineno or node.lineno, node.end_col_offset or 0
        found = self._expressions.get(
            (
                node.lineno,
                self._column(node.lineno, node.col_offset),
                last,
                self._column(last, end),
            )
        )
        if found is None:
            raise UnwritableError(f"{self._file.path}:{node.lineno}: an expression is not found")
        return found

    def full_line(self, keywords: Sequence[Keyword]) -> int | None:
        """How far inside its block the last line of a call's arguments begins, where the new
        keywords would make that line too long; else None."""
        call = keywords[0].call
        given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        if not given:
            return None
        last = max(given, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
        number = last.end_lineno or call.lineno
        line = self._file.line_text(number)
        more = sum(len(op.name) + len(op.text) + 3 for op in keywords)
        if len(line) + more <= _WIDTH:
            return None
        first = min(node.col_offset for node in given if node.lineno == number)
        block = max(start for start in self._statements if start <= (call.lineno, call.col_offset))
        return self._column(number, first) - block[1]

    def _column(self, line: int, column: int) -> int:
        """ast counts bytes, libcst characters."""
        text = self._file.line_text(line).removeprefix(BOM)
        return len(text.encode("utf-8", "replace")[:column].decode("utf-8", "ignore"))


class _Writer(cst.CSTTransformer):
    def __init__(self, module: cst.Module, places: _Places, ops: Sequence[Op]) -> None:
        super().__init__()
        self._module = module
        self._places = places
        self._replaced: dict[cst.CSTNode, str] = {}
        self._keywords: dict[cst.CSTNode, list[Keyword]] = {}
        self._inserted: dict[cst.CSTNode, list[Insert]] = {}
        self._removed: set[cst.CSTNode] = set()
        self._wrapped: dict[cst.CSTNode, Wrap] = {}
        for op in ops:
            self._take(op, places)

    def _take(self, op: Op, places: _Places) -> None:
        match op:
            case Replace():
                self._replaced[places.expression(op.node)] = op.text
            case Keyword():
                self._keywords.setdefault(places.expression(op.call), []).append(op)
            case Insert():
                self._inserted.setdefault(places.statement(op.anchor), []).append(op)
            case Remove():
                self._removed.add(places.statement(op.statement))
            case Wrap():
                found = [places.statement(one) for one in op.statements]
                self._wrapped[found[0]] = op

    def on_leave(
        self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
    ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
        """Every kind of node is changed by place, not by kind."""
        new: cst.CSTNode = updated_node
        keywords = self._keywords.get(original_node, [])
        align = self._places.full_line(keywords) if keywords else None
        for op in keywords:
            assert isinstance(new, cst.Call)  # noqa: S101 - found at the place of a call
            new = with_keyword(new, op.name, cst.parse_expression(op.text), align)
        if original_node in self._replaced:
            new = self._expression(original_node, self._replaced[original_node])
        if isinstance(original_node, cst.IndentedBlock | cst.Module):
            assert isinstance(new, cst.IndentedBlock | cst.Module)  # noqa: S101
            body = tuple(self._body(original_node.body, new.body))
            new = new.with_changes(body=body)
        return new  # type: ignore[return-value]

    def _expression(self, old: cst.CSTNode, text: str) -> cst.BaseExpression:
        """An expression in the brackets of the one that it replaces."""
        new = cst.parse_expression(text, config=self._module.config_for_parsing)
        brackets = {name: getattr(old, name, ()) for name in ("lpar", "rpar")}
        bare = isinstance(new, cst.Call | cst.Name | cst.Attribute)
        return new if bare or new.lpar else new.with_changes(**brackets)

    def _body(
        self, originals: Sequence[cst.CSTNode], updated: Sequence[cst.CSTNode]
    ) -> Iterator[cst.CSTNode]:
        at = 0
        left: list[cst.EmptyLine] = []  # comments above what was removed go to what follows
        while at < len(originals):
            wrap = self._wrapped.get(originals[at])
            count = len(wrap.statements) if wrap else 1
            inner: list[cst.CSTNode] = []
            for old, new in zip(originals[at : at + count], updated[at:], strict=False):
                below = list(self._expanded(old, new))
                if left and below:
                    below[0] = below[0].with_changes(leading_lines=(*left, *_lead(below[0])))
                    left = []
                if old in self._removed:
                    left += [line for line in _lead(new) if line.comment]
                inner += below
            yield from [self._under(wrap.header, inner)] if wrap else inner
            at += count

    def _expanded(self, old: cst.CSTNode, new: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """A statement with what is inserted around it, or nothing of it."""
        before: list[Insert] = []
        after: list[Insert] = []
        for op in self._inserted.get(old, ()):
            (after if op.after else before).append(op)
        for op in before:
            first, *rest = self._statements(op)
            head, new = _above(new)
            yield first.with_changes(leading_lines=head)
            yield from rest
            if op.apart:
                new = new.with_changes(leading_lines=(cst.EmptyLine(indent=False), *_lead(new)))
        if old not in self._removed:
            yield new
        for op in after:
            first, *rest = self._statements(op)
            lines = (cst.EmptyLine(indent=False),) if op.apart else ()
            yield first.with_changes(leading_lines=(*lines, *_lead(first)))
            yield from rest

    def _statements(self, op: Insert) -> Sequence[cst.CSTNode]:
        return cst.parse_module(op.text, config=self._module.config_for_parsing).body

    def _under(self, header: str, inner: Sequence[cst.CSTNode]) -> cst.CSTNode:
        outer = cst.parse_statement(f"{header}\n    pass", self._module.config_for_parsing)
        lines, first = _lead(inner[0]), inner[0].with_changes(leading_lines=())
        body = cst.IndentedBlock(body=[first, *inner[1:]])  # type: ignore[list-item]
        return outer.with_changes(body=body, leading_lines=lines)


def _lead(node: cst.CSTNode) -> Sequence[cst.EmptyLine]:
    lines: Sequence[cst.EmptyLine] = getattr(node, "leading_lines", ())
    return lines


def _above(node: cst.CSTNode) -> tuple[Sequence[cst.EmptyLine], cst.CSTNode]:
    """The blank lines above a statement, and the statement with only its comments."""
    lines = _lead(node)
    blank = next((i for i, line in enumerate(lines) if line.comment), len(lines))
    return lines[:blank], node.with_changes(leading_lines=lines[blank:])
