"""What a runner is given and gives back: one process start in a folder, its limits, its end."""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class RunnerError(Exception):
    """The runner itself cannot do its work; the message is one sentence that says what to do."""


class UnavailableError(RunnerError):
    """This machine lacks what the runner needs (a docker daemon, an image, a GPU, Slurm)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a job may use. Seconds, bytes and counts; None means no limit of ours.

    `output` bytes of standard output and error are kept (the rest is counted and dropped);
    `disk` bytes may be written below the job's own folders; `grace` seconds lie between TERM and
    KILL; `silence` seconds without any output or probe tick end the job as hung.
    """

    seconds: float = 3600.0
    grace: float = 10.0
    silence: float | None = None
    memory: int | None = None
    processes: int | None = 4096
    open_files: int | None = None
    shared_memory: int | None = None
    disk: int | None = None
    output: int = 20 * 2**20


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the host that the job sees read-only at `target`."""

    source: Path
    target: str


@dataclass(frozen=True, slots=True)
class Job:
    """One process start.

    `command` is run without a shell in `folder / cwd`. `folder` is the working copy: the only
    place (beside `scratch`) that the job may write. `scratch` holds outputs that nobody keeps,
    the probe's folder and its results. `env` is added to the runner's small base environment;
    nothing else of ours reaches the job. `gpus`: None for no GPU, else how many (-1: all).
    """

    name: str
    command: tuple[str, ...]
    folder: Path
    scratch: Path
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = Limits()
    mounts: tuple[Mount, ...] = ()
    network: bool = False
    gpus: int | None = None
    image: str | None = None


class Ended(enum.StrEnum):
    """Why a job is over."""

    EXITED = "exited"
    DEADLINE = "deadline"
    SILENT = "silent"
    MEMORY = "memory"
    DISK = "disk"
    CANCELLED = "cancelled"
    FAILED_TO_START = "failed to start"


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended. `exit_code` is None when it never ran, negative for a signal, as in
    `subprocess`. `log` is the file with what it printed (capped), `dropped` the bytes beyond the
    cap; `seconds` is wall time; `peak_memory` is bytes of host memory, when the runner knows."""

    ended: Ended
    exit_code: int | None
    seconds: float
    log: Path
    dropped: int = 0
    peak_memory: int | None = None
    reason: str = ""

    @property
    def ok(self) -> bool:
        """It ran to its own end and said that all went well."""
        return self.ended is Ended.EXITED and self.exit_code == 0

    def text(self, most: int = 200_000) -> str:
        """The end of what it printed, at most so many bytes, undecodable bytes replaced."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - most))
            return file.read().decode("utf-8", "replace")


OnLine = Callable[[str], None]
"""Told each line of output while the job runs; must not raise."""


class Runner(Protocol):
    """Runs jobs somewhere. Every runner passes the same contract tests."""

    name: str

    def preflight(self, job: Job) -> None:
        """Check, before anything is started, that such a job can run here.

        Raises UnavailableError with one sentence that says what is missing and how to get it.
        """

    def run(
        self, job: Job, *, cancel: threading.Event | None = None, on_line: OnLine | None = None
    ) -> JobResult:
        """Run the job to its end, its limits' or the cancellation's. Ends every process it
        started, and no other. Raises RunnerError only when the runner itself fails."""
