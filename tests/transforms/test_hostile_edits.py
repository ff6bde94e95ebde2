"""Files made to hurt: every edit ends, and says why it is not made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pitstop.rules.finding import Span
from pitstop.rules.tree import SourceFile
from pitstop.transforms.edit_json import set_key as set_json
from pitstop.transforms.edit_python import set_keyword
from pitstop.transforms.edit_yaml import set_key as set_yaml
from pitstop.transforms.patch import Changed, Outcome, Refused

BOMB = "a: &b0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"b{i}: &b{i} [{', '.join([f'*b{i - 1}'] * 9)}]\n" for i in range(1, 10)
)


def yaml(text: str) -> Outcome:
    return set_yaml(SourceFile("a.yaml", text), ("new",), 1)


def json(text: str) -> Outcome:
    return set_json(SourceFile("a.json", text), ("new",), 1)


def python(text: str) -> Outcome:
    return set_keyword(SourceFile("a.py", text), Span(0, 4), "new", 1)


REFUSED: dict[str, tuple[Callable[[str], Outcome], str]] = {
    "yaml, aliases that multiply": (yaml, BOMB),
    "yaml, nested deeply": (yaml, "".join(" " * i + f"k{i}:\n" for i in range(900))),
    "yaml, too many keys": (yaml, "".join(f"k{i}: 1\n" for i in range(40_000))),
    "yaml, its own alias": (yaml, "a: &a [*a]\n{"),
    "json, nested deeply": (json, "[" * 50_000),
    "json, comments that never end": (json, '{"a": 1 ' + "/*" * 200_000),
    "python, one long line": (python, "f(a, " + "1, " * 300_000 + ")\n"),
    "python, nested deeply": (python, "f(" * 3_000),
    "python, no text": (python, "f(a)\n\udcff = '\x00'\n"),
}


@pytest.mark.parametrize(("edit", "text"), REFUSED.values(), ids=REFUSED)
def test_refused(edit: Callable[[str], Outcome], text: str) -> None:
    assert isinstance(edit(text), Refused)


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (yaml, "a: 1" + " " * 300_000 + "\nb: 2\n"),
        (yaml, "a: 1\n" + "\n" * 300_000 + "b: 2\n"),
        (yaml, "a: \udcff\n"),
        (json, '{"a": 1' + " " * 300_000 + "}"),
        (python, "f(a)\n" * 3_000),
    ],
    ids=["yaml, blanks", "yaml, lines", "yaml, not utf-8", "json, blanks", "python, many calls"],
)
def test_large_but_harmless(edit: Callable[[str], Outcome], text: str) -> None:
    assert isinstance(edit(text), Changed)
