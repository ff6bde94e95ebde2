"""What of a Python file some framework may understand: found once, however many jobs run it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pitstop.rules.finding import Location
from pitstop.rules.frameworks import call_patterns, frameworks
from pitstop.rules.pysource import Assignment, Call, Field, PyModule

ENVIRONMENT = "os.environ"


@dataclass(frozen=True, slots=True)
class Use:
    """A call, or a base class of a definition, by its qualified name. `order` is the place among
    all of its file."""

    name: str
    order: int
    module: PyModule
    node: ast.expr

    @property
    def location(self) -> Location:
        """Where it stands."""
        return self.module.location(self.node)


class Understood:
    """A module, and by pattern what fits the patterns of the frameworks' files."""

    def __init__(self, module: PyModule) -> None:
        self.module = module

    @functools.cached_property
    def calls(self) -> Mapping[str, tuple[tuple[int, Call], ...]]:
        """Pattern to the calls that fit it, each with a number that orders the file's calls."""
        found: dict[str, list[tuple[int, Call]]] = {}
        fitting = call_patterns().fitting
        for number, call in enumerate(self.module.calls):
            for pattern in fitting(call.name):
                found.setdefault(pattern, []).append((number, call))
        return {pattern: tuple(calls) for pattern, calls in found.items()}

    def calls_of(self, patterns: Iterable[str]) -> list[Call]:
        """The calls that fit one of the patterns, in the order of the text."""
        found = {n: call for pattern in patterns for n, call in self.calls.get(pattern, ())}
        return [found[number] for number in sorted(found)]

    @functools.cached_property
    def first_calls(self) -> Mapping[str, Use]:
        """Pattern to the first call that fits it."""
        firsts = ((pattern, *calls[0]) for pattern, calls in self.calls.items())
        return {p: Use(call.name, number, self.module, call.node) for p, number, call in firsts}

    @functools.cached_property
    def first_bases(self) -> Mapping[str, Use]:
        """Pattern to the first base class that fits it."""
        found: dict[str, Use] = {}
        classes = (n for n in self.module.nodes(ast.ClassDef) if isinstance(n, ast.ClassDef))
        bases = (base for cls in classes for base in cls.bases)
        for number, base in enumerate(bases):
            name = self.module.qualified(base)
            for pattern in call_patterns().fitting(name) if name else ():
                found.setdefault(pattern, Use(name or "", number, self.module, base))
        return found

    @functools.cached_property
    def statements(self) -> tuple[Assignment, ...]:
        """Variables of the environment, and names that some framework knows, that are set."""
        return tuple(one for one in self.module.assignments if _stated(one))

    @functools.cached_property
    def declared(self) -> frozenset[str]:
        """The names of all options and fields that the module itself defines."""
        return frozenset(
            [option.name for option in self.module.options]
            + [one.name for one in self.module.fields]
        )

    @functools.cached_property
    def fields(self) -> tuple[Field, ...]:
        """Fields of classes that extend a framework's own."""
        fitting = call_patterns().fitting
        return tuple(f for f in self.module.fields if any(fitting(base) for base in f.bases))


def _stated(one: Assignment) -> bool:
    if one.key is not None:
        return bool(one.key) and one.target == ENVIRONMENT
    return any(framework.stated(one.target) for framework in frameworks().values())
