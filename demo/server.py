"""The HTTP side of the forge: reads requests, lets faults strike, logs, answers."""

from __future__ import annotations

import gzip
import os
import socket
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from demo.api import Api
from demo.faults import Fault, FaultPlan, faulty_answer
from demo.githttp import git_request, refuse, run_backend
from demo.pages import page
from demo.shapes import Links
from demo.wire import Answer, Request

API_ROOTS = {"", "repos", "user", "users", "graphql", "api", "rate_limit", "app"}
ADMIN = "/_forge/"
LARGEST_BODY = 100_000_000


@dataclass(frozen=True, slots=True)
class Exchange:
    """One logged request with its answer. `kind` is api, git, page or admin; `fault` is the kind
    of the fault that struck, if any; `answer` is None when the connection was broken."""

    index: int
    kind: str
    operation: str | None
    request: Request
    answer: Answer | None
    fault: str | None
    body: bytes = field(default=b"", repr=False)

    def __str__(self) -> str:
        status = self.answer.status if self.answer else "broken"
        return f"{self.request.method} {self.request.path} -> {status}"


class ForgeServer(ThreadingHTTPServer):
    """The server. All state is the Api's; `log` holds every exchange in the order of arrival."""

    daemon_threads = True
    # A test that opens many connections at once is not to be told to come back later.
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], api: Api) -> None:
        super().__init__(address, _Handler)
        self.api = api
        self.faults = FaultPlan()
        self.log: list[Exchange] = []
        self.log_lock = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""

    def respond(self, request: Request, query: str) -> tuple[str, Answer, str | None]:
        """The kind of request, its answer, and the operation."""
        wanted = git_request(request)
        if wanted is not None:
            return "git", self._git(request, query), None
        if request.path.startswith(ADMIN):
            return "admin", self._admin(request), None
        with self.api.world.lock:
            if self.is_page(request):
                return "page", page(self.api.world, request), None
            answer, operation = self.api.answer(request)
        return "api", answer, operation

    def is_page(self, request: Request) -> bool:
        """True when a browser asks: anything that neither the API nor git answers."""
        if git_request(request) is not None:
            return False
        first = request.path.split("/")[1]
        if self.api.enterprise:
            return first != "api"
        if first == "":
            return request.method == "GET" and "text/html" in request.accept
        return first not in API_ROOTS

    def _git(self, request: Request, query: str) -> Answer:
        wanted = git_request(request)
        assert wanted is not None
        with self.api.world.lock:
            repo = refuse(self.api.world, request, wanted)
        if isinstance(repo, Answer):
            return repo
        answer = run_backend(request, wanted, repo, query)
        if wanted.writes:
            with self.api.world.lock:
                sender = self.api.sender(request)
                self.api.notice_pushes(Links(request.base, request.base), sender)
        return answer

    def _admin(self, request: Request) -> Answer:
        """Faults and log for a forge that runs in another process."""
        what = request.path.removeprefix(ADMIN)
        if what == "faults" and request.method == "POST":
            try:
                self.faults.add(Fault(**request.json()))
            except TypeError as error:
                return Answer(422, {"message": str(error)})
            return Answer(201, {"waiting": len(self.faults.faults)})
        if what == "faults" and request.method == "DELETE":
            self.faults = FaultPlan()
            return Answer(204)
        if what == "log":
            return Answer(200, [_summary(exchange) for exchange in list(self.log)])
        return Answer(404, {"message": "Not Found"})

    def operation_of(self, request: Request) -> str | None:
        """The operation that a request means, before it is served."""
        if self.api.is_graphql(request.path):
            return "graphql"
        match = self.api.match(request)
        return match.route.operation if match else None


def _summary(exchange: Exchange) -> dict[str, Any]:
    return {
        "index": exchange.index,
        "kind": exchange.kind,
        "operation": exchange.operation,
        "method": exchange.request.method,
        "path": exchange.request.path,
        "status": exchange.answer.status if exchange.answer else None,
        "fault": exchange.fault,
    }


class _Handler(BaseHTTPRequestHandler):
    server: ForgeServer
    protocol_version = "HTTP/1.1"
    # Small answers go out at once instead of waiting for company.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """The log is kept in memory; the terminal stays quiet."""

    def _handle(self) -> None:
        request, query = self._read()
        operation = self.server.operation_of(request)
        fault = None
        if not request.path.startswith(ADMIN) and not self.server.is_page(request):
            with self.server.log_lock:
                fault = self.server.faults.next(request.method, request.path, operation)
        kind, answer = "fault", None
        if fault is None or fault.moment == "after" or fault.kind in ("slow", "truncated"):
            kind, answer, operation = self._respond(request, query, operation)
        body = answer.encoded() if answer else b""
        if fault is not None:
            answer = self._strike(fault, answer)
        shown = answer if fault is None or fault.kind != "reset" else None
        self._note(kind, operation, request, shown, fault, body)
        if shown is None:
            self._break()
        else:
            self._write(shown, cut=fault is not None and fault.kind == "truncated")

    def _respond(
        self, request: Request, query: str, operation: str | None
    ) -> tuple[str, Answer, str | None]:
        try:
            kind, answer, found = self.server.respond(request, query)
        except Exception as error:
            # A bug of the forge: shown to the caller, and loud in the log.
            message = f"the forge failed: {type(error).__name__}: {error}"
            return "bug", Answer(599, {"message": message}), operation
        return kind, answer, found or operation

    def _strike(self, fault: Fault, answer: Answer | None) -> Answer | None:
        if fault.kind == "slow":
            time.sleep(fault.delay)
        faulty = faulty_answer(fault, self.server.api.world.now())
        return faulty if faulty is not None else answer

    def _note(
        self,
        kind: str,
        operation: str | None,
        request: Request,
        answer: Answer | None,
        fault: Fault | None,
        body: bytes,
    ) -> None:
        with self.server.log_lock:
            struck = fault.kind if fault else None
            index = len(self.server.log)
            exchange = Exchange(index, kind, operation, request, answer, struck, body)
            self.server.log.append(exchange)

    def _read(self) -> tuple[Request, str]:
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        host = headers.get("host") or "127.0.0.1"
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        body = self._body(headers)
        if headers.get("content-encoding") == "gzip" and not git_path(parts.path):
            body = gzip.decompress(body)
        base = f"http://{host}"
        return Request(self.command, parts.path, query, headers, body, base), parts.query

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return b"".join(iter(self._chunk, b""))
        return self.rfile.read(min(int(headers.get("content-length") or 0), LARGEST_BODY))

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        data = self.rfile.read(size)
        self.rfile.readline()
        return data

    def _write(self, answer: Answer, *, cut: bool) -> None:
        body = answer.encoded()
        self.send_response_only(answer.status)
        if "content-type" not in answer.headers and body:
            kind = "text/plain" if isinstance(answer.body, str | bytes) else "application/json"
            self.send_header("content-type", f"{kind}; charset=utf-8")
        for name, value in answer.headers.items():
            if name != "content-length":
                self.send_header(name, value)
        if answer.status not in (204, 304):
            self.send_header("content-length", str(len(body)))
        if cut:
            body, self.close_connection = body[: len(body) // 2], True
        self.end_headers()
        if self.command != "HEAD" and answer.status not in (204, 304):
            self.wfile.write(body)

    def _break(self) -> None:
        """Hang up in the hard way, with a reset instead of an end."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        # Closing the socket object would wait for the files made of it.
        os.close(self.connection.detach())


def git_path(path: str) -> bool:
    """True for an address that git speaks to; http-backend undoes its gzip itself."""
    return path.endswith(("/git-upload-pack", "/git-receive-pack"))
