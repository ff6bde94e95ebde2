import subprocess
from pathlib import Path

import pytest

from pitstop.bot.worktree import base_of, revision_of
from pitstop.rules.finding import UserError


def git(folder: Path, *args: str) -> str:
    identity = (
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@example.org",
        "-c",
        "init.defaultBranch=main",
    )
    run = subprocess.run(
        ["git", "-C", str(folder), *identity, *args], check=True, capture_output=True, text=True
    )
    return run.stdout.strip()


def commit(folder: Path, **files: str) -> str:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "change")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    commit(tmp_path, a_sh="one\n")
    return tmp_path


def test_base_is_the_merge_base_not_the_tip(repository: Path) -> None:
    start = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", "-b", "feature")
    commit(repository, b_sh="two\n")
    git(repository, "checkout", "-q", "main")
    commit(repository, c_sh="three\n")
    git(repository, "checkout", "-q", "feature")
    base = base_of(repository, "main")
    assert base.revision == start
    assert base.tree.paths == ("a.sh",)


def test_a_subfolder_sees_only_itself(repository: Path) -> None:
    commit(repository, sub__x_sh="x\n")
    base = base_of(repository / "sub", "HEAD")
    assert base.tree.paths == ("x.sh",)
    assert base.tree.read("x.sh").text == "x\n"


def test_a_subfolder_that_is_new_has_an_empty_base(repository: Path) -> None:
    (repository / "new").mkdir()
    (repository / "new" / "x.sh").write_text("x\n")
    assert base_of(repository / "new", "HEAD").tree.paths == ()


def test_renames_are_known(repository: Path) -> None:
    git(repository, "mv", "a.sh", "moved to 这里.sh")
    assert base_of(repository, "HEAD").renames == {"moved to 这里.sh": "a.sh"}


def test_renames_are_relative_to_a_subfolder(repository: Path) -> None:
    commit(repository, sub__x_sh="x\n" * 20)
    git(repository, "mv", "sub/x.sh", "sub/y.sh")
    assert base_of(repository / "sub", "HEAD").renames == {"y.sh": "x.sh"}


def test_outside_a_repository_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not in a git repository; --base compares"):
        base_of(tmp_path, "HEAD")


@pytest.mark.parametrize("name", ["nosuch", "", "--help", "-x", "HEAD:a.sh", "\n"])
def test_an_unknown_revision_is_one_sentence(repository: Path, name: str) -> None:
    with pytest.raises(UserError, match="no such revision"):
        base_of(repository, name)


def test_revision_only_without_changes(repository: Path) -> None:
    assert revision_of(repository) == git(repository, "rev-parse", "HEAD")
    (repository / "a.sh").write_text("changed\n")
    assert revision_of(repository) is None


def test_no_revision_outside_a_repository(tmp_path: Path) -> None:
    assert revision_of(tmp_path) is None


def test_the_repository_configuration_starts_no_program(repository: Path) -> None:
    evil = repository.parent / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {repository.parent}/started\n")
    evil.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external"):
        git(repository, "config", key, str(evil))
    (repository / "a.sh").write_text("changed\n")
    revision_of(repository)
    base_of(repository, "HEAD")
    assert not (repository.parent / "started").exists()
