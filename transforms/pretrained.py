"""Models that a file loads with transformers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from pitstop.rules.pysource import Call, PyModule
from pitstop.transforms.recipe import Case

_LOADS = re.compile(
    r"^transformers\.(?:\w+\.)*(?:AutoModel\w*|\w+(?:For\w+|Model))\.from_pretrained$"
)


def loading_calls(case: Case) -> Iterator[Call]:
    """The calls that load a model's weights (no tokenizers, no configurations)."""
    for call in case.module.calls:
        if _LOADS.match(call.name) and case.concerns(call.location.span):
            yield call


def loaded_in(module: PyModule, statements: tuple[ast.stmt, ...]) -> tuple[ast.stmt, Call] | None:
    """The first of some statements that loads a model, and its call."""
    loads = {call.node: call for call in module.calls if _LOADS.match(call.name)}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and node in loads:
                return statement, loads[node]
    return None


def mentions(module: PyModule, *words: str) -> bool:
    """Whether an attribute, a keyword or a name of the file is one of the words."""
    for node in module.nodes(ast.Attribute, ast.keyword, ast.Name):
        word = getattr(node, "attr", None) or getattr(node, "arg", None) or getattr(node, "id", "")
        if word in words:
            return True
    return False
