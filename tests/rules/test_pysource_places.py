"""Where Python nodes stand: every place, cut from the text, is the node again."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pitstop.rules.pysource import PyModule, read_module
from pitstop.rules.tree import SourceFile, UnreadableError, decode

pytestmark = pytest.mark.filterwarnings("ignore:invalid escape")
quick = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
ROOT = Path(__file__).resolve().parents[2]
OWN_FILES = sorted((ROOT / "rules").glob("*.py"))[::4]


def module(text: str) -> PyModule:
    return read_module(SourceFile("train.py", text))


def check_expressions(found: PyModule) -> int:
    """Every expression's text parses to the same expression."""
    count = 0
    for node in ast.walk(found.tree):
        sliced = any(isinstance(n, ast.Slice) for n in getattr(node, "elts", ()))
        alone = isinstance(node, ast.expr) and not isinstance(node, ast.Starred | ast.Slice)
        ctx = getattr(node, "ctx", None)
        if (
            not alone
            or sliced
            or not (ctx is None or isinstance(ctx, ast.Load))
            or _in_text(found, node)
        ):
            continue
        assert isinstance(node, ast.expr)
        again = ast.parse(f"({found.raw(node)}\n)", mode="eval").body
        assert ast.dump(again) == ast.dump(node)
        count += 1
    return count


def _in_text(found: PyModule, node: ast.AST) -> bool:
    """Pieces of f-strings have no exact place before Python 3.12."""
    current: ast.AST | None = found.parents.get(node)
    while current is not None:
        if isinstance(current, ast.JoinedStr):
            return True
        current = found.parents.get(current)
    return False


LINES = [
    "import torch  # 训练",
    "x = f(a, 'é', n=4)",
    "if x: y = g('\U0001f525', k=[1, 'ü'], m = {'ß': 2}) ; z = h(y)",
    "def é(ñ=4, *, q='\u2028'):",
    "\x0c\treturn ñ + q  # \U0001f525",
    "class C:",
    "    a: int = é(3)",
    "s = '''a\u2029",
    "  \U0001f525 b''' + f(  # c",
    "  'x')",
]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
def test_places_count_characters(end: str, start: str, last: bool) -> None:
    text = start + end.join(LINES) + (end if last else "")
    found = module(text)
    assert check_expressions(found) > 20
    call = next(c for c in found.calls if c.name == "g")
    argument = call.argument("m")
    assert argument is not None and argument.name_at is not None
    assert (call.location.line, call.location.column) == (3, 11)
    assert text[argument.name_at.span.start : argument.name_at.span.end] == "m"
    assert argument.raw == "{'ß': 2}"


@pytest.mark.parametrize("path", OWN_FILES, ids=lambda p: p.name)
def test_places_in_real_files(path: Path) -> None:
    assert check_expressions(module(path.read_text())) > 0


@pytest.mark.parametrize(
    ("data", "raw"),
    [
        (b"# -*- coding: latin-1 -*-\nx = f('\xe9\xfc', 4)\n", "4"),
        (
            b"#!/usr/bin/python\n# vim: set fileencoding=iso-8859-1 :\nx = f('\xe9', 4) # \xff\n",
            "4",
        ),
        ("# coding: utf-8\nx = f('é', 4)\n".encode(), "4"),
    ],
)
def test_coding_cookie(data: bytes, raw: str) -> None:
    found = read_module(decode("a.py", data))
    assert found.calls[0].arguments[1].raw == raw
    first = found.calls[0].arguments[0]
    assert isinstance(first.value, str) and first.value.startswith("é")


def test_a_long_line_of_wide_characters() -> None:
    text = "x = [" + "f('训练\U0001f525'), " * 20_000 + "]\n"
    found = module(text)
    assert {c.arguments[0].raw for c in found.calls} == {"'训练\U0001f525'"}


# --- comments --------------------------------------------------------------------------------


