"""YAML leaves: values as PyYAML reads them, places judged by ruamel.yaml and by cutting."""

from __future__ import annotations

import math
from typing import Any

import pytest
import ruamel.yaml
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pitstop.rules.configs import ConfigFile, Entry, Path, read_config
from pitstop.rules.finding import Unknown
from pitstop.rules.tree import SourceFile, UnreadableError

quick = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def read(text: str) -> ConfigFile:
    return read_config(SourceFile("c.yaml", text))


def entry(config: ConfigFile, *path: str | int, document: int = 0) -> Entry:
    found = config.get(*path, document=document)
    assert found is not None, [e.path for e in config.entries]
    return found


def cut(text: str, found: Entry) -> str:
    span = found.value_at.span
    return text[span.start : span.end]


def key(text: str, found: Entry) -> str:
    assert found.key_at is not None
    return text[found.key_at.span.start : found.key_at.span.end]


# --- values ----------------------------------------------------------------------------------

SCALARS: dict[str, tuple[str, Any]] = {
    "integer": ("4", 4),
    "signed": ("-1", -1),
    "octal of YAML 1.1": ("0755", 493),
    "octal of YAML 1.2 is a text": ("0o17", "0o17"),
    "hexadecimal": ("0x1F", 31),
    "binary": ("0b101", 5),
    "underscores": ("1_000", 1000),
    "base 60": ("1:30", 90),
    "leading zero that is no octal": ("08", "08"),
    "float": ("0.5", 0.5),
    "float with a signed exponent": ("1.0e-4", 0.0001),
    "exponent without a dot: text to PyYAML, number to its consumer": ("1e-4", 0.0001),
    "exponent without a sign": ("2.5e3", 2500.0),
    "infinity": ("-.inf", -math.inf),
    "yes": ("yes", True),
    "off": ("off", False),
    "True": ("True", True),
    "y alone is a text": ("y", "y"),
    "null": ("null", None),
    "tilde": ("~", None),
    "nothing": ("", None),
    "word": ("bf16", "bf16"),
    "words": ("a b  c", "a b  c"),
    "quoted number": ("'4'", "4"),
    "quoted boolean": ('"true"', "true"),
    "quotes inside": ("'it''s'", "it's"),
    "escapes": (r'"a\tb\u00e9"', "a\tb\u00e9"),
    "date": ("2024-01-02", "2024-01-02"),
    "path": ("/data/x:y", "/data/x:y"),
    "address": ("http://host:80/a#b", "http://host:80/a#b"),
    "tagged text": ("!!str 4", "4"),
    "tagged number": ("!!int '4'", 4),
    "tagged float": ("!!float 1", 1.0),
    "not a number after all": ("0x_", "0x_"),
    "emoji": ("'\U0001f525 x'", "\U0001f525 x"),
    "CJK": ("训练", "训练"),
}


@pytest.mark.parametrize("case", SCALARS)
def test_scalar(case: str) -> None:
    written, value = SCALARS[case]
    text = f"a: 1\nk: {written}  # end\nz: 2\n"
    found = entry(read(text), "k")
    assert (found.value, type(found.value)) == (value, type(value))
    assert cut(text, found) == found.raw
    assert found.raw in written and (found.raw or not written)
    assert key(text, found) == "k"


def test_not_a_number() -> None:
    found = entry(read("k: .nan\n"), "k")
    assert isinstance(found.value, float) and math.isnan(found.value)


@pytest.mark.parametrize(
    "written", ["!!python/object:os.system x", "!Ref Bucket", "!!timestamp 2024-01-02", "!!int x"]
)
def test_a_tag_that_constructs_something_is_unknown(written: str) -> None:
    assert isinstance(entry(read(f"k: {written}\n"), "k").value, Unknown)


def test_a_long_number_is_a_text() -> None:
    assert isinstance(entry(read(f"k: {'9' * 5000}\n"), "k").value, str)


