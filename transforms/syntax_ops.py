"""Changes to Python code as data. Recipes say them of the reader's syntax nodes; libcst writes
them (`cst_writer`), and the syntax tree proves what was written (`syntax_proof`).

Texts are Python with canonical names (`torch.autocast`); `import_names` spells them as the file
does before anything is written.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replace:
    """An expression becomes another."""

    node: ast.expr
    text: str


@dataclass(frozen=True, slots=True)
class Keyword:
    """A call passes `name=text`: the value is replaced where the keyword stands, else added."""

    call: ast.Call
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Insert:
    """Statements before or after one; `apart` puts a blank line between."""

    anchor: ast.stmt
    text: str
    after: bool = False
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Remove:
    """A statement goes, with the comment on its own line."""

    statement: ast.stmt


@dataclass(frozen=True, slots=True)
class Wrap:
    """Neighbours of one block go under a header: `with torch.autocast("cuda"):`."""

    statements: tuple[ast.stmt, ...]
    header: str


@dataclass(frozen=True, slots=True)
class Import:
    """A name is bound at the top of the file: `contextlib`, or `package.module.Class`."""

    name: str


Op = Replace | Keyword | Insert | Remove | Wrap | Import


def anchor_of(op: Op) -> ast.expr | ast.stmt | None:
    """The first node that a change touches."""
    match op:
        case Replace(node=node):
            return node
        case Keyword(call=call):
            return call
        case Insert(anchor=anchor):
            return anchor
        case Remove(statement=statement):
            return statement
        case Wrap(statements=statements):
            return statements[0]
        case Import():
            return None
