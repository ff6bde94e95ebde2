"""Places at the top of a file."""

from __future__ import annotations

import ast

from pitstop.rules.pysource import PyModule


def end_of_imports(module: PyModule) -> ast.stmt | None:
    """The last import of the file's head: before its first definition, loop or guard; None where
    the file has no import there."""
    last: ast.stmt | None = None
    for statement in module.tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            last = statement
        elif not isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.Try):
            break
    return last
