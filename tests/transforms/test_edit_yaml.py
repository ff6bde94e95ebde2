# ruff: noqa: E501 (a case is one line)
"""Keys of YAML files: exact text, then properties on generated files judged by PyYAML."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pitstop.rules.tree import SourceFile
from pitstop.transforms.config_proof import Path
from pitstop.transforms.edit_yaml import remove_key, set_key
from pitstop.transforms.patch import Changed, Outcome, Refused, Unchanged, apply_edits


def after(text: str, outcome: Outcome) -> str:
    assert isinstance(outcome, Changed), outcome
    return apply_edits(SourceFile("c.yaml", text), outcome.patch.edits)


def file(text: str) -> SourceFile:
    return SourceFile("c.yaml", text)


SET = {
    "plain value, comment and spaces stay": ("a: 1\nb:  2   # two\n", ("b",), 3, "a: 1\nb:  3   # two\n"),
    "letter case of a boolean stays": ("a: True\n", ("a",), False, "a: False\n"),
    "old quotes stay": ("a: 'x'\n", ("a",), "y", "a: 'y'\n"),
    "a number in quotes becomes plain": ('a: "4"\n', ("a",), 8, "a: 8\n"),
    "a word that YAML would misread is quoted": ("a: steps\n", ("a",), "no", 'a: "no"\n'),
    "quotes as the file uses them": ("a: steps\nb: 'x y'\n", ("a",), "no", "a: 'no'\nb: 'x y'\n"),
    "small number that PyYAML understands": ("a: 1\n", ("a",), 1e-5, "a: 1.0e-05\n"),
    "null": ("a: 1\n", ("a",), None, "a: null\n"),
    "empty value": ("a:\nb:   # later\n", ("b",), 5, "a:\nb: 5   # later\n"),
    "nested": ("a:\n    b:\n        c: 1\n", ("a", "b", "c"), 2, "a:\n    b:\n        c: 2\n"),
    "item of a list": ("- a: 1\n- a: 2\n", (1, "a"), 3, "- a: 1\n- a: 3\n"),
    "flow mapping": ("a: {b: 1, c: 2}\n", ("a", "b"), 5, "a: {b: 5, c: 2}\n"),
    "windows line ends and byte order mark": ("\ufeffa: 1\r\nb: 2\r\n", ("a",), 7, "\ufeffa: 7\r\nb: 2\r\n"),
    "no final line end": ("a: 1", ("a",), 2, "a: 2"),
    "value over two lines": ("a: x\n  y\nb: 1\n", ("a",), "z", "a: z\nb: 1\n"),
    "an alias gets a value of its own": ("a: &x 1\nb: *x\n", ("b",), 2, "a: &x 1\nb: 2\n"),
    "an anchor nobody uses stays": ("a: &x 1\n", ("a",), 2, "a: &x 2\n"),
    "second document": ("a: 1\n---\na: 2\n", ("a",), 3, "a: 1\n---\na: 3\n"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "path", "value", "want"), SET.values(), ids=SET)
def test_set_existing(text: str, path: Path, value: Any, want: str) -> None:
    document = 1 if "---" in text else 0
    assert after(text, set_key(file(text), path, value, document=document)) == want
    assert isinstance(set_key(file(want), path, value, document=document), Unchanged)


INSERT = {
    "last of the file": ("a: 1\n", ("b",), None, "a: 1\nb: true\n"),
    "no final line end": ("a: 1", ("b",), None, "a: 1\nb: true"),
    "behind its sibling, before the next section": (
        "### model\na: 1 # one\n\n### train\nb: 2\n", ("c",), ("a",),
        "### model\na: 1 # one\nc: true\n\n### train\nb: 2\n",
    ),
    "behind a nested sibling": ("a:\n  x: 1\n\n# b\nb: 2\n", ("c",), ("a",), "a:\n  x: 1\nc: true\n\n# b\nb: 2\n"),
    "nested, own indent": ("a:\n    x: 1\n    # end\nb: 2\n", ("a", "y"), None, "a:\n    x: 1\n    y: true\n    # end\nb: 2\n"),
    "missing parents, the file's step": (
        "a:\n    x: 1\n", ("b", "c"), None, "a:\n    x: 1\nb:\n    c: true\n"),
    "item of a list": ("- a: 1\n- a: 2\n", (0, "b"), None, "- a: 1\n  b: true\n- a: 2\n"),
    "list that is not indented": ("a:\n- 1\n- 2\n", ("b",), None, "a:\n- 1\n- 2\nb: true\n"),
    "flow mapping on one line": ("a: {x: 1}\n", ("a", "y"), None, "a: {x: 1, y: true}\n"),
    "empty flow mapping": ("a: {}\n", ("a", "y"), None, "a: {y: true}\n"),
    "flow mapping, quoted keys": ('a: {"x": 1}\n', ("a", "y"), None, 'a: {"x": 1, "y": true}\n'),
    "flow mapping over lines, comments": (
        "a: {\n  x: 1, # x\n  y: 2  # y\n}\n", ("a", "z"), None,
        "a: {\n  x: 1, # x\n  y: 2,  # y\n  z: true\n}\n",
    ),
    "flow mapping over lines, trailing comma": (
        "a: {\n  x: 1, # x\n}\n", ("a", "z"), None, "a: {\n  x: 1, # x\n  z: true,\n}\n"),
    "windows line ends": ("a: 1\r\nb: 2\r\n", ("c",), ("a",), "a: 1\r\nc: true\r\nb: 2\r\n"),
    "behind a block of text": ("a: |\n  x\n\n# b\nb: 1\n", ("c",), ("a",), "a: |\n  x\nc: true\n\n# b\nb: 1\n"),
    "only comments": ("# nothing yet", ("a", "b"), None, "# nothing yet\na:\n  b: true\n"),
    "a merged value gets a local one": (
        "a: &m\n  x: 1\nb:\n  <<: *m\n", ("b", "x"), None, "a: &m\n  x: 1\nb:\n  <<: *m\n  x: true\n"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "path", "beside", "want"), INSERT.values(), ids=INSERT)
def test_insert(text: str, path: Path, beside: Path | None, want: str) -> None:
    assert after(text, set_key(file(text), path, True, beside=beside)) == want
    assert isinstance(set_key(file(want), path, True), Unchanged)


REMOVE = {
    "comment of the next key stays": ("a: 1\nb: 2 # two\n# c\nc: 3\n", ("b",), "a: 1\n# c\nc: 3\n"),
    "section header stays": ("### s\na: 1\nb: 2\n", ("a",), "### s\nb: 2\n"),
    "last line without end": ("a: 1\nb: 2", ("b",), "a: 1"),
    "nested block": ("a:\n  x: 1\n  y: 2\nb: 1\n", ("a",), "b: 1\n"),
    "behind a dash": ("- a: 1\n  b: 2\n", (0, "a"), "- b: 2\n"),
    "first of a flow mapping": ("a: {x: 1, y: 2}\n", ("a", "x"), "a: {y: 2}\n"),
    "last of a flow mapping": ("a: {x: 1, y: 2}\n", ("a", "y"), "a: {x: 1}\n"),
    "only one of a flow mapping": ("a: {x: 1}\n", ("a", "x"), "a: {}\n"),
    "line of a flow mapping": ("a: {\n  x: 1, # x\n  y: 2 # y\n}\n", ("a", "y"), "a: {\n  x: 1 # x\n}\n"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "path", "want"), REMOVE.values(), ids=REMOVE)
def test_remove(text: str, path: Path, want: str) -> None:
    assert after(text, remove_key(file(text), path)) == want
    assert isinstance(remove_key(file(want), path), Unchanged)


REFUSED = {
    "duplicate key": ("a: 1\na: 2\n", ("a",)),
    "block of text": ("a: |\n  x\n", ("a",)),
    "anchor that others use": ("a: &x 1\nb: *x\n", ("a",)),
    "merge source": ("a: &x\n  k: 1\nb:\n  <<: *x\n", ("a", "k")),
    "inside an alias": ("a: &x\n  k: 1\nb: *x\n", ("b", "k")),
    "value that another key interpolates": ("a: 1\nb: ${a}\n", ("a",)),
    "template": ("a: {{ x }}\n", ("a",)),
    "tagged value": ("a: !!str 1\n", ("a",)),
    "block mapping": ("a:\n  b: 1\n", ("a",)),
    "below a scalar": ("a: 1\n", ("a", "b")),
    "below null": ("a:\n", ("a", "b")),
    "broken file": ("a: [1\n", ("a",)),
    "infinity is no setting": ("a: 1\n", ("a",)),
}


@pytest.mark.parametrize(("text", "path"), REFUSED.values(), ids=REFUSED)
def test_refused(text: str, path: Path, request: pytest.FixtureRequest) -> None:
    value = float("inf") if "infinity" in request.node.name else 5
    assert isinstance(set_key(file(text), path, value), Refused)


def test_text_at_the_end_of_a_file_gets_no_line_end() -> None:
    text = "a:\n  b: |\n    x=${{ y }}"
    assert isinstance(set_key(file(text), ("a", "c"), 1), Refused)
    assert isinstance(set_key(file(text + "\n"), ("a", "c"), 1), Changed)


def test_only_key_of_a_block_is_not_removed() -> None:
    assert isinstance(remove_key(file("a:\n  b: 1\n"), ("a", "b")), Refused)


# --- generated files -------------------------------------------------------------------------

names = st.sampled_from(
    ["lr", "bf16", "steps", "model_name", "optim", "fsdp_config", "x", "y", "report_to", "0a"]
)
words = st.sampled_from(
    ["1", "0", "true", "False", "no", "1.5", "1.0e-5", "adamw_torch", "'q r'", '"no"', "a/b-c", "null", "''", '"#x"']
)  # fmt: skip
comments = st.sampled_from(["", "", "", "  # note", " # a: b", "\t# tab"])
gaps = st.sampled_from(["", "", "", "\n", "# about the next\n", "### section: x\n\n"])


@st.composite
def blocks(draw: st.DrawFn, indent: str = "", depth: int = 0) -> str:
    """A block mapping as people write them."""
    step = draw(st.sampled_from(["  ", "    "]))
    out = []
    for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        gap = draw(gaps).replace("# about", f"{indent}# about")
        kind = draw(st.integers(0, 9 if depth < 2 else 6))
        tail = draw(comments).replace("\t", " ") + "\n"
        if kind <= 4:
            body = f" {draw(words)}{tail}"
        elif kind == 5:
            pairs = draw(st.dictionaries(names, words, max_size=3))
            body = " {" + ", ".join(f"{k}: {v}" for k, v in pairs.items()) + f"}}{tail}"
        elif kind == 6:
            body = f" [{', '.join(draw(st.lists(words, max_size=3)))}]{tail}"
        elif kind == 7:
            body = f" |{tail}{indent}{step}text: here\n{indent}{step}  # no comment\n"
        elif kind == 8:
            items = draw(st.lists(words, min_size=1, max_size=2))
            body = tail + "".join(f"{indent}- {item}\n" for item in items)
        else:
            body = tail + draw(blocks(indent + step, depth + 1))
        out.append(f"{gap}{indent}{name}:{body}")
    return "".join(out)


@st.composite
def files(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(["", "# head\n", "---\n"])) + draw(blocks())
    if draw(st.booleans()):
        text = text.rstrip("\n")
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(st.sampled_from(["", "", "\ufeff"])) + text


values = st.sampled_from(
    [True, False, 0, 8, 2.5, 3e-7, None, "bf16", "no", "a b", "x: y", "1", "it's"]
)


def scalar_paths(data: Any, at: Path = ()) -> list[Path]:
    """Every leaf that is no list and no block of text."""
    if isinstance(data, dict):
        return [p for key, value in data.items() for p in scalar_paths(value, (*at, key))]
    return [] if isinstance(data, list) or "text: here" in str(data) else [at]


def mappings(data: Any, at: Path = ()) -> list[Path]:
    if not isinstance(data, dict):
        return []
    return [at, *(p for key, value in data.items() for p in mappings(value, (*at, key)))]


def replaced(data: Any, path: Path, value: Any) -> Any:
    data = copy.deepcopy(data)
    inner = data
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return data


quick = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@quick
@given(files(), st.data(), values)
def test_only_the_intended_value_differs(text: str, data: st.DataObject, value: Any) -> None:
    loaded = yaml.safe_load(text)
    paths = scalar_paths(loaded)
    assume(paths)
    path = data.draw(st.sampled_from(paths))
    outcome = set_key(file(text), path, value)
    if isinstance(outcome, Unchanged):
        return
    assert isinstance(outcome, Changed)
    changed = after(text, outcome)
    assert yaml.safe_load(changed) == replaced(loaded, path, value)
    assert isinstance(set_key(file(changed), path, value), Unchanged)
    (edit,) = outcome.patch.edits
    assert changed == text[: edit.span.start] + edit.text + text[edit.span.end :]


@quick
@given(files(), st.data(), values)
def test_insert_and_remove_restores_the_file(text: str, data: st.DataObject, value: Any) -> None:
    loaded = yaml.safe_load(text)
    parent = data.draw(st.sampled_from(mappings(loaded)))
    path = (*parent, "new_key")
    beside = None
    inner = loaded
    for part in parent:
        inner = inner[part]
    if inner and data.draw(st.booleans()):
        beside = (*parent, data.draw(st.sampled_from(sorted(inner))))
    outcome = set_key(file(text), path, value, beside=beside)
    if isinstance(outcome, Refused):  # a text block at the end of a file without a line end
        assert "block of text" in outcome.reason
        return
    changed = after(text, outcome)
    assert yaml.safe_load(changed) == replaced(loaded, path, value)
    assert isinstance(set_key(file(changed), path, value), Unchanged)
    assert after(changed, remove_key(file(changed), path)) == text


plain = st.sampled_from([True, False, 0, 8, 2.5, None, "bf16", "a/b"])  # quotes follow the file's


@quick
@given(files(), st.data(), plain, plain)
def test_order_of_edits_does_not_matter(text: str, data: st.DataObject, a: Any, b: Any) -> None:
    paths = scalar_paths(yaml.safe_load(text))
    assume(len(paths) > 1)
    first, second = data.draw(st.lists(st.sampled_from(paths), min_size=2, max_size=2, unique=True))
    together = []
    texts = []
    for one, two, v, w in ((first, second, a, b), (second, first, b, a)):
        outcome = set_key(file(text), one, v)
        assume(isinstance(outcome, Changed))
        assert isinstance(outcome, Changed)  # for mypy
        together += outcome.patch.edits
        middle = after(text, outcome)
        last = set_key(file(middle), two, w)
        texts.append(middle if isinstance(last, Unchanged) else after(middle, last))
    assert texts[0] == texts[1] == apply_edits(file(text), together)
