"""The forge's own reading of `git diff`, on which it judges where a comment may stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demo.gitrepo import BareRepo, Content, File
from demo.hunks import FileDiff, follow_line, read_diff


@pytest.fixture
def repo(tmp_path: Path) -> BareRepo:
    return BareRepo.create(tmp_path / "repo.git")


def changes(
    repo: BareRepo, before: dict[str, Content], after: dict[str, Content], context: int = 3
) -> list[FileDiff]:
    old = repo.commit_files("main", before, "old", when=1)
    new = repo.commit_files("main", after, "new", when=2)
    return read_diff(repo.diff_text(old, new, context))


def numbered(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(1, count + 1))


def test_only_lines_of_hunks_have_a_place(repo: BareRepo) -> None:
    after = numbered(30).replace("line 15\n", "new\n")
    (file,) = changes(repo, {"a": numbered(30)}, {"a": after})
    assert [n for n in range(1, 32) if file.place(n, "RIGHT")] == list(range(12, 19))
    assert [n for n in range(1, 32) if file.place(n, "LEFT")] == list(range(12, 19))


def test_positions_count_from_the_first_header(repo: BareRepo) -> None:
    after = numbered(30).replace("line 5\n", "new\n").replace("line 25\n", "")
    (file,) = changes(repo, {"a": numbered(30)}, {"a": after})
    first, second = file.place(5, "RIGHT"), file.place(24, "RIGHT")
    assert first and second
    assert (first.hunk, first.position) == (0, 5)
    # The second header is a position too; three lines of context and the deletion come before.
    assert (second.hunk, second.position) == (1, 12)
    assert file.at_position(12) == (24, "RIGHT")
    assert file.at_position(13) == (25, "LEFT")
    assert file.at_position(9) is None


def test_the_excerpt_ends_with_the_line(repo: BareRepo) -> None:
    (file,) = changes(repo, {"a": "x\ny\nz\n"}, {"a": "x\nY\nz\n"})
    place = file.place(2, "RIGHT")
    assert place and place.excerpt == "@@ -1,3 +1,3 @@\n x\n-y\n+Y"


def test_code_that_looks_like_a_header_is_code(repo: BareRepo) -> None:
    before = "a\n-- old\n++ new\n@@ -1 +1 @@\ndiff --git a/x b/x\nb\n"
    after = before.replace("a\n", "A\n", 1).replace("b\n", "diff --git a/y b/y\n", 1) + "+++ c\n"
    files = changes(repo, {"a": before, "z": "1\n"}, {"a": after, "z": "2\n"})
    assert [file.path for file in files] == ["a", "z"]
    assert all(file.place(1, "RIGHT") for file in files)


@pytest.mark.parametrize("name", ["b c", "ü 漢字", 'quote"d', "tab\there", "back\\slash", "x\ny"])
def test_names_of_any_kind(repo: BareRepo, name: str) -> None:
    (file,) = changes(repo, {name: "1\n"}, {name: "2\n"})
    assert (file.path, file.status, file.place(1, "RIGHT") is not None) == (name, "modified", True)


def test_a_name_that_is_no_utf8(repo: BareRepo) -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    (file,) = changes(repo, {name: "1\n"}, {name: "2\n"})
    assert file.path == name


@pytest.mark.parametrize(
    ("before", "after", "status", "patched"),
    [
        ({"a": "1\n"}, {"b": "1\n"}, "added", True),
        ({"a": "1\n", "b": "1\n"}, {"b": None}, "removed", True),
        ({"b": b"\0\1"}, {"b": b"\0\2"}, "modified", False),
        ({"b": File(b"1\n")}, {"b": File(b"1\n", "100755")}, "modified", False),
        ({"b": "1\n"}, {"b": File(b"a", "120000")}, "modified", True),
        ({"b": File(b"1" * 40, "160000")}, {"b": File(b"2" * 40, "160000")}, "modified", True),
        ({"c": numbered(9)}, {"c": None, "b": numbered(9)}, "renamed", False),
        ({"c": numbered(9)}, {"c": None, "b": numbered(9) + "10\n"}, "renamed", True),
    ],
    ids=["added", "removed", "binary", "mode", "type", "submodule", "renamed", "edited"],
)
def test_every_kind_of_entry(
    repo: BareRepo,
    before: dict[str, Content],
    after: dict[str, Content],
    status: str,
    patched: bool,
) -> None:
    (file,) = [file for file in changes(repo, before, after) if file.path == "b"]
    assert file.status == status
    assert (file.patch is not None) == patched


def test_a_change_of_type_does_not_shift_the_next_file(repo: BareRepo) -> None:
    files = changes(repo, {"a": "1\n", "b": "x\n"}, {"a": File(b"target", "120000"), "b": "y\n"})
    assert [(file.path, file.additions, file.deletions) for file in files] == [
        ("a", 1, 1),
        ("b", 1, 1),
    ]


def test_line_ends_and_a_missing_last_one(repo: BareRepo) -> None:
    (file,) = changes(repo, {"a": "漢\r\nb\r\n"}, {"a": "漢\r\nc"})
    patch = "@@ -1,2 +1,2 @@\n 漢\r\n-b\r\n+c\n\\ No newline at end of file"
    assert file.patch == patch
    assert file.place(2, "RIGHT") and not file.place(3, "RIGHT")


def test_a_very_large_patch_is_left_out(repo: BareRepo) -> None:
    (file,) = changes(repo, {}, {"a": "x\n" * 20_001})
    assert file.additions == 20_001
    assert file.patch is None and file.place(1, "RIGHT") is None


texts = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "@@ -1 +1 @@\n", "-\n", "+\n"]), max_size=25)


@settings(max_examples=40, deadline=None)
@given(before=texts, after=texts)
def test_hunks_say_what_the_files_hold(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], after: list[str]
) -> None:
    repo = BareRepo.create(tmp_path_factory.mktemp("git") / "repo.git")
    content: dict[str, Content] = {"a": "".join(before)}
    files = changes(repo, content, {"a": "".join(after)})
    assert bool(files) == (before != after)
    for file in files:
        for line in (line for hunk in file.hunks for line in hunk.lines):
            if line.old is not None:
                assert before[line.old - 1] == line.text + "\n"
            if line.new is not None:
                assert after[line.new - 1] == line.text + "\n"
        assert len(before) - file.deletions + file.additions == len(after)


@settings(max_examples=40, deadline=None)
@given(before=texts, after=texts)
def test_lines_are_followed_to_where_they_went(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], after: list[str]
) -> None:
    repo = BareRepo.create(tmp_path_factory.mktemp("git") / "repo.git")
    content: dict[str, Content] = {"a": "".join(before)}
    files = changes(repo, content, {"a": "".join(after)}, context=0)
    file = files[0] if files else None
    followed = [follow_line(file, number) for number in range(1, len(before) + 1)]
    alive = [(n, new) for n, new in enumerate(followed, 1) if new is not None]
    assert all(before[n - 1] == after[new - 1] for n, new in alive)
    assert [new for _, new in alive] == sorted({new for _, new in alive})
    assert len(before) - len(alive) == (file.deletions if file else 0)
