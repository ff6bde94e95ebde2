"""The closed vocabulary of a row: conditions over settings, facts and package versions.

A condition is true, false or cannot be said (None). "Cannot be said" is contagious the way
SQL's NULL is: `all_of` is false when one part is false, else None when one part is None.
There is no expression language: a condition is a subject and a test from the tables below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from packaging.utils import canonicalize_name

from pitstop.rules.finding import Scalar, Setting, Surface, Unknown, Value
from pitstop.rules.job import TrainingJob
from pitstop.rules.job_facts import FACTS, Operand
from pitstop.rules.versions import Versions, meets

Truth = bool | None
"""True, False, or None when it cannot be said."""


IT = "it"
"""The subject of a condition that speaks of the setting under judgement."""


@dataclass(frozen=True, slots=True)
class Case:
    """What a row is judged against: a job, the setting under judgement (which alone stands for
    its knob while it is judged), and the pins of the project (package to specifier text)."""

    job: TrainingJob
    versions: Versions
    chosen: Setting | None = None

    def settings(self, knob: str) -> tuple[Setting, ...]:
        """The settings that decide a knob here; several when calls or shell branches differ.
        `it` is the setting under judgement."""
        if self.chosen is not None and knob in (self.chosen.knob, IT):
            return (self.chosen,)
        return deciding(self.job.settings.get(knob, ()))


class Condition(Protocol):
    """Something that holds or not in a case."""

    def holds(self, case: Case) -> Truth:
        """True, False, or None when it cannot be said."""


def deciding(settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
    """Of all settings of one knob, winner first, those that may decide.

    The first unconditional one ends the search, except that further calls in Python which set
    the same knob, or leave it to its default, decide beside it. A default that belongs to no
    call counts only where nothing else is written.
    """
    found: list[Setting] = []
    settled: Setting | None = None
    for setting in settings:
        if settled is not None and not _beside(settled, setting):
            break
        if found and not setting.written and not _elsewhere(setting, found):
            break
        found.append(setting)
        if settled is None and setting.condition is None:
            settled = setting
    return tuple(found)


def _beside(one: Setting, other: Setting) -> bool:
    return _of_a_call(one) and _of_a_call(other)


def _elsewhere(default: Setting, found: Iterable[Setting]) -> bool:
    """Whether a default belongs to a call in which none of the other settings stands."""
    at = default.where
    return at is not None and not any(
        s.where is not None
        and s.where.path == at.path
        and at.span.start <= s.where.span.start
        and s.where.span.end <= at.span.end
        for s in found
    )


def _of_a_call(setting: Setting) -> bool:
    """Whether a setting speaks for one call in Python, possibly by leaving the keyword out."""
    if setting.surface is Surface.DEFAULT:
        return setting.where is not None
    return setting.surface in (Surface.KEYWORD, Surface.STATEMENT)


# --- tests -----------------------------------------------------------------------------------


def _same(value: Scalar, operand: Scalar) -> bool:
    """Equality that does not take True for 1."""
    return value == operand and isinstance(value, bool) == isinstance(operand, bool)


def _is(value: Scalar | tuple[object, ...], operand: Operand) -> bool:
    if isinstance(value, tuple) or isinstance(operand, tuple):
        return value == operand
    return _same(value, operand)


def _among(value: object, operand: Operand) -> bool:
    """A scalar that is one of the operands, or a list that shares a member with them."""
    members = value if isinstance(value, tuple) else (value,)
    allowed = operand if isinstance(operand, tuple) else (operand,)
    return any(_same(m, a) for m in members for a in allowed)


def _ordered(compare: Callable[[object, object], bool]) -> Callable[[object, Operand], bool]:
    def test(value: object, operand: Operand) -> bool:
        numbers = (int, float)
        if isinstance(value, tuple) and isinstance(operand, tuple):
            return compare(value, operand)
        if isinstance(value, bool) or not isinstance(value, numbers):
            return False  # no number, no order: None means "no limit set"
        return isinstance(operand, numbers) and compare(value, operand)

    return test


TESTS: Mapping[str, Callable[[object, Operand], bool]] = {
    "is": lambda value, operand: _is(value, operand),  # type: ignore[arg-type]
    "is_not": lambda value, operand: not _is(value, operand),  # type: ignore[arg-type]
    "in": _among,
    "not_in": lambda value, operand: not _among(value, operand),
    "at_least": _ordered(lambda a, b: a >= b),  # type: ignore[operator]
    "at_most": _ordered(lambda a, b: a <= b),  # type: ignore[operator]
    "more_than": _ordered(lambda a, b: a > b),  # type: ignore[operator]
    "less_than": _ordered(lambda a, b: a < b),  # type: ignore[operator]
}
"""Tests of one value; the operand of `in` and `not_in` is a list."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A test's name and operand, for example `at_most 4`."""

    op: str
    operand: Operand

    def of(self, value: Value | tuple[int, int]) -> Truth:
        """The test's answer for a value; None for an unknown one."""
        if isinstance(value, Unknown):
            return None
        return TESTS[self.op](value, self.operand)


