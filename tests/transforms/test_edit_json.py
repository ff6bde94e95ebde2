# ruff: noqa: E501 (a case is one line)
"""Keys of JSON files: exact text, then properties on generated files judged by json.loads."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pitstop.rules.tree import SourceFile
from pitstop.transforms.config_proof import Path
from pitstop.transforms.edit_json import remove_key, set_key
from pitstop.transforms.patch import Changed, Outcome, Refused, Unchanged, apply_edits


def after(text: str, outcome: Outcome) -> str:
    assert isinstance(outcome, Changed), outcome
    return apply_edits(SourceFile("c.json", text), outcome.patch.edits)


def file(text: str) -> SourceFile:
    return SourceFile("c.json", text)


COMMENTED = '{\r\n\t"a": 1, // one\r\n\t"b": {"x": 1},\r\n\t"c": {},\r\n\t"d": [1], // d\r\n}\r\n'

SET = {
    "one line": ('{"a": 1}', ("a",), True, '{"a": true}'),
    "text": ('{"a": "auto"}', ("a",), "x", '{"a": "x"}'),
    "null": ('{"a": "auto"}', ("a",), None, '{"a": null}'),
    "small number": ('{"a": 1}', ("a",), 3e-5, '{"a": 3e-05}'),
    "object in an array": ('[{"a": 1}, {"a": 2}]', (1, "a"), 3, '[{"a": 1}, {"a": 3}]'),
    "comments and tabs stay": (COMMENTED, ("b", "x"), 2, COMMENTED.replace('"x": 1', '"x": 2')),
    "behind a block comment": ('{"a": /* n */ 1}', ("a",), 2, '{"a": /* n */ 2}'),
}


@pytest.mark.parametrize(("text", "path", "value", "want"), SET.values(), ids=SET)
def test_set_existing(text: str, path: Path, value: Any, want: str) -> None:
    assert after(text, set_key(file(text), path, value)) == want
    assert isinstance(set_key(file(want), path, value), Unchanged)


INSERT = {
    "one line": ('{"a": 1}\n', ("b",), None, '{"a": 1, "b": true}\n'),
    "compact": ('{"a":1,"c":2}', ("b",), None, '{"a":1,"c":2,"b":true}'),
    "empty object": ("{}", ("b",), None, '{"b": true}'),
    "empty object over lines": ('{\n}\n', ("b",), None, '{\n    "b": true\n}\n'),
    "missing parents on one line": ('{"a": 1}', ("b", "c"), None, '{"a": 1, "b": {"c": true}}'),
    "missing parents over lines": (
        '{\n  "a": 1\n}', ("b", "c"), None, '{\n  "a": 1,\n  "b": {\n    "c": true\n  }\n}'),
    "last, comments": (
        '{\n  "a": 1 // a\n}', ("b",), None, '{\n  "a": 1, // a\n  "b": true\n}'),
    "behind its sibling": (
        '{\n  "a": 1,\n  "c": 2\n}', ("b",), ("a",), '{\n  "a": 1,\n  "b": true,\n  "c": 2\n}'),
    "trailing comma, tabs, windows line ends": (
        COMMENTED, ("e",), None, COMMENTED.replace("// d\r\n", '// d\r\n\t"e": true,\r\n')),
    "empty object inside lines": (
        COMMENTED, ("c", "y"), None, COMMENTED.replace('{},', '{\r\n\t\t"y": true\r\n\t},')),
    "object on one line inside lines": (
        COMMENTED, ("b", "y"), None, COMMENTED.replace('"x": 1', '"x": 1, "y": true')),
}  # fmt: skip


@pytest.mark.parametrize(("text", "path", "beside", "want"), INSERT.values(), ids=INSERT)
def test_insert(text: str, path: Path, beside: Path | None, want: str) -> None:
    assert after(text, set_key(file(text), path, True, beside=beside)) == want
    assert isinstance(set_key(file(want), path, True), Unchanged)


REMOVE = {
    "first of a line": ('{"a": 1, "b": 2}', ("a",), '{"b": 2}'),
    "last of a line": ('{"a": 1, "b": 2}', ("b",), '{"a": 1}'),
    "only one": ('{"a": 1}', ("a",), "{}"),
    "last line takes the comma before": ('{\n  "a": 1, // a\n  "b": 2 // b\n}', ("b",), '{\n  "a": 1 // a\n}'),
    "comment of the next key stays": ('{\n  "a": 1,\n  // about b\n  "b": 2\n}', ("a",), '{\n  // about b\n  "b": 2\n}'),
    "object over lines": ('{\n  "a": {\n    "x": 1\n  },\n  "b": 2\n}', ("a",), '{\n  "b": 2\n}'),
}  # fmt: skip


@pytest.mark.parametrize(("text", "path", "want"), REMOVE.values(), ids=REMOVE)
def test_remove(text: str, path: Path, want: str) -> None:
    assert after(text, remove_key(file(text), path)) == want
    assert isinstance(remove_key(file(want), path), Unchanged)


REFUSED = {
    "duplicate key": ('{"a": 1, "a": 2}', ("a",)),
    "object": ('{"a": {}}', ("a",)),
    "array": ('{"a": [1]}', ("a",)),
    "item of an array": ('{"a": [1]}', ("a", 0)),
    "below a scalar": ('{"a": 1}', ("a", "b")),
    "broken file": ('{"a": 1', ("a",)),
    "array at the top": ("[1]", ("a",)),
    "not a number": ('{"a": 1}', ("a",)),
}


@pytest.mark.parametrize(("text", "path"), REFUSED.values(), ids=REFUSED)
def test_refused(text: str, path: Path, request: pytest.FixtureRequest) -> None:
    value = float("nan") if "not a number" in request.node.name else 5
    assert isinstance(set_key(file(text), path, value), Refused)


# --- generated files -------------------------------------------------------------------------

names = st.sampled_from(["bf16", "stage", "zero optimization", "é", "a/b", 'q"', "x"])
leaves = st.one_of(
    st.booleans(),
    st.integers(-5, 5),
    st.none(),
    st.sampled_from(["auto", "// no", 'say "x"', 1e-8]),
)
trees = st.recursive(
    leaves | st.lists(leaves, max_size=3),
    lambda inner: st.dictionaries(names, inner, max_size=4),
    max_leaves=8,
)
roots = st.dictionaries(names, trees, max_size=5)


@st.composite
def files(draw: st.DrawFn) -> str:
    """JSON as tools and people write it; comments only at line ends."""
    indent = draw(st.sampled_from([None, 2, 4, "\t"]))
    text = json.dumps(draw(roots), indent=indent, ensure_ascii=draw(st.booleans()))
    if indent is None and draw(st.booleans()):
        text = json.dumps(json.loads(text), separators=(",", ":"))
    if indent is not None and draw(st.booleans()):
        text = re.sub(
            r"(?<=[,{])\n",
            lambda _: draw(st.sampled_from(["\n", " // note\n", " /* n */\n"])),
            text,
        )
    text += draw(st.sampled_from(["", "\n"]))
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def load(text: str) -> Any:
    return json.loads(re.sub(r" (// note|/\* n \*/)(?=\r?\n)", "", text))


def paths(data: Any, at: Path = (), *, leaf: bool = True) -> list[Path]:
    """Every leaf that is no array, or every object."""
    if not isinstance(data, dict):
        return [at] if leaf and not isinstance(data, list) else []
    below = [p for key, value in data.items() for p in paths(value, (*at, key), leaf=leaf)]
    return below if leaf else [at, *below]


def replaced(data: Any, path: Path, value: Any) -> Any:
    data = copy.deepcopy(data)
    inner = data
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return data


values = st.sampled_from([True, False, 0, 8, 2.5, 3e-7, None, "auto", 'a "b"', "é\n"])
quick = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@quick
@given(files(), st.data(), values)
def test_only_the_intended_value_differs(text: str, data: st.DataObject, value: Any) -> None:
    found = paths(load(text))
    assume(found and found != [()])
    path = data.draw(st.sampled_from(found))
    outcome = set_key(file(text), path, value)
    if isinstance(outcome, Unchanged):
        return
    changed = after(text, outcome)
    assert json.dumps(load(changed)) == json.dumps(replaced(load(text), path, value))
    assert isinstance(set_key(file(changed), path, value), Unchanged)


@quick
@given(files(), st.data(), values)
def test_insert_and_remove_restores_the_file(text: str, data: st.DataObject, value: Any) -> None:
    loaded = load(text)
    parent = data.draw(st.sampled_from(paths(loaded, leaf=False)))
    path = (*parent, "new")
    inner = loaded
    for part in parent:
        inner = inner[part]
    beside = (*parent, data.draw(st.sampled_from(sorted(inner)))) if inner else None
    changed = after(text, set_key(file(text), path, value, beside=beside))
    assert load(changed) == replaced(loaded, path, value)
    assert isinstance(set_key(file(changed), path, value), Unchanged)
    restored = after(changed, remove_key(file(changed), path))
    assert load(restored) == loaded
    if inner:
        assert restored == text


@quick
@given(files(), st.data(), values, values)
def test_order_of_edits_does_not_matter(text: str, data: st.DataObject, a: Any, b: Any) -> None:
    found = paths(load(text))
    assume(len(found) > 1)
    first, second = data.draw(st.lists(st.sampled_from(found), min_size=2, max_size=2, unique=True))
    results = []
    for one, two in (((first, a), (second, b)), ((second, b), (first, a))):
        middle = text
        for path, value in (one, two):
            outcome = set_key(file(middle), path, value)
            middle = middle if isinstance(outcome, Unchanged) else after(middle, outcome)
        results.append(middle)
    assert results[0] == results[1]
