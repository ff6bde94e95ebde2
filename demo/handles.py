"""A repository and a pull request of a running forge, to be used from the same process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demo.conversation import add_comment, ensure_label, reply_to_thread
from demo.events import payload_of, pull_payload
from demo.gitrepo import Content
from demo.pulls import Comparison, compare_pull, open_pull
from demo.shapes import Json
from demo.shapes_issue import check_json, comment_json
from demo.shapes_pull import pull_json, review_comment_json, review_json
from demo.state import Issue, Pull, Repository, Thread
from demo.webhooks import Event

if TYPE_CHECKING:
    from demo.forge import Forge


@dataclass(frozen=True, slots=True)
class ForgeRepo:
    """A repository: commit to it, open pull requests, give people roles."""

    forge: Forge
    record: Repository

    @property
    def name(self) -> str:
        """owner/name."""
        return self.record.full_name

    @property
    def clone_url(self) -> str:
        """Where git clones it from."""
        return f"{self.forge.url}/{self.name}.git"

    def commit(
        self,
        branch: str,
        files: Mapping[str, Content],
        message: str = "Change",
        *,
        parent: str | None = None,
        author: str = "octocat",
    ) -> str:
        """Commit files to a branch (None removes one), and let open pull requests follow.
        `parent` begins a new branch, or rewrites one as a forced push does."""
        with self.forge.world.lock:
            now = int(self.forge.world.now())
            if parent is None and self.record.git.branch(branch) is None:
                parent = self.record.git.branch(self.record.default_branch)
            sha = self.record.git.commit_files(
                branch, files, message, parent=parent, when=now, author=author
            )
            self.forge.notice(author)
        return sha

    def tip(self, branch: str) -> str | None:
        """The commit that a branch points at."""
        return self.record.git.branch(branch)

    def references(self) -> dict[str, str]:
        """Every reference with its commit."""
        return self.record.git.references()

    def give_role(self, login: str, role: str) -> None:
        """Make somebody a collaborator: read, triage, write, maintain or admin."""
        with self.forge.world.lock:
            self.forge.world.user(login)
            self.record.roles[login.lower()] = role

    def open_pull(
        self,
        files: Mapping[str, Content],
        *,
        branch: str = "change",
        base: str = "main",
        title: str = "Change the training",
        body: str | None = None,
        author: str = "octocat",
        draft: bool = False,
        source: ForgeRepo | None = None,
    ) -> ForgePull:
        """Commit files to a new branch on top of `base` and open a pull request from it. With
        `source` the branch lies in that fork."""
        source = source or self
        tip = source.record.git.branch(base)
        source.commit(branch, files, title, parent=tip, author=author)
        with self.forge.world.lock:
            issue = open_pull(
                self.forge.world,
                self.record,
                self.forge.world.user(author),
                title=title,
                body=body,
                base=base,
                head=branch,
                head_repo=source.record,
                draft=draft,
            )
        self.forge.send(self.record, "pull_request", "opened", author, issue=issue)
        return ForgePull(self, issue)

    def delete(self) -> None:
        """Remove the repository, as the owner of a fork may at any time."""
        with self.forge.world.lock:
            self.forge.world.repositories.pop(self.name.lower())
            for other in self.forge.world.repositories.values():
                for _, pull in other.pulls():
                    if pull.head_repo is self.record:
                        pull.head_repo = None


@dataclass(frozen=True, slots=True)
class ForgePull:
    """A pull request: what stands on it, and the events that it causes."""

    repo: ForgeRepo
    issue: Issue

    @property
    def _pull(self) -> Pull:
        assert self.issue.pull is not None
        return self.issue.pull

    @property
    def number(self) -> int:
        """Its number."""
        return self.issue.number

    @property
    def head(self) -> str:
        """The commit at its head."""
        return self._pull.head_sha

    @property
    def url(self) -> str:
        """Its web page."""
        return f"{self.repo.forge.url}/{self.repo.name}/pull/{self.number}"

    def push(self, files: Mapping[str, Content], message: str = "Change again") -> str:
        """Commit to the head branch, which moves the pull request's head."""
        source = self._pull.head_repo
        assert source is not None
        holder = ForgeRepo(self.repo.forge, source)
        return holder.commit(self._pull.head_ref, files, message, author=self.issue.user.login)

    def comparison(self) -> Comparison:
        """The files and commits it brings."""
        with self.repo.forge.world.lock:
            return compare_pull(self.repo.record, self._pull)

    def json(self) -> Json:
        """The pull request as the API shows it."""
        comparison = self.comparison()
        links, record = self.repo.forge.links, self.repo.record
        return pull_json(links, record, self.issue, self._pull, comparison)

    def comments(self) -> list[Json]:
        """The conversation's comments as the API shows them, oldest first."""
        with self.repo.forge.world.lock:
            return [
                comment_json(self.repo.forge.links, self.repo.record, self.issue, comment)
                for comment in self.issue.comments
            ]

    def reviews(self) -> list[Json]:
        """The reviews, pending ones included."""
        with self.repo.forge.world.lock:
            return [
                review_json(self.repo.forge.links, self.repo.record, self.issue, review)
                for review in self._pull.reviews
            ]

    def review_comments(self) -> list[Json]:
        """The comments on code, oldest first, those of pending reviews left out."""
        with self.repo.forge.world.lock:
            pairs = {c.id: t for t in self._pull.threads for c in t.comments}
            return [
                review_comment_json(
                    self.repo.forge.links,
                    self.repo.record,
                    self.issue,
                    pairs[comment.id],
                    comment,
                )
                for comment in self._pull.review_comments()
            ]

    def threads(self) -> list[Thread]:
        """The threads on code, with `resolved_by` and `anchor.outdated`."""
        return list(self._pull.threads)

    def checks(self) -> list[Json]:
        """The check runs of its head, with `annotations` added."""
        with self.repo.forge.world.lock:
            return [
                check_json(self.repo.forge.links, self.repo.record, check)
                | {"annotations": list(check.annotations)}
                for check in self.repo.record.checks
                if check.head_sha == self.head
            ]

    def labels(self) -> list[str]:
        """The names of its labels."""
        return [label.name for label in self.issue.labels]

    def add_label(self, name: str) -> None:
        """Label it, as a person would."""
        with self.repo.forge.world.lock:
            self.issue.labels.append(ensure_label(self.repo.forge.world, self.repo.record, name))

    def comment(self, body: str, login: str = "octocat") -> Json:
        """Somebody comments in the conversation. Returns the `issue_comment` event's payload."""
        forge = self.repo.forge
        with forge.world.lock:
            user = forge.world.user(login)
            comment = add_comment(forge.world, self.issue, user, body)
            about: dict[str, Any] = {"issue": self.issue, "comment": comment}
            event = Event("issue_comment", "created", self.repo.record, user, about)
            payload = payload_of(forge.links, event)
        forge.send(self.repo.record, "issue_comment", "created", login, **about)
        return payload

    def reply(self, thread: Thread, body: str, login: str = "octocat") -> None:
        """Somebody answers in a thread on code."""
        world = self.repo.forge.world
        with world.lock:
            reply_to_thread(world, self._pull, thread, world.user(login), body)

    def close(self) -> None:
        """Close it without merging."""
        world = self.repo.forge.world
        with world.lock:
            self.issue.state, self.issue.closed = "closed", world.now()
        login = self.issue.user.login
        self.repo.forge.send(self.repo.record, "pull_request", "closed", login, issue=self.issue)

    def event(self, action: str = "opened", before: str | None = None) -> Json:
        """The payload of a `pull_request` event: what a workflow finds in GITHUB_EVENT_PATH."""
        forge = self.repo.forge
        with forge.world.lock:
            sender = self.issue.user
            return pull_payload(forge.links, self.repo.record, self.issue, action, sender, before)