# --- conditions ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnobIs:
    """A test of the value that decides a knob.

    False where the job's frameworks do not have the knob; None where calls or branches differ.
    """

    knob: str
    test: Comparison

    def holds(self, case: Case) -> Truth:
        """The common answer of all deciding settings."""
        found = case.settings(self.knob)
        if not found:
            return self.test.op in ("is_not", "not_in")
        return unanimous(self.test.of(setting.value) for setting in found)


@dataclass(frozen=True, slots=True)
class KnobState:
    """Whether anybody sets a knob: `present` (known to the frameworks, with a value),
    `written` (somebody wrote it), `absent` (only the framework's default decides)."""

    knob: str
    state: str

    def holds(self, case: Case) -> Truth:
        """The common answer of all deciding settings."""
        found = case.settings(self.knob)
        return unanimous(self._of(setting) for setting in found) if found else False

    def _of(self, setting: Setting) -> Truth:
        if not setting.written and not setting.known:
            return None  # arguments came from somewhere that could not be followed
        if self.state == "present":
            return None if not setting.known else setting.value is not None
        return setting.written == (self.state == "written")


@dataclass(frozen=True, slots=True)
class FactIs:
    """A test of a fact about the job; None where the fact is not known."""

    fact: str
    test: Comparison

    def holds(self, case: Case) -> Truth:
        """The test's answer."""
        value = FACTS[self.fact].get(case.job)
        return None if value is None else self.test.of(value)


@dataclass(frozen=True, slots=True)
class FactKnown:
    """Whether a fact is known at all: true or false, never None."""

    fact: str

    def holds(self, case: Case) -> Truth:
        """True when the fact has a value."""
        value = FACTS[self.fact].get(case.job)
        return value is not None and not isinstance(value, Unknown)


@dataclass(frozen=True, slots=True)
class PackageIs:
    """`at_least` or `below` a version, over every version that the pin allows; `present` when
    the project names the package."""

    package: str
    op: str
    version: str = ""

    def holds(self, case: Case) -> Truth:
        """None where the pin allows both, or there is none."""
        if self.op == "present":
            return canonicalize_name(self.package) in case.versions
        sign = ">=" if self.op == "at_least" else "<"
        return meets(case.versions, f"{self.package}{sign}{self.version}")


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds."""

    parts: tuple[Condition, ...]

    def holds(self, case: Case) -> Truth:
        """False as soon as one part is false."""
        return both(part.holds(case) for part in self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple[Condition, ...]

    def holds(self, case: Case) -> Truth:
        """True as soon as one part is true."""
        return either(part.holds(case) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Condition

    def holds(self, case: Case) -> Truth:
        """The opposite; None stays None."""
        answer = self.part.holds(case)
        return None if answer is None else not answer


def both(answers: Iterable[Truth]) -> Truth:
    """Conjunction of three-valued answers; true for none."""
    seen = set(answers)
    if False in seen:
        return False
    return None if None in seen else True


def either(answers: Iterable[Truth]) -> Truth:
    """Disjunction of three-valued answers; false for none."""
    seen = set(answers)
    if True in seen:
        return True
    return None if None in seen else False


def unanimous(answers: Iterable[Truth]) -> Truth:
    """The answer that all give; None when they differ or there is none."""
    seen = set(answers)
    return seen.pop() if len(seen) == 1 else None


ALWAYS: Condition = AllOf(())
NEVER: Condition = AnyOf(())

STATES = ("present", "absent", "written")
"""What can be asked of a knob beside its value."""