# --- shapes ----------------------------------------------------------------------------------


def test_nested_mappings_and_sequences() -> None:
    text = "a:\n  b:\n  - c: 1\n  - c: 2\n    d: x\ne: 3\n"
    config = read(text)
    assert {e.path: e.value for e in config.entries} == {
        ("a", "b", 0, "c"): 1, ("a", "b", 1, "c"): 2, ("a", "b", 1, "d"): "x", ("e",): 3,
    }  # fmt: skip
    assert config.keys() == ("a", "e")
    assert config.keys("a", "b", 1) == ("c", "d")
    assert config.has("a", "b") and config.has("e") and not config.has("b")
    assert [e.value for e in config.find("a")] == [1, 2, "x"]


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("k: [q, 'v', 3]\n", "[q, 'v', 3]"),
        ("k: [q,\n  'v', 3,\n]  # end\n", "[q,\n  'v', 3,\n]"),
        ("k:\n- q\n- 'v'\n- 3 # three\nz: 1\n", "- q\n- 'v'\n- 3"),
        ("k:\n  - q\n  # why\n  - 'v'\n\n  - 3\n", "- q\n  # why\n  - 'v'\n\n  - 3"),
    ],
)
def test_a_sequence_of_scalars_is_one_leaf(text: str, raw: str) -> None:
    config = read(text)
    found = entry(config, "k")
    assert found.value == ("q", "v", 3)
    assert cut(text, found) == raw
    assert [cut(text, i) for i in found.items] == ["q", "'v'", "3"]
    assert entry(config, "k", 1).value == "v"


@pytest.mark.parametrize("written", ["[]", "{}", "[ ]"])
def test_an_empty_collection_is_an_empty_leaf(written: str) -> None:
    text = f"k: {written} # none\n"
    found = entry(read(text), "k")
    assert found.value == () and cut(text, found) == written


def test_an_empty_value_is_placed_behind_its_colon() -> None:
    text = "a:\nb:   # later\nc: 1\n"
    for name in "ab":
        found = entry(read(text), name)
        assert found.value is None and found.raw == ""
        assert text[: found.value_at.span.start].endswith(f"{name}:")


def test_flow_mapping() -> None:
    text = "k: {a: 1, 'b c': [x], d: {}}\n"
    config = read(text)
    assert {e.path: (e.value, cut(text, e), key(text, e)) for e in config.entries} == {
        ("k", "a"): (1, "1", "a"),
        ("k", "b c"): (("x",), "[x]", "'b c'"),
        ("k", "d"): ((), "{}", "d"),
    }
    section = config.section("k")
    assert section is not None and section.style == "flow"
    assert text[section.at.span.start : section.at.span.end] == "{a: 1, 'b c': [x], d: {}}"


def test_a_block_section_ends_with_its_last_value() -> None:
    text = "a:\n  b: 1\n  c:\n    d: x  # end\n\n# about e\ne: 1\n"
    section = read(text).section("a")
    assert section is not None and section.style == "block"
    assert text[section.at.span.start : section.at.span.end] == "b: 1\n  c:\n    d: x"


@pytest.mark.parametrize("header", ["|", ">", "|-", "|2-", ">+"])
def test_block_scalar(header: str) -> None:
    text = f"k: {header}\n  line one\n  two # no comment\n\nz: 1\n"
    found = entry(read(text), "k")
    assert isinstance(found.value, str) and found.value.startswith("line one")
    assert found.raw.startswith(header) and found.raw.endswith("two # no comment")


def test_plain_scalar_over_two_lines() -> None:
    text = "k: one\n  two  # end\nz: 1\n"
    found = entry(read(text), "k")
    assert (found.value, found.raw) == ("one two", "one\n  two")


def test_keys_of_every_kind() -> None:
    text = "'a b': 1\n? c\n: 2\non: 3\n4: 5\n"
    config = read(text)
    assert {e.path: key(text, e) for e in config.entries} == {
        ("a b",): "'a b'", ("c",): "c", ("on",): "on", ("4",): "4",
    }  # fmt: skip


