"""A bare git repository on disk, and the questions the forge asks it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ZERO = "0" * 40
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C.UTF-8",
    # Repositories may lie under a folder that another user owns; http-backend accepts pushes.
    "GIT_CONFIG_COUNT": "5",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_CONFIG_KEY_1": "http.receivepack",
    "GIT_CONFIG_VALUE_1": "true",
    "GIT_CONFIG_KEY_2": "core.quotePath",
    "GIT_CONFIG_VALUE_2": "false",
    # As GitHub: any commit can be fetched by its SHA, and nobody pushes to refs/pull.
    "GIT_CONFIG_KEY_3": "uploadpack.allowAnySHA1InWant",
    "GIT_CONFIG_VALUE_3": "true",
    "GIT_CONFIG_KEY_4": "receive.hideRefs",
    "GIT_CONFIG_VALUE_4": "refs/pull",
}


def git_environment() -> dict[str, str]:
    """The environment for every git process: nothing of the user's own configuration."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return kept | ENVIRONMENT


class GitError(Exception):
    """git said no; the message is its own."""


@dataclass(frozen=True, slots=True)
class File:
    """A tree entry to be written: bytes with a mode (100644, 100755, 120000 or 160000)."""

    data: bytes
    mode: str = "100644"


Content = str | bytes | File | None


@dataclass(frozen=True, slots=True)
class Signature:
    """Who and when, as a commit says it. `when` is seconds since the epoch."""

    name: str
    email: str
    when: int


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """A commit taken apart."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Signature
    committer: Signature
    message: str


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One line of a tree; `size` is None for anything but a blob."""

    mode: str
    type: str
    sha: str
    size: int | None
    path: str


