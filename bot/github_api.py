"""GitHub's REST and GraphQL APIs in our own words. The only module that imports PyGithub.

PyGithub brings authentication, addresses (GitHub Enterprise Server, redirects) and error types.
Its objects fetch what they lack behind one's back, and its retries may post twice, so every call
here is one request of its requester, which `pitstop.bot.transport` times, counts and repeats.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import github
import requests
from github.Requester import Requester

from pitstop.bot import github_shapes as shapes
from pitstop.bot.pulls import Comment, Commit, Comparison, PostedCheck, PullRequest, Thread
from pitstop.bot.transport import ApiError, ForbiddenError, RefusedError, Transport

T = TypeVar("T")
Json = dict[str, Any]

PER_PAGE = 100
MAX_PAGES = 100
COMPARED_FILES = 300
"""Files that the compare API lists at most."""

SECONDS = 30
"""For one request."""

_THREADS = """
query Threads($owner: String!, $name: String!, $number: Int!, $after: String) {
  viewer { login }
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      reviewThreads(first: 50, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes {
          id
          isResolved
          path
          resolvedBy { login }
          comments(first: 50) {
            nodes { body url viewerDidAuthor author { __typename login } }
          }
        }
      }
    }
  }
}
"""

_VIEWER = "query Viewer { viewer { login } }"

_RESOLVE = """
mutation Resolve($id: ID!) {
  resolveReviewThread(input: {threadId: $id}) { thread { id isResolved } }
}
"""


class GitHub:
    """One repository of one GitHub. Every method may raise `pitstop.bot.transport.ApiError`:
    RefusedError for an answer that stays (ForbiddenError when the token may not),
    OutOfTimeError when there was no time left to try again."""

    def __init__(
        self,
        repository: str,
        token: str,
        transport: Transport,
        *,
        api_url: str = "https://api.github.com",
        graphql_url: str = "https://api.github.com/graphql",
        user_agent: str = "pitstop",
    ) -> None:
        self.repository = repository
        self._transport = transport
        self._graphql_url = graphql_url
        self._requester: Requester = github.Github(
            base_url=api_url,
            auth=github.Auth.Token(token),
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=None,
            timeout=SECONDS,
            per_page=PER_PAGE,
            user_agent=user_agent,
        ).requester
        self._viewer: str | None = None

    def through(self, transport: Transport) -> GitHub:
        """The same repository, with another time limit."""
        other = copy.copy(self)
        other._transport = transport
        return other

    # What is there

    def pull(self, number: int) -> PullRequest:
        """A pull request as it is now."""
        return shapes.pull(self._get(self._repo(f"pulls/{number}"))[1])

    def pulls_from(self, owner: str, branch: str) -> tuple[PullRequest, ...]:
        """The open pull requests from a branch of an account's fork (or of this repository)."""
        query = {"state": "open", "head": f"{owner}:{branch}"}
        return tuple(shapes.pull(data) for data in self._pages(self._repo("pulls"), query))

    def compare(self, base: str, head: str) -> Comparison | None:
        """The three-dot comparison of two commits, None when it is too large for GitHub."""
        path = self._repo(f"compare/{base}...{head}")
        try:
            # Pages are of commits, which are not needed; files all stand on the first one.
            _, data = self._get(path, {"per_page": 1}, tries=3)
        except ForbiddenError:
            raise
        except RefusedError:
            return None
        files = data.get("files") or []
        return Comparison(
            merge_base=data["merge_base_commit"]["sha"],
            shown={file["filename"]: shapes.shown_hunks(file) for file in files},
            complete=len(files) < COMPARED_FILES,
        )

    def file_text(self, path: str, ref: str) -> str | None:
        """A file of at most 1 MB at a branch or commit, None where there is none."""
        try:
            _, data = self._get(self._repo(f"contents/{quote(path)}"), {"ref": ref})
        except RefusedError as error:
            if error.status == 404:
                return None
            raise
        if not isinstance(data, dict) or data.get("encoding") != "base64":
            return None
        return base64.b64decode(data["content"]).decode("utf-8", "replace")

    def comments(self, number: int) -> tuple[Comment, ...]:
        """The conversation of a pull request, oldest first."""
        viewer = self.viewer()
        pages = self._pages(self._repo(f"issues/{number}/comments"), {})
        return tuple(shapes.comment(data, viewer) for data in pages)

    def comment(self, comment: int) -> Comment:
        """One comment of a conversation, as it is now."""
        return shapes.comment(self._get(self._repo(f"issues/comments/{comment}"))[1], self.viewer())

    def default_branch(self) -> str:
        """The branch whose configuration counts for commands."""
        found: str = self._get(f"/repos/{self.repository}")[1]["default_branch"]
        return found

    def permission(self, login: str) -> str:
        """admin, write, read or none: what an account may do here, teams and organisations
        counted in (maintain is write, triage is read)."""
        path = self._repo(f"collaborators/{quote(login, safe='')}/permission")
        found: str = self._get(path)[1]["permission"]
        return found

    def own_pulls(self, branch: str) -> tuple[PullRequest, ...]:
        """Every pull request from a branch of this repository, newest first."""
        owner = self.repository.partition("/")[0]
        query = {"state": "all", "head": f"{owner}:{branch}", "sort": "created"}
        return tuple(shapes.pull(data) for data in self._pages(self._repo("pulls"), query))

    def commit_of(self, ref: str) -> Commit | None:
        """The commit at a branch, None where there is no such branch."""
        try:
            _, data = self._get(self._repo(f"commits/heads/{quote(ref)}"))
        except RefusedError as error:
            if error.status in (404, 422):
                return None
            raise
        return shapes.commit(data)

    def commits_between(self, base: str, head: str) -> tuple[Commit, ...]:
        """The commits of `head` that `base` has not, oldest first; the first 250."""
        _, data = self._get(self._repo(f"compare/{base}...{head}"))
        return tuple(shapes.commit(one) for one in data["commits"])

    def viewer(self) -> str:
        """The login of the account that the token belongs to."""
        if self._viewer is None:
            login: str = self._ask(_VIEWER, {})["viewer"]["login"]
            self._viewer = login
        return self._viewer

    def threads(self, number: int) -> tuple[Thread, ...]:
        """Every thread of review comments on a pull request."""
        owner, _, name = self.repository.partition("/")
        found: list[Thread] = []
        after: str | None = None
        for _ in range(MAX_PAGES):
            variables = {"owner": owner, "name": name, "number": number, "after": after}
            data = self._ask(_THREADS, variables)
            self._viewer = viewer = data["viewer"]["login"]
            page = data["repository"]["pullRequest"]["reviewThreads"]
            found += (shapes.thread(node, viewer) for node in page["nodes"] if node)
            if not page["pageInfo"]["hasNextPage"]:
                break
            after = page["pageInfo"]["endCursor"]
        return tuple(found)

    def checks(self, sha: str, name: str) -> tuple[PostedCheck, ...]:
        """The check runs of this name on a commit, newest first."""
        query = {"check_name": name, "filter": "all"}
        path = self._repo(f"commits/{sha}/check-runs")
        found = (shapes.check(data) for data in self._pages(path, query, "check_runs"))
        return tuple(sorted(found, key=lambda check: -check.id))

    # What we say

    def create_comment(
        self, number: int, body: str, landed: Callable[[], Comment | None]
    ) -> Comment:
        """A new comment in the conversation. `landed` finds it when it is already there."""
        path = self._repo(f"issues/{number}/comments")
        return self._transport.write(
            lambda: Comment(self._send("POST", path, {"body": body})["id"], body, True), landed
        )

    def react(self, comment: int, content: str) -> None:
        """A reaction to a comment; a second one of the same kind changes nothing."""
        path = self._repo(f"issues/comments/{comment}/reactions")
        self._transport.write_again(lambda: self._send("POST", path, {"content": content}))

    def create_pull(
        self,
        title: str,
        body: str,
        head: str,
        base: str,
        landed: Callable[[], PullRequest | None],
    ) -> PullRequest:
        """A new draft pull request between two branches of this repository."""
        data = {"title": title, "body": body, "head": head, "base": base, "draft": True}
        path = self._repo("pulls")
        return self._transport.write(lambda: shapes.pull(self._send("POST", path, data)), landed)

    def edit_pull(self, number: int, **data: str) -> None:
        """Another title, body or state for a pull request of ours."""
        path = self._repo(f"pulls/{number}")
        self._transport.write_again(lambda: self._send("PATCH", path, data))

    def add_label(self, number: int, label: str) -> None:
        """A label on a pull request; made where the repository has none of the name."""
        path = self._repo(f"issues/{number}/labels")
        self._transport.write_again(lambda: self._send("POST", path, {"labels": [label]}))

    def edit_comment(self, comment: int, body: str) -> None:
        """Another text for a comment of ours."""
        path = self._repo(f"issues/comments/{comment}")
        self._transport.write_again(lambda: self._send("PATCH", path, {"body": body}))

    def delete_comment(self, comment: int) -> None:
        """Take back a comment of ours."""
        path = self._repo(f"issues/comments/{comment}")
        self._transport.write(lambda: self._send("DELETE", path, {}), lambda: None)

    def create_review(
        self, number: int, sha: str, comments: Sequence[Json], landed: Callable[[], bool]
    ) -> None:
        """A submitted review of a commit with all its comments, or nothing at all."""
        path = self._repo(f"pulls/{number}/reviews")
        data = {"commit_id": sha, "event": "COMMENT", "body": "", "comments": list(comments)}
        self._transport.write(lambda: bool(self._send("POST", path, data)), _true_or_none(landed))

    def create_file_comment(
        self, number: int, sha: str, path: str, body: str, landed: Callable[[], bool]
    ) -> None:
        """A review comment on a changed file as a whole."""
        data = {"commit_id": sha, "path": path, "body": body, "subject_type": "file"}
        address = self._repo(f"pulls/{number}/comments")
        self._transport.write(
            lambda: bool(self._send("POST", address, data)), _true_or_none(landed)
        )

    def resolve(self, thread: str) -> None:
        """Mark a thread as resolved."""
        self._transport.write_again(lambda: self._graphql(_RESOLVE, {"id": thread}))

    def create_check(
        self, data: Mapping[str, object], landed: Callable[[], PostedCheck | None]
    ) -> PostedCheck:
        """A new check run."""
        path = self._repo("check-runs")
        return self._transport.write(lambda: shapes.check(self._send("POST", path, data)), landed)

    def update_check(self, check: int, data: Mapping[str, object], annotations: int) -> PostedCheck:
        """Change a check run. The annotations in `data` are added to those it has, and make
        `annotations` of them altogether."""
        path = self._repo(f"check-runs/{check}")

        def landed() -> PostedCheck | None:
            found = shapes.check(self._get(path)[1])
            done = found.annotations >= annotations
            return found if done and found.completed == ("conclusion" in data) else None

        return self._transport.write(lambda: shapes.check(self._send("PATCH", path, data)), landed)

    # How it is asked

    def _repo(self, path: str) -> str:
        return f"/repos/{self.repository}/{path}"

    def _get(
        self, path: str, query: Mapping[str, object] | None = None, *, tries: int | None = None
    ) -> tuple[Mapping[str, str], Any]:
        return self._transport.read(lambda: self._request("GET", path, query=query), tries=tries)

    def _pages(
        self, path: str, query: Mapping[str, object], key: str | None = None
    ) -> Iterator[Json]:
        for page in range(1, MAX_PAGES + 1):
            headers, data = self._get(path, {**query, "per_page": PER_PAGE, "page": page})
            yield from data[key] if key else data
            if 'rel="next"' not in headers.get("link", ""):
                return

    def _send(self, verb: str, path: str, data: Mapping[str, object]) -> Any:
        return self._request(verb, path, data=data)[1]

    def _request(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        data: Mapping[str, object] | None = None,
    ) -> tuple[Mapping[str, str], Any]:
        try:
            return self._requester.requestJsonAndCheck(
                verb, path, parameters=dict(query or {}), input=dict(data) if data else None
            )
        except github.GithubException as error:
            headers = {name.lower(): value for name, value in (error.headers or {}).items()}
            raise ApiError(_message(error), error.status, headers) from error
        except requests.RequestException as error:
            # Its text holds addresses and objects that say nothing to a reader.
            raise ApiError(f"no answer from GitHub ({type(error).__name__})") from error
        except ValueError as error:
            raise ApiError("GitHub's answer was cut off") from error

    def _ask(self, query: str, variables: Mapping[str, object]) -> Json:
        return self._transport.read(lambda: self._graphql(query, variables))

    def _graphql(self, query: str, variables: Mapping[str, object]) -> Json:
        data = {"query": query, "variables": variables}
        headers, answer = self._request("POST", self._graphql_url, data=data)
        errors = answer.get("errors")
        if errors:
            raise _graphql_error(errors, headers)
        found: Json = answer["data"]
        return found


def _true_or_none(landed: Callable[[], bool]) -> Callable[[], bool | None]:
    return lambda: landed() or None


def _message(error: github.GithubException) -> str:
    """GitHub's own words, with its list of single errors."""
    data = error.data if isinstance(error.data, dict) else {}
    message = data.get("message")
    if not isinstance(message, str):
        return "GitHub answered with an error page"
    errors = data.get("errors")
    return f"{message} {json.dumps(errors)}" if errors else message


def _graphql_error(errors: Sequence[Json], headers: Mapping[str, str]) -> ApiError:
    """GraphQL answers 200 with errors in the body."""
    first = errors[0]
    message = str(first.get("message", "GraphQL error"))
    match first.get("type"):
        case "RATE_LIMITED":
            return ApiError(f"rate limit exceeded: {message}", 403, headers)
        case "FORBIDDEN" | "INSUFFICIENT_SCOPES":
            return ForbiddenError(message, 403, headers)
        case "NOT_FOUND":
            return RefusedError(message, 404, headers)
        case None if message.startswith("Something went wrong"):
            return ApiError(message, 502, headers)
        case _:
            return RefusedError(message, 422, headers)
