"""Questions to version pins: is the version that this specifier allows at least X?"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

Versions = Mapping[str, str]
"""Normalised distribution name to PEP 440 specifier text; "" is required without a pin."""


def meets(versions: Versions, requirement: str) -> bool | None:
    """Whether the pinned version meets a requirement such as "torch>=2.8".

    True when every version that the pin allows does, False when none does, None when the pin
    is missing, unreadable or allows both.
    """
    wanted = _requirement(requirement)
    pin = versions.get(canonicalize_name(wanted.name))
    return allows(pin, str(wanted.specifier)) if pin else None


def at_least(specifier: str, version: str) -> bool | None:
    """Whether a version that the specifier allows is at least `version`; None when unknown."""
    return allows(specifier, f">={version}")


@functools.lru_cache(maxsize=4096)
def possible(specifier: str) -> bool:
    """True when some version meets the specifier; "" is met by every one."""
    try:
        pin = SpecifierSet(specifier)
    except InvalidSpecifier:
        return False
    samples = {v for clause in pin for bound in _bounds(clause) for v in _around(bound)}
    return not str(pin) or any(pin.contains(v, prereleases=True) for v in samples)


@functools.lru_cache(maxsize=4096)
def allows(specifier: str, wanted: str) -> bool | None:
    """True when all versions that `specifier` allows lie in `wanted`, False when none does,
    None when some do or the specifier is empty or unreadable.

    Decided on sample versions: the bounds of both, and one just below and above each.
    """
    try:
        pin, want = SpecifierSet(specifier), SpecifierSet(wanted)
    except InvalidSpecifier:
        return None
    if not str(pin):
        return None
    samples = {v for s in (*pin, *want) for bound in _bounds(s) for v in _around(bound)}
    answers = {
        want.contains(v, prereleases=True) for v in samples if pin.contains(v, prereleases=True)
    }
    return answers.pop() if len(answers) == 1 else None


@functools.cache
def _requirement(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"{text!r} is not a requirement") from error


def _bounds(specifier: Specifier) -> Iterator[Version]:
    """Where a clause begins or stops to hold."""
    text = specifier.version.removesuffix(".*")
    try:
        version = Version(text)
    except InvalidVersion:
        return
    yield version
    if specifier.operator == "~=":
        yield _next(version.release[:-1])
    elif specifier.version.endswith(".*"):
        yield _next(version.release)


def _next(release: tuple[int, ...]) -> Version:
    kept = release or (0,)
    return Version(".".join(str(part) for part in (*kept[:-1], kept[-1] + 1)))


def _around(bound: Version) -> Iterator[Version]:
    """The version, and neighbours that no release is likely to lie between."""
    yield bound
    release = list(bound.release)
    yield Version(".".join(str(part) for part in (*release, 0, 1)))
    while release and release[-1] == 0:
        release.pop()
    if release:
        below = [*release[:-1], release[-1] - 1, 99999]
        yield Version(".".join(str(part) for part in below))
