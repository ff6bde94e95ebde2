# ruff: noqa: E501 (a case is one line)
"""Literals, keywords and dict items of Python code: exact text, then properties on generated
calls, judged by running them."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pitstop.rules.finding import Span
from pitstop.rules.tree import SourceFile
from pitstop.transforms.edit_python import (
    Code,
    Literal,
    remove_keyword,
    remove_statement,
    replace_value,
    set_item,
    set_keyword,
)
from pitstop.transforms.patch import Changed, Outcome, Refused, Unchanged, apply_edits


def file(text: str) -> SourceFile:
    return SourceFile("t.py", text)


def after(text: str, outcome: Outcome) -> str:
    assert isinstance(outcome, Changed), outcome
    return apply_edits(file(text), outcome.patch.edits)


def piece(text: str, start: str, end: str) -> Span:
    """From the first `start` to the first `end` behind it."""
    at = text.index(start)
    return Span(at, text.index(end, at + len(start) - 1) + len(end))


def call(text: str) -> Span:
    """The first call of f."""
    at = text.index("f(")
    depth = 0
    for offset in range(at + 1, len(text)):
        depth += (text[offset] in "([{") - (text[offset] in ")]}")
        if depth == 0:
            return Span(at, offset + 1)
    raise AssertionError(text)


KEYWORD = {
    "present": ("f(a, w=0)\n", 4, "f(a, w=4)\n"),
    "missing": ("f(a, b=1)\n", 4, "f(a, b=1, w=4)\n"),
    "no arguments": ("f()\n", 4, "f(w=4)\n"),
    "no arguments over lines": ("f(\n)\n", 4, "f(\n    w=4\n)\n"),
    "one a line, trailing comma, comments": (
        "f(\n    a,  # a\n    b=1,  # b, c\n)\n", 4, "f(\n    a,  # a\n    b=1,  # b, c\n    w=4,\n)\n"),
    "one a line, no trailing comma": (
        "f(\n    a,  # a\n    b=1  # b\n)\n", 4, "f(\n    a,  # a\n    b=1,  # b\n    w=4\n)\n"),
    "bracket behind the last": ("f(a,\n  b=1)  # f\n", 4, "f(a,\n  b=1,\n  w=4)  # f\n"),
    "several a line": ("f(\n    a, b,\n    c, d\n)\n", 4, "f(\n    a, b,\n    c, d, w=4\n)\n"),
    "before an unpacked dict": ("f(a, **{'x': 1})\n", 4, "f(a, w=4, **{'x': 1})\n"),
    "in an unpacked dict": ("kw = {'w': 0}\nf(a, **kw)\n", 4, "kw = {'w': 4}\nf(a, **kw)\n"),
    "in an unpacked dict call": ("kw = dict(w=0)\nf(a, **kw)\n", 4, "kw = dict(w=4)\nf(a, **kw)\n"),
    "dict of two calls, not in it": (
        "kw = {'x': 1}\ng(**kw)\nf(**kw)\n", 4, "kw = {'x': 1}\ng(**kw)\nf(**kw, w=4)\n"),
    "by position": ("f(a, b, 0)\n", 4, "f(a, b, 4)\n"),
    "lambda with commas": ("f(lambda x, y: x)\n", 4, "f(lambda x, y: x, w=4)\n"),
    "argument in brackets": ("f((a), (b))\n", 4, "f((a), (b), w=4)\n"),
    "old quotes stay": ("f(w='a')\n", "b", "f(w='b')\n"),
    "quotes of the file": ("x = 'y'\nf()\n", "b", "x = 'y'\nf(w='b')\n"),
    "name as code": ("import torch\nf(w=torch.float16)\n", Code("torch.bfloat16"), "import torch\nf(w=torch.bfloat16)\n"),
    "windows line ends": ("f(\r\n    a,\r\n)\r\n", 4, "f(\r\n    a,\r\n    w=4,\r\n)\r\n"),
    "beyond ascii": ("# é\nf('é', w=0)  # é\n", 4, "# é\nf('é', w=4)  # é\n"),
    "byte order mark": ("\ufefff(w=0)\n", 4, "\ufefff(w=4)\n"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "value", "want"), KEYWORD.values(), ids=KEYWORD)
def test_set_keyword(text: str, value: Literal, want: str) -> None:
    position = 2 if "b, 0" in want or "b, 0" in text else None
    assert after(text, set_keyword(file(text), call(text), "w", value, position=position)) == want
    again = set_keyword(file(want), call(want), "w", value, position=position)
    assert isinstance(again, Unchanged)


REFUSED = {
    "unknown unpacked": "f(a, **kw)\n",
    "dict that changes": "kw = {'x': 1}\nkw['w'] = 2\nf(**kw)\n",
    "dict that is handed on": "kw = {'x': 1}\ng(kw)\nf(**kw)\n",
    "dict bound twice": "kw = {'x': 1}\nkw = {}\nf(**kw)\n",
    "dict from a parameter": "def g(kw):\n    f(**kw)\n",
    "unpacked list": "f(*a)\n",
    "lone generator": "f(x for x in y)\n",
    "value from elsewhere": "f(w=args.w)\n",
    "value that is computed": "f(w=os.cpu_count())\n",
    "broken file": "f(w=0)\nx = (\n",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_keyword_refused(text: str) -> None:
    assert isinstance(set_keyword(file(text), call(text), "w", 4), Refused)


def test_no_call_there() -> None:
    assert isinstance(set_keyword(file("f()\n"), Span(0, 1), "w", 4), Refused)


REMOVE = {
    "last": ("f(a, w=4)\n", "f(a)\n"),
    "first": ("f(w=4, b=1)\n", "f(b=1)\n"),
    "only": ("f(w=4)\n", "f()\n"),
    "line of its own": ("f(\n    a,  # a\n    w=4,  # w\n    b=1,\n)\n", "f(\n    a,  # a\n    b=1,\n)\n"),
    "last line without comma": ("f(\n    a,  # a\n    w=4  # w\n)\n", "f(\n    a  # a\n)\n"),
    "value over lines": ("f(\n    w=[\n        1,\n    ],\n    b=1,\n)\n", "f(\n    b=1,\n)\n"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "want"), REMOVE.values(), ids=REMOVE)
def test_remove_keyword(text: str, want: str) -> None:
    assert after(text, remove_keyword(file(text), call(text), "w")) == want
    assert isinstance(remove_keyword(file(want), call(want), "w"), Unchanged)


VALUE = {
    "module attribute": ("torch.backends.cudnn.benchmark = False\n", "False", True, "torch.backends.cudnn.benchmark = True\n"),
    "argparse default": ("p.add_argument('--w', default=0, help='0')\n", "0", 4, "p.add_argument('--w', default=4, help='0')\n"),
    "field default": ("class A:\n    w: int = 0  # w\n", "0", 4, "class A:\n    w: int = 4  # w\n"),
    "negative number": ("x = -1\n", "-1", 2, "x = 2\n"),
    "dict value": ("x = {'a': {'b': 1}}\n", "1", None, "x = {'a': {'b': None}}\n"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "old", "value", "want"), VALUE.values(), ids=VALUE)
def test_replace_value(text: str, old: str, value: Literal, want: str) -> None:
    at = text.index(old)
    assert after(text, replace_value(file(text), Span(at, at + len(old)), value)) == want
    length = len(want) - len(text) + len(old)
    assert isinstance(replace_value(file(want), Span(at, at + length), value), Unchanged)


def test_value_that_is_no_expression_of_its_own() -> None:
    assert isinstance(replace_value(file("x = 12\n"), Span(4, 5), 3), Refused)


def test_text_over_several_lines_is_left_alone() -> None:
    text = 'x = """a\nb"""\n'
    assert isinstance(replace_value(file(text), Span(4, len(text) - 1), "c"), Refused)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("c = {}\n", 'c = {"k": 4}\n'),
        ("c = {'k': 1, 'b': 2}\n", "c = {'k': 4, 'b': 2}\n"),
        ("c = {\n    'b': 2,\n}\n", "c = {\n    'b': 2,\n    'k': 4,\n}\n"),
        ("c = {\n    'b': (2)  # two\n}\n", "c = {\n    'b': (2),  # two\n    'k': 4\n}\n"),
    ],
)
def test_set_item(text: str, want: str) -> None:
    assert after(text, set_item(file(text), piece(text, "{", "}"), "k", 4)) == want
    assert isinstance(set_item(file(want), piece(want, "{", "}"), "k", 4), Unchanged)


def test_remove_statement() -> None:
    text = "import os\nos.environ['A'] = '1'  # a\nx = 1\n"
    at = piece(text, "os.environ", "'1'")
    assert after(text, remove_statement(file(text), at)) == "import os\nx = 1\n"


@pytest.mark.parametrize("text", ["if a:\n    x = 1\n", "x = 1; y = 2\n"])
def test_statement_that_cannot_go(text: str) -> None:
    at = text.index("x")
    assert isinstance(remove_statement(file(text), Span(at, at + 5)), Refused)


# --- generated calls -------------------------------------------------------------------------

expressions = st.sampled_from(
    ["1", "'a, b'", "(2)", "[1, 2]", "lambda x, y=(1, 2): x", "{'k': 1}", '"#"', "-1", "dict(a=1)", "'''é'''", "(1 +\n 2)"]
)  # fmt: skip
names = st.sampled_from(["lr", "bf16", "optim", "n", "é"])


@st.composite
def calls(draw: st.DrawFn) -> str:
    """A program with one call of f, laid out as formatters and people do."""
    arguments = draw(st.lists(expressions, max_size=3))
    arguments += [
        f"{n}={draw(expressions)}" for n in draw(st.lists(names, max_size=3, unique=True))
    ]
    arguments += draw(st.sampled_from([[], [], ["**{'q': 1}"], ["**kw"]]))
    comment = draw(st.sampled_from(["", "  # note, w=1", "  # ("]))
    layout = draw(st.integers(0, 3))
    comma = draw(st.sampled_from(["", ","])) if arguments else ""
    if layout == 0:
        body = ", ".join(arguments) + comma
    elif layout == 1:
        body = "".join(f"\n        {a},{comment}" for a in arguments[:-1])
        body += "".join(f"\n        {a}{comma}{comment}" for a in arguments[-1:]) + "\n    "
    elif layout == 2:
        body = f",{comment}\n      ".join(arguments)
    else:
        body = "\n        " + ", ".join(arguments) + comma + comment + "\n    "
    text = f"# 'quotes' here\nif True:\n    kw = {{'q': 1}}\n    result = f({body}){comment}\n"
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def shown(value: Any) -> Any:
    return "function" if callable(value) else value


def run(text: str) -> tuple[list[Any], dict[str, Any]]:
    def f(*args: Any, **keywords: Any) -> tuple[list[Any], dict[str, Any]]:
        return [shown(a) for a in args], {k: shown(v) for k, v in keywords.items()}

    scope: dict[str, Any] = {"f": f}
    exec(compile(text.replace("\r\n", "\n"), "t.py", "exec"), scope)
    result: tuple[list[Any], dict[str, Any]] = scope["result"]
    return result


def place(text: str) -> Span:
    tree = ast.parse(text)
    node = next(n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "f")
    lines = text.replace("\r\n", " \n").split("\n")
    starts = [sum(len(line) + 1 for line in lines[:i]) for i in range(len(lines))]

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    assert node.end_lineno is not None and node.end_col_offset is not None
    return Span(offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset))


values = st.sampled_from([True, 0, 2.5, 3e-7, None, "bf16", "it's", 'a "b"', "é\n"])
quick = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@quick
@given(calls(), values)
def test_insert_and_remove_restores_the_file(text: str, value: Any) -> None:
    arguments, keywords = run(text)
    changed = after(text, set_keyword(file(text), place(text), "w", value))
    assert run(changed) == (arguments, {**keywords, "w": value})
    assert isinstance(set_keyword(file(changed), place(changed), "w", value), Unchanged)
    restored = after(changed, remove_keyword(file(changed), place(changed), "w"))
    assert run(restored) == (arguments, keywords)
    if arguments or keywords:
        assert restored == text


@quick
@given(calls(), values, st.sampled_from([True, 0, 2.5, None]))
def test_only_the_intended_keyword_differs(text: str, value: Any, other: Any) -> None:
    arguments, keywords = run(text)
    results = []
    chosen = sorted(k for k in keywords if k != "q")[:2]
    wanted = dict(zip(chosen, (value, other), strict=False))
    for order in (chosen, chosen[::-1]):
        now = text
        for name in order:
            outcome = set_keyword(file(now), place(now), name, wanted[name])
            if isinstance(outcome, Refused):
                assert "computed" in outcome.reason or "comes from" in outcome.reason, outcome
                return
            now = now if isinstance(outcome, Unchanged) else after(now, outcome)
            again = set_keyword(file(now), place(now), name, wanted[name])
            assert isinstance(again, Unchanged)
        results.append(now)
    if not isinstance(value, str):  # its quotes follow those of the file
        assert results[0] == results[1]
    assert run(results[0]) == (arguments, {**keywords, **wanted})
