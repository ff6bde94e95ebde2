"""What the *Commit suggestion* button would write is the patched file, or nothing is offered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitstop.bot.diff import FileDiff, Hunk
from pitstop.bot.suggestion import MAX_LINES, Suggestion, suggest
from pitstop.rules.finding import Span
from pitstop.rules.tree import SourceFile
from pitstop.transforms.patch import Edit, Patch, apply_edits


def pressed(text: str, offer: Suggestion) -> str:
    """The file after the button: whole lines replaced, in the file's own kind of line end."""
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(end)
    lines[offer.first - 1 : offer.last] = offer.text.split("\n")
    return end.join(lines)


def all_shown(text: str) -> FileDiff:
    return FileDiff("a", hunks=(Hunk(range(1, text.count("\n") + 2)),))


def replace(text: str, old: str, new: str, *, at: int | None = None) -> Patch:
    start = text.index(old) if at is None else at
    span = Span(start, start + len(old))
    return Patch((Edit("a", span, text[span.start : span.end], new),))


def offered(text: str, patch: Patch, line: int, diff: FileDiff | None = None) -> Suggestion | None:
    return suggest(patch, SourceFile("a", text), diff or all_shown(text), line)


def test_one_line() -> None:
    text = "a: 1\nb: 0\nc: 3\n"
    assert offered(text, replace(text, "0", "4"), 2) == Suggestion(2, 2, "b: 4")


def test_range_takes_in_the_finding() -> None:
    text = "a: 1\nb: 0\nc: 3\n"
    assert offered(text, replace(text, "3", "4"), 2) == Suggestion(2, 3, "b: 0\nc: 4")


def test_inserted_line_is_told_on_the_line_before() -> None:
    text = "a: 1\nb: 0\nc: 3\n"
    patch = replace(text, "", "new: 1\n", at=text.index("c"))
    assert offered(text, patch, 2) == Suggestion(2, 2, "b: 0\nnew: 1")


def test_inserted_first_line_is_told_on_the_next() -> None:
    text = "a: 1\nb: 0\n"
    assert offered(text, replace(text, "", "new: 1\n", at=0), 1) == Suggestion(1, 1, "new: 1\na: 1")


def test_deleted_line_takes_its_neighbour_along() -> None:
    text = "a: 1\nb: 0\nc: 3\n"
    offer = offered(text, replace(text, "b: 0\n", ""), 2)
    assert offer == Suggestion(1, 2, "a: 1")


def test_windows_line_ends() -> None:
    text = "a: 1\r\nb: 0\r\n"
    assert offered(text, replace(text, "0", "4"), 2) == Suggestion(2, 2, "b: 4")


@pytest.mark.parametrize(
    "text",
    ["a: 1\r\nb: 0\nc\n", "a: 1\rb: 0\n", "x\rb: 0\nc\n"],
    ids=["mixed", "lone CR", "lone CR elsewhere"],
)
def test_no_offer_where_line_ends_differ(text: str) -> None:
    assert offered(text, replace(text, "0", "4"), 1) is None


def test_no_offer_on_a_last_line_without_end() -> None:
    text = "a: 1\nb: 0"
    assert offered(text, replace(text, "0", "4"), 2) is None


def test_no_offer_that_reaches_out_of_the_hunk() -> None:
    text = "1\n2\n3\n4\n"
    diff = FileDiff("a", hunks=(Hunk(range(1, 3)), Hunk(range(3, 5))))
    edits = replace(text, "2", "x").edits + replace(text, "3", "y").edits
    assert offered(text, Patch(edits), 2, diff) is None
    assert offered(text, replace(text, "3", "y"), 3, diff) == Suggestion(3, 3, "y")


def test_finding_in_another_hunk_is_not_taken_in() -> None:
    text = "1\n2\n3\n4\n"
    diff = FileDiff("a", hunks=(Hunk(range(1, 2)), Hunk(range(3, 5))))
    assert offered(text, replace(text, "4", "y"), 1, diff) == Suggestion(4, 4, "y")


def test_no_offer_for_a_long_range() -> None:
    text = "x\n" * 100
    patch = replace(text, "x", "y", at=0)
    assert offered(text, patch, MAX_LINES) is not None
    assert offered(text, patch, MAX_LINES + 1) == Suggestion(1, 1, "y")
    far = Patch(patch.edits + replace(text, "x", "y", at=150).edits)
    assert offered(text, far, 1) is None


@pytest.mark.parametrize("char", ["\x00", "\x0c", "\u2028", "\ufeff", "\u202e", "\udcff", "\x1b"])
def test_no_offer_that_would_write_what_nobody_sees(char: str) -> None:
    text = f"a\nb{char}0\nc\n"
    assert offered(text, replace(text, "0", "4"), 2) is None


def test_no_offer_for_several_files_or_new_ones() -> None:
    text = "a\n"
    edit = replace(text, "a", "b").edits[0]
    elsewhere = Edit("z", Span(0, 1), "a", "b")
    assert offered(text, Patch((edit, elsewhere)), 1) is None
    assert offered(text, Patch((edit,), new_files=(("n", "x"),)), 1) is None
    assert offered(text, Patch((elsewhere,)), 1) is None


def test_no_offer_for_a_patch_of_another_text() -> None:
    assert offered("b\n", Patch((Edit("a", Span(0, 1), "a", "c"),)), 1) is None
    assert offered("b\n", Patch((Edit("a", Span(50, 51), "a", "c"),)), 1) is None


def test_no_offer_that_changes_nothing() -> None:
    assert offered("b\n", Patch((Edit("a", Span(0, 1), "b", "b"),)), 1) is None


TEXTS = st.lists(st.sampled_from(["", "a", "b: 0", "  c", "```", "\t"]), max_size=9)


@st.composite
def patches(draw: st.DrawFn) -> tuple[str, Patch]:
    end = draw(st.sampled_from(["\n", "\r\n"]))
    text = end.join(draw(TEXTS)) + end * draw(st.integers(0, 1))
    marks = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)))
    edits = []
    for start, stop in zip(marks[::2], marks[1::2], strict=False):
        new = end.join(draw(TEXTS.filter(lambda lines: len(lines) < 4)))
        edits.append(Edit("a", Span(start, stop), text[start:stop], new))
    return text, Patch(tuple(edits))


@given(patches(), st.integers(-1, 12), st.lists(st.integers(1, 4), max_size=4))
def test_button_writes_the_patched_file(
    patched: tuple[str, Patch], line: int, sizes: list[int]
) -> None:
    text, patch = patched
    at, hunks = 1, []
    for size in sizes:
        hunks.append(Hunk(range(at, at + size)))
        at += size + size % 2
    diff = FileDiff("a", hunks=tuple(hunks)) if sizes else all_shown(text)
    offer = offered(text, patch, line, diff)
    if offer is None:
        return
    assert pressed(text, offer) == apply_edits(SourceFile("a", text), patch.edits)
    assert diff.hunk_at(offer.first, offer.last) is not None
    assert offer.text.strip()
