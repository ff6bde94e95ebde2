"""What GitHub says about a pull request, in our own words. Plain records, no behaviour of the
network: `pitstop.bot.github_api` fills them, `pitstop.bot.review` decides on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pitstop.bot.diff import Hunk


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request as it is now."""

    number: int
    state: str
    draft: bool
    labels: frozenset[str]
    head_sha: str
    base_sha: str
    base_ref: str
    base_repository: str
    head_ref: str = ""
    head_repository: str | None = None
    author: str = ""
    url: str = ""
    body: str = ""
    merged: bool = False

    @property
    def fork(self) -> bool:
        """Whether the head lies in another repository, or in one that is gone."""
        return self.head_repository != self.base_repository


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit on GitHub: its whole message, and the address that its committer gave."""

    sha: str
    message: str
    committer: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """GitHub's three-dot comparison of two commits. `shown` maps each changed file to its hunks,
    None where GitHub gives no patch; `complete` is False when files were left off."""

    merge_base: str
    shown: Mapping[str, tuple[Hunk, ...] | None]
    complete: bool


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment in a pull request's conversation. `ours`: written with this very account; times
    are GitHub's own, in seconds since the epoch."""

    id: int
    body: str
    ours: bool
    author: str = ""
    created: float = 0.0
    updated: float = 0.0
    url: str = ""


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread of review comments on code.

    `body` is its first comment's, `ours` says who wrote that one, `replies` counts those of
    people (not bots, not us), `closed_by_us` that a resolved one was resolved by us.
    """

    id: str
    path: str
    body: str
    ours: bool
    resolved: bool
    closed_by_us: bool = False
    replies: int = 0
    url: str = ""


@dataclass(frozen=True, slots=True)
class PostedCheck:
    """A check run of ours. `annotations` is how many it already holds."""

    id: int
    external_id: str
    completed: bool
    annotations: int


@dataclass(frozen=True, slots=True)
class Posted:
    """Everything we have said on a pull request before."""

    comments: tuple[Comment, ...] = ()
    threads: tuple[Thread, ...] = ()
