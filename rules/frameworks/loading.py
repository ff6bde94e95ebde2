"""Reads the framework files, and refuses what docs/adding-a-framework.md does not describe."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pitstop.rules.data import parse_data
from pitstop.rules.finding import Scalar, Surface, Unknown, Value
from pitstop.rules.frameworks import DefaultValue, Detection, Framework, Known, Sign
from pitstop.rules.frameworks.spelling import ANY, PRESENT, Spelling, plain_name
from pitstop.rules.knobs import Knob, closest, knobs

KINDS = ("main", "engine", "helper")
TYPES = ("bool", "int", "float", "str", "list")
FLAG_STYLES = ("hf", "store_true", "value")

_TOP = {
    "name", "title", "kind", "rank", "packages", "extends", "part_of", "purpose", "detect",
    "spellings", "known", "defaults", "config_calls", "closed", "own_defaults", "parsers", "doubts",
    "programs",
}  # fmt: skip
_GROUP = {"on", "calls", "flags", "package", "names", "present", "inherit"}
_ROW = {
    "knob", "type", "values", "default", "position", "since", "until", "deprecated",
    "renamed_to", "yields", "literal", "file", "dead", "also", "beside",
    "calls", "on", "flags", "package",
}  # fmt: skip
_KNOWN = {"since", "until", "deprecated", "renamed_to", "dead", "package", "names"}
_SIGN = {
    "imports", "calls", "commands", "keys_all", "keys_any", "flags", "at_least", "values",
    "env", "packages", "paths",
}  # fmt: skip
_DETECT = {"strong", "weak", "not_enough", "own_source", "job_keys"}


class SchemaError(ValueError):
    """A framework file that does not fit the schema: which file, where, and what was meant."""


def load_all() -> Mapping[str, Framework]:
    """The shipped frameworks by name, those they extend merged in.

    Raises SchemaError when a file is malformed.
    """
    folder = importlib.resources.files("pitstop.rules.frameworks")
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".yaml")), key=lambda f: f.name)
    return load({f.name: f.read_text("utf-8") for f in files})


def load(texts: Mapping[str, str]) -> Mapping[str, Framework]:
    """Frameworks from the texts of their files (file name to text).

    Raises SchemaError when one is malformed.
    """
    raw: dict[str, Mapping[str, Any]] = {}
    for file, text in texts.items():
        data = parse_data(text)
        _check(file, "", data, _TOP)
        if f"{data.get('name')}.yaml" != file:
            raise SchemaError(f"{file}: its name is {data.get('name')!r}, not the file's")
        raw[data["name"]] = data
    return {name: _Reader(raw).framework(name) for name in raw}


def _check(file: str, where: str, data: object, allowed: Iterable[str]) -> None:
    """Refuse a mapping with a key that the schema does not have."""
    place = f"{file}: {where}: " if where else f"{file}: "
    if not isinstance(data, Mapping):
        raise SchemaError(f"{place}a mapping is expected, not {data!r}")
    for key in data:
        if key not in allowed:
            near = closest(str(key), allowed)
            hint = f"; did you mean {near!r}?" if near else ""
            raise SchemaError(f"{place}unknown key {key!r}{hint}")


def _words(file: str, where: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return tuple(value)
    raise SchemaError(f"{file}: {where}: a word or a list of words is expected, not {value!r}")


class _Reader:
    """Turns the raw mappings into Frameworks; knows all of them, for `extends`."""

    def __init__(self, raw: Mapping[str, Mapping[str, Any]]) -> None:
        self.raw = raw

    def framework(self, name: str, *, inherited: bool = False) -> Framework:
        """A framework; as another one inherits it, without the groups marked `inherit: false`."""
        data, file = self.raw[name], f"{name}.yaml"
        for key in ("title", "kind", "detect"):
            if key not in data:
                raise SchemaError(f"{file}: {key!r} is missing")
        if data["kind"] not in KINDS:
            raise SchemaError(f"{file}: kind is one of {', '.join(KINDS)}, not {data['kind']!r}")
        parent = data.get("extends")
        if parent is not None and parent not in self.raw:
            raise SchemaError(f"{file}: extends {parent!r}, which does not exist")
        base = self.framework(parent, inherited=True) if parent else None
        heir = base if base and not data.get("own_defaults") else None
        rows = tuple(self._rows(name, data, inherited))
        known = {k.name: k for k in self._known(name, data, rows)}
        return Framework(
            name=name,
            title=data["title"],
            kind=data["kind"],
            rank=int(data.get("rank", 99)),
            packages=tuple(data.get("packages", ())),
            extends=parent,
            part_of=data.get("part_of"),
            purpose=data.get("purpose", "train"),
            detection=_detection(file, data["detect"]),
            rows=rows + (base.rows if base else ()),
            known={**(base.known if base else {}), **known},
            defaults={**(heir.defaults if heir else {}), **_defaults(file, data)},
            doubts={**(heir.doubts if heir else {}), **_doubts(file, data)},
            config_calls=(
                *_words(file, "config_calls", data.get("config_calls", [])),
                *(base.config_calls if base else ()),
            ),
            parsers=(
                *_words(file, "parsers", data.get("parsers", [])),
                *(base.parsers if base and data["kind"] != "main" else ()),
            ),
            closed=bool(data.get("closed", False)),
            programs=_programs(file, data.get("programs", {})),
        )

    def _rows(self, name: str, data: Mapping[str, Any], inherited: bool) -> Iterator[Spelling]:
        file = f"{name}.yaml"
        package = next(iter(data.get("packages", ())), "")
        for number, group in enumerate(data.get("spellings", ())):
            where = f"spellings[{number}]"
            _check(file, where, group, _GROUP)
            if inherited and not group.get("inherit", True):
                continue
            common = {k: group[k] for k in ("on", "calls", "flags") if k in group}
            common["package"] = group.get("package", package)
            for knob, value in group.get("present", {}).items():
                row = {"knob": knob, "type": "bool", "values": {"true": value}}
                yield _spelling(name, where, PRESENT, {**common, **row}, extra=False)
            for spelled, row in group.get("names", {}).items():
                yield from _named(name, where, str(spelled), {**common, **(row or {})})

    def _known(
        self, name: str, data: Mapping[str, Any], rows: Iterable[Spelling]
    ) -> Iterator[Known]:
        file = f"{name}.yaml"
        package = next(iter(data.get("packages", ())), "")
        for number, group in enumerate(data.get("known", ())):
            _check(file, f"known[{number}]", group, _KNOWN)
            facts = {k: v for k, v in group.items() if k != "names"}
            facts.setdefault("package", package)
            for word in _words(file, f"known[{number}].names", group["names"]):
                yield Known(plain_name(word), **facts)
        for row in rows:
            if row.name == PRESENT or row.extra:
                continue
            span = (row.since, row.until, row.deprecated, row.renamed_to, row.dead)
            for part in _prefixes(plain_name(row.name)):
                if part == plain_name(row.name):
                    yield Known(part, row.package, *span)
                else:
                    yield Known(part, row.package)


def _prefixes(name: str) -> Iterator[str]:
    """`a`, `a.b`, `a.b.c` of a dotted name."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        yield ".".join(parts[:end])


