"""Checks a request's JSON against its schema, and complains in GitHub's words.

Covers what the trimmed description uses; formats are left to the operations.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from demo.routes import resolve

Schema = Mapping[str, Any]

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
ARTICLES = {"integer": "an", "array": "an", "object": "an"}


def problems(value: Any, schema: Schema, where: str = "") -> Iterator[str]:
    """What is wrong with a value, one sentence each; `where` is a path such as properties/line."""
    schema = resolve(schema)
    if value is None and schema.get("nullable"):
        return
    for word in ("oneOf", "anyOf"):
        if word in schema and not any(not list(problems(value, s, where)) for s in schema[word]):
            yield f'{_at(where)}No subschema in "{word}" matched.'
            for choice in schema[word]:
                yield from problems(value, choice, where)
            return
    for part in schema.get("allOf", ()):
        yield from problems(value, part, where)
    expected = schema.get("type")
    if expected and not _is(value, expected):
        yield f"{_at(where)}{_show(value)} is not {ARTICLES.get(expected, 'a')} {expected}."
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{_at(where)}{_show(value)} is not a member of {json.dumps(schema['enum'])}."
    if isinstance(value, str):
        yield from _length_problems(value, schema, where)
    elif isinstance(value, list):
        yield from _list_problems(value, schema, where)
    elif isinstance(value, dict):
        yield from _object_problems(value, schema, where)


def _length_problems(value: str, schema: Schema, where: str) -> Iterator[str]:
    if (most := schema.get("maxLength")) is not None and len(value) > most:
        yield f"{_at(where)}Only {most} characters are allowed; {len(value)} were supplied."
    if (least := schema.get("minLength")) is not None and len(value) < least:
        yield f"{_at(where)}At least {least} characters are required; {len(value)} were supplied."


def _list_problems(value: list[Any], schema: Schema, where: str) -> Iterator[str]:
    if (most := schema.get("maxItems")) is not None and len(value) > most:
        yield f"{_at(where)}No more than {most} items are allowed; {len(value)} were supplied."
    if (least := schema.get("minItems")) is not None and len(value) < least:
        yield f"{_at(where)}At least {least} items are required; {len(value)} were supplied."
    for index, item in enumerate(value):
        yield from problems(item, schema.get("items", {}), _below(where, f"items/{index}"))


def _object_problems(value: dict[str, Any], schema: Schema, where: str) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f'{_at(where)}"{name}" wasn\'t supplied.'
    properties = schema.get("properties", {})
    for name, item in value.items():
        if name in properties:
            yield from problems(item, properties[name], _below(where, f"properties/{name}"))


def _is(value: Any, expected: str) -> bool:
    if isinstance(value, bool):
        return expected == "boolean"
    return isinstance(value, TYPES[expected])


def _show(value: Any) -> str:
    return "nil" if value is None else json.dumps(value)


def _at(where: str) -> str:
    return f"For '{where}', " if where else ""


def _below(where: str, step: str) -> str:
    return f"{where}/{step}" if where else step
