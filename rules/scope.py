"""What in a repository describes somebody's training, and what only looks like it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pitstop.rules.frameworks import Framework, frameworks
from pitstop.rules.sources import parts

_NOT_TRAINING = frozenset(
    {
        "test", "tests", "testing", "unittest", "unittests", "unit_tests", "test_data",
        "doc", "docs", "documentation", "website", "site",
        "third_party", "third-party", "thirdparty", "3rdparty", "vendor", "vendored", "submodules",
        "external", "externals", "_vendor", "node_modules", "site-packages", "dist-packages",
        "notebooks", "fixtures", "templates", ".devcontainer",
    }
)  # fmt: skip
"""Folders whose files are checked, shown or copied, not run to train."""

_TEST_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test|conftest|noxfile)\.py$")


_SHIPPED = frozenset(
    {"examples", "example", "tests", "src", "scripts", "docs", "data", "docker", "benchmarks"}
)
"""Folders of a copied framework that describe nobody's job; what lies elsewhere is the user's."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which files count. `own` are the packages of a framework's own source with the framework;
    `copies` are the folders below which a copy of a framework's whole repository lies, with the
    copy's package."""

    own: tuple[tuple[str, Framework], ...] = ()
    copies: tuple[tuple[str, str], ...] = ()

    def trains(self, path: str) -> bool:
        """True for a file that may describe a training job: not a test, not documentation, not
        part of a copy of another project."""
        if any(part in _NOT_TRAINING for part in parts(path)) or _TEST_FILE.search(path):
            return False
        return not any(_shipped(path, *copy) for copy in self.copies)

    def audits_code(self, path: str) -> bool:
        """As `trains`, and not a framework's own source: its code is what every user runs, and
        its defaults are no user's choice."""
        return self.trains(path) and self.owner(path) is None

    def owner(self, path: str) -> Framework | None:
        """The framework whose own source this file is."""
        for package, framework in self.own:
            if path.startswith(f"{package}/"):
                return framework
        return None


def _shipped(path: str, folder: str, package: str) -> bool:
    """True for a file that came with the copy of a framework below `folder`."""
    if not path.startswith(f"{folder}/"):
        return False
    inside = path.removeprefix(f"{folder}/")
    return inside.partition("/")[0] in _SHIPPED or inside.startswith(f"{package}/")


def scope_of(paths: frozenset[str]) -> Scope:
    """Find frameworks' own sources: a marker file at its place in the framework's repository
    (own), or the same place below another folder (a copy)."""
    own: dict[str, Framework] = {}
    copies: dict[tuple[str, str], None] = {}
    for framework in frameworks().values():
        for marker in framework.detection.own_source:
            package = _package_root(marker)
            if marker in paths:
                own[package] = framework
            suffix = f"/{marker}"
            for path in sorted(p for p in paths if p.endswith(suffix)):
                copies[path.removesuffix(suffix), package] = None
    return Scope(tuple(own.items()), tuple(copies))


def _package_root(marker: str) -> str:
    """The outermost folder of the package that a marker stands in: `src/llamafactory`."""
    first, _, rest = marker.partition("/")
    return f"{first}/{rest.partition('/')[0]}" if first in ("src", "python") else first
