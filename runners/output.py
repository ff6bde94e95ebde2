"""What a job prints: kept in a file up to a cap, told line by line while it runs."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from pitstop.runners.job import OnLine

MAX_LINE = 4_096
"""Bytes of one line that are told; the rest of a longer one only goes to the file."""


QUIET, LONGEST = 5.0, 60.0
"""Seconds that an ended job's output is waited for: without anything new, and in all."""


def finish(reader: threading.Thread, log: CappedLog) -> None:
    """Wait for what an ended job printed and nobody has read yet. A busy machine may need a while
    for it; something that outlives the job and holds its output open is not waited for."""
    ended = time.monotonic()
    while reader.is_alive():
        reader.join(timeout=0.1)
        now = time.monotonic()
        if now - max(ended, log.last) > QUIET or now - ended > LONGEST:
            return


class CappedLog:
    """A log file that keeps the first half and the last half of `most` bytes.

    The beginning names versions and arguments, the end says what went wrong; of a job that prints
    for hours the middle is worth least. `dropped` counts bytes left out, `last` is when something
    came last (seconds, monotonic).
    """

    def __init__(self, path: Path, most: int, on_line: OnLine | None = None) -> None:
        self.path = path
        self.dropped = 0
        self.last = time.monotonic()
        self._head = max(1, most // 2)
        self._tail_most = max(1, most - most // 2)
        self._tail = bytearray()
        self._written = 0
        self._line = bytearray()
        self._on_line = on_line
        self._lock = threading.Lock()
        self._file = path.open("wb")

    def write(self, chunk: bytes) -> None:
        """Take what was printed; never raises for what is in it. A full disk drops it."""
        with self._lock:
            if self._file.closed:
                return
            self.last = time.monotonic()
            room = self._head - self._written
            if room > 0:
                self._put(chunk[:room])
                self._written += len(chunk[:room])
            if len(chunk) > room:
                self._keep(chunk[max(0, room) :])
        self._tell(chunk)

    def close(self) -> None:
        """Write the kept end and say how much is missing between."""
        with self._lock:
            if self._file.closed:
                return
            if self.dropped:
                self._put(f"\n[... {self.dropped} bytes left out ...]\n".encode())
            self._put(bytes(self._tail))
            self._file.close()
        if self._line and self._on_line is not None:
            self._on_line(self._line.decode("utf-8", "replace"))
            self._line.clear()

    def _put(self, data: bytes) -> None:
        try:
            self._file.write(data)
            self._file.flush()
        except OSError:
            self.dropped += len(data)

    def _keep(self, data: bytes) -> None:
        self._tail += data
        if len(self._tail) > 2 * self._tail_most:
            over = len(self._tail) - self._tail_most
            del self._tail[:over]
            self.dropped += over

    def _tell(self, chunk: bytes) -> None:
        if self._on_line is None:
            return
        self._line += chunk
        *lines, rest = self._line.replace(b"\r", b"\n").split(b"\n")
        self._line = bytearray(rest[:MAX_LINE])
        for line in lines:
            if line:
                self._on_line(line[:MAX_LINE].decode("utf-8", "replace"))
