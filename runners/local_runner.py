"""Runs a job as a process of this machine: for people's own computers, and for tests.

This is no wall. The job may do whatever the person who started it may do; a runner for other
people's code is `docker_runner`. What is promised here: the job gets no secret of the environment,
every process that it starts is ended with it and no other is, and its limits hold.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pitstop.runners.job import Ended, Job, JobResult, Limits, OnLine, UnavailableError
from pitstop.runners.output import CappedLog, finish

if TYPE_CHECKING:
    import psutil

MARK = "PITSTOP_JOB"
"""Carries a random word into every process of a job, by which strays are known as ours."""

PAUSE = 0.05
"""Seconds between two looks at a running job."""

_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY|_KEY$|^KEY$|AUTH|COOKIE|_DSN$",
    re.IGNORECASE,
)
_OF_THE_RUNNER = re.compile(r"^(GITHUB|ACTIONS|RUNNER|INPUT|PITSTOP|SLURM)_")


def inherited(environ: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """What a job may see of an environment, and the names that were left out.

    Names that look like secrets stay behind, as do those of the machinery that started us.
    """
    kept: dict[str, str] = {}
    left: list[str] = []
    for name, value in environ.items():
        if _SECRET.search(name) or _OF_THE_RUNNER.match(name):
            left.append(name)
        else:
            kept[name] = value
    return kept, tuple(sorted(left))


class LocalRunner:
    """A subprocess in its own session."""

    name = "local"

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = inherited(os.environ if environ is None else environ)[0]

    def preflight(self, job: Job) -> None:
        """Raises UnavailableError when the program or the folder is not there."""
        if not job.folder.is_dir():
            raise UnavailableError(f"the folder {job.folder} is not there")
        if not job.command:
            raise UnavailableError("the job has no command")
        where = job.folder / job.cwd
        program = job.command[0]
        path = {**self._environ, **job.env}.get("PATH")
        if "/" in program:
            if not os.access(where / program, os.X_OK):
                raise UnavailableError(f"{program} is not a program that can be run in {where}")
        elif shutil.which(program, path=path) is None:
            raise UnavailableError(
                f"the program {program} is not on PATH: activate your job's environment first"
            )

    def run(
        self, job: Job, *, cancel: threading.Event | None = None, on_line: OnLine | None = None
    ) -> JobResult:
        """See `Runner.run`."""
        mark = secrets.token_hex(16)
        job.scratch.mkdir(parents=True, exist_ok=True)
        # Sockets are made in there, and their paths may have 107 bytes, so it is a short one.
        with tempfile.TemporaryDirectory(prefix="pitstop-", ignore_cleanup_errors=True) as short:
            return self._run(job, mark, Path(short), cancel, on_line)

    def _run(
        self,
        job: Job,
        mark: str,
        temporary: Path,
        cancel: threading.Event | None,
        on_line: OnLine | None,
    ) -> JobResult:
        log = CappedLog(job.scratch / f"{job.name}.log", job.limits.output, on_line)
        started = time.monotonic()
        try:
            process = self._start(job, mark, temporary)
        except OSError as error:
            log.write(f"{job.command[0]}: {error.strerror or error}\n".encode())
            log.close()
            return JobResult(Ended.FAILED_TO_START, None, 0.0, log.path, reason=str(error))
        reader = threading.Thread(target=_drain, args=(process, log), daemon=True)
        reader.start()
        watch = _Watch(job, mark, log, started)
        try:
            ended = watch.until_end(process, cancel)
        finally:
            end_processes(process.pid, mark, job.limits.grace)
            process.wait()
            finish(reader, log)
            log.close()
        return JobResult(
            ended,
            process.returncode,
            time.monotonic() - started,
            log.path,
            log.dropped,
            watch.peak_memory or None,
            why(ended, job.limits),
        )

    def _start(self, job: Job, mark: str, temporary: Path) -> subprocess.Popen[bytes]:
        env = {**self._environ, "TMPDIR": str(temporary), **job.env, MARK: mark}
        process = subprocess.Popen(
            job.command,
            cwd=job.folder / job.cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        _limit(process.pid, job.limits)
        _note(job.scratch).write_text(json.dumps({"group": process.pid, "mark": mark}), "utf-8")
        return process


def why(ended: Ended, limits: Limits) -> str:
    """The limit that was broken, in words."""
    match ended:
        case Ended.CANCELLED:
            return "cancelled"
        case Ended.DEADLINE:
            return f"over its {limits.seconds:.0f} s"
        case Ended.SILENT:
            return f"no output for {limits.silence or 0:.0f} s"
        case Ended.MEMORY:
            return f"over its {(limits.memory or 0) / 2**30:.1f} GiB of memory or its processes"
        case Ended.DISK:
            return f"wrote more than its {(limits.disk or 0) / 2**30:.1f} GiB"
    return ""


def _limit(pid: int, limits: Limits) -> None:
    """Set the limits that the kernel keeps. Set from here, not between fork and exec, where a
    process with threads may do next to nothing safely."""
    wanted = {resource.RLIMIT_CORE: 0}
    if limits.disk is not None:
        wanted[resource.RLIMIT_FSIZE] = limits.disk
    if limits.open_files is not None:
        wanted[resource.RLIMIT_NOFILE] = limits.open_files
    for what, most in wanted.items():
        with contextlib.suppress(OSError, ValueError, AttributeError):  # none on macOS; or gone
            hard = resource.prlimit(pid, what)[1]
            kept = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(pid, what, (kept, hard))


def _note(scratch: Path) -> Path:
    return scratch / "job.json"


def reap(scratch: Path, grace: float = 5.0) -> bool:
    """End what a job of an earlier, killed run left behind; whether there was anything.

    The mark is needed as well as the number, which may by now belong to somebody else.
    """
    try:
        note = json.loads(_note(scratch).read_text("utf-8"))
        mark = str(note["mark"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    left = bool(_marked(mark))
    if left:
        end_processes(None, mark, grace)
    return left


def _drain(process: subprocess.Popen[bytes], log: CappedLog) -> None:
    """Copies what the job prints until nobody can print any more."""
    if process.stdout is not None:
        with process.stdout as stream, contextlib.suppress(ValueError, OSError):
            while chunk := os.read(stream.fileno(), 65_536):
                log.write(chunk)


@dataclass(slots=True)
class _Watch:
    """Looks at a running job until it ends or breaks a limit."""

    job: Job
    mark: str
    log: CappedLog
    started: float
    peak_memory: int = 0
    _next_memory: float = 0.0
    _next_disk: float = 0.0
    _disk_before: int | None = None

    def until_end(self, process: subprocess.Popen[bytes], cancel: threading.Event | None) -> Ended:
        limits = self.job.limits
        if limits.disk is not None:
            self._disk_before = _written(self.job)
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PAUSE)
                return Ended.EXITED
            now = time.monotonic()
            if cancel is not None and cancel.is_set():
                return Ended.CANCELLED
            if now - self.started > limits.seconds:
                return Ended.DEADLINE
            if limits.silence is not None and now - self._last_sign() > limits.silence:
                return Ended.SILENT
            if self._over_memory(process.pid, now):
                return Ended.MEMORY
            if self._over_disk(now):
                return Ended.DISK

    def _last_sign(self) -> float:
        return max(self.started, self.log.last)

    def _over_memory(self, pid: int, now: float) -> bool:
        """Resident bytes and number of the job's processes, looked at twice a second."""
        if now < self._next_memory:
            return False
        used, count = 0, 0
        for process in _tree(pid):
            count += 1
            with contextlib.suppress(Exception):
                used += process.memory_info().rss
        self._next_memory = time.monotonic() + 0.5
        self.peak_memory = max(self.peak_memory, used)
        limits = self.job.limits
        too_many = limits.processes is not None and count > limits.processes
        return too_many or (limits.memory is not None and used > limits.memory)

    def _over_disk(self, now: float) -> bool:
        """Bytes below the job's folders; a walk that took long is repeated less often."""
        limit = self.job.limits.disk
        if limit is None or now < self._next_disk:
            return False
        written = _written(self.job) - (self._disk_before or 0)
        took = time.monotonic() - now
        self._next_disk = now + max(0.5, 20 * took)
        return written > limit