def _named(name: str, where: str, spelled: str, row: Mapping[str, Any]) -> Iterator[Spelling]:
    """The row of a name, and one more for each further knob that it decides."""
    file = f"{name}.yaml"
    _check(file, f"{where}.{spelled}", row, _ROW)
    first = _spelling(name, where, spelled, row, extra=False)
    yield first
    for extra in row.get("also", ()):
        kept = {k: v for k, v in row.items() if k not in ("also", "values", "knob", "file")}
        yield _spelling(name, where, spelled, {**kept, "type": first.type, **extra}, extra=True)


def _spelling(
    name: str, where: str, spelled: str, row: Mapping[str, Any], *, extra: bool
) -> Spelling:
    file, place = f"{name}.yaml", f"{where}.{spelled}"
    knob = _knob(file, place, row.get("knob"))
    kind = row.get("type") or (_type_of(knob) if knob else "str")
    style = row.get("flags", "value")
    if kind not in TYPES:
        raise SchemaError(f"{file}: {place}: type is one of {', '.join(TYPES)}, not {kind!r}")
    if style not in FLAG_STYLES:
        raise SchemaError(f"{file}: {place}: flags is one of {', '.join(FLAG_STYLES)}")
    return Spelling(
        framework=name,
        name=spelled,
        knob=knob.name if knob else None,
        surfaces=_surfaces(file, place, row.get("on", [])),
        type=kind,
        values=_values(file, place, knob, row.get("values")),
        calls=_words(file, place, row.get("calls", [])),
        position=row.get("position"),
        default=row.get("default"),
        has_default="default" in row,
        flag_style=style,
        package=row.get("package", ""),
        extra=extra,
        **{k: row[k] for k in ("since", "until", "deprecated", "renamed_to") if k in row},
        **{k: row[k] for k in ("yields", "literal", "file", "dead", "beside") if k in row},
    )


