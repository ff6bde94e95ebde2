"""What a code transform says about itself, how it is applied, and which there are.

A recipe looks at a file as the rules see it and says operations (`syntax_ops`) of the places that
it understands exactly, or why it does not. libcst writes them, the syntax tree proves them, and
only what differs becomes an edit. Adding a file under `recipes` adds a recipe.
"""

from __future__ import annotations

import enum
import functools
import importlib
import inspect
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from pitstop.rules.finding import Safety, Scalar, Span
from pitstop.rules.job import HardwareFacts
from pitstop.rules.pysource import PyModule, read_module
from pitstop.rules.tree import SourceFile, UnreadableError
from pitstop.rules.versions import Versions, meets
from pitstop.transforms.import_names import spelled
from pitstop.transforms.patch import Changed, Outcome, Patch, Refused, Unchanged, edits_between
from pitstop.transforms.syntax_ops import Op
from pitstop.transforms.syntax_proof import flaw

_ANY_GPU = HardwareFacts()
NO_ARGUMENTS: Mapping[str, Scalar] = MappingProxyType({})


class Numerics(enum.StrEnum):
    """What a change may do to the numbers; each class has its own tolerance when it is verified.

    EXACT: the same losses bit for bit. EQUIVALENT: the same mathematics, rounded in another
    order. PRECISION: fewer bits. SEMANTICS: another training run.
    """

    EXACT = "exact"
    EQUIVALENT = "equivalent"
    PRECISION = "precision"
    SEMANTICS = "semantics"


@dataclass(frozen=True, slots=True)
class Example:
    """A program before and after. `runs` says that it runs anywhere that PyTorch does: the test
    then runs both and compares what they print."""

    before: str
    after: str
    args: Mapping[str, Scalar] = field(default_factory=dict)
    runs: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """A program that is left alone, and words of the reason that is given."""

    text: str
    reason: str
    args: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """What a recipe is asked: a file, arguments (all of them, with defaults filled in), what is
    known of versions and hardware, and the place that a finding spoke of (None: everywhere)."""

    module: PyModule
    args: Mapping[str, Scalar]
    versions: Versions = field(default_factory=dict)
    hardware: HardwareFacts = _ANY_GPU
    at: Span | None = None

    def concerns(self, span: Span) -> bool:
        """Whether something that stands at `span` is meant: the place lies in it, or it in the
        place."""
        at = self.at
        if at is None:
            return True
        within = span.start <= at.start and at.end <= span.end
        return within or (at.start <= span.start and span.end <= at.end)


class Recipe(ABC):
    """A change of code with its reasons. The docstring is its page: the first line is the title,
    the rest says what it does, when it is refused and why."""

    id: ClassVar[str]
    safety: ClassVar[Safety] = Safety.VERIFY
    numerics: ClassVar[Numerics]
    opt_in: ClassVar[bool] = False
    requires: ClassVar[tuple[str, ...]] = ()  # requirement texts: "torch>=2.2"
    capability: ClassVar[tuple[int, int] | None] = None  # of the GPU, at least
    answers: ClassVar[tuple[str, ...]] = ()  # ids of catalogue items
    arguments: ClassVar[Mapping[str, Scalar]] = NO_ARGUMENTS  # with their defaults
    sources: ClassVar[tuple[str, ...]]
    examples: ClassVar[tuple[Example, ...]]
    refuses: ClassVar[tuple[Refusal, ...]]

    @property
    def title(self) -> str:
        """One line."""
        return (inspect.getdoc(type(self)) or "").partition("\n")[0].removesuffix(".")

    @property
    def text(self) -> str:
        """The paragraphs below the title."""
        rest = (inspect.getdoc(type(self)) or "").partition("\n")[2]
        return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", rest.strip()))

    def apply(
        self,
        file: SourceFile,
        args: Mapping[str, Scalar] = NO_ARGUMENTS,
        *,
        versions: Versions = MappingProxyType({}),
        hardware: HardwareFacts = _ANY_GPU,
        at: Span | None = None,
        module: PyModule | None = None,
    ) -> Outcome:
        """The change of a file. Never raises for what a file holds: the outcome says why not.

        `at` limits it to the place that a finding spoke of. `module` is the file as read already.
        """
        unknown = sorted(set(args) - set(self.arguments))
        if unknown:
            return Refused(f"{self.id} has no argument {unknown[0]}")
        lacking = self._lacking(versions, hardware)
        if lacking:
            return Refused(lacking)
        try:
            module = module or read_module(file)
        except UnreadableError as error:
            return Refused(f"{file.path} cannot be read: {error}")
        case = Case(module, {**self.arguments, **args}, versions, hardware, at)
        return self._written(file, module, tuple(self.rewrite(case)))

    @abstractmethod
    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """The operations for every place that is understood, and a refusal for every other that
        the recipe is about. Nothing where there is nothing to do."""

    def _lacking(self, versions: Versions, hardware: HardwareFacts) -> str | None:
        for requirement in self.requires:
            if meets(versions, requirement) is False:
                return f"{requirement} is needed, which the project's pins exclude"
        have = hardware.capability
        if self.capability is not None and have is not None and have < self.capability:
            wanted, found = (".".join(map(str, c)) for c in (self.capability, have))
            return f"a GPU of compute capability {wanted} is needed, the job's has {found}"
        return None

    def _written(
        self, file: SourceFile, module: PyModule, found: Iterable[Op | Refused]
    ) -> Outcome:
        from pitstop.transforms.cst_writer import UnwritableError, written

        ops: list[Op] = []
        refused: list[Refused] = []
        for one in found:
            if isinstance(one, Refused):
                refused.append(one)
            else:
                ops.append(one)
        if not ops:
            return refused[0] if refused else Unchanged("nothing to change")
        named = spelled(module, ops)
        if isinstance(named, Refused):
            return named
        try:
            text = written(file, named)
        except UnwritableError as error:
            return Refused(str(error))
        wrong = flaw(file, module.tree, named, text)
        if wrong:
            return Refused(wrong)
        return Changed(Patch(edits_between(file, text), why=self.title))


@functools.cache
def recipes() -> Mapping[str, Recipe]:
    """Every recipe by its id, sorted."""
    package = importlib.import_module("pitstop.transforms.recipes")
    found: dict[str, Recipe] = {}
    for entry in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{entry.name}")
        for value in vars(module).values():
            own = inspect.isclass(value) and value.__module__ == module.__name__
            if own and issubclass(value, Recipe) and not inspect.isabstract(value):
                found[value.id] = value()
    return MappingProxyType(dict(sorted(found.items())))
