"""GitHub's limits that no schema holds: lengths as GitHub counts them, and rates.

Sources: docs.github.com "Rate limits for the REST API"; the error texts are those people report
in public issues (mshick/add-pr-comment#93, github/docs#35252, octokit/plugin-throttling.js#775).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from demo.wire import SECONDARY_DOCS, Refusal, validation_failed

BODY_CHARACTERS = 65_536
CHECK_BYTES = 65_535
ANNOTATION_BYTES = 65_536
TITLE_CHARACTERS = 256
LABEL_CHARACTERS = 50
LABEL_DESCRIPTION_CHARACTERS = 100
STATUS_DESCRIPTION_CHARACTERS = 140
SHORT_CHARACTERS = 255
DIFF_LINES = 20_000
DIFF_FILES = 300
LISTED_FILES = 3_000
LISTED_COMMITS = 250
# Who asks without a token: GitHub counts these by address.
ANONYMOUS = "127.0.0.1"


def check_body(resource: str, body: str, *, blank: bool = True) -> None:
    """A comment's or review's text: counted in characters (code points). Raises Refusal (422)."""
    if not blank and not body.strip():
        raise validation_failed(resource, "data", "Body cannot be blank", "unprocessable")
    if len(body) > BODY_CHARACTERS:
        message = f"Body is too long (maximum is {BODY_CHARACTERS} characters)"
        raise validation_failed(resource, "data", message, "unprocessable")


def check_length(resource: str, name: str, text: str | None, most: int) -> None:
    """A short text such as a title, in characters. Raises Refusal (422)."""
    if text is not None and len(text) > most:
        message = f"{name} is too long (maximum is {most} characters)"
        raise validation_failed(resource, name, message)


def check_bytes(resource: str, name: str, text: str | None, most: int = CHECK_BYTES) -> None:
    """A check run's text, which is counted in bytes although the message of the schema in front
    of it speaks of characters. Raises Refusal (422)."""
    if text is not None and len(text.encode("utf-8", "surrogatepass")) > most:
        message = f"{name} exceeds a maximum bytesize of {most}"
        raise validation_failed(resource, name, message)


@dataclass(slots=True)
class Rates:
    """How often one token may ask. The secondary limits count writes that make content, and
    points: 1 for reading, 5 for writing. None: not enforced."""

    hourly: int = 5_000
    content_per_minute: int | None = None
    content_per_hour: int | None = None
    points_per_minute: int | None = None
    retry_after: int | None = 60
    _asked: dict[str, deque[float]] = field(default_factory=dict)
    _content: dict[str, deque[float]] = field(default_factory=dict)
    _points: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)

    def enforce(self) -> None:
        """Turn the documented secondary limits on."""
        self.content_per_minute, self.content_per_hour = 80, 500
        self.points_per_minute = 900

    def used(self, who: str, now: float) -> int:
        """Requests within the hour."""
        return len(_recent(self._asked.setdefault(who, deque()), now - 3600))

    def reset_at(self, who: str, now: float) -> int:
        """When the oldest request stops counting."""
        asked = _recent(self._asked.setdefault(who, deque()), now - 3600)
        return int((asked[0] if asked else now) + 3600)

    def headers(self, who: str, now: float, resource: str = "core") -> dict[str, str]:
        """The x-ratelimit headers of an answer."""
        used = self.used(who, now)
        return {
            "x-ratelimit-limit": str(self.hourly),
            "x-ratelimit-remaining": str(max(0, self.hourly - used)),
            "x-ratelimit-used": str(used),
            "x-ratelimit-reset": str(self.reset_at(who, now)),
            "x-ratelimit-resource": resource,
        }

    def admit(self, who: str, method: str, now: float, *, makes_content: bool) -> None:
        """Count a request. Raises Refusal (403) when it is one too many."""
        if self.used(who, now) >= self.hourly:
            raise Refusal(403, f"API rate limit exceeded for {who}.")
        self._asked[who].append(now)
        points = 1 if method in ("GET", "HEAD", "OPTIONS") else 5
        spent = self._points.setdefault(who, deque())
        while spent and spent[0][0] <= now - 60:
            spent.popleft()
        spent.append((now, points))
        most = self.points_per_minute
        if most is not None and sum(cost for _, cost in spent) > most:
            raise self.secondary()
        if makes_content:
            self._admit_content(who, now)

    def _admit_content(self, who: str, now: float) -> None:
        made = _recent(self._content.setdefault(who, deque()), now - 3600)
        in_minute = sum(when > now - 60 for when in made)
        if self.content_per_minute is not None and in_minute >= self.content_per_minute:
            raise self.secondary()
        if self.content_per_hour is not None and len(made) >= self.content_per_hour:
            raise self.secondary()
        made.append(now)

    def secondary(self) -> Refusal:
        """403 of the secondary limits."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return secondary_limit(headers)


def secondary_limit(headers: dict[str, str], status: int = 403) -> Refusal:
    """The refusal of the secondary limits, with a status of 403 or 429."""
    message = (
        "You have exceeded a secondary rate limit. Please wait a few minutes before you try again. "
        "If you reach out to GitHub Support for help, please include the request ID and timestamp."
    )
    return Refusal(status, message, headers=headers, documentation=SECONDARY_DOCS)


def _recent(times: deque[float], since: float) -> deque[float]:
    while times and times[0] <= since:
        times.popleft()
    return times
