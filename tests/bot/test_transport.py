from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitstop.bot.transport import (
    ApiError,
    Budget,
    Clock,
    ForbiddenError,
    OutOfTimeError,
    RefusedError,
    Transport,
    pause_after,
)


class Time:
    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept.append(seconds)
        self.now += seconds

    def transport(self, limit: float = 600) -> Transport:
        return Transport(limit, Clock(lambda: self.now, self.sleep))


def failing(*errors: ApiError) -> Callable[[], str]:
    """A call that fails in these ways, one after the other, and then succeeds."""
    left = list(errors)

    def call() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return call


LIMITED = "You have exceeded a secondary rate limit"


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (ApiError("reset"), 1),
        (ApiError("down", 500), 1),
        (ApiError("down", 503, {"retry-after": "30"}), 30),
        (ApiError(LIMITED, 403, {"retry-after": "7"}), 7),
        (ApiError(LIMITED, 403), 60),
        (ApiError("slow down", 429), 60),
        (ApiError("x", 403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1090"}), 91),
        (ApiError('Validation Failed [{"code": "abuse"}]', 422), 60),
        (ApiError("was submitted too quickly", 422), 60),
        (ApiError("x", 403, {"retry-after": "soon"}), 60),
    ],
)
def test_worth_another_attempt(error: ApiError, seconds: float) -> None:
    time = Time()
    assert time.transport().read(failing(error)) == "done"
    assert time.slept == [seconds]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ApiError("no", 401), ForbiddenError),
        (ApiError("Resource not accessible by integration", 403), ForbiddenError),
        (ApiError("Not Found", 404), RefusedError),
        (ApiError("Validation Failed", 422), RefusedError),
        (ApiError("too large", 406), RefusedError),
    ],
)
def test_answers_that_stay(error: ApiError, kind: type[ApiError]) -> None:
    time = Time()
    with pytest.raises(kind) as caught:
        time.transport().read(failing(error))
    assert caught.value.status == error.status
    assert time.slept == []


def test_pauses_double_up_to_a_minute() -> None:
    time = Time()
    time.transport().read(failing(*[ApiError("down", 500)] * 9))
    assert time.slept == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_time_limit_holds_over_all_calls() -> None:
    time = Time()
    transport = time.transport(limit=10)
    transport.read(failing(*[ApiError("down", 500)] * 3))
    with pytest.raises(OutOfTimeError, match="down"):
        transport.read(failing(*[ApiError("down", 500)] * 3))
    assert time.now <= 1_010


def test_number_of_tries_can_be_limited() -> None:
    time = Time()
    with pytest.raises(RefusedError):
        time.transport().read(failing(*[ApiError("down", 500)] * 3), tries=3)
    assert time.slept == [1, 2]


def test_write_that_took_effect_is_not_made_again() -> None:
    made: list[str] = []

    def call() -> str:
        made.append("x")
        raise ApiError("down", 502)

    assert Time().transport().write(call, lambda: "found" if made else None) == "found"
    assert made == ["x"]


def test_write_that_took_no_effect_is_made_again() -> None:
    assert Time().transport().write(failing(ApiError("down", 502)), lambda: None) == "done"


def test_nobody_looks_before_the_first_attempt() -> None:
    def look() -> str:
        raise AssertionError

    assert Time().transport().write(failing(), look) == "done"


def test_look_may_fail_too() -> None:
    look = failing(ApiError("reset"), ApiError("down", 500))
    assert Time().transport().write(failing(ApiError("down", 502)), look) == "done"


def test_refused_write_is_not_looked_for() -> None:
    def look() -> str:
        raise AssertionError

    with pytest.raises(RefusedError):
        Time().transport().write(failing(ApiError("Unprocessable Entity", 422)), look)


def test_writes_keep_within_eighty_a_minute_and_five_hundred_an_hour() -> None:
    time = Time()
    transport = time.transport(limit=100_000)
    moments = []
    for _ in range(1_200):
        transport.write_again(lambda: moments.append(time.now))
    assert busiest(moments, 60) <= 80
    assert busiest(moments, 3_600) <= 500


def test_reads_keep_within_nine_hundred_points_a_minute() -> None:
    time = Time()
    transport = time.transport(limit=100_000)
    moments: list[float] = []
    for _ in range(2_000):
        transport.read(lambda: moments.append(time.now))
    assert busiest(moments, 60) <= 900


def test_budget_that_outlasts_the_time_limit_ends_the_run() -> None:
    time = Time()
    transport = time.transport(limit=50)
    with pytest.raises(OutOfTimeError, match="budget"):
        for _ in range(81):
            transport.write_again(lambda: None)


def busiest(moments: list[float], seconds: float) -> int:
    return max(sum(start <= at < start + seconds for at in moments) for start in set(moments))


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(1, 5)), max_size=40))
def test_budget_never_gives_more_than_it_has(spendings: list[tuple[float, int]]) -> None:
    budget = Budget(10, 60)
    now, spent = 0.0, []
    for later, points in spendings:
        now += later
        now += budget.wait(points, now)
        budget.spend(points, now)
        spent.append((now, points))
    for at, _ in spent:
        assert sum(points for when, points in spent if at - 60 + 1e-6 < when <= at) <= 10


@given(
    st.none() | st.integers(400, 599),
    st.text(max_size=30) | st.just(LIMITED),
    st.dictionaries(
        st.sampled_from(["retry-after", "x-ratelimit-remaining", "x-ratelimit-reset"]),
        st.text(max_size=5) | st.integers(-5, 10**7).map(str),
    ),
    st.integers(1, 2_000),
)
def test_any_error_gives_a_pause_or_none(
    status: int | None, text: str, headers: dict[str, str], tries: int
) -> None:
    pause = pause_after(ApiError(text, status, headers), tries, 1_000.0)
    assert pause is None or pause > 0
