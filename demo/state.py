"""Everything the forge remembers: plain records, and the World that holds them.

Times are seconds since the epoch by the World's own clock. All access happens under World.lock.
"""

from __future__ import annotations

import base64
import itertools
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from demo.gitrepo import BareRepo
from demo.hunks import Side
from demo.wire import not_found


def node_id(kind: str, number: int) -> str:
    """GitHub's opaque ids: a prefix for the kind, then letters that mean nothing to clients."""
    return f"{kind}_{base64.urlsafe_b64encode(f'forge:{number}'.encode()).decode().rstrip('=')}"


@dataclass(slots=True)
class User:
    """An account. Bots end in [bot] and have type Bot."""

    id: int
    login: str
    type: str = "User"
    name: str | None = None


@dataclass(slots=True)
class Token:
    """A credential: `permissions` such as {"contents": "write"}. An installation token acts for
    a bot on the repositories named (None: all); a personal one acts for a person."""

    value: str
    user: User
    permissions: Mapping[str, str]
    kind: Literal["installation", "personal"] = "installation"
    repositories: frozenset[str] | None = None

    def may(self, permission: str, level: str = "write") -> bool:
        """True when the token holds the permission at this level or a higher one."""
        order = ("", "read", "write", "admin")
        held = self.permissions.get(permission, "")
        return order.index(held) >= order.index(level)

    def reaches(self, full_name: str) -> bool:
        """True when the repository is one of those the token was made for."""
        return self.repositories is None or full_name.lower() in self.repositories


@dataclass(slots=True)
class Label:
    """A label of a repository."""

    id: int
    name: str
    color: str = "ededed"
    description: str | None = None


@dataclass(slots=True)
class Reaction:
    """One person's emoji on a comment."""

    id: int
    user: User
    content: str
    created: float


@dataclass(slots=True)
class Comment:
    """A comment in a conversation."""

    id: int
    user: User
    body: str
    created: float
    updated: float
    by_app: bool = False
    minimized: str | None = None
    reactions: list[Reaction] = field(default_factory=list)


@dataclass(slots=True)
class Anchor:
    """Where a review comment hangs. `line` and `start_line` follow the code while it lives and
    become None when it is outdated; the original values stay."""

    path: str
    commit: str
    subject: Literal["line", "file"]
    side: Side = "RIGHT"
    line: int | None = None
    start_side: Side | None = None
    start_line: int | None = None
    position: int | None = None
    diff_hunk: str = ""
    original_commit: str = ""
    original_line: int | None = None
    original_start_line: int | None = None
    original_position: int | None = None
    outdated: bool = False


@dataclass(slots=True)
class ReviewComment(Comment):
    """A comment on code. Replies share the thread, and through it the anchor."""

    review: int = 0
    thread: int = 0
    reply_to: int | None = None


@dataclass(slots=True)
class Thread:
    """A conversation about one place in the code."""

    id: int
    anchor: Anchor
    comments: list[ReviewComment] = field(default_factory=list)
    resolved_by: User | None = None


@dataclass(slots=True)
class Review:
    """A submitted or pending review."""

    id: int
    user: User
    body: str
    state: str
    commit: str
    submitted: float | None


@dataclass(slots=True)
class Pull:
    """What an issue has in addition when it is a pull request. `head_sha` stays when the head's
    branch or repository goes; `base_sha` is the tip of the base branch, which stops moving when the
    pull request is closed."""

    head_repo: Repository | None
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str
    head_owner: User
    draft: bool = False
    merged: float | None = None
    merged_by: User | None = None
    merge_commit: str | None = None
    reviewers: list[User] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)

    def review_comments(self, *, viewer: User | None = None) -> list[ReviewComment]:
        """Comments of submitted reviews, and of the viewer's own pending one, oldest first."""
        hidden = {r.id for r in self.reviews if r.state == "PENDING" and r.user is not viewer}
        found = [c for t in self.threads for c in t.comments if c.review not in hidden]
        return sorted(found, key=lambda comment: comment.id)


@dataclass(slots=True)
class Issue:
    """An issue; a pull request when `pull` is set."""

    id: int
    number: int
    title: str
    body: str | None
    user: User
    created: float
    updated: float
    state: str = "open"
    closed: float | None = None
    labels: list[Label] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    pull: Pull | None = None


@dataclass(slots=True)
class CheckRun:
    """A check run with all its annotations so far."""

    id: int
    name: str
    head_sha: str
    status: str
    conclusion: str | None
    started: float | None
    completed: float | None
    external_id: str | None = None
    details_url: str | None = None
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Status:
    """A commit status."""

    id: int
    sha: str
    state: str
    context: str
    description: str | None
    target_url: str | None
    creator: User
    created: float


@dataclass(slots=True)
class Hook:
    """Where events go. `secret` signs them when it is not empty."""

    id: int
    url: str
    secret: str
    events: frozenset[str]


@dataclass(slots=True)
class Repository:
    """A repository: `git` on disk, the rest in memory. `roles` maps a login to its role;
    `bots_open_pulls` is the setting that lets GitHub Actions create and approve them."""

    id: int
    owner: User
    name: str
    git: BareRepo
    created: float
    default_branch: str = "main"
    private: bool = False
    bots_open_pulls: bool = True
    parent: Repository | None = None
    roles: dict[str, str] = field(default_factory=dict)
    issues: dict[int, Issue] = field(default_factory=dict)
    labels: list[Label] = field(default_factory=list)
    checks: list[CheckRun] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    dispatches: list[dict[str, Any]] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)

    @property
    def full_name(self) -> str:
        """owner/name."""
        return f"{self.owner.login}/{self.name}"

    def pulls(self) -> Iterator[tuple[Issue, Pull]]:
        """Every pull request, oldest first."""
        for issue in self.issues.values():
            if issue.pull is not None:
                yield issue, issue.pull

    def role(self, user: User) -> str:
        """The user's role here: admin, maintain, write, triage, read or none."""
        if user is self.owner:
            return "admin"
        return self.roles.get(user.login.lower(), "none" if self.private else "read")


class World:
    """All accounts, credentials and repositories of one forge."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = threading.RLock()
        self.users: dict[str, User] = {}
        self.tokens: dict[str, Token] = {}
        self.repositories: dict[str, Repository] = {}
        self.clock_offset = 0.0
        self._ids = itertools.count(1001)

    def now(self) -> float:
        """The forge's time; tests may set it forward by `clock_offset` seconds."""
        return time.time() + self.clock_offset

    def next_id(self) -> int:
        """A number never given before."""
        return next(self._ids)

    def user(self, login: str, *, name: str | None = None) -> User:
        """The account of this name, made when it is new. Names ending in [bot] are bots."""
        found = self.users.get(login.lower())
        if found is None:
            kind = "Bot" if login.endswith("[bot]") else "User"
            found = User(self.next_id(), login, kind, name)
            self.users[login.lower()] = found
        return found

    def issue_token(
        self,
        user: User,
        permissions: Mapping[str, str],
        *,
        kind: Literal["installation", "personal"] = "installation",
        repositories: frozenset[str] | None = None,
    ) -> Token:
        """A new credential with a value of GitHub's form."""
        prefix = "ghs_" if kind == "installation" else "ghp_"
        token = Token(prefix + secrets.token_hex(18), user, permissions, kind, repositories)
        self.tokens[token.value] = token
        return token

    def repository(self, full_name: str) -> Repository:
        """The repository of this name. Raises Refusal (404)."""
        found = self.repositories.get(full_name.lower())
        if found is None:
            raise not_found()
        return found
