"""Events go out as GitHub sends them: payloads that its schemas allow, signed and named."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from demo.forge import Forge

SCHEMA = json.loads((Path(__file__).parent / "webhooks" / "schema.json").read_text())


def check_payload(name: str, payload: dict[str, Any]) -> None:
    schema = SCHEMA | {"$ref": f"#/definitions/{name}"}
    jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker()).validate(payload)


@dataclass
class Receiver:
    url: str = ""
    heard: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.heard.append(
                ({name.lower(): value for name, value in self.headers.items()}, body)
            )
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}/hook"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield found
    server.shutdown()
    server.server_close()


def test_event_files_fit_the_published_schemas(forge: Forge) -> None:
    repo = forge.create_repo({"a": "1\n"})
    pull = repo.open_pull({"a": "2\n"}, body="why")
    check_payload("pull_request$opened", pull.event("opened"))
    check_payload("pull_request$reopened", pull.event("reopened"))
    before = pull.head
    pull.push({"a": "3\n"})
    moved = pull.event("synchronize", before)
    check_payload("pull_request$synchronize", moved)
    assert (moved["before"], moved["after"]) == (before, pull.head)
    pull.add_label("slow")
    check_payload("issue_comment$created", pull.comment("/optimize", "alice"))
    pull.close()
    check_payload("pull_request$closed", pull.event("closed"))


def test_a_fork_shows_in_the_event(forge: Forge) -> None:
    repo = forge.create_repo({"a": "1\n"})
    fork = forge.fork(repo, "eve")
    pull = repo.open_pull({"a": "2\n"}, source=fork, author="eve", draft=True)
    event = pull.event("opened")
    check_payload("pull_request$opened", event)
    head = event["pull_request"]["head"]
    assert (head["label"], head["repo"]["full_name"], head["repo"]["fork"]) == (
        "eve:change",
        "eve/train",
        True,
    )
    assert event["pull_request"]["author_association"] == "NONE"
    fork.delete()
    gone = pull.event("opened")
    check_payload("pull_request$opened", gone)
    assert gone["pull_request"]["head"]["repo"] is None


def test_hooks_hear_of_pull_requests_and_comments(
    forge: Forge, receiver: Receiver, ask: Any
) -> None:
    repo = forge.create_repo({"a": "1\n"})
    forge.add_hook(repo, receiver.url, "secret")
    pull = repo.open_pull({"a": "2\n"})
    pull.push({"a": "3\n"})
    ask("POST", "/repos/octocat/train/issues/1/comments", {"body": "hello"})
    ask("PATCH", "/repos/octocat/train/pulls/1", {"state": "closed"})
    delivered = [(d.event, d.payload["action"], d.status) for d in forge.deliveries()]
    assert delivered == [
        ("pull_request", "opened", 204),
        ("pull_request", "synchronize", 204),
        ("issue_comment", "created", 204),
        ("pull_request", "closed", 204),
    ]
    for headers, body in receiver.heard:
        event, payload = headers["x-github-event"], json.loads(body)
        check_payload(f"{event}${payload['action']}", payload)
        digest = hmac.new(b"secret", body, hashlib.sha256).hexdigest()
        assert headers["x-hub-signature-256"] == f"sha256={digest}"
        assert headers["user-agent"].startswith("GitHub-Hookshot/")
        assert payload["repository"]["url"].startswith(forge.api)
    assert len({headers["x-github-delivery"] for headers, _ in receiver.heard}) == 4


def test_a_receiver_that_is_away_stops_nothing(forge: Forge) -> None:
    repo = forge.create_repo({"a": "1\n"})
    forge.add_hook(repo, "http://127.0.0.1:9/hook")
    repo.open_pull({"a": "2\n"})
    assert [delivery.status for delivery in forge.deliveries()] == [None]