class BareRepo:
    """git in a folder of its own. Objects never change, so what is asked about them is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.commit_info = lru_cache(maxsize=1024)(self._commit_info)
        self.diff_text = lru_cache(maxsize=64)(self._diff_text)
        self.merge_base = lru_cache(maxsize=1024)(self._merge_base)

    @classmethod
    def create(cls, path: Path, branch: str = "main") -> BareRepo:
        """A new, empty repository."""
        path.parent.mkdir(parents=True, exist_ok=True)
        repo = cls(path)
        command = ["git", "init", "-q", "--bare", f"--initial-branch={branch}", str(path)]
        subprocess.run(command, check=True, env=git_environment(), capture_output=True)
        return repo

    def fork(self, path: Path) -> BareRepo:
        """A full copy."""
        path.parent.mkdir(parents=True, exist_ok=True)
        command = ["git", "clone", "-q", "--bare", str(self.path), str(path)]
        subprocess.run(command, check=True, env=git_environment(), capture_output=True)
        return BareRepo(path)

    def run(self, *words: str, given: bytes | None = None) -> bytes:
        """The output of a git command. Raises GitError."""
        done = subprocess.run(
            ["git", "--git-dir", str(self.path), *words],
            input=given,
            capture_output=True,
            env=git_environment(),
        )
        if done.returncode:
            raise GitError(done.stderr.decode("utf-8", "replace").strip())
        return done.stdout

    def text(self, *words: str, given: bytes | None = None) -> str:
        """The output of a git command as text without the last line end."""
        return self.run(*words, given=given).decode("utf-8", "surrogateescape").rstrip("\n")

    def resolve(self, name: str, kind: str = "commit") -> str | None:
        """The full SHA that a name stands for, or None."""
        if not name or name.startswith("-"):
            return None
        try:
            return self.text("rev-parse", "--verify", "--quiet", f"{name}^{{{kind}}}")
        except GitError:
            return None

    def branch(self, name: str) -> str | None:
        """The tip of a branch, or None."""
        return self.resolve(f"refs/heads/{name}")

    def references(self, prefix: str = "refs/") -> dict[str, str]:
        """All references below a prefix, with what they point at."""
        lines = self.text("for-each-ref", "--format=%(refname) %(objectname)", prefix)
        return dict(line.rsplit(" ", 1) for line in lines.splitlines())

    def point(self, reference: str, sha: str) -> None:
        """Create or move a reference. Raises GitError for a name git does not allow."""
        self.run("update-ref", reference, sha)

    def drop(self, reference: str) -> None:
        """Delete a reference."""
        self.run("update-ref", "-d", reference)

    def fetch(self, other: BareRepo, sha: str) -> None:
        """Bring a commit over from another repository on disk."""
        if self.resolve(sha) is None:
            self.run("fetch", "-q", "--no-tags", str(other.path), sha)

    def commit_files(
        self,
        branch: str,
        files: Mapping[str, Content],
        message: str,
        *,
        parent: str | None = None,
        when: int,
        author: str = "octocat",
    ) -> str:
        """Write files on top of `parent` (default: the branch's tip) and move the branch there.
        None removes a file. Returns the new commit."""
        parent = parent or self.branch(branch)
        identity = f"{author} <{author}@users.noreply.localhost> {when} +0000"
        head = f"commit refs/heads/{branch}\ncommitter {identity}\n".encode()
        out = [head, _data(message.encode())]
        if parent:
            out.append(f"from {parent}\n".encode())
        out += [_change(path, content) for path, content in files.items()]
        self.run("fast-import", "--quiet", "--force", given=b"".join(out))
        tip = self.branch(branch)
        if tip is None:
            raise GitError(f"{branch} was not written")
        return tip

    def _merge_base(self, one: str, other: str) -> str | None:
        """The best common ancestor of two commits, or None."""
        try:
            return self.text("merge-base", one, other)
        except GitError:
            return None

    def is_ancestor(self, older: str, newer: str) -> bool:
        """True when `newer` holds `older`."""
        return self.merge_base(older, newer) == older

    def history(self, *revisions: str, path: str | None = None) -> list[str]:
        """The commits of a `git rev-list`, newest first."""
        words = ["rev-list", *revisions, *(["--", path] if path else [])]
        return self.text(*words).split()

    def tree(self, revision: str, *, recursive: bool = False) -> list[TreeEntry]:
        """The entries of a tree. Raises GitError."""
        flags = ["-r", "-t"] if recursive else []
        out = self.run("ls-tree", "-z", "-l", *flags, revision)
        entries = []
        for record in out.split(b"\0")[:-1]:
            head, path = record.split(b"\t", 1)
            mode, kind, sha, size = head.decode().split()
            length = None if size == "-" else int(size)
            entries.append(TreeEntry(mode, kind, sha, length, _text(path)))
        return entries

    def blob(self, sha: str) -> bytes:
        """The bytes of a blob. Raises GitError."""
        return self.run("cat-file", "blob", sha)

    def read(self, revision: str, path: str) -> bytes:
        """The bytes of a file at a revision. Raises GitError."""
        return self.run("cat-file", "blob", f"{revision}:{path}")

    def hash_object(self, data: bytes) -> str:
        """Store a blob."""
        return self.text("hash-object", "-w", "--stdin", given=data)

    def _commit_info(self, sha: str) -> CommitInfo:
        head, _, message = self.text("cat-file", "commit", sha).partition("\n\n")
        fields: dict[str, list[str]] = {}
        for line in head.splitlines():
            key, _, value = line.partition(" ")
            fields.setdefault(key, []).append(value)
        return CommitInfo(
            sha=sha,
            tree=fields["tree"][0],
            parents=tuple(fields.get("parent", ())),
            author=_signature(fields["author"][0]),
            committer=_signature(fields["committer"][0]),
            message=message,
        )

    def _diff_text(self, old: str, new: str, context: int = 3) -> bytes:
        """`git diff` between two trees: the raw records, a NUL, and the patches."""
        return self.run(
            "diff",
            "--raw",
            "-z",
            "--patch",
            "--full-index",
            "--no-abbrev",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--find-renames",
            f"--unified={context}",
            old,
            new,
        )


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _signature(text: str) -> Signature:
    name, _, rest = text.partition(" <")
    email, _, when = rest.partition("> ")
    return Signature(name, email, int(when.split()[0]))


def _data(data: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(data), data)


def _quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _change(path: str, content: Content) -> bytes:
    name = _quoted(path).encode("utf-8", "surrogateescape")
    if content is None:
        return b"D " + name + b"\n"
    file = content if isinstance(content, File) else File(_bytes(content))
    if file.mode == "160000":
        return b"M 160000 " + file.data + b" " + name + b"\n"
    return b"M " + file.mode.encode() + b" inline " + name + b"\n" + _data(file.data)


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