def _written(job: Job) -> int:
    return sum(size_of(folder) for folder in {job.folder, job.scratch})


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder; links are not followed."""
    total = 0
    stack = [folder]
    while stack:
        with contextlib.suppress(OSError), os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(Path(entry.path))
                else:
                    with contextlib.suppress(OSError):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def _tree(pid: int) -> Iterator[psutil.Process]:
    import psutil

    with contextlib.suppress(psutil.Error):
        parent = psutil.Process(pid)
        yield parent
        yield from parent.children(recursive=True)


def end_processes(group: int | None, mark: str, grace: float) -> None:
    """End a job's process group, and every process that carries its mark: TERM, then KILL.

    Only these: a process without the mark that happens to use the same port or GPU is left alone.
    """
    _signal_all(group, mark, signal.SIGTERM)
    until = time.monotonic() + grace
    while _alive(group, mark) and time.monotonic() < until:
        time.sleep(PAUSE)
    for _ in range(20):  # what forks while it is being killed is met again
        if not _alive(group, mark):
            return
        _signal_all(group, mark, signal.SIGKILL)
        time.sleep(PAUSE)


def _signal_all(group: int | None, mark: str, number: signal.Signals) -> None:
    if group is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
    for pid in _marked(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _alive(group: int | None, mark: str) -> bool:
    return bool(_marked(mark)) or (group is not None and _group_alive(group))


def _group_alive(group: int) -> bool:
    """Whether the group has a process that is no zombie."""
    import psutil

    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            if process.info["status"] != psutil.STATUS_ZOMBIE and os.getpgid(process.pid) == group:
                return True
    return False


def _marked(mark: str) -> list[int]:
    """The living processes that carry the mark in the environment they were started with."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() == psutil.STATUS_ZOMBIE or process.pid == os.getpid():
                continue
            if process.environ().get(MARK) == mark:
                found.append(process.pid)
    return found
