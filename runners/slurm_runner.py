"""Runs a job on a Slurm cluster: one node, submitted with sbatch, watched with squeue.

The batch script starts this same program on the node (`runners.slurm_job`), which runs the job as
a local process there and keeps its limits; work folder and program must lie on a file system that
the nodes share, as home folders do. The job gets the environment of the one who submits, without
what looks like a secret, and what Slurm says about its GPUs.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pitstop.runners.job import (
    Ended,
    Job,
    JobResult,
    Limits,
    Mount,
    OnLine,
    RunnerError,
    UnavailableError,
)
from pitstop.runners.local_runner import LocalRunner, inherited

PAUSE = 0.5
"""Seconds between two looks at a job."""

SPARE = 120
"""Seconds that Slurm gives beyond the job's own limit, for its end to be written."""

LOST = 30.0
"""Seconds after which a job that Slurm no longer knows, and that left no result, is given up."""

_NEVER = ("PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints", "AccountNotAllowed")
"""Reasons for waiting that no waiting ends."""

_PROGRAMS = ("sbatch", "squeue", "scancel")


@dataclass(frozen=True, slots=True)
class Ordered:
    """What is written for the node: the job, and where its result goes."""

    job: Job
    environ: Mapping[str, str]
    result: Path

    def to_json(self) -> str:
        """Plain data."""
        data = dataclasses.asdict(self)
        return json.dumps(data, default=str)

    @staticmethod
    def from_json(text: str) -> Ordered:
        """What `to_json` wrote."""
        data: dict[str, Any] = json.loads(text)
        job = data["job"]
        job |= {
            "command": tuple(job["command"]),
            "folder": Path(job["folder"]),
            "scratch": Path(job["scratch"]),
            "limits": Limits(**job["limits"]),
            "mounts": tuple(Mount(Path(m["source"]), m["target"]) for m in job["mounts"]),
        }
        return Ordered(Job(**job), data["environ"], Path(data["result"]))


class SlurmRunner:
    """Submits jobs. `options` are further words for sbatch, such as `--partition=gpu`."""

    name = "slurm"

    def __init__(
        self, options: tuple[str, ...] = (), environ: Mapping[str, str] | None = None
    ) -> None:
        self._options = options
        self._environ = dict(os.environ if environ is None else environ)

    def preflight(self, job: Job) -> None:
        """Raises UnavailableError when Slurm's programs are not there or do not answer."""
        missing = [p for p in _PROGRAMS if shutil.which(p, path=self._environ.get("PATH")) is None]
        if missing:
            raise UnavailableError(
                f"{missing[0]} is not on PATH: run on a machine of the cluster that may submit jobs"
            )
        LocalRunner(self._environ).preflight(job)
        self._ask("squeue", "-h", "-o", "%i", "-u", str(os.getuid()))

    def run(
        self, job: Job, *, cancel: threading.Event | None = None, on_line: OnLine | None = None
    ) -> JobResult:
        """See `Runner.run`. Time in the queue is none of the job's."""
        job.scratch.mkdir(parents=True, exist_ok=True)
        order = Ordered(
            job, inherited(self._environ)[0], job.scratch / f"{job.name}.slurm-result.json"
        )
        order.result.unlink(missing_ok=True)
        said = job.scratch / f"{job.name}.slurm-out"
        said.unlink(missing_ok=True)
        number = self._submit(order, said)
        try:
            return self._watched(order, number, said, cancel, on_line)
        finally:
            if not order.result.exists():
                self._ask("scancel", number, may_fail=True)

    def _submit(self, order: Ordered, said: Path) -> str:
        """Hand the job in; its number."""
        job = order.job
        file = job.scratch / f"{job.name}.slurm-job.json"
        file.touch(mode=0o600)
        file.write_text(order.to_json(), "utf-8")
        minutes = math.ceil((job.limits.seconds + job.limits.grace + SPARE) / 60)
        program = [sys.executable, "-m", "pitstop.runners.slurm_job", str(file)]
        script = f"#!/bin/bash\nexec {shlex.join(program)}\n"
        options = [
            "--parsable",
            f"--job-name=pitstop-{re.sub(r'[^A-Za-z0-9_.-]', '-', job.name)}",
            f"--output={str(said).replace('%', '%%')}",
            "--nodes=1",
            "--ntasks=1",
            "--no-requeue",
            "--export=NONE",
            f"--time={minutes}",
            f"--chdir={job.folder}",
            *([f"--gpus={job.gpus}"] if job.gpus and job.gpus > 0 else []),
            *([f"--mem={math.ceil(job.limits.memory / 2**20)}M"] if job.limits.memory else []),
            *self._options,
        ]
        number = self._ask("sbatch", *options, stdin=script).split(";")[0].strip()
        if not number.isdigit():
            raise RunnerError(f"sbatch answers {number[:100]!r} instead of a job's number")
        return number

    def _watched(
        self,
        order: Ordered,
        number: str,
        said: Path,
        cancel: threading.Event | None,
        on_line: OnLine | None,
    ) -> JobResult:
        lines = _Lines(said, on_line)
        gone: float | None = None
        cancelled = False
        while True:
            lines.tell()
            if order.result.exists():
                lines.tell()
                return _result(order.result)
            if cancel is not None and cancel.is_set() and not cancelled:
                cancelled = True
                self._ask("scancel", "--full", "--signal=TERM", number, may_fail=True)
                self._ask("scancel", "--state=PENDING", number, may_fail=True)
            state = self._ask("squeue", "-h", "-j", number, "-o", "%T %r", may_fail=True).strip()
            if state.partition(" ")[2] in _NEVER:
                raise UnavailableError(
                    f"Slurm will never start the job ({state.partition(' ')[2]}): give a shorter"
                    " --deadline, or another partition"
                )
            gone = None if state else gone or time.monotonic()
            if gone is not None and time.monotonic() - gone > (2.0 if cancelled else LOST):
                log = order.job.scratch / f"{order.job.name}.log"
                ended = Ended.CANCELLED if cancelled else Ended.FAILED_TO_START
                why = "cancelled" if cancelled else f"Slurm ended job {number} without a result"
                return JobResult(ended, None, 0.0, log, reason=why)
            time.sleep(PAUSE)

    def _ask(self, *command: str, stdin: str = "", may_fail: bool = False) -> str:
        """What a program of Slurm prints. Raises RunnerError with its last words."""
        try:
            done = subprocess.run(
                command,
                input=stdin,
                capture_output=True,
                text=True,
                env=self._environ,
                timeout=60,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            if may_fail:
                return ""
            raise UnavailableError(f"{command[0]} does not answer: {error}") from error
        if done.returncode and not may_fail:
            words = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise UnavailableError(f"{command[0]} refuses: {words[:300]}")
        return done.stdout


class _Lines:
    """Tells the lines that a job has printed since the last look."""

    def __init__(self, file: Path, on_line: OnLine | None) -> None:
        self._file, self._on_line, self._at, self._rest = file, on_line, 0, b""

    def tell(self) -> None:
        """Read on."""
        if self._on_line is None or not self._file.exists():
            return
        with self._file.open("rb") as stream:
            stream.seek(self._at)
            data = self._rest + stream.read()
            self._at = stream.tell()
        *lines, self._rest = data.split(b"\n")
        for line in lines:
            self._on_line(line.decode("utf-8", "replace"))


def _result(file: Path) -> JobResult:
    data = json.loads(file.read_text("utf-8"))
    return JobResult(**{**data, "ended": Ended(data["ended"]), "log": Path(data["log"])})
