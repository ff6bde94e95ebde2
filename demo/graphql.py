"""Executes GraphQL against the World: types as tables of fields, and GitHub's error objects."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demo.graphql_text import (
    Document,
    Field,
    Fragment,
    Operation,
    Selection,
    SyntaxProblem,
    Variable,
    parse,
)
from demo.rest.call import Call

Json = dict[str, Any]
Arguments = Mapping[str, Any]
Resolver = Callable[[Call, Any, Arguments], Any]

LARGEST_PAGE = 100


@dataclass(frozen=True, slots=True)
class FieldType:
    """What a field gives: `type` names the object type, None is a scalar."""

    resolve: Resolver
    type: str | None = None
    arguments: frozenset[str] = frozenset()
    connection: bool = False


@dataclass(frozen=True, slots=True)
class ObjectType:
    """A type: its fields, and the interfaces and unions that a fragment may name it by."""

    name: str
    fields: Mapping[str, FieldType]
    also: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Page:
    """A slice of a list, with the whole."""

    items: Sequence[Any]
    start: int
    total: int

    @property
    def end(self) -> int:
        """Index after the last item."""
        return self.start + len(self.items)


class Problem(Exception):  # noqa: N818 - reported to the client, not to us
    """An error of one field. `type` is GitHub's word: NOT_FOUND, FORBIDDEN, UNPROCESSABLE."""

    def __init__(self, type_: str, message: str) -> None:
        super().__init__(message)
        self.type = type_


