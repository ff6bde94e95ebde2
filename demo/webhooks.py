"""Events as GitHub sends them: payload, headers, signature, delivery."""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import threading
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass, field
from typing import Any

from demo.shapes import Json
from demo.state import Hook, Repository, User


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: its name and action, where, by whom, and what it was about."""

    name: str
    action: str
    repo: Repository
    sender: User
    about: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt to tell a hook. `status` is None when nobody answered."""

    hook: Hook
    event: str
    payload: Json
    status: int | None


def sign(secret: str, body: bytes) -> str:
    """The value of X-Hub-Signature-256."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def delivery_headers(hook: Hook, event: str, body: bytes) -> dict[str, str]:
    """The headers that come with a payload."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/forge",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "X-GitHub-Hook-ID": str(hook.id),
        "X-GitHub-Hook-Installation-Target-Type": "repository",
    }
    if hook.secret:
        headers["X-Hub-Signature-256"] = sign(hook.secret, body)
    return headers


class Courier:
    """Delivers payloads one after the other from a thread of its own, so that a slow receiver
    holds up nobody else."""

    def __init__(self) -> None:
        self.delivered: list[Delivery] = []
        self._waiting: queue.Queue[tuple[Hook, str, Json] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, daemon=True, name="webhooks")
        self._thread.start()

    def send(self, hook: Hook, event: str, payload: Json) -> None:
        """Put a payload in the queue."""
        self._waiting.put((hook, event, payload))

    def settle(self) -> None:
        """Wait until everything sent so far has been delivered."""
        self._waiting.join()

    def stop(self) -> None:
        """Deliver what is waiting, then end."""
        self._waiting.put(None)
        self._thread.join(timeout=15)

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            hook, event, payload = item
            status = _post(hook, event, payload)
            self.delivered.append(Delivery(hook, event, payload, status))
            self._waiting.task_done()
        self._waiting.task_done()


def _post(hook: Hook, event: str, payload: Json) -> int | None:
    body = json.dumps(payload).encode()
    headers = delivery_headers(hook, event, body)
    request = urllib.request.Request(hook.url, body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None