def test_a_key_that_is_no_word_is_reported() -> None:
    config = read("a: 1\n? [x, y]\n: 2\n")
    assert [e.path for e in config.entries] == [("a",)]
    assert [u.line for u in config.unread] == [2]


def test_documents_are_kept_apart() -> None:
    config = read("a: 1\n---\na: 2\n...\n---\nb: 3\n")
    assert config.documents == 3
    assert [entry(config, "a", document=n).value for n in (0, 1)] == [1, 2]
    assert config.get("b") is None and entry(config, "b", document=2).value == 3


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "\ufeff", "\n\n"])
def test_a_file_without_a_value_has_no_keys(text: str) -> None:
    assert read(text).keys() == ()


# --- aliases, merges, duplicates -------------------------------------------------------------


def test_an_alias_is_placed_where_it_was_written() -> None:
    text = "a: &n 4\nb: *n\n"
    found = entry(read(text), "b")
    assert (found.value, found.shared, cut(text, found), key(text, found)) == (4, True, "4", "b")
    assert found.value_at.line == 1 and not entry(read(text), "a").shared


def test_anchor_and_tag_do_not_belong_to_the_value() -> None:
    text = 'a: &x !!str  "v"\nb: &y\n  c: &z [1]\nd: &e\n'
    config = read(text)
    assert [cut(text, e) for e in config.entries] == ['"v"', "[1]", ""]


def test_merge_fills_in_what_the_mapping_does_not_say() -> None:
    text = "base: &b {lr: 1, bf16: true}\nrun:\n  bf16: false\n  <<: *b\n"
    config = read(text)
    assert entry(config, "run", "bf16").value is False
    merged = entry(config, "run", "lr")
    assert merged.value == 1 and merged.shared and merged.value_at.line == 1
    assert config.duplicates == ()


def test_of_several_merged_mappings_the_first_wins() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b], z: 3}\n"
    config = read(text)
    assert {k: entry(config, "c", k).value for k in "xyz"} == {"x": 1, "y": 1, "z": 3}


def test_duplicate_key_is_reported_and_the_last_counts() -> None:
    text = "a: 1\nb: 2\na:\n  c: 3\n"
    config = read(text)
    assert [(d.path, d.first.line, d.second.line) for d in config.duplicates] == [(("a",), 1, 3)]
    assert config.get("a") is None and entry(config, "a", "c").value == 3


def test_an_alias_inside_its_own_anchor_is_reported() -> None:
    config = read("a: &a\n  b: *a\n  c: 1\n")
    assert entry(config, "a", "c").value == 1
    assert [u.line for u in config.unread] == [2]


# --- encodings -------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
def test_places_count_characters(end: str, start: str, last: bool) -> None:
    lines = [
        "# \U0001f525 训练",
        "'键': 'é\U0001f525'  # x",
        "b:",
        "  - c: 训练",
        "  - d: [1, '\U0001f525']",
    ]
    text = start + end.join(lines) + (end if last else "")
    config = read(text)
    assert [(cut(text, e), e.raw) for e in config.entries] == [
        (raw, raw) for raw in ("'é\U0001f525'", "训练", "[1, '\U0001f525']")
    ]
    first = config.entries[0]
    assert key(text, first) == "'键'"
    assert (first.value_at.line, first.value_at.column) == (2, 6)


def test_bytes_that_are_not_utf8_keep_the_places() -> None:
    text = b"# \xe9\xff\na: '\xe9'\nb: 2\n".decode("utf-8", "surrogateescape")
    config = read(text)
    assert [cut(text, e) for e in config.entries] == ["'\udce9'", "2"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: [1\n", 3),
        ("a: 1\n\tb: 2\n", 2),
        ("a: 'x\n", 2),
        ("a: b: c\n", 1),
        ("\ufeffa: 1\nb: *c\n", 2),
        ("a: 1\n b: 2\n", 2),
        ("a: \x07\n", 1),
        ("{% for x in y %}\na: 1\n", 1),
    ],
)
def test_broken_text_says_the_line(text: str, line: int) -> None:
    with pytest.raises(UnreadableError, match=rf"^line {line}: \S"):
        read(text)


