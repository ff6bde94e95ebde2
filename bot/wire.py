"""Frozen dataclasses to JSON and back, driven by their type hints; and the JSON Schema of both.

What is written: a dataclass as an object without the fields that hold their default, a tuple as
an array, an enum as its lower-case word, an `Outcome` with the word `kind` that says which of
the three it is. Numbers that JSON does not know (infinity, NaN) become their text.
Reading is strict about types, names the place of a fault, and ignores keys that it does not know.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import types
import typing
from collections.abc import Iterator, Mapping

from pitstop.transforms.patch import Changed, Refused, Unchanged

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

TAGGED: Mapping[type, str] = {Changed: "changed", Unchanged: "unchanged", Refused: "refused"}
"""Classes of a union that their fields alone do not tell apart, with their word in `kind`."""

_SCALARS: Mapping[typing.Any, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
}


class WireError(ValueError):
    """The data is not what the type asks for; the message says where and what."""


def encode(value: object) -> Json:
    """A dataclass, or anything it may hold, as plain JSON data."""
    if value is None or (isinstance(value, bool | int | str) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, enum.Enum):
        return _word(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return [encode(item) for item in sorted(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _object_of(value)
    raise TypeError(f"{type(value).__name__} has no place in a report")


def _object_of(value: typing.Any) -> dict[str, Json]:
    """The fields that differ from their default."""
    cls: typing.Any = type(value)
    kind: dict[str, Json] = {"kind": TAGGED[cls]} if cls in TAGGED else {}
    for name, default in _defaults(cls):
        item = getattr(value, name)
        if item is not default and item != default:
            kind[name] = encode(item)
    return kind


@functools.cache
def _defaults(cls: typing.Any) -> tuple[tuple[str, object], ...]:
    """Each field's name and default, once for all values of a class."""
    return tuple((field.name, _default(field)) for field in _fields(cls))


@functools.cache
def _fields(cls: typing.Any) -> tuple[dataclasses.Field[typing.Any], ...]:
    """The fields that make up a value (caches and the like do not compare)."""
    return tuple(f for f in dataclasses.fields(cls) if f.compare and f.init)


