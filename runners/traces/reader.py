"""Reads the events of a Kineto trace one after another, in memory that does not grow with it.

A trace is JSON (`traceEvents` among other keys), possibly packed by gzip, possibly cut off, and
in our case always a stranger's file.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

CHUNK = 1 << 20
MAX_EVENT = 4 << 20
"""Characters of one event; a larger one ends the reading."""
MAX_HEADER = 16 << 20

_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")


class TraceError(Exception):
    """A file that is no trace; the message says why."""


class Trace:
    """A trace file. `header` is what stands before the events (devices, ranks); `complete` is
    false when the file ended in the middle, `events_read` how many there were."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: Mapping[str, Any] = {}
        self.complete = False
        self.events_read = 0

    def events(self) -> Iterator[Mapping[str, Any]]:
        """Every event that is a JSON object, in the order of the file. Raises TraceError when
        there are none; a file that is cut off gives those before the cut."""
        try:
            with _opened(self.path) as stream:
                yield from self._events(stream)
        except (OSError, EOFError, UnicodeError, gzip.BadGzipFile, RecursionError) as error:
            if not self.events_read:
                raise TraceError(f"{self.path.name}: {type(error).__name__}") from error

    def _events(self, stream: IO[str]) -> Iterator[Mapping[str, Any]]:
        buffer = self._read_header(stream)
        decoder = json.JSONDecoder(strict=False)
        at, ended = 0, False
        while True:
            at = _skip(buffer, at)
            if at < len(buffer):
                if buffer[at] == "]":
                    self.complete = True
                    return
                try:
                    event, at = decoder.raw_decode(buffer, at)
                except json.JSONDecodeError:
                    if ended or len(buffer) - at > MAX_EVENT:
                        return
                else:
                    if isinstance(event, dict):
                        self.events_read += 1
                        yield event
                    continue
            more = stream.read(CHUNK)
            ended = not more
            if ended and at >= len(buffer):
                return
            buffer, at = buffer[at:] + more, 0

    def _read_header(self, stream: IO[str]) -> str:
        """Read up to the first event; what is left of the buffer after it."""
        buffer = ""
        while len(buffer) < MAX_HEADER:
            more = stream.read(CHUNK)
            buffer += more
            match = _EVENTS.search(buffer)
            if match:
                self.header = _header(buffer[: match.start()])
                return buffer[match.end() :]
            if not more:
                break
        stripped = buffer.lstrip()
        if stripped.startswith("["):  # the older form: a bare list of events
            return stripped[1:]
        raise TraceError(f"{self.path.name}: there are no traceEvents in it")


def _opened(path: Path) -> IO[str]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if packed:
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open("r", encoding="utf-8", errors="replace")


def _skip(buffer: str, at: int) -> int:
    match = _BETWEEN.match(buffer, at)
    return match.end() if match else at


def _header(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text.rstrip().rstrip(",") + "}", strict=False)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
