"""Diffs as git really writes them, read back."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitstop.bot.diff import (
    Diff,
    DiffError,
    FileDiff,
    Hunk,
    Status,
    confirmed,
    parse,
    parse_patch,
)
from pitstop.bot.git import Store

Files = Mapping[str, str | bytes | None]


class Repository:
    """A repository whose commits are made of plain files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *args: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        command = ["git", *identity, "-c", "protocol.file.allow=always", *args]
        done = subprocess.run(command, cwd=self.path, check=True, capture_output=True)
        return done.stdout.decode().strip()

    def commit(self, files: Files) -> str:
        for name, content in files.items():
            file = self.path / name
            if content is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "x")
        return self.git("rev-parse", "HEAD")

    def diff(self, before: str, after: str) -> Diff:
        return Store(self.path / ".git").diff(before, after)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


@pytest.fixture
def change(repository: Repository) -> Callable[[Files, Files], Diff]:
    def make(before: Files, after: Files) -> Diff:
        return repository.diff(repository.commit(before), repository.commit(after))

    return make


Change = Callable[[Files, Files], Diff]
TEN = "".join(f"{n}\n" for n in range(1, 11))


def test_changed_line_with_its_context(change: Change) -> None:
    file = change({"a": TEN}, {"a": TEN.replace("5", "five")}).files["a"]
    assert file == FileDiff("a", old_path="a", hunks=(Hunk(range(2, 9), (range(5, 6),)),))


def test_hunk_ends_at_the_ends_of_the_file(change: Change) -> None:
    file = change({"a": TEN}, {"a": "0\n" + TEN + "11\n"}).files["a"]
    assert [hunk.lines for hunk in file.hunks] == [range(1, 5), range(9, 13)]
    assert file.first_added(range(1, 99)) == 1
    assert file.first_added(range(2, 99)) == 12
    assert file.first_shown(range(5, 99)) == 9
    assert file.first_shown(range(5, 9)) is None


def test_lines_of_two_hunks_are_in_none(change: Change) -> None:
    file = change({"a": TEN}, {"a": "0\n" + TEN + "11\n"}).files["a"]
    assert file.hunk_at(1, 4) is not None
    assert file.hunk_at(4, 9) is None
    assert file.hunk_at(4, 5) is None


def test_new_file(change: Change) -> None:
    file = change({}, {"a": "1\n2\n"}).files["a"]
    assert file == FileDiff("a", Status.ADDED, None, (Hunk(range(1, 3), (range(1, 3),)),))


def test_only_deleted_lines_leave_no_line_of_their_own(change: Change) -> None:
    file = change({"a": TEN}, {"a": ""}).files["a"]
    assert file.first_shown(range(1, 99)) is None


def test_files_without_lines(repository: Repository) -> None:
    before = repository.commit(
        {
            "gone": "alone\n",
            "bin": b"\0\1",
            "mode": TEN,
            "old name": TEN,
            "empty": "x\n",
            "kept": TEN,
        }
    )
    (repository.path / "mode").chmod(0o755)
    after = repository.commit(
        {"gone": None, "bin": b"\0\2", "old name": None, "new name": TEN, "nothing": ""}
    )
    files = repository.diff(before, after).files
    assert {path: file.status for path, file in files.items()} == {
        "gone": Status.DELETED,
        "bin": Status.MODIFIED,
        "mode": Status.MODIFIED,
        "new name": Status.RENAMED,
        "nothing": Status.ADDED,
    }
    assert all(not file.hunks for file in files.values())
    assert files["bin"].binary
    assert files["new name"].old_path == "old name"


def test_renamed_and_changed(change: Change) -> None:
    diff = change({"old": TEN}, {"old": None, "new": TEN.replace("5", "five")})
    assert diff.files["new"].hunks[0].added == (range(5, 6),)
    assert diff.renames == {"new": "old"}


def test_submodule_has_no_lines(repository: Repository, tmp_path: Path) -> None:
    other = Repository(tmp_path / "other")
    first, second = other.commit({"a": "1\n"}), other.commit({"a": "2\n"})
    start = repository.commit({"a": "1\n"})
    entry = f"160000,{first},module"
    repository.git("update-index", "--add", "--cacheinfo", entry)
    repository.git("commit", "--quiet", "-m", "x")
    added = repository.git("rev-parse", "HEAD")
    repository.git("update-index", "--cacheinfo", f"160000,{second},module")
    repository.git("commit", "--quiet", "-m", "x")
    moved = repository.git("rev-parse", "HEAD")
    for before, after in ((start, added), (added, moved)):
        file = repository.diff(before, after).files["module"]
        assert file.submodule and not file.hunks


def test_file_that_becomes_a_link(repository: Repository) -> None:
    before = repository.commit({"a": TEN})
    (repository.path / "a").unlink()
    (repository.path / "a").symlink_to("elsewhere")
    after = repository.commit({})
    assert repository.diff(before, after).files["a"].status is Status.ADDED


@pytest.mark.parametrize(
    "text", ["a\nb", "a\nb\n", "a\r\nb\r\n", "a\rb\r", "\n\n\n", "\u2028\x0c\n"]
)
@pytest.mark.parametrize("other", ["a\nc", "b\n", "a\r\nc\r\n", "x\ry\rz"])
def test_every_kind_of_line_end(change: Change, text: str, other: str) -> None:
    """Lines are counted at LF alone, as git and GitHub do, with or without a last one."""
    (hunk,) = change({"a": text}, {"a": other}).files["a"].hunks
    assert hunk.lines.stop == other.count("\n") + (not other.endswith("\n")) + 1