def _default(field: dataclasses.Field[typing.Any]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _word(member: enum.Enum) -> str:
    return str(member.value) if isinstance(member.value, str) else member.name.lower()


@functools.cache
def _hints(cls: typing.Any) -> Mapping[str, typing.Any]:
    return typing.get_type_hints(cls)


def decode(hint: typing.Any, data: object, where: str = "report") -> typing.Any:
    """Plain JSON data as the type asks for. Raises WireError with the place of the first fault."""
    options = _options(hint)
    if len(options) > 1:
        return decode(_choose(options, data, where), data, where)
    (kind,) = options
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind in _SCALARS:
        return _scalar(kind, data, where)
    if origin in (tuple, frozenset):
        return origin(_items(args, _expect(list, data, where), where))
    if origin is not None and issubclass(origin, Mapping):
        items = _expect(dict, data, where).items()
        return {key: decode(args[1], item, f"{where}.{key}") for key, item in items}
    if issubclass(kind, enum.Enum):
        return _member(kind, data, where)
    return _object(kind, _expect(dict, data, where), where)


def _options(hint: typing.Any) -> tuple[typing.Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _choose(options: tuple[typing.Any, ...], data: object, where: str) -> typing.Any:
    """The one member of a union that this data can be."""
    if isinstance(data, dict):
        words = [o for o in options if TAGGED.get(o) == data.get("kind", "")]
        found = words or [o for o in options if dataclasses.is_dataclass(o) and o not in TAGGED]
        found += [o for o in options if typing.get_origin(o) not in (None, tuple, frozenset)]
    elif isinstance(data, list):
        found = [o for o in options if typing.get_origin(o) in (tuple, frozenset)]
    else:
        found = [o for o in options if o is type(data)]
        found += [o for o in options if o is float and type(data) is int]
        found += [o for o in options if isinstance(o, type) and issubclass(o, enum.Enum)]
    if not found:
        raise WireError(f"{where}: {_name(data)} does not belong here")
    return found[0]


def _scalar(kind: type, data: object, where: str) -> object:
    if type(data) is kind or (kind is float and type(data) is int):
        return float(typing.cast(float, data)) if kind is float else data
    raise WireError(f"{where}: expected {_SCALARS[kind]}, found {_name(data)}")


def _items(args: tuple[typing.Any, ...], data: list[object], where: str) -> Iterator[object]:
    """Of `tuple[X, ...]`, `frozenset[X]` or `tuple[X, Y]`."""
    if len(args) == 2 and args[1] is not Ellipsis:
        if len(data) != 2:
            raise WireError(f"{where}: expected two items, found {len(data)}")
        kinds = args
    else:
        kinds = (args[0],) * len(data)
    for index, (kind, item) in enumerate(zip(kinds, data, strict=True)):
        yield decode(kind, item, f"{where}[{index}]")


def _member(kind: type[enum.Enum], data: object, where: str) -> enum.Enum:
    for member in kind:
        if _word(member) == data:
            return member
    raise WireError(f"{where}: expected one of {', '.join(map(_word, kind))}")


def _object(cls: typing.Any, data: dict[str, object], where: str) -> object:
    values: dict[str, object] = {}
    for field in _fields(cls):
        if field.name in data:
            place = f"{where}.{field.name}"
            values[field.name] = decode(_hints(cls)[field.name], data[field.name], place)
        elif _default(field) is dataclasses.MISSING:
            raise WireError(f"{where}: {field.name} is missing")
    return cls(**values)


def _expect(kind: type, data: object, where: str) -> typing.Any:
    if not isinstance(data, kind):
        wanted = "an array" if kind is list else "an object"
        raise WireError(f"{where}: expected {wanted}, found {_name(data)}")
    return data


def _name(data: object) -> str:
    names: dict[type, str] = {list: "an array", dict: "an object"}
    return names.get(type(data)) or _SCALARS.get(type(data), "something else")


def schema(cls: type) -> dict[str, Json]:
    """The JSON Schema (2020-12) of what `encode` writes for a dataclass."""
    definitions: dict[str, Json] = {}
    root = _describe(cls, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def _describe(hint: typing.Any, definitions: dict[str, Json]) -> dict[str, Json]:
    options = _options(hint)
    if len(options) > 1:
        return {"anyOf": [_describe(option, definitions) for option in options]}
    (kind,) = options
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if origin in (tuple, frozenset):
        return _describe_items(args, definitions)
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _describe(args[1], definitions)}
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = None  # taken, while its own fields are described
        definitions[kind.__name__] = _describe_named(kind, definitions)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _describe_items(args: tuple[typing.Any, ...], definitions: dict[str, Json]) -> dict[str, Json]:
    if len(args) == 2 and args[1] is not Ellipsis:
        items: list[Json] = [_describe(arg, definitions) for arg in args]
        return {"type": "array", "prefixItems": items, "minItems": 2, "maxItems": 2}
    return {"type": "array", "items": _describe(args[0], definitions)}


def _describe_named(kind: typing.Any, definitions: dict[str, Json]) -> dict[str, Json]:
    if issubclass(kind, enum.Enum):
        return {"enum": [_word(member) for member in kind]}
    fields = _fields(kind)
    properties: dict[str, Json] = {
        f.name: _describe(_hints(kind)[f.name], definitions) for f in fields
    }
    required: list[Json] = [f.name for f in fields if _default(f) is dataclasses.MISSING]
    if kind in TAGGED:
        properties = {"kind": {"const": TAGGED[kind]}, **properties}
        required.insert(0, "kind")
    about = " ".join((kind.__doc__ or "").split())
    return {
        "type": "object",
        "description": about,
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
