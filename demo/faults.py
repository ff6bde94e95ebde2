"""Faults on purpose: which request goes wrong, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from demo.limits import secondary_limit
from demo.wire import DOCS, Answer, Refusal

Moment = Literal["before", "after"]


@dataclass(slots=True)
class Fault:
    """What goes wrong. It strikes the request that is `after` matching ones away (0: the next),
    `times` times in a row. `moment` says whether the request still takes effect.

    Kinds: a status such as "500" or "502"; "secondary" (403 with the text of the secondary
    limits), "primary" (403, no requests remaining), "429"; "abuse" (422 of code abuse); "reset"
    (the connection breaks), "truncated" (half of the answer), "slow" (`delay` seconds late).
    """

    kind: str
    after: int = 0
    times: int = 1
    moment: Moment = "before"
    method: str | None = None
    path: str | None = None
    operation: str | None = None
    retry_after: int | None = None
    delay: float = 0.5

    def matches(self, method: str, path: str, operation: str | None) -> bool:
        """True for a request that this fault waits for."""
        return (
            self.method in (None, method)
            and (self.path is None or re.search(self.path, path) is not None)
            and self.operation in (None, operation)
        )


@dataclass(slots=True)
class FaultPlan:
    """The faults still to come."""

    faults: list[Fault] = field(default_factory=list)

    def add(self, fault: Fault) -> None:
        """Plan one more."""
        self.faults.append(fault)

    def next(self, method: str, path: str, operation: str | None) -> Fault | None:
        """The fault that strikes this request. Counts the request for all that wait for it."""
        struck = None
        for fault in self.faults:
            if not fault.matches(method, path, operation):
                continue
            if fault.after > 0:
                fault.after -= 1
            elif struck is None and fault.times > 0:
                fault.times -= 1
                struck = fault
        self.faults = [fault for fault in self.faults if fault.times > 0]
        return struck


def faulty_answer(fault: Fault, now: float) -> Answer | None:
    """What GitHub's edge would answer, or None when the fault is not an answer of its own."""
    retry = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
    if fault.kind == "secondary":
        return secondary_limit(retry).answer()
    if fault.kind == "429":
        return secondary_limit(retry, status=429).answer()
    if fault.kind == "primary":
        reset = str(int(now + (fault.retry_after or 1)))
        spent = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": reset}
        return Refusal(403, "API rate limit exceeded for installation.", headers=spent).answer()
    if fault.kind == "abuse":
        error: dict[str, Any] = {"resource": "PullRequestReview", "code": "abuse", "field": "base"}
        return Refusal(422, "Validation Failed", errors=[error]).answer()
    if fault.kind.isdigit():
        return _status(int(fault.kind), retry)
    return None


def _status(status: int, headers: dict[str, str]) -> Answer:
    """500 comes from the API in JSON; 502 to 504 from the servers before it, as a page."""
    if status in (502, 503, 504):
        page = "<html><head><title>Unicorn!</title></head><body>Whoa there!</body></html>"
        return Answer(status, page, headers | {"content-type": "text/html; charset=utf-8"})
    messages = {500: "Server Error", 401: "Bad credentials", 404: "Not Found"}
    return Refusal(status, messages.get(status, "Fault"), headers=headers).answer(DOCS)
