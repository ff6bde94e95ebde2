"""Edits spliced into text, patches put together, and edits read off two texts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitstop.rules.finding import Span
from pitstop.rules.tree import DictTree, SourceFile
from pitstop.transforms.patch import (
    MAX_COMPARED_LINES,
    Edit,
    Patch,
    StaleEditError,
    apply_edits,
    apply_patches,
    edits_between,
    unified_diff,
)


def edit(file: SourceFile, start: int, end: int, text: str) -> Edit:
    return Edit.replace(file, Span(start, end), text)


def test_edits_apply_in_any_order_and_equal_ones_once() -> None:
    file = SourceFile("a", "one two three")
    edits = [edit(file, 8, 13, "3"), edit(file, 0, 3, "1"), edit(file, 0, 3, "1")]
    assert apply_edits(file, edits) == "1 two 3"


@pytest.mark.parametrize(
    "edits",
    [
        [Edit("a", Span(0, 3), "one", "1"), Edit("a", Span(2, 5), "e t", "x")],
        [Edit("a", Span(0, 3), "two", "1")],
    ],
    ids=["overlap", "another text"],
)
def test_stale_edits(edits: list[Edit]) -> None:
    with pytest.raises(StaleEditError, match="a:1"):
        apply_edits(SourceFile("a", "one two three"), edits)


def test_the_later_of_two_patches_at_one_place_is_dropped() -> None:
    tree = DictTree({"a": "x = 1\n", "b": "y\n"})
    file = tree.read("a")
    first = Patch((edit(file, 4, 5, "2"),))
    second = Patch((edit(file, 4, 5, "3"), edit(tree.read("b"), 0, 1, "z")))
    texts, dropped = apply_patches(tree, [first, second, first])
    assert texts == {"a": "x = 2\n"}
    assert [patch for patch, _ in dropped] == [second]


AT_ONE_PLACE = {
    "call": ("t.py", "f(a=1)\n", 5, (", b=2", ", c=3"), "f(a=1, b=2, c=3)\n"),
    "first argument": ("t.py", "f()\n", 2, ("b=2", "c=3"), None),
    "lines": ("run.sh", "t\n", 0, ("export A=1\n", "export B=2\n"), "export A=1\nexport B=2\nt\n"),
    "flags": ("run.sh", "t\n", 1, (" --a 1", " --b 2"), "t --a 1 --b 2\n"),
    "one word": ("run.sh", "t\n", 1, ("--a", "--b"), None),
    "keys": ("c.yaml", "a: 1\n", 5, ("b: 2\n", "c: 3\n"), "a: 1\nb: 2\nc: 3\n"),
    "the same key": ("c.yaml", "a: 1\n", 5, ("b: 2\n", "b: 3\n"), None),
    "members": ("c.json", '{"a": 1}', 7, (', "b": 2', ', "c": 3'), '{"a": 1, "b": 2, "c": 3}'),
    "first member": ("c.json", "{}", 1, ('"b": 2\n', '"c": 3\n'), None),
}  # fmt: skip


@pytest.mark.parametrize("case", AT_ONE_PLACE)
def test_two_insertions_at_one_place_stand_in_the_order_of_their_patches(case: str) -> None:
    path, text, at, inserted, both = AT_ONE_PLACE[case]
    tree = DictTree({path: text})
    patches = [Patch((edit(tree.read(path), at, at, one),)) for one in inserted]
    texts, dropped = apply_patches(tree, patches)
    assert [patch for patch, _ in dropped] == ([] if both else patches[1:])
    alone = text[:at] + inserted[0] + text[at:]
    assert texts == {path: both or alone}


lines = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c d\r\n", "é"]), max_size=12).map("".join)


@settings(max_examples=300, deadline=None)
@given(lines, lines)
def test_edits_between_two_texts_turn_one_into_the_other(before: str, after: str) -> None:
    file = SourceFile("a", before)
    edits = edits_between(file, after)
    assert apply_edits(file, edits) == after
    assert bool(edits) == (before != after)
    assert bool(unified_diff("a", before, after)) == (before != after)


def test_edits_between_long_texts_stay_quick() -> None:
    before = "\n" * 4 * MAX_COMPARED_LINES
    file = SourceFile("a", before)
    after = "x\n" + before[:-10] + "y\n"
    assert apply_edits(file, edits_between(file, after)) == after
