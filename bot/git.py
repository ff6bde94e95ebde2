"""The commits of a pull request, fetched into a bare repository of our own: their files and diff,
and commits of ours on top of them.

Nothing is checked out and nothing that a repository configures is run: no hooks, filters, text
conversion, external diff, submodules or credential helpers. The token reaches git through its
environment only, so that it stands on no command line and in no file.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pitstop.bot.diff import Diff, parse
from pitstop.bot.transport import ApiError, ForbiddenError, RefusedError, Transport
from pitstop.rules.finding import UserError
from pitstop.rules.tree import GitTree

SECONDS = 600
"""For one git command."""

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_KEPT = (
    "PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
)
_SETTINGS = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", os.devnull),
    ("core.quotePath", "true"),
    ("credential.helper", ""),
    ("http.followRedirects", "false"),
    ("protocol.allow", "never"),
    ("protocol.http.allow", "always"),
    ("protocol.https.allow", "always"),
    ("submodule.recurse", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository on a GitHub, and the token to read it with."""

    server_url: str
    repository: str
    token: str = field(repr=False)

    @property
    def url(self) -> str:
        """What git fetches from."""
        return f"{self.server_url}/{self.repository}.git"


@dataclass(frozen=True, slots=True)
class Store:
    """A bare repository that holds the commits asked for, with all their files."""

    path: Path

    @contextlib.contextmanager
    def tree(self, sha: str) -> Iterator[GitTree]:
        """The files of a commit."""
        tree = GitTree(self.path, sha)
        try:
            yield tree
        finally:
            tree.close()

    def diff(self, before: str, after: str) -> Diff:
        """What changed between two commits, with three lines of context as GitHub shows it."""
        options = (
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--find-renames",
            "--unified=3",
            "--full-index",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            "--submodule=short",
            "--ignore-submodules=none",
        )
        # Through a file: a diff may be larger than memory, and the command keeps its time limit.
        with tempfile.TemporaryFile() as file:
            _git(self.path, "diff", *options, _sha(before), _sha(after), "--", output=file)
            file.seek(0)
            return parse(file)