# --- notes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("k: 0  # NOTE: workers crash here\n", "NOTE: workers crash here"),
        ("k: 0  # because of fork\n", "because of fork"),
        ("k: 0  # number of workers\n", None),
        (
            "# required by the data set\n# (see above)\nk: 0\n",
            "required by the data set (see above)",
        ),
        ("# required\n\nk: 0\n", None),
        ("a: 1  # intentional\nk: 0\n", None),
        ("k: [0, 1]  # don't change\n", "don't change"),
        ("k: '# NOTE'\n", None),
        ("k: 'x # NOTE'\n", None),
        ("m: {k: 0}  # needed\n", "needed"),
    ],
)
def test_note(text: str, note: str | None) -> None:
    config = read(text)
    found = config.get("k") or config.get("m", "k")
    assert found is not None and found.note == note


# --- interpolation ---------------------------------------------------------------------------

INTERPOLATIONS: dict[str, tuple[str, Any]] = {
    "whole value keeps its type": ("a: 4\nk: ${a}\n", 4),
    "nested key": ("a: {b: [x, y]}\nk: ${a.b}\n", ("x", "y")),
    "element": ("a: {b: [x, y]}\nk: ${a.b[1]}\n", "y"),
    "inside a text": ("a: 4\nk: run-${a}-${a}\n", "run-4-4"),
    "chain": ("a: 4\nb: ${a}\nk: ${b}\n", 4),
    "selection of what is there": ("a: {b: 4}\nk: ${oc.select:a.b,8}\n", 4),
    "selection of what is not there": ("k: ${oc.select:a.b, 8}\n", 8),
    "selection without a default": ("k: ${oc.select:a.b}\n", None),
    "in a sequence": ("a: 4\nk: [1, '${a}']\n", (1, 4)),
}
UNKNOWN = {
    "absent": "k: ${nowhere}\n",
    "environment": "k: ${oc.env:HOME}\n",
    "environment with default": "k: ${oc.env:HOME,4}\n",
    "shell variable": "k: ${HOME}\n",
    "workflow expression": "k: ${{ matrix.x }}\n",
    "nested": "a: b\nb: 1\nk: ${${a}}\n",
    "itself": "k: ${k}\n",
    "circle": "k: ${b}\nb: ${k}\n",
    "circle through a list": "k: [1, '${k}']\n",
    "selection of a section": "a: {b: 1}\nk: ${oc.select:a,4}\n",
    "selection of a list by default": "k: '${oc.select:a,[1]}'\n",
    "section": "a: {b: 1}\nk: ${a}\n",
    "template": "k: {{ value }}\n",
    "quoted template": "k: '{{ value }}'\n",
}


@pytest.mark.parametrize("case", INTERPOLATIONS)
def test_interpolation(case: str) -> None:
    text, value = INTERPOLATIONS[case]
    found = entry(read(text), "k")
    assert found.value == value
    assert cut(text, found) == found.raw


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_cannot_be_resolved_is_unknown(case: str) -> None:
    assert isinstance(entry(read(UNKNOWN[case]), "k").value, Unknown)


def test_relative_interpolation() -> None:
    config = read("a:\n  b: 1\n  c: ${.b}\n  d: {e: '${..b}'}\n")
    assert entry(config, "a", "c").value == 1 and entry(config, "a", "d", "e").value == 1


# --- properties ------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
scalars = (
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(width=32) | words
    | st.sampled_from(["yes", "1e-4", "# x", "a: b", "*a", "&a", "!t", "'", '"', "\U0001f525"])
)  # fmt: skip
documents = st.dictionaries(
    words,
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=5,
)