def tokenized(text: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {t.start[0]: t.string for t in tokens if t.type == tokenize.COMMENT}


@pytest.mark.parametrize("path", OWN_FILES, ids=lambda p: p.name)
def test_comments_of_real_files(path: Path) -> None:
    text = path.read_text()
    assert dict(module(text).comments) == tokenized(text)


@pytest.mark.parametrize(
    "text",
    [
        "x = '#'  # one\n",
        'x = """a # b\n# c\n"""  # two\n# three',
        "x = r'\\d#'  # four\n",
        "x = 'it\\'s # no'  # five\n",
        "x = ('a'  # six\n     'b#')  # seven\n",
        "x = 'a\\\n# no'  # eight\n",
        "x = f'{y!r:#x}'  # nine\n",
        "x = b'\\\\'  # ten\n",
        "x = '''it's'''  # eleven 'quote\ny = 1  # twelve\n",
        'x = ""  # thirteen\ny = """"#"""  # fourteen\n',
    ],
)
def test_comments(text: str) -> None:
    assert dict(module(text).comments) == tokenized(text)


@quick
@given(st.lists(st.sampled_from(
    ["'", '"', "#", "\\", "\n", "x", " ", "'''", '"""', "r'", "f\"", "=", "(", ")", "1"]
), max_size=25).map("".join))  # fmt: skip
def test_comments_of_anything_that_parses(text: str) -> None:
    try:
        found = module(text)
    except UnreadableError:
        return
    assert dict(found.comments) == tokenized(text)


@pytest.mark.parametrize(
    ("text", "line", "note"),
    [
        ("f(\n  workers=0,  # NOTE fork is broken here\n)\n", 2, "NOTE fork is broken here"),
        ("# required by the cluster\nf(0)\n", 2, "required by the cluster"),
        ("f(0)  # workers\n", 1, None),
        ("g()  # required\nf(0)\n", 2, None),
    ],
)
def test_note(text: str, line: int, note: str | None) -> None:
    assert module(text).note(line) == note


# --- what cannot be read ---------------------------------------------------------------------

BROKEN = {
    "syntax error": ("x = 1\ny = (\n", 2),
    "Python 2": ("import os\nprint 'x'\n", 2),
    "null byte": ("x = 1\0\n", 1),
    "tabs and spaces": ("if x:\n\ty = 1\n        z = 2\n", 3),
    "open brackets": ("x = " + "(" * 5_000, 1),
    "nested brackets": ("x = " + "(" * 150 + "1" + ")" * 150 + "]", 1),
    "a hundred thousand signs": ("x = " + "-" * 100_000 + "1\n", 1),
    "a hundred thousand inversions": ("x = " + "not " * 100_000 + "1\n", 1),
    "bytes that are not UTF-8": ("x = 1\n# \udce9\n", 2),
    "a number beyond the limit": ("x = " + "9" * 5_000 + "\n", 1),
    "deep indentation": (
        "".join(" " * n + "if x:\n" for n in range(150)) + " " * 150 + "y\n",
        None,
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_unreadable(case: str) -> None:
    text, line = BROKEN[case]
    with pytest.raises(UnreadableError, match=rf"^line {line or ''}"):
        module(text)


DEEP = {
    "a sum of thousands": "x = f(" + "1+" * 3_000 + "1)\n",
    "a chain of attributes": "x = a" + ".b" * 3_000 + "\n",
    "a chain of calls": "x = a" + ".b()" * 900 + "\n",
    "a chain of elements": "x = f(a" + "[0]" * 900 + ")\n",
    "many elif": "if x: pass\n" + "elif y: pass\n" * 900,
    "one huge line": "x = [" + "1, " * 300_000 + "]\n",
    "names in a circle": "a = b\nb = c\nc = a\nf(a)\n",
    "dictionaries in a circle": "a = {**b}\nb = {**a}\nf(**a)\n",
    "dictionaries that double": "d0 = {'a': 1}\n"
    + "".join(f"d{n} = {{**d{n - 1}, **d{n - 1}}}\n" for n in range(1, 30))
    + "f(**d29)\n",
    "sums that double": "x0 = 'aaaaaaaaaa'\n"
    + "".join(f"x{n} = x{n - 1} + x{n - 1}\n" for n in range(1, 60))
    + "f(x59)\n",
    "powers of powers": "f(9 ** 9 ** 9 ** 9, 10 ** 64 ** 64, 'a' * 10 ** 12, 1 << 10 ** 9)\n",
    "classes in a circle": "class A(B):\n  x: int\nclass B(A):\n  y: int\na = A()\nf(a.z)\n",
}  # fmt: skip


@pytest.mark.parametrize("case", DEEP)
def test_read_or_refused_within_limits(case: str) -> None:
    try:
        found = module(DEEP[case])
    except UnreadableError:
        return
    everything(found)


def everything(found: PyModule) -> None:
    """Asks a module for all that it can say."""
    for call in found.calls:
        assert call.location.path == found.path
        for argument in call.arguments:
            span = argument.value_at.span
            assert found.file.text[span.start : span.end] == argument.raw
        call.argument("x", 0)
        found.in_step_scope(call.node, forward=True)
        found.guarded(call.node)
        found.in_eval_scope(call.node)
        found.note(call.location.line)
    _ = (found.assignments, found.options, found.fields, found.comments, found.train_loops)
    _ = (found.trains, found.uses_gpu, found.star_imports, found.imports)


@quick
@given(st.data())
def test_mutated_files_are_read_or_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(OWN_FILES)).read_text()[:3000]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        size = data.draw(st.integers(0, 30))
        new = data.draw(
            st.sampled_from(["", "\n", "(", "'", "\\", "\t", "\x0c", "\r", "é", "\U0001f525", "#"])
            | st.text(max_size=5)
        )
        text = text[:at] + new + text[at + size :]
    try:
        found = module(text)
    except UnreadableError as error:
        assert str(error).startswith("line ")
        return
    everything(found)
    check_expressions(found)


@quick
@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        everything(module(text))
    except UnreadableError as error:
        assert str(error).startswith("line ")
