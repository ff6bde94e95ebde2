"""The history of the copied project: a baseline, and one commit for each change tried."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pitstop.rules.tree import FolderTree

SUFFIXES = frozenset(
    {".py", ".sh", ".bash", ".slurm", ".sbatch", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini"}
    | {".conf", ".txt", ".in", ".env", ".mk", ".dockerfile"}
)
NAMES = frozenset({"Makefile", "Dockerfile", "Containerfile", "justfile", ".env", "hostfile"})
LARGEST_SOURCE = 1 << 20
"""Bytes of a file that a change may touch; what is larger is data."""


def source_files(project: Path) -> tuple[str, ...]:
    """The files of a project that a change may touch: programs, configurations, scripts."""
    return tuple(
        path
        for path in FolderTree(project).paths
        if (Path(path).suffix in SUFFIXES or Path(path).name in NAMES)
        and (project / path).stat().st_size <= LARGEST_SOURCE
    )


class History:
    """Commits of the copy. Only files that a change may touch are in it, data are not."""

    def __init__(self, project: Path, git_dir: Path) -> None:
        self._project = project
        self._git_dir = git_dir
        self.head = ""

    def begin(self) -> str:
        """Record the project as it was copied; returns the commit."""
        self._git("init", "-q", "-b", "work")
        listed = "\0".join(source_files(self._project)).encode()
        self._git("add", "-f", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=listed)
        return self._commit("The project as it is")

    def commit(self, texts: Mapping[str, str], message: str) -> str:
        """Write new texts on top of the present commit; returns the new one."""
        for path, text in texts.items():
            target = self._project / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode("utf-8", "surrogateescape"))
        listed = "\0".join(texts).encode()
        self._git("add", "-f", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=listed)
        return self._commit(message)

    def squash(self, before: str, message: str) -> str:
        """Everything since a commit as one commit on top of it; returns the new one."""
        self._git("reset", "-q", "--soft", before)
        return self._commit(message)

    def switch(self, commit: str) -> None:
        """Make the copy's files those of a commit."""
        self._git("checkout", "-q", "-f", commit)
        self.head = commit

    def patch(self, before: str, after: str) -> str:
        """The unified diff between two commits."""
        return self._git("diff", "--no-color", "--no-ext-diff", before, after).decode(
            "utf-8", "replace"
        )

    def mail(self, before: str, after: str, *, without: str = "") -> dict[str, str]:
        """Each commit after `before` up to `after` as a patch that `git am` takes, oldest first;
        empty where it changes nothing but the file `without`."""
        commits = self._git("rev-list", "--reverse", f"{before}..{after}").decode().split()
        paths = ["--", ".", f":(exclude,literal){without}"] if without else []
        return {
            commit: self._git(
                "format-patch", "--stdout", "--no-signature", f"{commit}^..{commit}", *paths
            ).decode("utf-8", "surrogateescape")
            for commit in commits
        }

    def _commit(self, message: str) -> str:
        self._git("commit", "-q", "--allow-empty", "-F", "-", stdin=message.encode())
        self.head = self._git("rev-parse", "HEAD").decode().strip()
        return self.head

    def _git(self, *args: str, stdin: bytes | None = None) -> bytes:
        who = {
            "GIT_AUTHOR_NAME": "Pitstop",
            "GIT_AUTHOR_EMAIL": "pitstop@localhost",
            "GIT_COMMITTER_NAME": "Pitstop",
            "GIT_COMMITTER_EMAIL": "pitstop@localhost",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        options = ["-c", "core.autocrlf=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"]
        where = [f"--git-dir={self._git_dir}", f"--work-tree={self._project}"]
        done = subprocess.run(
            ["git", *where, *options, *args],
            cwd=self._project,
            input=stdin,
            capture_output=True,
            env={**os.environ, **who},
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"git {args[0]}: {done.stderr.decode('utf-8', 'replace').strip()}")
        return done.stdout
