"""One YAML file per framework: how it is recognised and how its names map to knobs."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from pitstop.rules.finding import Scalar, Surface, Unknown, Value
from pitstop.rules.frameworks.patterns import Patterns
from pitstop.rules.frameworks.spelling import PRESENT, SILENT, Spelling, plain_name
from pitstop.rules.knobs import closest
from pitstop.rules.versions import Versions, meets


@dataclass(frozen=True, slots=True)
class Sign:
    """One piece of evidence for a framework; each field that is set must hold.

    `imports` are module prefixes, `calls` patterns of qualified call names (subclassing
    counts), `commands` launch words ("llamafactory-cli train", "-m vllm.*", "*/run_clm.py"),
    `keys_all`/`keys_any` top-level or dotted keys of a config file with `at_least` of the
    latter, `values` the words a key must have, `flags` likewise on a command line, `env`
    variables, `packages` declared dependencies, `paths` files of the repository.
    """

    imports: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    keys_all: tuple[str, ...] = ()
    keys_any: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    at_least: int = 1
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    env: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Detection:
    """`strong` signs recognise alone, `weak` ones in pairs or beside a declared dependency.
    `not_enough` are sentences: what looks like evidence and is none. `own_source` are folders
    that exist only in the framework's own repository or a copy of it. `job_keys` are the keys
    that a config must set for it to train by itself (none: a config alone is no job)."""

    strong: tuple[Sign, ...] = ()
    weak: tuple[Sign, ...] = ()
    not_enough: tuple[str, ...] = ()
    own_source: tuple[str, ...] = ()
    job_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DefaultValue:
    """What the framework does by itself when `when` holds (a requirement such as
    "torch>=2.8"; "" always) and every knob in `settings` has one of the values."""

    value: Value
    when: str = ""
    settings: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)

    def holds(self, versions: Versions, values: Mapping[str, Value]) -> bool | None:
        """True, False, or None when a pin or a value that would decide is unknown."""
        answers = [meets(versions, self.when)] if self.when else []
        for knob, wanted in self.settings.items():
            value = values.get(knob)
            answers.append(None if isinstance(value, Unknown) else value in wanted)
        if False in answers:
            return False
        return None if None in answers else True


@dataclass(frozen=True, slots=True)
class Known:
    """A name that the framework accepts, whether it sets a knob or not."""

    name: str
    package: str
    since: str | None = None
    until: str | None = None
    deprecated: str | None = None
    renamed_to: str | None = None
    dead: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Framework:
    """A framework as data.

    `kind` is main (a job has one, by `rank`), engine (vLLM, SGLang: beside a main framework or
    alone) or helper (DeepSpeed, accelerate, plain PyTorch: beside any). `part_of` names the
    main framework whose dialect a helper is (TRL of hf_trainer). `rows` are its own spellings
    first, then those of the framework it extends. `packages` are its distributions.
    `doubts` are words that, standing anywhere in the program, take the certainty from a knob's
    default: it may be set in a way that was not understood. `config_calls` make its
    configuration object, `parsers` read it from the command line (a framework with its own
    program needs none). `closed` refuses names that it does not know. `programs` are its own
    commands, whose whole line it parses, with the name that a first plain word sets ("": none).
    """

    name: str
    title: str
    kind: str
    rank: int
    packages: tuple[str, ...]
    extends: str | None
    part_of: str | None
    purpose: str
    detection: Detection
    rows: tuple[Spelling, ...]
    known: Mapping[str, Known]
    defaults: Mapping[str, tuple[DefaultValue, ...]]
    doubts: Mapping[str, tuple[str, ...]]
    config_calls: tuple[str, ...]
    parsers: tuple[str, ...]
    closed: bool
    programs: Mapping[str, str] = field(default_factory=dict)

    def named(self, name: str, surface: Surface) -> tuple[Spelling, ...]:
        """The rows of a name on a surface: the knob it sets first, then what else it decides."""
        key = plain_name(name)
        found = [row for row in _index(self.name).get(key, ()) if surface in row.surfaces]
        own = [row for row in found if row.framework == self.name]
        return tuple(own or found)

    def called(self, call: str) -> tuple[Spelling, ...]:
        """The rows of a call, by its qualified name. The calls that make the framework's own
        configuration take every name that may be a keyword."""
        return _called(self.name, call)

    def stated(self, target: str) -> tuple[Spelling, ...]:
        """The rows of an assigned name such as torch.backends.cudnn.benchmark."""
        return _stated(self.name, target)

    @property
    def calls(self) -> frozenset[str]:
        """The patterns of all calls that it has something to say about."""
        return _calls(self.name)

    def writers(self, knob: str, surface: Surface) -> tuple[Spelling, ...]:
        """The rows that can write a knob on a surface, own ones first."""
        return tuple(
            row
            for row in self.rows
            if row.knob == knob and surface in row.surfaces and not row.extra and not row.dead
        )

    def spelling(
        self, knob: str, surface: Surface, versions: Versions | None = None
    ) -> Spelling | None:
        """How to write a knob on a surface with these versions (package to specifier).

        Without a pin only a name that every supported version takes is given; None when there
        is no such name.
        """
        rows = self.writers(knob, surface)
        certain = [row for row in rows if accepted(row, versions or {}) is True]
        fresh = [row for row in certain if not _deprecated(row, versions or {})]
        return next(iter(fresh or certain), None)

    def decode(self, name: str, raw: Value, surface: Surface) -> tuple[str, Value] | None:
        """The knob and canonical value of a written name; None when the name sets no knob or
        the value says nothing."""
        return next(iter(self.decode_all(name, raw, surface)), None)

    def decode_all(self, name: str, raw: Value, surface: Surface) -> tuple[tuple[str, Value], ...]:
        """As decode, with everything else that the name decides."""
        return tuple(decoded(self.named(name, surface), raw))

    def knows(self, name: str) -> bool:
        """True for a name that some version accepts on some surface."""
        return plain_name(name) in self.known

    def closest_name(self, name: str) -> str | None:
        """The accepted name that a misspelt one resembles."""
        return closest(plain_name(name), self.known)

    def default(
        self,
        knob: str,
        versions: Versions | None = None,
        values: Mapping[str, Value] | None = None,
    ) -> Value | None:
        """What the framework does when nobody sets the knob, given the other knobs' values;
        Unknown when that depends on something unknown, None when it has no opinion."""
        return chosen_default(self.defaults.get(knob, ()), versions or {}, values or {})


def decoded(rows: tuple[Spelling, ...], raw: Value) -> Iterator[tuple[str, Value]]:
    """What a name's rows make of a written value; several rows for one knob: the first that
    speaks."""
    seen: set[str] = set()
    for row in rows:
        if row.knob is None or row.knob in seen or row.dead:
            continue
        value = row.read(raw)
        if value is not SILENT:
            seen.add(row.knob)
            yield row.knob, value


def accepted(name: Spelling | Known, versions: Versions) -> bool | None:
    """Whether the pinned version takes a name; None when the pin does not tell."""
    answers = []
    if name.since:
        answers.append(meets(versions, f"{name.package}>={name.since}"))
    if name.until:
        answers.append(meets(versions, f"{name.package}<{name.until}"))
    if False in answers:
        return False
    return None if None in answers else True


def _deprecated(row: Spelling, versions: Versions) -> bool:
    return bool(row.deprecated) and meets(versions, f"{row.package}>={row.deprecated}") is True


def chosen_default(
    alternatives: tuple[DefaultValue, ...], versions: Versions, values: Mapping[str, Value]
) -> Value | None:
    """The first default whose condition holds; Unknown when several may."""
    possible: list[Value] = []
    for alternative in alternatives:
        holds = alternative.holds(versions, values)
        if holds is not False:
            possible.append(alternative.value)
        if holds:
            break
    if not possible:
        return None
    if len({(type(value), value) for value in possible}) == 1:
        return possible[0]
    return Unknown("depends on a version or setting that is not known")


@functools.cache
def frameworks() -> Mapping[str, Framework]:
    """Every framework by name. Raises ValueError when a shipped file is malformed (our bug)."""
    from pitstop.rules.frameworks.loading import load_all

    return load_all()


@functools.lru_cache(maxsize=20_000)
def _called(framework: str, call: str) -> tuple[Spelling, ...]:
    configures = matches(call, frameworks()[framework].config_calls)
    return tuple(
        row
        for row in frameworks()[framework].rows
        if (row.calls and matches(call, row.calls))
        or (configures and not row.calls and Surface.KEYWORD in row.surfaces)
    )


@functools.lru_cache(maxsize=20_000)
def _stated(framework: str, target: str) -> tuple[Spelling, ...]:
    return tuple(row for row in _statements(framework) if fnmatchcase(target, row.name))


@functools.cache
def _statements(framework: str) -> tuple[Spelling, ...]:
    rows = frameworks()[framework].rows
    return tuple(row for row in rows if Surface.STATEMENT in row.surfaces and not row.calls)


@functools.cache
def _calls(framework: str) -> frozenset[str]:
    rows = frameworks()[framework].rows
    return frozenset(
        (*frameworks()[framework].config_calls, *(c for row in rows for c in row.calls))
    )


@functools.cache
def call_patterns() -> Patterns:
    """The patterns of every call and base class that some framework's file speaks of."""
    every = frameworks().values()
    signs = (sign for f in every for sign in (*f.detection.strong, *f.detection.weak))
    return Patterns(
        (
            *(pattern for sign in signs for pattern in sign.calls),
            *(pattern for f in every for pattern in (*f.calls, *f.parsers)),
        )
    )


@functools.lru_cache(maxsize=100_000)
def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a qualified name fits one of the patterns (`*` as in file names)."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@functools.cache
def _index(framework: str) -> Mapping[str, tuple[Spelling, ...]]:
    found: dict[str, list[Spelling]] = {}
    for row in frameworks()[framework].rows:
        if row.name != PRESENT:
            found.setdefault(plain_name(row.name), []).append(row)
    return {name: tuple(rows) for name, rows in found.items()}


def main_frameworks() -> tuple[Framework, ...]:
    """The frameworks that can lead a job, the one that wins first."""
    mains = [f for f in frameworks().values() if f.kind == "main"]
    return tuple(sorted(mains, key=lambda f: f.rank))
