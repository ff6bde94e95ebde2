"""From an API request to its answer: prefix, credentials, permissions, schema, operation."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from dataclasses import dataclass

from demo import graphql, graphql_mutations, graphql_types  # noqa: F401 - they fill the tables
from demo.events import payloads
from demo.limits import ANONYMOUS, Rates
from demo.pulls import follow_branches
from demo.rest import apps, checks, gitdata, issues, pulls, repos, reviews  # noqa: F401 - likewise
from demo.rest.call import OPERATIONS, Call, authorise
from demo.routes import Match, find_route
from demo.schema import problems
from demo.shapes import Links
from demo.state import Token, User, World
from demo.webhooks import Courier, Event
from demo.wire import DOCS, Answer, Refusal, Request, invalid_request, not_found

PREFIX = "/api/v3"
GRAPHQL = "/graphql"
ENTERPRISE_GRAPHQL = "/api/graphql"
UNNAMED = (
    "Request forbidden by administrative rules. Please make sure your request has a User-Agent "
    "header. Check https://developer.github.com for other possible causes."
)
# Operations whose result is content that others see.
CONTENT = {
    "issues/create-comment",
    "pulls/create",
    "pulls/create-review",
    "pulls/create-review-comment",
    "pulls/create-reply-for-review-comment",
    "pulls/submit-review",
    "repos/create-commit-status",
    "checks/create",
    "reactions/create-for-issue-comment",
    "reactions/create-for-pull-request-review-comment",
}


@dataclass(slots=True)
class Api:
    """The API of one forge."""

    world: World
    rates: Rates
    courier: Courier
    enterprise: bool = False

    def answer(self, request: Request) -> tuple[Answer, str | None]:
        """The answer, and the operation that gave it."""
        prefixed = request.path == PREFIX or request.path.startswith(PREFIX + "/")
        links = Links(request.base, request.base + PREFIX if prefixed else request.base)
        token: Token | None = None
        documentation, name = DOCS, None
        try:
            token = self._token(request)
            if self.is_graphql(request.path):
                name = "graphql"
                answer = self._graphql(request, token, links)
            else:
                match = self.match(request)
                if match is None:
                    raise not_found()
                name, documentation = match.route.operation, match.route.documentation
                call = Call(self.world, self.rates, request, token, links, match.words, {})
                self._admit(token, request, name)
                answer = self._serve(call, name, match.route.body)
                self.announce(links, call.events)
                if request.method != "GET":
                    self.notice_pushes(links, token.user if token else None)
        except Refusal as refusal:
            answer = refusal.answer(documentation)
        return self._dressed(answer, request, token, name), name

    def is_graphql(self, path: str) -> bool:
        """True for the address of GraphQL. Only an Enterprise Server has it below /api."""
        return path == (ENTERPRISE_GRAPHQL if self.enterprise else GRAPHQL)

    def match(self, request: Request) -> Match | None:
        """The operation that a request means. The prefix of an Enterprise Server is understood
        everywhere, and is needed there."""
        bare = request.path.removeprefix(PREFIX)
        if self.enterprise and bare == request.path:
            return None
        # The root of a repository's contents is asked for with and without a last slash.
        path = bare + "/" if bare == "" or bare.endswith("/contents") else bare
        return find_route("GET" if request.method == "HEAD" else request.method, path)

    def _serve(self, call: Call, name: str, body: object) -> Answer:
        served = OPERATIONS.get(name)
        if served is None:
            raise not_found()
        authorise(call, served.needs)
        if call.request.method not in ("GET", "HEAD"):
            call.data = call.request.json()
        if isinstance(body, dict):
            found = list(problems(call.data, body))
            # The bare array of labels is not in the description, but the service takes it.
            if found and not (isinstance(call.data, list) and name.endswith("-labels")):
                raise invalid_request(*found)
        return served.run(call)

    def _graphql(self, request: Request, token: Token | None, links: Links) -> Answer:
        if token is None:
            raise Refusal(401, "This endpoint requires you to be authenticated.")
        if request.method != "POST":
            raise not_found()
        query = request.json()
        text = query.get("query", "") if isinstance(query, dict) else ""
        method = "POST" if str(text).lstrip().startswith("mutation") else "GET"
        self._admit(token, request, "graphql", method=method)
        call = Call(self.world, self.rates, request, token, links, {}, {})
        return Answer(200, graphql.execute(call, query))

    def sender(self, request: Request) -> User | None:
        """The account behind a request, if its credential is good."""
        try:
            token = self._token(request)
        except Refusal:
            return None
        return token.user if token else None

    def _token(self, request: Request) -> Token | None:
        """The credential of the request. Raises Refusal (401, 403)."""
        if not request.headers.get("user-agent"):
            raise Refusal(403, UNNAMED)
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        value = value.strip()
        if scheme.lower() == "basic":
            value = password(value)
        if not value:
            return None
        if scheme.lower() == "bearer" and value.count(".") == 2:
            return None  # a JSON web token of an app: the operations about apps look at it
        token = self.world.tokens.get(value)
        if token is None:
            raise Refusal(401, "Bad credentials")
        return token

    def _admit(
        self, token: Token | None, request: Request, name: str, method: str | None = None
    ) -> None:
        who = token.user.login if token else ANONYMOUS
        if name == "rate-limit/get":
            return
        makes = name in CONTENT
        verb = method or request.method
        self.rates.admit(who, verb, self.world.now(), makes_content=makes)

    def notice_pushes(self, links: Links, sender: User | None) -> None:
        """See which branches moved, carry the pull requests along, and tell their hooks."""
        for repo, issue, before in follow_branches(self.world):
            event = Event("pull_request", "synchronize", repo, sender or issue.user)
            event.about.update(issue=issue, before=before)
            self.announce(links, [event])

    def announce(self, links: Links, events: list[Event]) -> None:
        """Send events to the hooks that want them."""
        for event in events:
            for hook, payload in payloads(self.world, links, event):
                self.courier.send(hook, event.name, payload)

    def _dressed(
        self, answer: Answer, request: Request, token: Token | None, name: str | None
    ) -> Answer:
        who = token.user.login if token else ANONYMOUS
        resource = "graphql" if name == "graphql" else "core"
        headers = {
            "server": "github.com",
            "x-github-media-type": "github.v3; format=json",
            "x-github-request-id": secrets.token_hex(10).upper(),
            "x-github-api-version-selected": "2022-11-28",
            "cache-control": "private, max-age=60, s-maxage=60" if token else "public, max-age=60",
            "vary": "Accept, Authorization, Cookie, X-GitHub-OTP",
        }
        headers |= self.rates.headers(who, self.world.now(), resource)
        if answer.body is not None and not isinstance(answer.body, str | bytes):
            headers["content-type"] = "application/json; charset=utf-8"
        headers |= answer.headers
        if request.method == "GET" and answer.status == 200:
            etag = f'W/"{hashlib.sha256(answer.encoded()).hexdigest()}"'
            headers["etag"] = etag
            if request.headers.get("if-none-match") == etag:
                return Answer(304, None, headers)
        return Answer(answer.status, answer.body, headers)


def password(basic: str) -> str:
    """The password of basic credentials; "" when they do not decode."""
    try:
        return base64.b64decode(basic, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
