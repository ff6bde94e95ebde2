"""Holds every exchange with the forge against GitHub's OpenAPI description.

The description is the published one, cut down (demo/openapi); the validator is openapi-core. The
forge reads the same description for its routes, but none of its code takes part here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from openapi_core import Config, OpenAPI
from openapi_core.datatypes import RequestParameters
from openapi_core.exceptions import OpenAPIError

DESCRIPTION = Path(__file__).parents[2] / "demo" / "openapi" / "api.github.com.json"
SERVER = "http://forge"

# Set this header on a request that is meant to be refused: its answer is checked all the same.
DELIBERATE = "x-deliberate"

# Blanks that hold slashes. openapi-core reads one segment, so the slashes are encoded for it.
MANY_SEGMENTS = re.compile(
    r"(/repos/[^/]+/[^/]+/(?:contents|git/ref|git/refs|git/matching-refs|compare|branches)/)(.+)"
    r"|(/repos/[^/]+/[^/]+/commits/)(.+?)((?:/check-runs|/status|/statuses|/pulls)?)"
)

# What the service takes although the description does not have it (GitHub's client libraries
# send it, and add-labels answers it): {"labels": [...]} as a bare array.
BARE_ARRAYS = {"issues/add-labels", "issues/set-labels"}

# Answers that the description does not list for an operation, but GitHub gives anywhere.
ANYWHERE = {400, 401, 403, 404, 405, 409, 410, 415, 422, 429, 500, 502, 503, 504}


@dataclass
class SentRequest:
    """A logged request as openapi-core wants it."""

    path: str
    method: str
    body: bytes | None
    content_type: str
    parameters: RequestParameters
    host_url: str = SERVER


@dataclass
class GivenAnswer:
    """A logged answer as openapi-core wants it."""

    status_code: int
    data: bytes | None
    content_type: str
    headers: dict[str, str] = field(default_factory=dict)


@cache
def description() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
    loaded["servers"] = [{"url": SERVER}]
    return loaded


@cache
def validator() -> OpenAPI:
    return OpenAPI.from_dict(description(), config=Config(spec_validator_cls=None))


@cache
def schema_validator(name: str) -> Any:
    from openapi_schema_validator import OAS30Validator

    components = {"components": description()["components"]}
    return OAS30Validator(components | {"$ref": f"#/components/schemas/{name}"})


def one_segment(path: str) -> str:
    match = MANY_SEGMENTS.fullmatch(path)
    if match is None:
        return path + "/" if path.endswith("/contents") else path
    before, inner, after = (match[1], match[2], "") if match[1] else match.groups()[2:5]
    return before + quote(inner, safe="%") + after


def sent(exchange: Any) -> SentRequest:
    request = exchange.request
    path = request.path.removeprefix("/api/v3") or "/"
    headers = dict(request.headers)
    return SentRequest(
        path=one_segment(path),
        # HEAD is a GET whose body stays behind.
        method="get" if request.method == "HEAD" else request.method.lower(),
        body=request.body or None,
        content_type=headers.get("content-type", "application/json").split(";")[0],
        parameters=RequestParameters(query=dict(request.query), header=headers),
    )


def explain(error: Exception) -> str:
    cause = error.__cause__
    details = getattr(cause, "schema_errors", None)
    lines = [type(error).__name__ if details else f"{type(error).__name__}: {str(error)[:300]}"]
    for detail in details or ():
        place = "/".join(str(step) for step in detail.absolute_path)
        lines.append(f"    at {place or 'the root'}: {detail.message[:300]}")
    return "\n".join(lines)


def request_problem(exchange: Any) -> str | None:
    request = sent(exchange)
    if DELIBERATE in exchange.request.headers:
        return None
    if exchange.operation in BARE_ARRAYS and exchange.request.body.lstrip().startswith(b"["):
        return None
    # Clients name JSON variously, and some send a body without saying what it is.
    request.content_type = "application/json"
    try:
        validator().validate_request(request)
    except OpenAPIError as error:
        return explain(error)
    return None


def answer_problem(exchange: Any) -> str | None:
    answer = exchange.answer
    if answer.status == 304 or answer.status in (502, 503, 504):
        return None
    kind = answer.headers.get("content-type", "application/json").split(";")[0]
    if kind != "application/json":
        # A diff, a patch, raw bytes or a SHA: asked for by Accept, and not described.
        return None
    request = sent(exchange)
    if answer.status in ANYWHERE and not listed(exchange.operation, answer.status):
        return error_problem(exchange.body)
    given = GivenAnswer(answer.status, exchange.body, kind, dict(answer.headers))
    try:
        validator().validate_response(request, given)
    except OpenAPIError as error:
        return explain(error)
    return None


def listed(operation: str | None, status: int) -> bool:
    for item in description()["paths"].values():
        for entry in item.values():
            if entry["operationId"] == operation:
                return str(status) in entry["responses"]
    return False


def error_problem(body: bytes) -> str | None:
    """An error that the operation does not list still has one of GitHub's three shapes."""
    error = json.loads(body)
    shapes = ["basic-error"]
    if "errors" in error:
        shapes = ["validation-error", "validation-error-simple"]
    if not any(schema_validator(shape).is_valid(error) for shape in shapes):
        return f"no error shape of GitHub's: {error}"
    if not error.get("documentation_url"):
        return f"an error without documentation_url: {error}"
    return None


def problems(log: list[Any]) -> list[str]:
    """What is wrong with the API traffic of a log, one text for each fault."""
    found = []
    for exchange in log:
        if exchange.kind == "bug":
            found.append(f"{exchange}: {exchange.body.decode()}")
        if exchange.kind != "api" or exchange.operation == "graphql" or exchange.fault:
            continue
        if exchange.operation is None:
            found.append(f"{exchange}: no such operation in the description")
            continue
        for what, problem in (
            ("request", request_problem(exchange)),
            ("answer", answer_problem(exchange) if exchange.answer else None),
        ):
            if problem:
                found.append(f"{exchange} ({exchange.operation}), {what}: {problem}")
    return found
