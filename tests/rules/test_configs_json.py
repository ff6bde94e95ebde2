"""JSON leaves: values as `json` reads them, places judged by cutting."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pitstop.rules.configs import ConfigFile, Entry, Path, read_config
from pitstop.rules.finding import Unknown
from pitstop.rules.tree import SourceFile, UnreadableError

quick = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


def read(text: str) -> ConfigFile:
    return read_config(SourceFile("ds.json", text))


def cut(text: str, found: Entry) -> str:
    return text[found.value_at.span.start : found.value_at.span.end]


def test_a_deepspeed_configuration() -> None:
    text = (
        '{\n  "bf16": {"enabled": "auto"},\n  "optimizer": {\n    "type": "AdamW",\n'
        '    "params": {"lr": 1e-5, "betas": [0.9, 0.999]}\n  },\n  "zero_optimization": {}\n}\n'
    )
    config = read(text)
    assert {e.path: (e.value, cut(text, e)) for e in config.entries} == {
        ("bf16", "enabled"): ("auto", '"auto"'),
        ("optimizer", "type"): ("AdamW", '"AdamW"'),
        ("optimizer", "params", "lr"): (1e-5, "1e-5"),
        ("optimizer", "params", "betas"): ((0.9, 0.999), "[0.9, 0.999]"),
        ("zero_optimization",): ((), "{}"),
    }
    assert config.keys() == ("bf16", "optimizer", "zero_optimization")
    lr = config.get("optimizer", "params", "lr")
    assert lr is not None and lr.key_at is not None
    assert (lr.key_at.line, lr.key_at.column, lr.value_at.column) == (5, 16, 22)
    section = config.section("optimizer", "params")
    assert section is not None
    assert text[section.at.span.start : section.at.span.end].startswith('{"lr"')


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, 2,], "b": 3,}',
        '// head\n{"a": [1, /* two */ 2], // "c": 4\n "b": 3} // end',
        '/**/{/***/"a"/* x // */:[1,2]/*\n*/,"b":3}',
        '\ufeff{"a": [1, 2], "b": 3}',
        '{"a":\r\n[1,\r\n2],\r\n"b":\t3}\r\n',
    ],
)
def test_comments_and_trailing_commas_are_let_pass(text: str) -> None:
    config = read(text)
    assert [(e.path, e.value) for e in config.entries] == [(("a",), (1, 2)), (("b",), 3)]
    assert all(cut(text, e) == e.raw for e in config.entries)


def test_a_comment_mark_inside_a_string_is_text() -> None:
    found = read('{"a": "http://x/*y*/"}').get("a")
    assert found is not None and found.value == "http://x/*y*/"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0", 0), ("-0.5", -0.5), ("1E+2", 100.0), ("123456789012345678901", 123456789012345678901),
        ("true", True), ("null", None), ("Infinity", math.inf), ("-Infinity", -math.inf),
        (r'"\u00e9\ud83d\udd25\n"', "é\U0001f525\n"), ('"训练"', "训练"), ('"a\tb"', "a\tb"),
        (r'"\ud800"', "\ud800"), ("[]", ()), ('[null, "x"]', (None, "x")),
    ],
)  # fmt: skip
def test_value(written: str, value: Any) -> None:
    text = f'{{"k": {written} }}'
    found = read(text).get("k")
    assert found is not None and (found.value, type(found.value)) == (value, type(value))
    assert cut(text, found) == written


def test_not_a_number() -> None:
    found = read('{"k": NaN}').get("k")
    assert found is not None and isinstance(found.value, float) and math.isnan(found.value)


@pytest.mark.parametrize("written", ["9" * 5000, '"${oc.env:X}"'])
def test_unknown(written: str) -> None:
    found = read(f'{{"k": {written}}}').get("k")
    assert found is not None and isinstance(found.value, Unknown)


def test_duplicate_key_is_reported_and_the_last_counts() -> None:
    text = '{"a": {"x": 1},\n "b": 2,\n "a": {"y": [3]}}'
    config = read(text)
    assert [(d.path, d.first.line, d.second.line) for d in config.duplicates] == [(("a",), 1, 3)]
    assert {e.path: e.value for e in config.entries} == {("b",): 2, ("a", "y"): (3,)}
    assert [s.path for s in config.sections] == [(), ("a",)]


def test_items_of_a_list() -> None:
    text = '{"a": ["x", 2], "b": [{"c": 1}, [2]]}'
    config = read(text)
    assert config.get("a", 1) is not None
    assert [(e.path, e.value) for e in config.entries] == [
        (("a",), ("x", 2)),
        (("b", 0, "c"), 1),
        (("b", 1), (2,)),
    ]


def test_note() -> None:
    found = read('{\n  // required by NCCL\n  "a": 1, // the first\n  "b": 2 // because\n}')
    assert [e.note for e in found.entries] == ["required by NCCL", "because"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1), ("{", 1), ('{"a": 1\n', 2), ('{"a" 1}', 1), ('{\n"a": \n}', 3), ("{}\n{}", 2),
        ('{"a": 01}', 1), ("{'a': 1}", 1), ("{a: 1}", 1), ('{"a": 1 "b": 2}', 1), ("[1,,2]", 1),
        ("{,}", 1), ('{"a": tru}', 1), ('{"a": "x\n', 1), ('["\\q"]', 1), ("/* x", 1), ("[1}", 1),
        ('{"a": 1.}', 1), ('{"a": .5}', 1), ('{"a": 1_0}', 1), ('{"a": -}', 1),
    ],
)  # fmt: skip
def test_broken_text_says_the_line(text: str, line: int) -> None:
    with pytest.raises(UnreadableError, match=rf"^line {line}: \S"):
        read(text)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


def flat(data: Any, path: Path = ()) -> dict[Path, Any]:
    if isinstance(data, dict) and data:
        return {p: v for k, inner in data.items() for p, v in flat(inner, (*path, k)).items()}
    if isinstance(data, list) and any(isinstance(d, dict | list) for d in data):
        return {p: v for i, inner in enumerate(data) for p, v in flat(inner, (*path, i)).items()}
    return {path: () if data == {} else tuple(data) if isinstance(data, list) else data}


@quick
@given(values, st.sampled_from([None, 2, "\t"]), st.booleans(), st.booleans())
def test_generated_files_read_as_json_reads_them(
    data: Any, indent: int | None, ascii_only: bool, sort: bool
) -> None:
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only, sort_keys=sort)
    config = read(text)
    expected = {p: v for p, v in flat(json.loads(text)).items() if not _reference(v)}
    assert repr({e.path: e.value for e in config.entries if not isinstance(e.value, Unknown)}) == (
        repr(expected)
    )
    for found in config.entries:
        assert cut(text, found) == found.raw
        for leaf in found.items or (found,):
            if not isinstance(leaf.value, tuple | Unknown):
                assert repr(json.loads(cut(text, leaf))) == repr(leaf.value)
        if found.key_at:
            span = found.key_at.span
            assert json.loads(text[span.start : span.end]) == found.path[-1]


def _reference(value: Any) -> bool:
    members = value if isinstance(value, tuple) else (value,)
    return any(isinstance(m, str) and m.startswith("${") and m.endswith("}") for m in members)


@quick
@given(st.text(st.sampled_from('{}[]",:/*\\\n\r 01-.eEtrufalsn\ufeff\U0001f525'), max_size=40))
def test_any_text_is_read_as_json_reads_it_or_refused(text: str) -> None:
    try:
        strict: Any = json.loads(text.removeprefix("\ufeff"))
    except ValueError:
        strict = None
    try:
        config = read(text)
    except UnreadableError:
        assert strict is None
        return
    assert all(cut(text, e) == e.raw for e in config.entries)
    if strict is not None and not config.duplicates:
        assert {e.path: e.value for e in config.entries} == flat(strict)
