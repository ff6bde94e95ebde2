"""Fetching two commits from a real server, and nothing else of what a repository may hold."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from demo.forge import Forge
from demo.handles import ForgeRepo
from pitstop.bot import git
from pitstop.bot.transport import RefusedError, Transport
from pitstop.rules.finding import UserError
from tests.bot.reviewing import Time


def transport() -> Transport:
    return Transport(600, Time().clock)


def remote(forge: Forge, repo: ForgeRepo, token: str | None = None) -> git.Remote:
    return git.Remote(forge.url, repo.name, token or forge.token)


def requests(forge: Forge) -> int:
    return sum(exchange.kind == "git" for exchange in forge.log)


def clone(repo: ForgeRepo, folder: Path, *options: str) -> Path:
    """What a checkout step leaves in the workspace."""
    source = str(repo.record.git.path)
    subprocess.run(["git", "clone", "-q", *options, f"file://{source}", str(folder)], check=True)
    return folder


def test_both_commits_with_all_their_files(forge: Forge) -> None:
    repo = forge.create_repo({"a": "1\n", "dir/b": "2\n"})
    pull = repo.open_pull({"a": "one\n"})
    base = repo.tip("main") or ""
    with (
        git.stored(
            remote(forge, repo), (base, pull.head), number=1, workspace=None, transport=transport()
        ) as store,
        store.tree(pull.head) as tree,
    ):
        assert tree.paths == ("a", "dir/b")
        assert tree.read("a").text == "one\n"
        assert set(store.diff(base, pull.head).files) == {"a"}
        assert not list(store.path.rglob("*.sample"))


def test_private_repository_needs_the_token(forge: Forge) -> None:
    repo = forge.create_repo({"a": "1\n"}, private=True)
    base = repo.tip("main") or ""
    with (
        pytest.raises(RefusedError),
        git.stored(
            remote(forge, repo, "wrong"), (base,), number=1, workspace=None, transport=transport()
        ),
    ):
        pass


def test_commit_that_is_not_there(forge: Forge) -> None:
    repo = forge.create_repo({"a": "1\n"})
    repo.open_pull({"a": "2\n"})
    with (
        pytest.raises(RefusedError),
        git.stored(
            remote(forge, repo), ("0" * 40,), number=1, workspace=None, transport=transport()
        ),
    ):
        pass


@pytest.mark.parametrize("name", ["--upload-pack=touch x", "main", "a" * 39, ""])
def test_only_whole_hashes_reach_git(forge: Forge, name: str) -> None:
    repo = forge.create_repo({"a": "1\n"})
    with (
        pytest.raises(UserError, match="not a commit"),
        git.stored(remote(forge, repo), (name,), number=1, workspace=None, transport=transport()),
    ):
        pass


def test_checkout_with_both_commits_saves_the_fetch(forge: Forge, tmp_path: Path) -> None:
    repo = forge.create_repo({"a": "1\n"})
    pull = repo.open_pull({"a": "2\n"})
    base = repo.tip("main") or ""
    workspace = clone(repo, tmp_path / "w")
    commits = (base, pull.head)
    with git.stored(
        remote(forge, repo), commits, number=1, workspace=workspace, transport=transport()
    ) as store:
        assert set(store.diff(base, pull.head).files) == {"a"}
    assert requests(forge) == 0


@pytest.mark.parametrize("options", [("--depth=1",), ("--filter=blob:none", "--no-checkout")])
def test_checkout_that_lacks_something_does_not(
    forge: Forge, tmp_path: Path, options: tuple[str, ...]
) -> None:
    repo = forge.create_repo({"a": "1\n"})
    repo.record.git.path.joinpath("config").open("a").write("[uploadpack]\nallowFilter=true\n")
    pull = repo.open_pull({"a": "2\n"})
    base = repo.tip("main") or ""
    workspace = clone(repo, tmp_path / "w", *options)
    with git.stored(
        remote(forge, repo), (base, pull.head), number=1, workspace=workspace, transport=transport()
    ) as store:
        assert set(store.diff(base, pull.head).files) == {"a"}
    assert requests(forge) > 0


def test_settings_of_the_checkout_are_not_obeyed(forge: Forge, tmp_path: Path) -> None:
    repo = forge.create_repo({"a": "1\n", ".gitattributes": "* diff=x filter=x\n"})
    pull = repo.open_pull({"a": "2\n"})
    base = repo.tip("main") or ""
    workspace = clone(repo, tmp_path / "w")
    trap = tmp_path / "ran"
    for key in ("core.fsmonitor", "diff.external", "diff.x.textconv", "filter.x.smudge"):
        subprocess.run(["git", "-C", str(workspace), "config", key, f"touch {trap}"], check=True)
    with (
        git.stored(
            remote(forge, repo),
            (base, pull.head),
            number=1,
            workspace=workspace,
            transport=transport(),
        ) as store,
        store.tree(pull.head) as tree,
    ):
        assert set(store.diff(base, pull.head).files) == {"a"}
        assert tree.read("a").text == "2\n"
    assert not trap.exists()


def test_merge_base_from_history_alone(forge: Forge) -> None:
    repo = forge.create_repo({"a": "1\n"})
    start = repo.tip("main") or ""
    pull = repo.open_pull({"a": "2\n"})
    pull.push({"a": "3\n"})
    later = repo.commit("main", {"b": "1\n"})
    assert git.merge_base(remote(forge, repo), later, pull.head, transport()) == start


def test_histories_without_a_common_commit(forge: Forge) -> None:
    repo = forge.create_repo({"a": "1\n"})
    base = repo.tip("main") or ""
    other = forge.create_repo({"b": "1\n"}, name="octocat/other")
    alien = other.tip("main") or ""
    repo.record.git.fetch(other.record.git, alien)
    repo.record.git.point("refs/heads/alien", alien)
    with pytest.raises(UserError, match="no commit in common"):
        git.merge_base(remote(forge, repo), base, alien, transport())


def test_token_stands_on_no_command_line(
    forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A git that writes down how it was called, before it does its work."""
    calls = tmp_path / "calls"
    bench = tmp_path / "bin"
    bench.mkdir()
    real = subprocess.run(["which", "git"], check=True, capture_output=True, text=True).stdout
    script = f'#!/bin/sh\nprintf "%s\\n" "$@" >> {calls}\nexec {real.strip()} "$@"\n'
    (bench / "git").write_text(script)
    (bench / "git").chmod(0o755)
    repo = forge.create_repo({"a": "1\n"}, private=True)
    base = repo.tip("main") or ""
    import os

    monkeypatch.setenv("PATH", f"{bench}:{os.environ['PATH']}")
    with git.stored(
        remote(forge, repo), (base,), number=1, workspace=None, transport=transport()
    ) as store:
        stored = b"".join(p.read_bytes() for p in store.path.rglob("*") if p.is_file())
    assert "fetch" in calls.read_text()
    assert forge.token not in calls.read_text()
    assert forge.token.encode() not in stored
