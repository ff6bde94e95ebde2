"""Trim GitHub's OpenAPI description to the operations the forge serves.

    npm install @octokit/openapi@23.0.2
    python demo/openapi/trim.py node_modules/@octokit/openapi/generated/api.github.com.json

Reads `operations.txt`, writes `api.github.com.json`, both beside this file. What stays is every
constraint and each operation's documentation address; prose, examples and unreachable components
go. An operationId that the description does not know ends the run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
METHODS = ("get", "post", "put", "patch", "delete")
MAPS = {"properties", "responses", "content", "schemas", "parameters", "headers", "paths"}
PROSE = {"example", "examples", "summary", "x-github", "x-github-breaking-changes", "x-octokit"}

# Discriminators only speed a choice up, and one of them names a property of an array.
PROSE |= {"discriminator"}

# Where the description is stricter than the service it describes. Each entry is a schema and the
# properties that the service also answers with null.
ANSWERED_NULL = {
    # An outdated comment has neither line nor position: docs.github.com, "Comments on a pull
    # request review", whose own example for a file comment has neither either.
    "pull-request-review-comment": ("position", "line", "original_position", "original_line"),
    "review-comment": ("line", "original_position", "original_line"),
}
# A pull request outlives the fork it came from; its head then has no repository. The webhook
# schemas (octokit/webhooks) say so, this description does not.
FORGETS_ITS_FORK = ("pull-request", "pull-request-simple")


def wanted_operations() -> set[str]:
    """The operationIds of `operations.txt`, one a line, `#` begins a comment."""
    lines = (HERE / "operations.txt").read_text(encoding="utf-8").splitlines()
    return {word for line in lines if (word := line.split("#")[0].strip())}


def references(node: Any) -> Iterator[str]:
    """Every `$ref` below a node."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for child in node.values():
            yield from references(child)
    elif isinstance(node, list):
        for child in node:
            yield from references(child)


def without_prose(node: Any, *, is_map: bool = False) -> Any:
    """A copy without examples and descriptions. `is_map` says that the keys are names, not words
    of the description language. A response must have a description: it gets an empty one."""
    if isinstance(node, list):
        return [without_prose(item) for item in node]
    if not isinstance(node, dict):
        return node
    if is_map:
        return {key: without_prose(value) for key, value in node.items()}
    kept: dict[str, Any] = {}
    for key, value in node.items():
        if key == "description":
            if _is_response(node):
                kept[key] = ""
        elif key == "externalDocs":
            kept[key] = {"url": value["url"]}
        elif key not in PROSE:
            kept[key] = without_prose(value, is_map=key in MAPS and isinstance(value, dict))
    return _null_among_choices(kept)


def _is_response(node: dict[str, Any]) -> bool:
    return "content" in node or "headers" in node or set(node) == {"description"}


def _null_among_choices(node: dict[str, Any]) -> dict[str, Any]:
    """`nullable` adds nothing to oneOf, anyOf and enum (OpenAPI 3.0.3), but is meant there: the
    null becomes one of the choices."""
    if node.get("nullable") and "enum" in node and None not in node["enum"]:
        return {**node, "enum": [*node["enum"], None]}
    for word in ("oneOf", "anyOf"):
        if node.get("nullable") and word in node:
            null = {"type": "object", "nullable": True, "enum": [None]}
            return {**node, word: [*node[word], null]}
    return node


def kept_paths(description: dict[str, Any], wanted: set[str]) -> dict[str, Any]:
    """The path items that hold a wanted operation, with nothing else in them."""
    paths: dict[str, Any] = {}
    found = set()
    for path, item in description["paths"].items():
        for method in METHODS:
            operation = item.get(method)
            if operation and operation["operationId"] in wanted:
                found.add(operation["operationId"])
                operation.pop("tags", None)
                paths.setdefault(path, {})[method] = operation
    if missing := wanted - found:
        sys.exit(f"unknown operationId: {', '.join(sorted(missing))}")
    return paths


def reachable(description: dict[str, Any], paths: dict[str, Any]) -> dict[str, Any]:
    """The components that the paths refer to, directly or through each other."""
    components: dict[str, Any] = {}
    todo, done = list(references(paths)), set()
    while todo:
        reference = todo.pop()
        if reference in done:
            continue
        done.add(reference)
        _, _, section, name = reference.split("/", 3)
        part = description["components"][section][name]
        components.setdefault(section, {})[name] = part
        todo += references(part)
    return {
        section: dict(sorted(without_prose(parts, is_map=True).items()))
        for section, parts in sorted(components.items())
        if section != "examples"
    }


def trim(description: dict[str, Any], wanted: set[str]) -> dict[str, Any]:
    """The trimmed description, ready to be written."""
    paths = {
        path: {method: without_prose(operation) for method, operation in item.items()}
        for path, item in kept_paths(description, wanted).items()
    }
    components = reachable(description, paths)
    for schema, properties in ANSWERED_NULL.items():
        for name in properties:
            components["schemas"][schema]["properties"][name]["nullable"] = True
    for schema in FORGETS_ITS_FORK:
        head = components["schemas"][schema]["properties"]["head"]
        head["properties"]["repo"] = {"$ref": "#/components/schemas/nullable-repository"}
    info = {key: description["info"][key] for key in ("title", "version", "license")}
    return {
        "openapi": description["openapi"],
        "info": info,
        "servers": [{"url": "https://api.github.com"}],
        "paths": paths,
        "components": components,
    }


def main() -> None:
    """Trim the description named on the command line."""
    description = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    trimmed = trim(description, wanted_operations())
    text = json.dumps(trimmed, indent=1, ensure_ascii=False)
    (HERE / "api.github.com.json").write_text(text + "\n", encoding="utf-8")
    print(len(trimmed["paths"]), "paths,", len(text.encode()) // 1000, "kB")


if __name__ == "__main__":
    main()