def _knob(file: str, place: str, name: str | None) -> Knob | None:
    if name is None:
        return None
    if name not in knobs():
        near = closest(name, knobs())
        hint = f"; did you mean {near!r}?" if near else ""
        raise SchemaError(f"{file}: {place}: there is no knob {name!r}{hint}")
    return knobs()[name]


def _type_of(knob: Knob) -> str:
    return "str" if knob.type == "enum" else knob.type


def _surfaces(file: str, place: str, words: object) -> frozenset[Surface]:
    names = _words(file, place, words)
    legal = {s.value for s in Surface}
    for name in names:
        if name not in legal:
            near = closest(name, legal)
            hint = f"; did you mean {near!r}?" if near else ""
            raise SchemaError(f"{file}: {place}: unknown surface {name!r}{hint}")
    if not names:
        raise SchemaError(f"{file}: {place}: on which surfaces ('on')?")
    return frozenset(Surface(name) for name in names)


def _values(
    file: str, place: str, knob: Knob | None, values: object
) -> Mapping[str, Scalar] | None:
    if values is None:
        return None
    if not isinstance(values, Mapping):
        raise SchemaError(f"{file}: {place}: values is a mapping, not {values!r}")
    found: dict[str, Scalar] = {}
    for word, canonical in values.items():
        key = str(word).lower() if isinstance(word, bool) else str(word)
        key = "null" if word is None else key
        if knob and knob.type == "enum" and canonical not in (None, ANY, *knob.values):
            near = closest(str(canonical), knob.values)
            hint = f"; did you mean {near!r}?" if near else ""
            raise SchemaError(f"{file}: {place}: {canonical!r} is no value of {knob.name}{hint}")
        found[key.lower()] = canonical
        if key != key.lower():
            raise SchemaError(f"{file}: {place}: {key!r}: words are matched in lower case")
    return found


def _detection(file: str, data: object) -> Detection:
    _check(file, "detect", data, _DETECT)
    assert isinstance(data, Mapping)  # noqa: S101 - _check has refused anything else
    return Detection(
        strong=tuple(_signs(file, "strong", data.get("strong", ()))),
        weak=tuple(_signs(file, "weak", data.get("weak", ()))),
        not_enough=_words(file, "not_enough", data.get("not_enough", [])),
        own_source=_words(file, "own_source", data.get("own_source", [])),
        job_keys=_words(file, "job_keys", data.get("job_keys", [])),
    )


def _signs(file: str, where: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[Sign]:
    for row in rows:
        _check(file, f"detect.{where}", row, _SIGN)
        fields: dict[str, Any] = {}
        for key, value in row.items():
            place = f"detect.{where}.{key}"
            if key == "values":
                value = {k: _words(file, place, v) for k, v in value.items()}
            elif key != "at_least":
                value = _words(file, place, value)
            fields[key] = value
        yield Sign(**fields)


def _defaults(file: str, data: Mapping[str, Any]) -> Mapping[str, tuple[DefaultValue, ...]]:
    found: dict[str, tuple[DefaultValue, ...]] = {}
    for name, value in data.get("defaults", {}).items():
        _knob(file, "defaults", name)
        rows = (
            value if isinstance(value, list) and value and isinstance(value[0], Mapping) else None
        )
        if rows is None:
            found[name] = (DefaultValue(_default(value)),)
            continue
        for row in rows:
            _check(file, f"defaults.{name}", row, {"value", "when", "if", "unknown"})
        found[name] = tuple(_alternative(row) for row in value)
    return found


def _alternative(row: Mapping[str, Any]) -> DefaultValue:
    value = Unknown(row["unknown"]) if "unknown" in row else _default(row["value"])
    settings = {
        knob: tuple(words) if isinstance(words, list) else (words,)
        for knob, words in row.get("if", {}).items()
    }
    return DefaultValue(value, row.get("when", ""), settings)


def _doubts(file: str, data: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, words in data.get("doubts", {}).items():
        _knob(file, "doubts", name)
        found[name] = _words(file, f"doubts.{name}", words)
    return found


def _programs(file: str, data: object) -> Mapping[str, str]:
    if not isinstance(data, Mapping):
        raise SchemaError(f"{file}: programs maps commands to a name, not {data!r}")
    return {str(command): str(name or "") for command, name in data.items()}


def _default(value: Any) -> Value:
    return tuple(value) if isinstance(value, list) else value
