"""How new code is laid out in a file."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pitstop.rules.pysource import PyModule
from pitstop.transforms.members import indent_step

_WIDTH = 100


def call_text(
    module: PyModule, at: ast.expr, name: str, arguments: Sequence[str], *, spelled: int
) -> str:
    """A call in place of an expression: on one line where it fits into the usual width, else its
    arguments on a line of their own. `spelled` is how long the name is as the file says it."""
    given = ", ".join(arguments)
    line = module.file.line_text(at.lineno)
    if len(line[: at.col_offset]) + spelled + len(given) + 2 <= _WIDTH:
        return f"{name}({given})"
    return f"{name}(\n{indent_step(module.file)}{given}\n)"  # libcst adds the block's indent


def raw(module: PyModule, node: ast.expr) -> str:
    """An expression's text for use in a block of the same depth."""
    line = module.file.line_text(node.lineno)
    indent = line[: len(line) - len(line.lstrip())]
    return module.raw(node).replace("\r\n", "\n").replace("\n" + indent, "\n")
