"""What a version pin allows, as far as comparisons need it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet
from packaging.version import InvalidVersion, Version


@dataclass(frozen=True, slots=True)
class Range:
    """The versions a specifier allows: from `low` (inclusive) to `high` (`high_open`: the
    bound itself is not allowed). None means no bound. `!=` is ignored: it never moves a bound."""

    low: Version | None = None
    high: Version | None = None
    high_open: bool = True

    def all_at_least(self, version: str) -> bool:
        """True when no allowed version is older."""
        return self.low is not None and self.low >= Version(version)

    def all_below(self, version: str) -> bool:
        """True when every allowed version is older."""
        if self.high is None:
            return False
        bound = Version(version)
        return self.high < bound or (self.high == bound and self.high_open)

    def meet(self, other: Range) -> Range:
        """The versions that both allow."""
        lows = [low for low in (self.low, other.low) if low is not None]
        high, high_open = self.high, self.high_open
        if other.high is not None and (
            high is None or (other.high, not other.high_open) < (high, not high_open)
        ):
            high, high_open = other.high, other.high_open
        return Range(max(lows, default=None), high, high_open)


@functools.cache
def version_range(text: str) -> Range:
    """The range of a specifier text ("==4.57.6", ">=4.40,<5"); everything for one that cannot
    be read. A bare version means exactly that version."""
    try:
        specifiers = SpecifierSet(text)
    except InvalidSpecifier:
        return _exactly(text)
    found = Range()
    for specifier in specifiers:
        found = found.meet(_of(specifier))
    return found


def _exactly(text: str) -> Range:
    try:
        version = Version(text)
    except InvalidVersion:
        return Range()
    return Range(version, version, high_open=False)


def _of(specifier: Specifier) -> Range:
    prefix = specifier.version.removesuffix(".*")
    try:
        version = Version(prefix)
    except InvalidVersion:
        return Range()  # === takes any text
    release = version.release
    if specifier.operator in ("==", "==="):
        if prefix != specifier.version:
            return Range(version, _after(release))
        return Range(version, version, high_open=False)
    if specifier.operator == "~=":
        return Range(version, _after(release[:-1]))
    if specifier.operator in (">=", ">"):
        return Range(low=version)
    if specifier.operator in ("<", "<="):
        return Range(high=version, high_open=specifier.operator == "<")
    return Range()


def _after(release: tuple[int, ...]) -> Version:
    """The first version past every one that begins with `release`."""
    return Version(".".join(map(str, (*release[:-1], release[-1] + 1))))
