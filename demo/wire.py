"""What goes over the wire: a request, an answer, and the refusals in GitHub's own shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DOCS = "https://docs.github.com/rest"
SECONDARY_DOCS = (
    "https://docs.github.com/free-pro-team@latest/rest/overview/"
    "rate-limits-for-the-rest-api#about-secondary-rate-limits"
)


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. Header names are lower case; `base` is scheme and host as the client
    wrote them, so that addresses in answers lead back the same way."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    base: str

    @property
    def accept(self) -> str:
        """The media types the client asked for."""
        return self.headers.get("accept", "")

    def json(self) -> Any:
        """The body as JSON; an empty body is an empty object. Raises Refusal (400)."""
        if not self.body.strip():
            return {}
        try:
            return json.loads(self.body)
        except ValueError:
            raise Refusal(400, "Problems parsing JSON") from None


@dataclass(frozen=True, slots=True)
class Answer:
    """A status with a body: bytes and str go out as they are, None as nothing, the rest as JSON."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """The bytes of the body."""
        if self.body is None:
            return b""
        if isinstance(self.body, bytes):
            return self.body
        if isinstance(self.body, str):
            return self.body.encode("utf-8", "surrogatepass")
        return json.dumps(self.body, separators=(",", ":")).encode()


class Refusal(Exception):  # noqa: N818 - it is an answer, not a fault of ours
    """GitHub says no: a status, a message, and what else the error body holds."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        errors: list[Any] | None = None,
        headers: Mapping[str, str] | None = None,
        documentation: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors
        self.headers = dict(headers or {})
        self.documentation = documentation

    @property
    def sentence(self) -> str:
        """The first reason given, else the message."""
        first = self.errors[0] if self.errors else self.message
        return first if isinstance(first, str) else str(first.get("message", self.message))

    def answer(self, documentation: str = DOCS) -> Answer:
        """The error as GitHub words it; `documentation` is the refused operation's own page."""
        body: dict[str, Any] = {"message": self.message}
        if self.errors is not None:
            body["errors"] = self.errors
        body["documentation_url"] = self.documentation or documentation
        body["status"] = str(self.status)
        return Answer(self.status, body, self.headers)


def not_found() -> Refusal:
    """404: it is not there, or this token may not know that it is."""
    return Refusal(404, "Not Found")


def invalid_request(*problems: str) -> Refusal:
    """422 of the schema check in front of an operation: the request itself is malformed."""
    return Refusal(422, "Invalid request.\n\n" + "\n".join(problems))


def validation_failed(
    resource: str, field_name: str, message: str, code: str = "custom"
) -> Refusal:
    """422 of a model behind an operation: well formed, but not acceptable."""
    error = {"resource": resource, "code": code, "field": field_name, "message": message}
    return Refusal(422, "Validation Failed", errors=[error])


def unprocessable(*errors: str) -> Refusal:
    """422 with bare sentences, as the reviews operations answer."""
    return Refusal(422, "Unprocessable Entity", errors=list(errors))


def forbidden(accepted: str = "") -> Refusal:
    """403: the token lacks a permission. `accepted` names those that would do."""
    headers = {"x-accepted-github-permissions": accepted} if accepted else {}
    return Refusal(403, "Resource not accessible by integration", headers=headers)
