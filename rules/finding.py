"""The words that every part of Pitstop speaks: places, settings, fixes, findings.

Positions are counted in characters of the decoded text (see `pitstop.rules.tree.SourceFile`),
lines and columns from 1, ends exclusive.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field


class Severity(enum.IntEnum):
    """How much a finding matters; ordered, so that thresholds compare."""

    INFO = 1
    WARNING = 2
    CRITICAL = 3

    @property
    def label(self) -> str:
        """The word used in reports, options and configuration."""
        return self.name.lower()


class Priority(enum.StrEnum):
    """Expected gain: high over 30 % (or a precondition for scale), medium 10 to 30 %, low below."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Confidence(enum.StrEnum):
    """HIGH: a literal was read; MEDIUM: a resolved default; LOW: inferred from a name."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Safety(enum.StrEnum):
    """SAFE: same numbers, may be suggested. VERIFY: needs a measured run. NEVER: advice only."""

    SAFE = "safe"
    VERIFY = "verify"
    NEVER = "never"


class Surface(enum.StrEnum):
    """The kind of place in which a setting is written."""

    FLAG = "flag"  # a word of a launch command, in a script or a job file
    ENV = "env"  # an environment variable: export, prefix, Dockerfile ENV, YAML env block
    YAML = "yaml"
    JSON = "json"
    TOML = "toml"
    KEYWORD = "keyword"  # an argument of a Python call
    PY_DEFAULT = "py_default"  # an argparse default or a dataclass field default
    STATEMENT = "statement"  # a Python assignment or call that is itself the setting
    HEADER = "header"  # #SBATCH and its like
    DEFAULT = "default"  # written nowhere: what the framework does by itself


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Half-open range of character offsets into a file's text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A range in a file. `path` is POSIX and relative to the tree's root."""

    path: str
    span: Span
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that could not be resolved without running code. Never equal to anything real,
    and no rule may fire on it."""

    why: str

    def __bool__(self) -> bool:
        return False


Scalar = bool | int | float | str | None
Value = Scalar | tuple[Scalar, ...] | Unknown


@dataclass(frozen=True, slots=True)
class Setting:
    """A knob's value at a place.

    `value` is canonical (the vocabulary of `knobs.yaml`), `raw` is the text as written.
    `value_at` covers exactly the characters of the value, `name_at` those of the flag, key or
    keyword; both are None for a default. `note` is the text of a NOTE-like comment beside it.
    `condition` is the text of the shell or Python condition under which it holds, if any.
    """

    knob: str
    value: Value
    surface: Surface
    name: str
    framework: str
    raw: str = ""
    value_at: Location | None = None
    name_at: Location | None = None
    note: str | None = None
    condition: str | None = None

    @property
    def known(self) -> bool:
        """True unless the value could not be resolved."""
        return not isinstance(self.value, Unknown)

    @property
    def written(self) -> bool:
        """True when somebody wrote it; False for a framework's default."""
        return self.surface is not Surface.DEFAULT

    @property
    def where(self) -> Location | None:
        """The place to show: the name if there is one, else the value."""
        return self.name_at or self.value_at


@dataclass(frozen=True, slots=True)
class Fix:
    """A change as data; `pitstop.transforms` turns it into edits.

    `transform` is "set_knob", "unset_knob" or a recipe's id; `args` are its arguments
    (for set_knob: `knob` and `value`). `text` says the change in one line to a person.
    """

    transform: str
    args: Mapping[str, Scalar]
    safety: Safety
    text: str

    @staticmethod
    def set_knob(knob: str, value: Scalar, *, safety: Safety, text: str) -> Fix:
        """The commonest fix: one knob gets another value wherever the job decides it."""
        return Fix("set_knob", {"knob": knob, "value": value}, safety, text)

    @staticmethod
    def unset_knob(knob: str, *, safety: Safety, text: str) -> Fix:
        """Remove a knob's setting, so that the framework's default holds again."""
        return Fix("unset_knob", {"knob": knob}, safety, text)


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that a reader of the finding wants to see, and why."""

    location: Location
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth saying about one place.

    `rule` is the catalogue's id (HF-H01), `name` its readable slug. `deciding` is the setting
    that decides; `cost` says what it costs, `source` from where that figure is known.
    `jobs` are the ids of the jobs that share it. `anchor` is the text of the primary line with
    white space collapsed: together with rule, knob and path it makes the fingerprint, which
    therefore survives moved lines.
    """

    rule: str
    name: str
    title: str
    severity: Severity
    priority: Priority
    confidence: Confidence
    resource: str  # time | memory | both | quality | stability
    primary: Location
    message: str
    cost: str
    source: str
    leave_when: str
    advice: str
    fix: Fix | None = None
    deciding: Setting | None = None
    related: tuple[Related, ...] = ()
    jobs: tuple[str, ...] = ()
    anchor: str = ""
    evidence: Mapping[str, str] = field(default_factory=dict)

    @property
    def knob(self) -> str | None:
        """The knob at fault, where there is one."""
        return self.deciding.knob if self.deciding else None

    @property
    def fingerprint(self) -> str:
        """16 hex digits, the same as long as rule, knob, path and the line's words are."""
        parts = (self.rule, self.knob or "", self.primary.path, self.anchor)
        return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be read or understood: shown to the user, never guessed."""

    path: str
    reason: str
    line: int | None = None


class UserError(Exception):
    """Something the user can put right: one sentence with what is wrong, where, what to do."""
