"""How one framework writes one knob: a name on some surfaces, and its values both ways."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pitstop.rules.finding import Scalar, Surface, Unknown, Value
from pitstop.rules.knobs import Knob, knobs

TRUE: Final = frozenset({"true", "t", "yes", "y", "1", "on"})
FALSE: Final = frozenset({"false", "f", "no", "n", "0", "off"})
PRESENT: Final = "()"
"""The name of a row that speaks when a call is made at all, whatever its arguments."""

ANY: Final = "*"
"""In a value map: every value that is not listed."""


class Silence(enum.Enum):
    """The type of SILENT: a written value that says nothing about the knob (`bf16: false`)."""

    SILENT = "silent"


SILENT: Final = Silence.SILENT


@dataclass(frozen=True, slots=True)
class Unwritable:
    """A name that cannot express a value, and why."""

    why: str


@dataclass(frozen=True, slots=True, eq=False)
class Spelling:
    """A name of a framework and the knob that it sets.

    `type` is how the framework casts what is written; `values` maps the written word (lower
    case) to the canonical value, None to nothing at all; empty means that they are the same.
    `since` is the first version of `package` that takes the name, `until` the first that does
    not, `deprecated` the first that warns. `flag_style` says how a boolean flag is written:
    hf (`--x`, `--x True`, `--no_x`), store_true (`--x`) or value (`--x true`).
    `yields` marks a place that only counts when nobody else says anything (accelerate's
    mixed precision), `literal` one that speaks only when its value is known (`.to(x)` may be
    anything); `file` names the framework in whose format the named file is read;
    `extra` marks a further knob that another row's name decides as well; a `default` with
    `beside` only counts in calls that switch that other name on.
    """

    framework: str
    name: str
    knob: str | None
    surfaces: frozenset[Surface]
    type: str = "str"
    values: Mapping[str, Scalar] | None = None
    calls: tuple[str, ...] = ()
    position: int | None = None
    default: Scalar = None
    has_default: bool = False
    beside: str | None = None
    package: str = ""
    since: str | None = None
    until: str | None = None
    deprecated: str | None = None
    renamed_to: str | None = None
    flag_style: str = "value"
    yields: bool = False
    literal: bool = False
    file: str | None = None
    dead: str | None = None
    extra: bool = False

    def read(self, value: Value) -> Value | Silence:
        """The canonical value of what is written: Unknown when it cannot be told, SILENT when
        this value says nothing about the knob (`bf16: false`)."""
        if isinstance(value, Unknown):
            return SILENT if self.literal else value
        if self.values is not None and written_word(value) in self.values:
            return self._mapped(value, self.values)
        cast = cast_value(value, self.type)
        if isinstance(cast, Unknown):
            return cast
        if self.values is not None:
            return self._mapped(cast, self.values)
        if cast is None:
            return SILENT
        return _within(self._knob(), cast)

    def _mapped(self, cast: Value, values: Mapping[str, Scalar]) -> Value | Silence:
        words = [written_word(part) for part in cast] if isinstance(cast, tuple) else []
        key = next((w for w in words if w in values), written_word(cast))
        other = values.get(ANY) if cast is not None else None
        found = values.get(key, other)
        if found is None:
            return SILENT
        return _within(self._knob(), cast) if found == ANY else found

    def _knob(self) -> Knob:
        return knobs()[self.knob] if self.knob else Knob("", "str", "")

    def written(self, value: Scalar) -> Scalar | Unwritable:
        """What to write so that the framework understands `value`."""
        if self.extra or self.name == PRESENT:
            return Unwritable(f"{self.name} decides more than {self.knob}")
        if self.values is None:
            return value
        for word, canonical in self.values.items():
            if canonical == value and type(canonical) is type(value) and word != ANY:
                return self._word(word)
        if self.values.get(ANY) == ANY:
            return value
        return Unwritable(f"{self.name} cannot say {value}")

    def _word(self, word: str) -> Scalar:
        if self.type == "bool" and word in ("true", "false"):
            return word == "true"
        if self.type in ("int", "float"):
            return int(word) if self.type == "int" else float(word)
        return word

    def text(self, value: Scalar, surface: Surface) -> str | Unwritable:
        """The characters to write on a surface, with the quotes that the surface needs."""
        written = self.written(value)
        return written if isinstance(written, Unwritable) else surface_text(written, surface)


def plain_name(name: str) -> str:
    """A name without leading dashes; dashes inside are underscores."""
    return name.lstrip("-").replace("-", "_")


def cast_value(value: Value, kind: str) -> Value:
    """A written value as the framework's type: bool, int, float, str or list.

    Text is what flags and environment variables give; YAML and Python values come typed. None
    stays None. What the framework would refuse becomes Unknown with the reason.
    """
    if value is None or isinstance(value, Unknown):
        return value
    if value == "auto" and kind != "str":
        return Unknown("auto: filled in when the job starts")
    if kind == "list":
        return _as_list(value)
    if isinstance(value, tuple):
        return Unknown(f"a list where {kind} is expected")
    if kind == "bool":
        return _as_bool(value)
    if kind == "int":
        return _as_int(value)
    if kind == "float":
        return _as_float(value)
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _as_list(value: Value) -> Value:
    if isinstance(value, tuple):
        return value
    parts = str(value).replace(",", " ").split()
    return tuple(part.strip("[]'\"") for part in parts if part.strip("[]'\""))


def _as_bool(value: Value) -> Value:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in TRUE or word in FALSE:
        return word in TRUE
    return Unknown(f"{value!r} is not a boolean")


def _as_int(value: Value) -> Value:
    number = _as_float(value)
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return Unknown(f"{value!r} is not a whole number")


def _as_float(value: Value) -> Value:
    if isinstance(value, bool):
        return Unknown(f"{value!r} is not a number")
    try:
        return float(str(value))
    except ValueError:
        return Unknown(f"{value!r} is not a number")


def written_word(value: Value) -> str:
    """The key of a value in a value map: lower case, `true`, `false`, `null`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return " ".join(str(part).lower() for part in value)
    return str(value).strip().lower()


def _within(knob: Knob, value: Value) -> Value:
    """Unknown for a word outside an enum's vocabulary: no rule may judge what it cannot name."""
    if knob.type == "enum" and value not in knob.values:
        return Unknown(f"{value!r} is not known for {knob.name}")
    if knob.type in ("int", "float", "bool", "list"):
        return cast_value(value, knob.type)
    return value


def surface_text(value: Scalar, surface: Surface) -> str:
    """A value as it is written on a surface: `True` in Python, `true` in YAML and JSON."""
    python = surface in (Surface.KEYWORD, Surface.PY_DEFAULT, Surface.STATEMENT)
    if value is None:
        return "None" if python else "null"
    if isinstance(value, bool):
        lower = surface in (Surface.YAML, Surface.JSON, Surface.TOML)
        return str(value).lower() if lower else str(value)
    if isinstance(value, int | float):
        return repr(value)
    if python:
        return value if value.startswith("torch.") else json.dumps(value, ensure_ascii=False)
    if surface is Surface.YAML:
        return json.dumps(value) if _needs_quotes(value) else value
    quoted = surface in (Surface.JSON, Surface.TOML)
    return json.dumps(value, ensure_ascii=False) if quoted else value


def _needs_quotes(word: str) -> bool:
    """True for a word that YAML would read as something other than this text."""
    plain = word.lower() not in TRUE | FALSE | {"null", "~", ""}
    return not (plain and word.replace("_", "").replace("-", "").replace(".", "").isalnum())
