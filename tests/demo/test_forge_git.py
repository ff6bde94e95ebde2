"""git works against the forge: clone, fetch, push, and the ways it is refused."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

import pytest

from demo.forge import Forge
from demo.handles import ForgeRepo

QUIET = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "t",
    "GIT_AUTHOR_EMAIL": "t@localhost",
    "GIT_COMMITTER_NAME": "t",
    "GIT_COMMITTER_EMAIL": "t@localhost",
}


def git(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | QUIET
    return subprocess.run(["git", *words], cwd=cwd, env=environment, capture_output=True, text=True)


def ok(*words: str, cwd: Path | None = None) -> str:
    done = git(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def with_token(repo: ForgeRepo, token: str) -> str:
    return repo.clone_url.replace("http://", f"http://x-access-token:{token}@")


@pytest.fixture
def repo(forge: Forge) -> ForgeRepo:
    return forge.create_repo({"a.txt": "1\n", "large.bin": os.urandom(3_000_000)})


def test_clone_push_and_the_pull_request_follows(
    forge: Forge, repo: ForgeRepo, tmp_path: Path
) -> None:
    pull = repo.open_pull({"a.txt": "2\n"})
    here = tmp_path / "clone"
    ok("clone", "-q", "-b", "change", with_token(repo, forge.token), str(here))
    (here / "a.txt").write_text("3\n")
    ok("commit", "-qam", "more", cwd=here)
    ok("push", "-q", "origin", "change", cwd=here)
    assert pull.head == ok("rev-parse", "HEAD", cwd=here)
    assert ok("ls-remote", "origin", "refs/pull/1/head", cwd=here).split()[0] == pull.head


def test_a_shallow_clone_of_a_pull_request(forge: Forge, repo: ForgeRepo, tmp_path: Path) -> None:
    pull = repo.open_pull({"a.txt": "2\n"})
    ok("init", "-q", str(tmp_path))
    login = base64.b64encode(f"x-access-token:{forge.token}".encode()).decode()
    header = f"http.extraheader=AUTHORIZATION: basic {login}"
    fetch = ("-c", header, "fetch", "-q", "--depth=1", repo.clone_url)
    ok(*fetch, "refs/pull/1/head", cwd=tmp_path)
    assert ok("rev-parse", "FETCH_HEAD", cwd=tmp_path) == pull.head
    ok(*fetch, pull.comparison().merge_base, cwd=tmp_path)


def test_a_fork_s_commits_are_fetched_from_the_base(
    forge: Forge, repo: ForgeRepo, tmp_path: Path
) -> None:
    fork = forge.fork(repo, "eve")
    pull = repo.open_pull({"a.txt": "2\n"}, source=fork, author="eve")
    fork.delete()
    ok("init", "-q", str(tmp_path))
    ok("fetch", "-q", repo.clone_url, "refs/pull/1/head", cwd=tmp_path)
    assert ok("rev-parse", "FETCH_HEAD", cwd=tmp_path) == pull.head


def test_a_large_push_comes_in_chunks(forge: Forge, repo: ForgeRepo, tmp_path: Path) -> None:
    ok("clone", "-q", with_token(repo, forge.token), str(tmp_path))
    (tmp_path / "more.bin").write_bytes(os.urandom(2_500_000))
    ok("add", "more.bin", cwd=tmp_path)
    ok("commit", "-qm", "more", cwd=tmp_path)
    ok("push", "-q", "origin", "main", cwd=tmp_path)
    pushes = [e for e in forge.log if e.request.path.endswith("git-receive-pack")]
    assert pushes[-1].request.headers.get("transfer-encoding") == "chunked"


@pytest.mark.parametrize("what", ["reading token", "token of another repository", "no token"])
def test_pushes_without_permission_are_refused(
    forge: Forge, repo: ForgeRepo, tmp_path: Path, what: str
) -> None:
    address = {
        "reading token": with_token(repo, forge.read_token()),
        "token of another repository": with_token(
            repo, forge.token_for({"contents": "write"}, repositories=["octocat/other"])
        ),
        "no token": repo.clone_url,
    }[what]
    before = repo.references()
    ok("clone", "-q", address, str(tmp_path))
    ok("commit", "-q", "--allow-empty", "-m", "x", cwd=tmp_path)
    done = git("push", "origin", "main", cwd=tmp_path)
    assert done.returncode != 0
    assert "403" in done.stderr or "could not read Username" in done.stderr
    assert repo.references() == before


def test_a_bad_token_is_refused_even_to_read(repo: ForgeRepo, tmp_path: Path) -> None:
    login = base64.b64encode(b"x-access-token:ghs_wrong").decode()
    header = f"http.extraheader=AUTHORIZATION: basic {login}"
    done = git("-c", header, "clone", repo.clone_url, str(tmp_path / "x"))
    assert done.returncode == 128 and "could not read Username" in done.stderr


def test_a_private_repository_hides_itself(forge: Forge, tmp_path: Path) -> None:
    secret = forge.create_repo({"a": "1\n"}, "octocat/secret", private=True)
    assert git("clone", secret.clone_url, str(tmp_path / "x")).returncode == 128
    ok("clone", "-q", with_token(secret, forge.token), str(tmp_path / "y"))


def test_pushes_that_rewrite_need_force(forge: Forge, repo: ForgeRepo, tmp_path: Path) -> None:
    ok("clone", "-q", with_token(repo, forge.token), str(tmp_path))
    seen = repo.tip("main")
    repo.commit("main", {"a.txt": "theirs\n"})
    ok("commit", "-q", "--allow-empty", "-m", "mine", cwd=tmp_path)
    assert "fetch first" in git("push", "origin", "main", cwd=tmp_path).stderr
    lease = f"--force-with-lease=main:{seen}"
    assert "stale info" in git("push", lease, "origin", "main", cwd=tmp_path).stderr
    ok("push", "-q", "--force", "origin", "main", cwd=tmp_path)


def test_nobody_pushes_to_pull_references(forge: Forge, repo: ForgeRepo, tmp_path: Path) -> None:
    pull = repo.open_pull({"a.txt": "2\n"})
    ok("clone", "-q", with_token(repo, forge.token), str(tmp_path))
    done = git("push", "--force", "origin", "main:refs/pull/1/head", cwd=tmp_path)
    assert "deny updating a hidden ref" in done.stderr
    assert repo.references()["refs/pull/1/head"] == pull.head
