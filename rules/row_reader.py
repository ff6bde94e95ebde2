"""Reads catalogues strictly: an unknown word is refused with the file, the row and the nearest
known word. What it accepts is the whole language of rows (docs/adding-a-rule.md)."""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import yaml

from pitstop.rules.conditions import (
    IT,
    STATES,
    TESTS,
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    FactIs,
    FactKnown,
    KnobIs,
    KnobState,
    Not,
    PackageIs,
)
from pitstop.rules.data import parse_data
from pitstop.rules.finding import Confidence, Priority, Safety, Scalar, Severity
from pitstop.rules.job_facts import FACTS, parse_operand
from pitstop.rules.knobs import closest, knobs
from pitstop.rules.rows import Change, Choice, Need, Row
from pitstop.rules.rule import RESOURCES, Bad, Good, RuleInfo, Sections

_REQUIRED = frozenset(
    {"id", "name", "title", "category", "severity", "priority", "resource", "message", "cost"}
    | {"sources", "examples", "when"}
    | {field.name for field in fields(Sections)}
)
_OPTIONAL = frozenset(
    {"knob", "names", "confidence", "unless", "unless_known", "info_when", "requires"}
    | {"conflicts", "change", "unconditional", "trades_time", "own"}
)


class RowError(ValueError):
    """A catalogue is malformed (our bug): the message names file, row and word."""


@functools.cache
def rows() -> tuple[Row, ...]:
    """Every row of every shipped catalogue, in the order of the files and within them."""
    folder = importlib.resources.files("pitstop.rules.catalogues")
    index = _load("index.yaml", folder.joinpath("index.yaml").read_text("utf-8"))
    found: list[Row] = []
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".yaml") and file.name != "index.yaml":
            found += read_rows(file.name, file.read_text("utf-8"), index)
    return tuple(found)


def read_rows(file: str, text: str, index: Mapping[str, Any]) -> tuple[Row, ...]:
    """The rows of one file. `index` maps a catalogue to its `title`, `prefix`, `frameworks`.

    Raises RowError.
    """
    document = _load(file, text)
    _only(file, document, {"catalogue", "rows"})
    catalogue = str(document.get("catalogue"))
    if catalogue not in index:
        raise RowError(f"{file}: unknown catalogue {catalogue!r}{_hint(catalogue, index)}")
    entry = index[catalogue]
    return tuple(_Reader(file, catalogue, entry, raw).row() for raw in document["rows"])


def _load(file: str, text: str) -> dict[str, Any]:
    try:
        document = parse_data(text)
    except yaml.YAMLError as error:
        raise RowError(f"{file}: {error}") from error
    if not isinstance(document, dict):
        raise RowError(f"{file}: must be a mapping")
    return document


def _only(where: str, raw: Mapping[str, Any], allowed: Iterable[str]) -> None:
    words = set(allowed)
    for key in raw:
        if key not in words:
            raise RowError(f"{where}: unknown word {key!r}{_hint(str(key), words)}")


def _hint(word: str, words: Iterable[str]) -> str:
    near = closest(word, words)
    return f", did you mean {near!r}?" if near else ""