NAMES = [
    "plain",
    "with space",
    "trailing space ",
    "tab\there",
    "new\nline",
    'quo"te',
    "back\\slash",
    "ünï",
    "中文.sh",
    "a b/c d",
    "-dash",
    "a/b/ b/x",
    " b/lead",
    "\x01\x7f",
    "(x)[y]",
]


@pytest.mark.parametrize("name", NAMES)
def test_odd_names(change: Change, name: str) -> None:
    diff = change({name: TEN, f"{name}2": b"\0"}, {name: TEN + "more\n", f"{name}2": b"\0\0"})
    assert set(diff.files) == {name, f"{name}2"}
    assert diff.files[name].hunks


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_renamed(change: Change, name: str) -> None:
    diff = change({"before": TEN}, {"before": None, name: TEN})
    assert diff.renames == {name: "before"}


def test_name_that_is_not_utf8(repository: Repository) -> None:
    before = repository.commit({})
    (repository.path / "na\udcffme").write_text("x\n")
    diff = repository.diff(before, repository.commit({}))
    assert set(diff.files) == {"na\udcffme"}


def test_content_that_looks_like_a_diff(change: Change) -> None:
    text = "--- a/x\n+++ b/x\n@@ -1 +1 @@\ndiff --git a/x b/x\n\\ No newline at end of file\n"
    diff = change({"a": text}, {"a": text * 2})
    assert set(diff.files) == {"a"}
    assert diff.files["a"].first_added(range(1, 99)) is not None


def test_settings_of_the_repository_have_no_say(repository: Repository) -> None:
    before = repository.commit({".gitattributes": "* diff=upper\n", "a": TEN})
    after = repository.commit({"a": TEN.replace("5", "five")})
    trap = repository.path / "ran"
    for key in ("diff.external", "diff.upper.textconv", "core.fsmonitor", "core.pager"):
        repository.git("config", key, f"touch {trap}; cat")
    for key, value in (("diff.noprefix", "true"), ("diff.context", "0"), ("color.ui", "always")):
        repository.git("config", key, value)
    (hunk,) = repository.diff(before, after).files["a"].hunks
    assert hunk.lines == range(2, 9)
    assert not trap.exists()


LINES = st.lists(st.sampled_from(["a", "b", "c", "d\r", ""]), max_size=12)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(LINES, LINES, st.booleans()), min_size=20, max_size=60))
def test_what_was_not_added_was_there_before(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[list[str], list[str], bool]]
) -> None:
    """Taking the added lines out of the new text leaves lines of the old one, in their order."""
    repository = Repository(tmp_path_factory.mktemp("pairs") / "r")
    old, new = {}, {}
    for number, (before, after, ended) in enumerate(pairs):
        old[f"{number}"] = "\n".join(before) + "\n" * ended
        new[f"{number}"] = "\n".join(after) + "\n" * ended
    diff = repository.diff(repository.commit(old), repository.commit(new))
    for name, text in new.items():
        if old[name] == text:
            assert name not in diff.files
            continue
        file = diff.files[name]
        added = {line for hunk in file.hunks for part in hunk.added for line in part}
        lines = text.removesuffix("\n").split("\n")
        kept = [line for number, line in enumerate(lines, 1) if number not in added]
        source = iter(old[name].removesuffix("\n").split("\n"))
        if text:
            assert all(line in source for line in kept)


def test_hunks_of_the_api_are_those_of_git(change: Change) -> None:
    rng = random.Random(1)
    before = "".join(f"{rng.random()}\n" for _ in range(200))
    after = "".join(
        line for line in before.splitlines(True) for _ in range(rng.choice((1, 1, 1, 2)))
    )
    hunks = change({"a": before}, {"a": after}).files["a"].hunks
    assert len(hunks) > 1
    patch = "\n".join(
        f"@@ -1,0 +{hunk.lines.start},{len(hunk.lines)} @@\n" + "\n".join("+x" for _ in hunk.lines)
        for hunk in hunks
    )
    assert [hunk.lines for hunk in parse_patch(patch)] == [hunk.lines for hunk in hunks]


@pytest.mark.parametrize(
    "text",
    [
        b"nonsense\n",
        b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ odd @@\n",
        b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n",
        b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n*a\n",
        b"diff --git a/x b/y\nold mode 100644\nnew mode 100755\n",
    ],
)
def test_text_that_git_does_not_write(text: bytes) -> None:
    with pytest.raises(DiffError, match="line"):
        parse(text.splitlines(keepends=True))


OURS = Diff(
    {
        "a": FileDiff("a", hunks=(Hunk(range(1, 11), (range(2, 4), range(8, 9))),)),
        "b": FileDiff("b", hunks=(Hunk(range(1, 5)),)),
    }
)


def test_confirmed_keeps_what_both_show() -> None:
    theirs = (Hunk(range(1, 4), (range(2, 4),)), Hunk(range(7, 11), (range(8, 10),)))
    diff = confirmed(OURS, {"a": theirs, "b": None}, complete=True)
    assert diff.files["a"].hunks == (
        Hunk(range(1, 4), (range(2, 4),)),
        Hunk(range(7, 11), (range(8, 9),)),
    )
    assert diff.files["b"] == OURS.files["b"]


def test_confirmed_leaves_out_what_a_whole_list_lacks() -> None:
    assert set(confirmed(OURS, {"b": None}, complete=True).files) == {"b"}
    assert confirmed(OURS, {"b": None}, complete=False).files["a"] == OURS.files["a"]
