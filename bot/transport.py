"""When a call to GitHub is made again, and when it is not.

    ApiError               GitHub answered with an error, or not at all
      RefusedError           ... and asking again would not help
        ForbiddenError         ... because the token may not do this
      OutOfTimeError         ... and there is no time left to ask again

Reads are repeated freely. A write that failed may still have happened (a 502 after the work was
done), so before it is repeated we look. Waiting and the clock are given from outside, so that
tests spend no time.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


class ApiError(Exception):
    """A call failed. `status` is None when the connection did; `headers` have lower-case names."""

    def __init__(
        self, message: str, status: int | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.headers = headers or {}

    def __str__(self) -> str:
        return f"{self.status}: {self.message}" if self.status else self.message


class RefusedError(ApiError):
    """GitHub will give the same answer again."""


class ForbiddenError(RefusedError):
    """The token may not do this: a read-only token, or one without the permission."""


class OutOfTimeError(ApiError):
    """The time limit would pass before the next attempt."""


_STARTED = time.time() - time.monotonic()


def steady() -> float:
    """Seconds since the epoch as they were told when we started: a machine's clock that is set
    meanwhile must not use up our time."""
    return _STARTED + time.monotonic()


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds since the epoch, and a way to let them pass."""

    now: Callable[[], float] = steady
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Budget:
    """At most `amount` points in any `seconds`. GitHub's secondary limits, kept from our side:
    docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api."""

    amount: int
    seconds: float
    spent: collections.deque[tuple[float, int]] = field(default_factory=collections.deque)

    def wait(self, points: int, now: float) -> float:
        """Seconds until this many points may be spent."""
        while self.spent and self.spent[0][0] <= now - self.seconds:
            self.spent.popleft()
        over = sum(cost for _, cost in self.spent) + points - self.amount
        for at, cost in self.spent:
            if over <= 0:
                break
            over -= cost
            if over <= 0:
                return max(0.0, at + self.seconds - now)
        return 0.0

    def spend(self, points: int, now: float) -> None:
        """Note that points were spent."""
        self.spent.append((now, points))


LONGEST_PAUSE = 60.0
"""Seconds between attempts when GitHub does not say how long to wait."""

READ_POINTS, WRITE_POINTS = 1, 5


class Transport:
    """Makes calls within GitHub's limits and one time limit (seconds, for all of them together).

    A call is a function that makes one request and raises ApiError when that fails.
    """

    def __init__(self, time_limit: float, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._end = self._clock.now() + time_limit
        self._points = Budget(900, 60)
        self._writes = (Budget(80, 60), Budget(500, 3600))

    def read(self, call: Callable[[], T], *, tries: int | None = None) -> T:
        """The answer to a question that changes nothing. With `tries`, no more than so many."""
        return self._repeat(lambda: self._once(call, READ_POINTS), tries)

    def write(self, call: Callable[[], T], landed: Callable[[], T | None]) -> T:
        """A change that must happen once. After a failure `landed` looks (with reads of its own)
        whether it did happen, and returns what `call` would have."""
        failed = False

        def attempt() -> T:
            nonlocal failed
            if failed and (found := landed()) is not None:
                return found
            failed = True
            return self._once(call, WRITE_POINTS)

        return self._repeat(attempt)

    def write_again(self, call: Callable[[], T]) -> T:
        """A change that may safely happen twice, since the second changes nothing."""
        return self._repeat(lambda: self._once(call, WRITE_POINTS))

    def _once(self, call: Callable[[], T], points: int) -> T:
        budgets = (self._points, *self._writes) if points == WRITE_POINTS else (self._points,)
        costs = (points, *(1 for _ in budgets[1:]))
        pause = max(b.wait(cost, self._clock.now()) for b, cost in zip(budgets, costs, strict=True))
        if pause > 0:
            self._pause(pause, ApiError("GitHub's budget for requests is used up"))
        for budget, cost in zip(budgets, costs, strict=True):
            budget.spend(cost, self._clock.now())
        return call()

    def _repeat(self, attempt: Callable[[], T], most: int | None = None) -> T:
        tries = 0
        while True:
            try:
                return attempt()
            except (RefusedError, OutOfTimeError):
                raise
            except ApiError as error:
                tries += 1
                pause = pause_after(error, tries, self._clock.now())
                if pause is None or tries == most:
                    raise refusal(error) from error
                self._pause(pause, error)

    def _pause(self, seconds: float, why: ApiError) -> None:
        if self._clock.now() + seconds > self._end:
            raise OutOfTimeError(
                f"no time left to wait {seconds:.0f} s ({why})", why.status, why.headers
            ) from why
        self._clock.sleep(seconds)


_LIMITED = ("secondary rate limit", "abuse", "rate limit exceeded", "submitted too quickly")


def pause_after(error: ApiError, tries: int, now: float) -> float | None:
    """Seconds to wait before attempt number `tries` + 1; None when there should be none."""
    doubled = min(2.0 ** min(tries - 1, 6), LONGEST_PAUSE)
    if error.status is None or error.status >= 500 or error.status == 408:
        return max(doubled, _told(error.headers, now) or 0.0)
    text = error.message.lower()
    used_up = error.headers.get("x-ratelimit-remaining") == "0"
    limited = any(word in text for word in _LIMITED) or "retry-after" in error.headers
    if error.status == 429 or (error.status == 403 and (limited or used_up)):
        return _told(error.headers, now) or LONGEST_PAUSE
    if error.status == 422 and any(word in text for word in _LIMITED):
        return _told(error.headers, now) or LONGEST_PAUSE
    return None


def _told(headers: Mapping[str, str], now: float) -> float | None:
    """How long GitHub asks us to wait, in seconds."""
    after = headers.get("retry-after", "")
    if after.isascii() and after.isdigit():
        return float(after)
    reset = headers.get("x-ratelimit-reset", "")
    if headers.get("x-ratelimit-remaining") == "0" and reset.isascii() and reset.isdigit():
        return max(float(reset) - now + 1.0, 1.0)
    return None


def refusal(error: ApiError) -> RefusedError:
    """The error as one that will not go away."""
    kind = ForbiddenError if error.status in (401, 403) else RefusedError
    return kind(error.message, error.status, error.headers)