class _Reader:
    """Reads one row; holds only what its error messages need."""

    def __init__(
        self, file: str, catalogue: str, entry: Mapping[str, Any], raw: Mapping[str, Any]
    ) -> None:
        self.catalogue = catalogue
        self.entry = entry
        self.raw = raw
        self.where = f"{file}: {raw.get('id', 'a row without id')}"

    def row(self) -> Row:
        _only(self.where, self.raw, _REQUIRED | _OPTIONAL)
        missing = sorted(_REQUIRED - set(self.raw))
        if missing:
            raise RowError(f"{self.where}: lacks {', '.join(missing)}")
        if not str(self.raw["id"]).startswith(self.entry["prefix"] + "-"):
            raise RowError(f"{self.where}: the id must begin with {self.entry['prefix']}-")
        return Row(
            info=self._info(),
            message=self._message(),
            frameworks=tuple(self.entry.get("frameworks", ())),
            purpose=str(self.entry.get("purpose", "train")),
            knobs=self._own_knobs(),
            names=tuple(self.raw.get("names", ())),
            own=self._own(),
            unconditional=self._flag("unconditional"),
            when=AllOf(self._conditions("when")),
            unless=AnyOf(self._conditions("unless")),
            unless_known=AnyOf(self._conditions("unless_known")),
            info_when=AnyOf(self._conditions("info_when")),
            requires=self._needs("requires"),
            conflicts=self._needs("conflicts"),
            change=self._change(),
        )

    # --- metadata ---

    def _info(self) -> RuleInfo:
        raw = self.raw
        change = raw.get("change")
        examples = raw["examples"]
        _only(f"{self.where}: examples", examples, {"bad", "good"})
        return RuleInfo(
            id=raw["id"],
            name=raw["name"],
            catalogue=self.catalogue,
            category=raw["category"],
            title=raw["title"],
            severity=Severity[self._word("severity", [s.label for s in Severity]).upper()],
            priority=Priority(self._word("priority", list(Priority))),
            resource=self._word("resource", RESOURCES),
            confidence=Confidence(self._word("confidence", list(Confidence), "high")),
            safety=self._safety(change) if change else Safety.NEVER,
            sections=Sections(**{f.name: self._section(f.name) for f in fields(Sections)}),
            cost=self._prose("cost"),
            sources=tuple(raw["sources"]),
            bad=tuple(self._bad(example) for example in examples["bad"]),
            good=tuple(self._good(example) for example in examples["good"]),
            trades_time=self._flag("trades_time"),
        )

    def _word(self, key: str, allowed: Iterable[str], default: str | None = None) -> str:
        word = str(self.raw.get(key, default))
        if word not in tuple(allowed):
            raise RowError(
                f"{self.where}: {key}: {word!r} is none of {', '.join(allowed)}"
                f"{_hint(word, allowed)}"
            )
        return word

    def _flag(self, key: str) -> bool:
        value = self.raw.get(key, False)
        if not isinstance(value, bool):
            raise RowError(f"{self.where}: {key} is true or false")
        return value

    def _prose(self, key: str) -> str:
        text = str(self.raw[key]).strip()
        if not text:
            raise RowError(f"{self.where}: {key} is empty")
        return "\n\n".join(" ".join(block.split()) for block in text.split("\n\n"))

    def _section(self, name: str) -> str:
        """A section's text; what the cure needs and what forbids it is said with the fix."""
        text = self._prose(name)
        if name == "fix":
            for key, words in (("requires", "Needs"), ("conflicts", "Not together with")):
                said = ", ".join(str(raw["text"]) for raw in self.raw.get(key, []))
                text += f" {words} {said}." if said else ""
        return text

    def _message(self) -> str:
        text = self._prose("message")
        try:
            text.format(setting="")
        except (KeyError, IndexError, ValueError) as error:
            raise RowError(f"{self.where}: message: only {{setting}} may be used") from error
        return text

    def _bad(self, raw: Mapping[str, Any]) -> Bad:
        _only(f"{self.where}: a bad example", raw, {"files", "at", "fixed"})
        path, _, line = str(raw["at"]).rpartition(":")
        if path not in raw["files"] or not line.isdecimal():
            raise RowError(f"{self.where}: a bad example's `at` is path:line of one of its files")
        return Bad(dict(raw["files"]), path, int(line), dict(raw.get("fixed", {})))

    def _good(self, raw: Mapping[str, Any]) -> Good:
        _only(f"{self.where}: a good example", raw, {"files", "why"})
        return Good(dict(raw["files"]), str(raw["why"]))

    # --- conditions ---

    def _conditions(self, key: str) -> tuple[Condition, ...]:
        raw = self.raw.get(key, [])
        if not isinstance(raw, list):
            raise RowError(f"{self.where}: {key} is a list of conditions")
        return tuple(self._condition(key, part) for part in raw)

    def condition(self, raw: object) -> Condition:
        """A condition by itself."""
        return self._condition("used", raw)

    def _condition(self, key: str, raw: object) -> Condition:
        where = f"{self.where}: {key}"
        if not isinstance(raw, dict) or len(raw) != 1:
            raise RowError(f"{where}: a condition is one subject with its test, not {raw!r}")
        ((subject, body),) = raw.items()
        if subject == "all_of":
            return AllOf(tuple(self._condition(key, part) for part in body))
        if subject == "any_of":
            return AnyOf(tuple(self._condition(key, part) for part in body))
        if subject == "not":
            return Not(self._condition(key, body))
        if subject.startswith("package."):
            return self._package(where, subject.removeprefix("package."), body)
        if subject in FACTS:
            return self._fact(where, subject, body)
        if subject in knobs() or subject == IT:
            return self._knob_condition(where, subject, body)
        known = [*knobs(), *FACTS, IT, "all_of", "any_of", "not"]
        raise RowError(f"{where}: unknown subject {subject!r}{_hint(subject, known)}")

    def _knob_condition(self, where: str, knob: str, body: object) -> Condition:
        if body in STATES:
            return KnobState(knob, str(body))
        test = self._test(where, knob, body, "text")
        operands = test.operand if isinstance(test.operand, tuple) else (test.operand,)
        for name in self._own_knobs() if knob == IT else (knob,):
            self._allowed(where, name, operands)
        return KnobIs(knob, test)

    def _allowed(self, where: str, knob: str, words: Iterable[Scalar]) -> None:
        allowed = knobs()[knob].values
        for word in words:
            if allowed and word not in allowed:
                near = _hint(str(word), allowed)
                raise RowError(f"{where}: {knob}: {word!r} is none of its values{near}")

    def _fact(self, where: str, fact: str, body: object) -> Condition:
        if body == "known":
            return FactKnown(fact)
        return FactIs(fact, self._test(where, fact, body, FACTS[fact].operand))

    def _package(self, where: str, package: str, body: object) -> Condition:
        if body == "present":
            return PackageIs(package, "present")
        if isinstance(body, dict) and len(body) == 1:
            ((op, version),) = body.items()
            if op in ("at_least", "below") and isinstance(version, str):
                return PackageIs(package, op, version)
        raise RowError(f"{where}: package.{package}: present, or at_least/below a quoted version")

    def _test(self, where: str, subject: str, body: object, kind: str) -> Comparison:
        if not isinstance(body, dict) or len(body) != 1:
            raise RowError(f"{where}: {subject}: one test, not {body!r}")
        ((op, raw),) = body.items()
        if op not in TESTS:
            raise RowError(f"{where}: {subject}: unknown test {op!r}{_hint(str(op), TESTS)}")
        if (op in ("in", "not_in")) != isinstance(raw, list):
            raise RowError(f"{where}: {subject}: `in` takes a list, every other test one value")
        try:
            return Comparison(op, parse_operand(kind, raw))
        except ValueError as error:
            raise RowError(f"{where}: {subject}: {error}") from error

    def _needs(self, key: str) -> tuple[Need, ...]:
        found: list[Need] = []
        for raw in self.raw.get(key, []):
            _only(f"{self.where}: {key}", raw, {"text", "is"})
            found.append(Need(str(raw["text"]), self._condition(key, raw["is"])))
        return tuple(found)

    def _own(self) -> tuple[str, ...]:
        if not self._flag("own"):
            return ()
        return (*self.entry["frameworks"], *self.entry.get("dialects", ()))

    # --- fix ---

    def _change(self) -> Change | None:
        raw = self.raw.get("change")
        if raw is None:
            return None
        where = f"{self.where}: change"
        _only(where, raw, {"knob", "set", "unset", "safety", "text"})
        if ("set" in raw) == (raw.get("unset") is True) or not raw.get("text"):
            raise RowError(f"{where}: needs a text and either `set` or `unset: true`")
        other = self._knob(raw["knob"]) if "knob" in raw else None
        changed = (other,) if other else self._own_knobs()
        choices = self._choices(changed, raw["set"]) if "set" in raw else ()
        return Change(other, self._safety(raw), str(raw["text"]), choices)

    def _safety(self, change: Mapping[str, Any]) -> Safety:
        word = str(change.get("safety"))
        if word not in (Safety.SAFE, Safety.VERIFY):
            raise RowError(f"{self.where}: change: safety is safe or verify; else only advise")
        return Safety(word)

    def _choices(self, changed: tuple[str, ...], raw: object) -> tuple[Choice, ...]:
        if not isinstance(raw, list):
            return (Choice(self._value(changed, raw)),)
        found: list[Choice] = []
        for part in raw:
            _only(f"{self.where}: change", part, {"value", "when"})
            when = part.get("when")
            condition = (
                None if when is None else AllOf(tuple(self._condition("change", c) for c in when))
            )
            found.append(Choice(self._value(changed, part["value"]), condition))
        return tuple(found)

    def _value(self, changed: tuple[str, ...], raw: object) -> Scalar:
        if not isinstance(raw, bool | int | float | str):
            raise RowError(f"{self.where}: change: {raw!r} is no scalar")
        for knob in changed:
            self._allowed(f"{self.where}: change", knob, (raw,))
        return raw

    def _own_knobs(self) -> tuple[str, ...]:
        raw = self.raw.get("knob", [])
        return tuple(self._knob(name) for name in ([raw] if isinstance(raw, str) else raw))

    def _knob(self, name: object) -> str:
        if name not in knobs():
            raise RowError(f"{self.where}: unknown knob {name!r}{_hint(str(name), knobs())}")
        return str(name)


def read_condition(where: str, raw: object) -> Condition:
    """One condition outside a catalogue. Raises RowError; `where` names the place in it."""
    return _Reader(where, "", {}, {"id": ""}).condition(raw)
