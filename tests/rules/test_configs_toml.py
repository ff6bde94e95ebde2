"""TOML leaves: values as `tomllib` reads them, places judged by cutting."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pitstop.rules.configs import ConfigFile, Entry, Path, read_config
from pitstop.rules.finding import Unknown
from pitstop.rules.tree import SourceFile, UnreadableError

quick = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))

SAMPLE = '''\
# head
title = "训练 \U0001f525"  # required here
[model]
name = 'C:\\x'
"quoted.key" = 1
a.b . "c d" = [1, 2.5, # why
  "x",]

[[stage]] # first
lr = 1e-4
opts = {fused = true, betas = [0.9, 0.99], none = {}}
[stage.data]
n = 0x1F
[[stage]]
lr = 2_000
text = """
a "quoted" word \\
  more"""
raw = \'\'\'it's\'\'\'
when = 2024-01-02 03:04:05Z
nested = [[1], [2]]
tables = [{a = 1}]
'''


def read(text: str) -> ConfigFile:
    return read_config(SourceFile("c.toml", text))


def cut(text: str, found: Entry) -> str:
    return text[found.value_at.span.start : found.value_at.span.end]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_sample(end: str, start: str) -> None:
    text = start + SAMPLE.replace("\n", end)
    config = read(text)
    assert config.unread == ()
    found = {e.path: e for e in config.entries}
    assert {p: e.value for p, e in found.items() if not isinstance(e.value, Unknown)} == {
        ("title",): "训练 \U0001f525",
        ("model", "name"): "C:\\x",
        ("model", "quoted.key"): 1,
        ("model", "a", "b", "c d"): (1, 2.5, "x"),
        ("stage", 0, "lr"): 1e-4,
        ("stage", 0, "opts", "fused"): True,
        ("stage", 0, "opts", "betas"): (0.9, 0.99),
        ("stage", 0, "opts", "none"): (),
        ("stage", 0, "data", "n"): 31,
        ("stage", 1, "lr"): 2000,
        ("stage", 1, "text"): 'a "quoted" word more',
        ("stage", 1, "raw"): "it's",
    }
    assert {p[-1] for p, e in found.items() if isinstance(e.value, Unknown)} == {
        "when", "nested", "tables",
    }  # fmt: skip
    assert all(cut(text, e) == e.raw for e in config.entries)
    assert found["title",].note == "required here"
    assert cut(text, found["stage", 1, "when"]) == "2024-01-02 03:04:05Z"
    at = found["model", "a", "b", "c d"].key_at
    assert at is not None and text[at.span.start : at.span.end] == 'a.b . "c d"'
    items = found["model", "a", "b", "c d"].items
    assert [cut(text, i) for i in items] == ["1", "2.5", '"x"']
    assert config.keys() == ("title", "model", "stage")


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = 1\nb =\n", 2), ("a = 1\na = 2\n", 2), ("[a\n", 1), ("x\n", 1), ("a = [1\n", 2),
     ("a = '''x\n", 2)],
)  # fmt: skip
def test_broken_text_says_the_line(text: str, line: int) -> None:
    with pytest.raises(UnreadableError, match=rf"^line {line}: \S"):
        read(text)


leaves = st.sampled_from(
    ["1", "-1_0", "1.5e3", "true", '"a # b"', "'c = [d'", '"""x\n"y" \\" z"""', "'''\n'q' ''w'''",
     '""', "[]", "[1, 2]", "[ 'a' , # ]\n 'b', ]", "{}", "{a = 1, 'b c' = [1, 2]}", "nan", "-inf",
     "1979-05-27", "07:32:00", "0o17", '"\\u00e9\U0001f525"', '""""quoted"""""', "[{a = 1}, {b=2}]"]
)  # fmt: skip
keys = st.sampled_from(["a", "b", "c-d", '"e f"', "'g'", "h.i", '"训"."练"', "1"])
lines = st.lists(
    st.tuples(keys, leaves, st.sampled_from(["", "  # note", "\n\n"])).map(
        lambda parts: f"{parts[0]} = {parts[1]}{parts[2]}"
    )
    | keys.map(lambda k: f"[{k}]")
    | keys.map(lambda k: f"[[ {k} ]]"),
    max_size=8,
)


@quick
@given(lines, st.sampled_from(["\n", "\r\n"]))
def test_generated_files_read_as_tomllib_reads_them(parts: list[str], end: str) -> None:
    text = "\n".join(parts).replace("\n", end)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(UnreadableError):
            read(text)
        return
    config = read(text)
    assert config.unread == ()
    for found in config.entries:
        value: Any = data
        for part in found.path:
            value = value[part]
        assert repr(tomllib.loads(f"x = {cut(text, found)}")["x"]) == repr(value)
    known = {e.path for e in config.entries}
    assert set(_paths(data, (), known)) == known


def _paths(data: Any, path: Path, known: set[Path]) -> Iterator[Path]:
    """The paths of what holds a value, not going into what is one leaf."""
    if path in known or not isinstance(data, dict | list):
        yield path
        return
    for key, inner in data.items() if isinstance(data, dict) else enumerate(data):
        yield from _paths(inner, (*path, key), known)


@quick
@given(st.text(st.sampled_from("ab=[]{}\"'#.,\n\r \\1e-\U0001f525"), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        config = read(text)
    except UnreadableError:
        return
    assert config.unread == ()
    assert all(cut(text, e) == e.raw for e in config.entries)