@contextlib.contextmanager
def stored(
    remote: Remote,
    commits: Sequence[str],
    *,
    number: int,
    workspace: Path | None,
    transport: Transport,
) -> Iterator[Store]:
    """The commits, from the workspace's own objects when all are there, else fetched.

    `number` is the pull request's, whose ref is tried where a server gives no bare commits.
    Raises ApiError as `pitstop.bot.transport` does.
    """
    with tempfile.TemporaryDirectory(prefix="pitstop-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "lent.git"
        if workspace is not None and _lend(path, workspace) and _complete(path, commits):
            yield Store(path)
            return
        path = Path(folder) / "fetched.git"
        _init(path)
        _fetch_commits(path, remote, commits, number, transport)
        yield Store(path)


def merge_base(remote: Remote, base: str, head: str, transport: Transport) -> str:
    """Where two commits parted, from their history alone (no files), when GitHub does not say.
    Raises UserError when they have nothing in common."""
    with tempfile.TemporaryDirectory(prefix="pitstop-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "history.git"
        _init(path)
        _fetch(path, remote, ("--filter=tree:0", "--no-tags"), (base, head), transport)
        try:
            found = _git(path, "merge-base", _sha(base), _sha(head)).decode().strip()
        except ApiError as error:
            raise UserError(
                f"{remote.repository}: {head[:7]} and {base[:7]} have no commit in common;"
                " rebase the pull request onto its base."
            ) from error
        return _sha(found)


# --- writing ---------------------------------------------------------------------------------

WHO = (("user.name", "Pitstop"), ("user.email", "pitstop@localhost"))
"""Author and committer of commits of ours."""


def check_out(store: Store, commit: str, folder: Path) -> None:
    """The files of a commit as a work tree with a repository of its own around it, without a
    remote. What git's attributes would run is not configured, so nothing runs."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _git(folder, "init", "--quiet", "--template=", ".")
    (folder / ".git" / "objects" / "info").mkdir(exist_ok=True)
    found = ("--no-tags", "--depth=1", str(store.path), _sha(commit))
    _git(folder, "fetch", "--quiet", *found, more=(("protocol.file.allow", "always"),))
    _git(folder, "checkout", "--quiet", "--detach", _sha(commit))


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that a commit changes. `status` is git's letter (M: changed in place), the modes are
    git's octal ones."""

    path: str
    status: str
    mode_before: str
    mode_after: str


def committed(store: Store, parent: str, patch: bytes, message: str) -> str:
    """A patch as a commit on top of another, made in the repository's index alone: nothing is
    checked out. Raises ApiError when it does not apply exactly."""
    _git(store.path, "read-tree", _sha(parent))
    _git(store.path, "apply", "--cached", "--whitespace=nowarn", "-", stdin=patch)
    tree = _git(store.path, "write-tree").decode().strip()
    made = _git(
        store.path,
        *("commit-tree", "-p", _sha(parent), "-F", "-", _sha(tree)),
        stdin=message.encode("utf-8", "replace"),
        more=WHO,
    )
    return _sha(made.decode().strip())


def changed_files(store: Store, before: str, after: str) -> tuple[ChangedFile, ...]:
    """The files in which two commits differ; a renamed one is two."""
    raw = _git(
        store.path, "diff-tree", "-r", "-z", "--raw", "--no-renames", _sha(before), _sha(after)
    )
    parts = raw.decode("utf-8", "surrogateescape").split("\0")
    found = []
    for about, path in zip(parts[0::2], parts[1::2], strict=False):
        mode_before, mode_after, _, _, status = about.removeprefix(":").split(" ")
        found.append(ChangedFile(path, status, mode_before, mode_after))
    return tuple(found)


def references(remote: Remote, transport: Transport) -> dict[str, str]:
    """Every branch and tag of a repository with its commit."""
    header = _header(remote)
    command = ("ls-remote", "--quiet", "--heads", "--tags", "--refs", remote.url)
    with tempfile.TemporaryDirectory(prefix="pitstop-") as folder:
        listed = transport.read(lambda: _git(Path(folder), *command, more=(header,)), tries=4)
    pairs = (line.split("\t") for line in listed.decode("utf-8", "replace").splitlines())
    return {name: sha for sha, name in pairs}


def push(
    store: Store, remote: Remote, commit: str, branch: str, expected: str, transport: Transport
) -> None:
    """Make one branch point at a commit, if it still points at `expected` ("": is not there).

    Raises RefusedError when it does not. A push that took effect although its answer was lost is
    seen by looking.
    """
    ref = f"refs/heads/{branch}"
    command = ("push", "--quiet", "--no-verify", f"--force-with-lease={ref}:{expected}")
    refspec = f"{_sha(commit)}:{ref}"

    def landed() -> bool | None:
        return references(remote, transport).get(ref) == commit or None

    def send() -> bool:
        try:
            _git(store.path, *command, remote.url, refspec, more=(_header(remote),))
        except RefusedError:  # libcurl itself sends again what seems lost, and finds our commit
            if landed() is None:
                raise
        return True

    transport.write(send, landed)


def _sha(text: str) -> str:
    if not _SHA.fullmatch(text):
        raise UserError(f"{text[:60]!r} is not a commit; Pitstop needs the full hash.")
    return text


def _init(path: Path) -> None:
    _git(path.parent, "init", "--quiet", "--bare", "--template=", path.name)


def _lend(path: Path, workspace: Path) -> bool:
    """A repository over the workspace's objects, without its configuration and hooks."""
    objects = workspace / ".git" / "objects"
    if not objects.is_dir() or "\n" in str(objects):
        return False
    _init(path)
    (path / "objects" / "info").mkdir(exist_ok=True)
    (path / "objects" / "info" / "alternates").write_text(f"{objects.resolve()}\n")
    return True


def _complete(path: Path, commits: Sequence[str]) -> bool:
    """True when the commits and every file of theirs are there."""
    try:
        names = [_sha(commit) for commit in commits]
        _git(path, "rev-list", "--objects", "--no-walk", "--quiet", *names)
    except ApiError:
        return False
    return True


def _fetch_commits(
    path: Path, remote: Remote, commits: Sequence[str], number: int, transport: Transport
) -> None:
    shallow = ("--depth=1", "--no-tags")
    try:
        _fetch(path, remote, shallow, [_sha(commit) for commit in commits], transport)
    except ForbiddenError:
        raise
    except RefusedError:
        # A server that gives only what a ref names: the head, and with its history the base.
        _fetch(path, remote, ("--no-tags",), (f"refs/pull/{number}/head",), transport)
        if not _complete(path, commits):
            raise


def _fetch(
    path: Path,
    remote: Remote,
    options: Sequence[str],
    wanted: Sequence[str],
    transport: Transport,
) -> None:
    header = _header(remote)
    command = ("fetch", "--quiet", "--no-write-fetch-head", "--no-recurse-submodules", *options)
    transport.read(lambda: _git(path, *command, remote.url, *wanted, more=(header,)), tries=4)


def _header(remote: Remote) -> tuple[str, str]:
    secret = base64.b64encode(f"x-access-token:{remote.token}".encode()).decode()
    return f"http.{remote.server_url}/.extraHeader", f"AUTHORIZATION: basic {secret}"


def _git(
    folder: Path,
    *args: str,
    more: Sequence[tuple[str, str]] = (),
    output: object = subprocess.PIPE,
    stdin: bytes = b"",
) -> bytes:
    """What git prints. Raises ApiError, as a failed request would."""
    try:
        run = subprocess.run(
            ["git", *args],
            cwd=folder,
            env=_environment(folder, more),
            input=stdin,
            stdout=output,  # type: ignore[call-overload]
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise UserError("git is not installed; install it to read pull requests.") from error
    except subprocess.TimeoutExpired as error:
        raise RefusedError(f"git {args[0]} took longer than {SECONDS} s") from error
    if run.returncode:
        raise _failure(args[0], run.stderr.decode("utf-8", "replace"))
    found: bytes = run.stdout or b""
    return found


def _environment(folder: Path, more: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    settings = (*_SETTINGS, *more)
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    pairs = {f"GIT_CONFIG_KEY_{n}": key for n, (key, _) in enumerate(settings)}
    pairs |= {f"GIT_CONFIG_VALUE_{n}": value for n, (_, value) in enumerate(settings)}
    return {
        **kept,
        **pairs,
        "GIT_CONFIG_COUNT": str(len(settings)),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
    }


_FORBIDDEN = ("Authentication failed", "could not read", "returned error: 401")
_STALE = ("stale info", "[rejected]", "remote rejected", "protected branch")
_ABSENT = ("not our ref", "unadvertised object", "couldn't find remote ref", "not found")


def _failure(command: str, stderr: str) -> ApiError:
    """git's last words as an error that is worth another attempt, or not. A 403 is: git does not
    show whether it stands for a limit of GitHub's."""
    lines = stderr.strip().splitlines() or ["no reason given"]
    message = f"git {command}: {lines[-1]}"
    if any(word in stderr for word in _FORBIDDEN):
        return ForbiddenError(message, 403)
    final = (*_ABSENT, *_STALE)
    if command not in ("fetch", "push", "ls-remote") or any(word in stderr for word in final):
        return RefusedError(message)
    return ApiError(message)