class Invalid(Exception):  # noqa: N818 - reported to the client, not to us
    """The document does not fit the schema: nothing of it is executed."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.error = error


# Filled by graphql_types and graphql_mutations.
TYPES: dict[str, ObjectType] = {}
# What a Python value is, for unions and interfaces.
NAMES: dict[type, Callable[[Any], str]] = {}


def cursor(index: int) -> str:
    """An opaque cursor for the item at an index."""
    return base64.b64encode(f"cursor:{index}".encode()).decode()


def _index(text: str) -> int:
    try:
        return int(base64.b64decode(text).decode().removeprefix("cursor:"))
    except ValueError:
        raise Problem(
            "INVALID_CURSOR_ARGUMENTS", f"`{text}` does not appear to be a valid cursor."
        ) from None


def paginate(name: str, items: Sequence[Any], arguments: Arguments) -> Page:
    """The part of a connection that first/after or last/before mean. Raises Problem."""
    first, last = arguments.get("first"), arguments.get("last")
    if first is None and last is None:
        raise Problem(
            "MISSING_PAGINATION_BOUNDARIES",
            "You must provide a `first` or `last` value to properly paginate the "
            f"`{name}` connection.",
        )
    size, word = (first, "first") if first is not None else (last, "last")
    if not isinstance(size, int) or size < 0 or size > LARGEST_PAGE:
        raise Problem(
            "EXCESSIVE_PAGINATION",
            f"Requesting {size} records on the `{name}` connection exceeds the `{word}` limit of "
            f"{LARGEST_PAGE} records.",
        )
    low = _index(arguments["after"]) + 1 if arguments.get("after") else 0
    high = _index(arguments["before"]) if arguments.get("before") else len(items)
    if first is not None:
        high = min(high, low + first)
    else:
        low = max(low, high - size)
    return Page(items[low:high], low, len(items))


def execute(call: Call, request: Any) -> Json:
    """The answer to a GraphQL request: `data`, `errors` or both."""
    if not isinstance(request, dict) or not isinstance(request.get("query"), str):
        return {
            "errors": [{"message": "A query attribute must be specified and must be a string."}]
        }
    try:
        document = parse(request["query"])
        operation = _chosen(document, request.get("operationName"))
        variables = _variables(operation, request.get("variables") or {})
    except SyntaxProblem as problem:
        place = {"line": problem.line, "column": problem.column}
        return {"errors": [{"message": str(problem), "locations": [place]}]}
    except Invalid as invalid:
        return {"errors": [invalid.error]}
    run = _Run(call, document, variables)
    root = "Mutation" if operation.kind == "mutation" else "Query"
    try:
        run.check(TYPES[root], operation.selections, (operation.kind,))
    except Invalid as invalid:
        return {"errors": [invalid.error]}
    data = run.complete(TYPES[root], None, operation.selections, ())
    return {"data": data, "errors": run.errors} if run.errors else {"data": data}


def _chosen(document: Document, name: str | None) -> Operation:
    for operation in document.operations:
        if name is None or operation.name == name:
            return operation
    raise Invalid({"message": f"No operation named {name!r}" if name else "No operation"})


def _variables(operation: Operation, given: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, (written, default) in operation.variables.items():
        value = given.get(name, default)
        if value is None and written.endswith("!"):
            message = f"Variable ${name} of type {written} was provided invalid value"
            problem = {"path": [], "explanation": "Expected value to not be null"}
            raise Invalid(
                {"message": message, "extensions": {"value": None, "problems": [problem]}}
            )
        found[name] = value
    return found


class _Run:
    def __init__(self, call: Call, document: Document, variables: Mapping[str, Any]) -> None:
        self.call = call
        self.fragments = document.fragments
        self.variables = variables
        self.errors: list[Json] = []

    # Checking: every field exists, every object has a selection, before anything runs.

    def check(self, of: ObjectType, selections: Sequence[Selection], path: tuple[str, ...]) -> None:
        for selection in selections:
            if isinstance(selection, Fragment):
                fragment = self._written(selection)
                on = TYPES.get(fragment.on or of.name, of)
                self.check(on, fragment.selections, path)
            elif selection.name != "__typename":
                self._check_field(of, selection, (*path, selection.alias))

    def _check_field(self, of: ObjectType, field: Field, path: tuple[str, ...]) -> None:
        known = of.fields.get(field.name)
        if known is None:
            message = f"Field '{field.name}' doesn't exist on type '{of.name}'"
            about = {"code": "undefinedField", "typeName": of.name, "fieldName": field.name}
            raise Invalid(_error(message, field, path, extensions=about))
        for name in field.arguments:
            if name not in known.arguments:
                message = f"Field '{field.name}' doesn't accept argument '{name}'"
                about = {"code": "argumentNotAccepted", "name": field.name, "argumentName": name}
                raise Invalid(_error(message, field, path, extensions=about))
        if known.type is None and field.selections:
            message = f"Selections can't be made on scalars (field '{field.name}')"
            raise Invalid(_error(message, field, path))
        if known.type is not None:
            if not field.selections:
                message = f"Field must have selections (field '{field.name}' returns {known.type})"
                about = {"code": "selectionMismatch", "typeName": known.type}
                raise Invalid(_error(message, field, path, extensions=about))
            self.check(TYPES[known.type], field.selections, path)

    def _written(self, fragment: Fragment) -> Fragment:
        if fragment.spread is None:
            return fragment
        found = self.fragments.get(fragment.spread)
        if found is None:
            raise Invalid({"message": f"Fragment {fragment.spread} was used, but not defined"})
        return found

    # Running

    def complete(
        self,
        of: ObjectType,
        value: Any,
        selections: Sequence[Selection],
        path: tuple[str | int, ...],
    ) -> Json:
        name = NAMES[type(value)](value) if type(value) in NAMES else of.name
        actual = TYPES[name]
        found: Json = {}
        for selection in selections:
            if isinstance(selection, Fragment):
                fragment = self._written(selection)
                if fragment.on in (None, actual.name) or fragment.on in actual.also:
                    found |= self.complete(actual, value, fragment.selections, path)
            elif selection.name == "__typename":
                found[selection.alias] = actual.name
            else:
                here = (*path, selection.alias)
                found[selection.alias] = self._field(actual, value, selection, here)
        return found

    def _field(self, of: ObjectType, value: Any, field: Field, path: tuple[str | int, ...]) -> Any:
        known = of.fields[field.name]
        arguments = {name: self._filled(given) for name, given in field.arguments.items()}
        try:
            result = known.resolve(self.call, value, arguments)
            if known.connection:
                result = paginate(field.name, result, arguments)
        except Problem as problem:
            self.errors.append(_error(str(problem), field, path, type=problem.type))
            return None
        if known.type is None or result is None:
            return result
        inner = TYPES[known.type]
        if isinstance(result, list | tuple):
            return [
                self.complete(inner, item, field.selections, (*path, index))
                for index, item in enumerate(result)
            ]
        return self.complete(inner, result, field.selections, path)

    def _filled(self, value: Any) -> Any:
        if isinstance(value, Variable):
            return self.variables.get(value.name)
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if isinstance(value, dict):
            return {name: self._filled(item) for name, item in value.items()}
        return value


def _error(message: str, field: Field, path: Sequence[str | int], **more: Any) -> Json:
    place = {"line": field.line, "column": field.column}
    return {**more, "path": list(path), "locations": [place], "message": message}