def flat(data: Any, path: Path = ()) -> dict[Path, Any]:
    """The leaves of loaded data, as ConfigFile has them."""
    if isinstance(data, dict) and data:
        return {p: v for k, inner in data.items() for p, v in flat(inner, (*path, k)).items()}
    if isinstance(data, list):
        if any(isinstance(item, dict | list) for item in data):
            return {p: v for i, d in enumerate(data) for p, v in flat(d, (*path, i)).items()}
        return {path: tuple(data)}
    return {path: () if data == {} else data}


@quick
@given(
    documents, st.sampled_from([None, True, False]), st.sampled_from([None, "'", '"']),
    st.sampled_from(["\n", "\r\n"]), st.booleans(), st.sampled_from([20, 1000]),
)  # fmt: skip
def test_generated_files_read_as_pyyaml_reads_them(
    data: Any, flow: bool | None, style: str | None, end: str, marked: bool, width: int
) -> None:
    text = yaml.safe_dump(
        data, default_flow_style=flow, default_style=style, line_break=end,
        allow_unicode=True, width=width, sort_keys=False,
    )  # fmt: skip
    expected = yaml.safe_load(text)
    text = "\ufeff" + text if marked else text
    config = read(text)
    leaves = flat(expected)
    assert [e.path for e in config.entries] == list(leaves)
    for found in config.entries:
        assert cut(text, found) == found.raw
        if any(mark in found.raw for mark in ("${", "{{", "{%", "<%")):
            continue
        assert repr(found.value) == repr(consumed(leaves[found.path], found))
        if style is None and found.value_at.line == found.value_at.end_line:
            again = flat(yaml.safe_load(found.raw or "null"), (0,))[(0,)]
            assert repr(found.value) == repr(consumed(again, found))


def consumed(value: Any, found: Entry) -> Any:
    """PyYAML's value, with `1e-4` as the number that a consumer makes of it."""
    if isinstance(value, tuple):
        return tuple(consumed(v, i) for v, i in zip(value, found.items, strict=True))
    number = isinstance(value, str) and value == found.raw and value.lower().count("e") == 1
    try:
        return float(value) if number and value[-1].isascii() and value[-1].isdigit() else value
    except ValueError:
        return value


@quick
@given(documents, st.sampled_from([None, True, False]))
def test_places_agree_with_ruamel(data: Any, flow: bool | None) -> None:
    text = yaml.safe_dump(data, default_flow_style=flow, allow_unicode=True)
    config = read(text)
    composer = ruamel.yaml.YAML()
    composer.version = (1, 1)  # type: ignore[assignment]
    root = composer.compose(text)
    places = sorted(_scalar_marks(root)) if root is not None else []
    ours = [e for leaf in config.entries for e in (leaf.items or (leaf,))]
    starts = {e.value_at.span.start for e in ours if e.value != ()}
    starts |= {e.key_at.span.start for e in config.entries if e.key_at}
    sections = {s.key_at.span.start for s in config.sections if s.key_at}
    assert starts | sections == set(places)


def _scalar_marks(node: Any) -> list[int]:
    if isinstance(node, ruamel.yaml.nodes.ScalarNode):
        return [node.start_mark.index]
    below = node.value
    if isinstance(node, ruamel.yaml.nodes.MappingNode):
        below = [part for pair in node.value for part in pair]
    return [mark for part in below for mark in _scalar_marks(part)]


@quick
@given(
    st.text(st.sampled_from("ab:-#&*!|>'\"%@`{}[],?<\\ \n\r\t0.~$\ufeff\U0001f525训"), max_size=60)
    | st.text(max_size=60)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        config = read(text)
    except UnreadableError as error:
        assert str(error)
        return
    for found in config.entries:
        assert cut(text, found) == found.raw
        assert found.key_at is None or found.key_at.span.end <= len(text)
