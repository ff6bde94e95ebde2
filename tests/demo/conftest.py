"""A client without opinions, for requests that a library would not send."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from demo.forge import Forge
from tests.demo.openapi_check import DELIBERATE


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def errors(self) -> Any:
        return self.json.get("errors")

    @property
    def message(self) -> str:
        return self.json["message"]


Ask = Callable[..., Reply]


@pytest.fixture
def ask(forge: Forge) -> Ask:
    """ask("POST", "/repos/...", {...}): a raw request that may be as bad as it likes."""
    return asker(forge)


def asker(forge: Forge) -> Ask:
    def ask(
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        sent = {"User-Agent": "tests", "Accept": "application/vnd.github+json", DELIBERATE: "1"}
        if token is not None:
            sent["Authorization"] = f"Bearer {token or forge.token}"
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        if isinstance(data, str):
            data = data.encode()
            sent["Content-Type"] = "application/json"
        address = path if path.startswith("http") else forge.api + path
        # A header without a value is left out.
        sent = {name: value for name, value in (sent | dict(headers or {})).items() if value}
        request = urllib.request.Request(address, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return Reply(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return Reply(error.code, error.headers, error.read())

    return ask
