"""GitHub's own description as the forge's table of routes: what exists, and what it is called."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

DESCRIPTION = Path(__file__).parent / "openapi" / "api.github.com.json"


@dataclass(frozen=True, slots=True)
class Route:
    """One operation. `body` is the schema of the request's JSON, if it takes any."""

    operation: str
    method: str
    pattern: re.Pattern[str]
    numbers: frozenset[str]
    documentation: str
    body: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Match:
    """A route with the words that the path filled in."""

    route: Route
    words: Mapping[str, str]


@cache
def description() -> dict[str, Any]:
    """The trimmed OpenAPI description."""
    loaded: dict[str, Any] = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
    return loaded


def resolve(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The thing itself when the node is a reference into the components."""
    while "$ref" in node:
        _, _, section, name = node["$ref"].split("/", 3)
        node = description()["components"][section][name]
    return node


@cache
def routes() -> tuple[Route, ...]:
    """All routes, those with the fewest blanks first, so that a word wins over a blank."""
    found = []
    for path, item in description()["paths"].items():
        for method, operation in item.items():
            found.append((path.count("{"), -len(path), _route(path, method, operation)))
    found.sort(key=lambda entry: entry[:2])
    return tuple(route for _, _, route in found)


def find_route(method: str, path: str) -> Match | None:
    """The operation that a request means, or None. `path` is percent-encoded, without the
    /api/v3 of an Enterprise Server."""
    for route in routes():
        if route.method == method and (match := route.pattern.fullmatch(path)):
            words = {name: unquote(text) for name, text in match.groupdict().items()}
            return Match(route, words)
    return None


def _route(path: str, method: str, operation: Mapping[str, Any]) -> Route:
    blanks = {}
    for reference in operation.get("parameters", ()):
        parameter = resolve(reference)
        if parameter["in"] == "path":
            blanks[parameter["name"]] = parameter
    numbers = {name for name, blank in blanks.items() if blank["schema"]["type"] == "integer"}

    def blank(match: re.Match[str]) -> str:
        name = match[1]
        if name in numbers:
            return rf"(?P<{name}>\d+)"
        # An empty {path} is the root of the repository.
        many = ".*" if name == "path" else ".+" if blanks[name].get("x-multi-segment") else "[^/]+"
        # The description does not mark {basehead}, but branches have slashes there too.
        return f"(?P<{name}>{'.+' if name == 'basehead' else many})"

    pattern = re.sub(r"\\\{(\w+)\\\}", blank, re.escape(path))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return Route(
        operation=operation["operationId"],
        method=method.upper(),
        pattern=re.compile(pattern),
        numbers=frozenset(numbers),
        documentation=operation["externalDocs"]["url"],
        body=body.get("schema"),
    )
