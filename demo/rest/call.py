"""One call of an operation: who asks what, with the questions every operation has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from demo.limits import Rates
from demo.shapes import Json, Links, commit_json
from demo.state import Issue, Pull, Repository, Token, User, World
from demo.webhooks import Event
from demo.wire import Answer, Refusal, Request, forbidden, not_found

T = TypeVar("T")
Operation = Callable[["Call"], Answer]

# Permissions that need no role in the repository when a person, not an app, holds them.
OPEN_TO_READERS = {"issues", "pull_requests"}
LARGEST_PAGE = 100


@dataclass(frozen=True, slots=True)
class Served:
    """An operation with the permissions of which one must be writable; none for reading."""

    run: Operation
    needs: tuple[str, ...]


OPERATIONS: dict[str, Served] = {}


def operation(name: str, *, needs: Sequence[str] = ()) -> Callable[[Operation], Operation]:
    """Serve an operationId by the function below."""

    def register(run: Operation) -> Operation:
        OPERATIONS[name] = Served(run, tuple(needs))
        return run

    return register


@dataclass(slots=True)
class Call:
    """What an operation gets. `words` are the blanks of its path, `data` the JSON it was sent;
    `events` collects what webhooks shall hear of once the answer stands."""

    world: World
    rates: Rates
    request: Request
    token: Token | None
    links: Links
    words: Mapping[str, str]
    data: Json
    events: list[Event] = field(default_factory=list)

    @property
    def user(self) -> User:
        """The account that acts. Raises Refusal (401)."""
        if self.token is None:
            raise Refusal(401, "Requires authentication")
        return self.token.user

    @property
    def repo(self) -> Repository:
        """The repository of the path, if the token may see it. Raises Refusal (404)."""
        repo = self.world.repository(f"{self.words['owner']}/{self.words['repo']}")
        if repo.private and not self._sees(repo):
            raise not_found()
        return repo

    def _sees(self, repo: Repository) -> bool:
        if self.token is None:
            return False
        if self.token.kind == "installation":
            return self.token.reaches(repo.full_name)
        return repo.role(self.token.user) != "none"

    @property
    def issue(self) -> Issue:
        """The issue or pull request of the path. Raises Refusal (404)."""
        word = self.words.get("issue_number") or self.words["pull_number"]
        issue = self.repo.issues.get(int(word))
        if issue is None:
            raise not_found()
        return issue

    @property
    def pull(self) -> tuple[Issue, Pull]:
        """The pull request of the path. Raises Refusal (404)."""
        issue = self.issue
        if issue.pull is None:
            raise not_found()
        return issue, issue.pull

    @property
    def role(self) -> str:
        """What the acting account is to the repository."""
        if self.token is None:
            return "read"
        if self.token.kind == "installation":
            return "write" if self.token.may("contents") else "read"
        return self.repo.role(self.token.user)

    def commit(self, name: str) -> str:
        """The commit that a SHA, branch, tag or heads/branch means. Raises Refusal (422)."""
        git = self.repo.git
        for candidate in (name, f"refs/{name}", f"refs/heads/{name}", f"refs/tags/{name}"):
            if sha := git.resolve(candidate):
                return sha
        raise Refusal(422, f"No commit found for SHA: {name}")

    def commit_json(self, sha: str) -> Json:
        """A commit of the repository as the API shows it."""
        repo = self.repo
        return commit_json(self.links, repo, repo.git.commit_info(sha), self.world.users)

    def page(self, items: Sequence[T], shape: Callable[[T], Json]) -> Answer:
        """One page of a list, with Link headers."""
        shown, headers = self.slice(items)
        return Answer(200, [shape(item) for item in shown], headers)

    def slice(self, items: Sequence[T]) -> tuple[Sequence[T], dict[str, str]]:
        """The items of the page asked for, and the headers that lead to the others."""
        size = min(_number(self.request.query.get("per_page"), 30), LARGEST_PAGE)
        page = _number(self.request.query.get("page"), 1)
        last = max(1, -(-len(items) // size))
        targets: dict[str, int] = {}
        if page > 1:
            targets |= {"prev": page - 1, "first": 1}
        if page < last:
            targets |= {"next": page + 1, "last": last}
        address = self.links.api + _bare(self.request.path)
        parts = []
        for relation in ("prev", "next", "last", "first"):
            if relation in targets:
                query = urlencode(dict(self.request.query) | {"page": str(targets[relation])})
                parts.append(f'<{address}?{query}>; rel="{relation}"')
        start = (page - 1) * size
        return items[start : start + size], {"link": ", ".join(parts)} if parts else {}

    def announce(self, name: str, action: str, repo: Repository, **about: Any) -> None:
        """Let webhooks hear of something, after the answer."""
        self.events.append(Event(name, action, repo, self.user, about))


def authorise(call: Call, needs: Iterable[str]) -> None:
    """See that the token may write. Raises Refusal (401, 403 or 404)."""
    needs = tuple(needs)
    if not needs:
        return
    user, token = call.user, call.token
    if token is None or "owner" not in call.words:
        return
    repo = call.repo
    accepted = "; ".join(f"{need}=write" for need in needs)
    if not token.reaches(repo.full_name):
        raise forbidden(accepted)
    if not any(token.may(need) for need in needs):
        if token.kind == "personal":
            raise Refusal(403, "Resource not accessible by personal access token")
        raise forbidden(accepted)
    writer = repo.role(user) in ("write", "maintain", "admin")
    if token.kind == "personal" and not writer and not OPEN_TO_READERS & set(needs):
        raise not_found()


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isdigit() and int(text) > 0 else default


def _bare(path: str) -> str:
    return quote(path.removeprefix("/api/v3"), safe="/%:@!$&'()*+,;=~")
