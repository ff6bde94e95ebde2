"""Runs the job at one commit of its copy, under the probe, and keeps what each run measured."""

from __future__ import annotations

import dataclasses
import enum
import math
import shlex
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pitstop.bot.optimize.history import History
from pitstop.bot.optimize.record import write_json
from pitstop.bot.optimize.request import OptimizeRequest, Sizes
from pitstop.bot.optimize.workfolder import Copied, WorkFolder, mend_copy
from pitstop.runners.job import Ended, Job, JobResult, Runner
from pitstop.runners.probing import ProbeRequest, ProbeRun, place_probe, read_probe, ticks_reached

LAUNCH = "pitstop_launch.sh"
"""The launch command, as a script of the copy: so that changes to it are edits like any other."""

QUIET: Mapping[str, str] = {
    "WANDB_MODE": "disabled",
    "WANDB_DISABLED": "true",
    "SWANLAB_MODE": "disabled",
    "COMET_MODE": "disabled",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""No byte code of the project is kept: two edits of equal length within a second would otherwise
run the older one. Uploads and reports of trackers are off in every run (https://docs.wandb.ai/guides/track,
https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables)."""


class Kind(enum.StrEnum):
    """What a run is for. Only TIMED runs give step times, only PARITY runs compare losses; a
    SCREEN run chooses among values of one change, which is then proved like any other."""

    PRIME = "prime"
    SCREEN = "screen"
    TIMED = "timed"
    PARITY = "parity"
    PROFILE = "profile"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Arm:
    """A state of the project that can be run: `name` is v0, or v2-c1 (round 2, candidate 1).

    `compiled`: something is compiled or tuned at the start, so the warm-up is longer.
    """

    name: str
    commit: str
    compiled: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the job and what the probe saw. `file` is its JSON record."""

    arm: Arm
    kind: Kind
    number: int
    wanted: int
    result: JobResult
    probe: ProbeRun
    file: Path

    @property
    def ticks(self) -> int:
        """Optimizer steps that every rank reached."""
        return ticks_reached(self.probe)

    @property
    def ok(self) -> bool:
        """It ended well, reached its steps (or its own end), and its losses are numbers."""
        return self.result.ok and self.ticks > 0 and self.finite

    @property
    def finite(self) -> bool:
        """No loss is NaN or infinite."""
        return all(
            math.isfinite(loss)
            for rank in self.probe.ranks
            for step in rank.losses
            for loss in step
        )


@dataclass(slots=True)
class Track:
    """Where arms are run. `steps` and `seconds_of_step` are learnt from the first run."""

    work: WorkFolder
    copied: Copied
    history: History
    runner: Runner
    request: OptimizeRequest
    cancel: threading.Event
    say: Callable[[str], None] = lambda _: None
    deadline: float = math.inf
    steps: int = 0
    baseline_seconds: float | None = None
    runs: list[Run] = field(default_factory=list)
    mended: set[str] = field(default_factory=set)

    @property
    def sizes(self) -> Sizes:
        """The sizes of the request."""
        return self.request.sizes

    def warm_up(self, *arms: Arm) -> int:
        """Steps to drop at least; the same for all that are compared."""
        compiled = any(arm.compiled for arm in arms)
        return self.sizes.compiled_warm_up if compiled else self.sizes.warm_up

    def run(self, arm: Arm, kind: Kind, *, steps: int | None = None, warm_up: int = 3) -> Run:
        """Run the job once at an arm's commit.

        Raises CancelledError, DeadlineError, RunnerError.
        """
        self._may_go_on()
        number = 1 + sum(run.arm.name == arm.name and run.kind is kind for run in self.runs)
        name = f"{arm.name}_{kind}_{number}"
        self.say(f"{arm.name}: {kind} run {number}")
        self.history.switch(arm.commit)
        wanted = steps if steps is not None else self.steps or self.sizes.steps
        job, out = self._job(arm, kind, name, wanted, warm_up)
        self.runner.preflight(job)
        result = self.runner.run(job, cancel=self.cancel)
        probe = read_probe(out)
        self.mended.update(mend_copy(self.work, self.copied))
        file = self.work.runs / f"{name}.json"
        run = Run(arm, kind, number, wanted, result, probe, file)
        write_json(file, _record(run, job))
        self.runs.append(run)
        if result.ended is Ended.CANCELLED:
            raise CancelledError
        return run

    def _may_go_on(self) -> None:
        if self.cancel.is_set():
            raise CancelledError
        if time.monotonic() > self.deadline:
            raise DeadlineError

    def _job(self, arm: Arm, kind: Kind, name: str, wanted: int, warm_up: int) -> tuple[Job, Path]:
        scratch = self.work.scratch
        out = scratch / name / "probe"
        out.mkdir(parents=True, exist_ok=True)
        wish = ProbeRequest(
            steps=warm_up + wanted + 1,
            warm_up=warm_up,
            profile=kind is Kind.PROFILE,
            deterministic=kind is Kind.PARITY,
        )
        env = {**QUIET, **dict(self.request.env), **self._caches()}
        if kind is not Kind.PLAIN:
            env = _joined(env, place_probe(scratch / name / "site", wish, out), self.work.project)
        command = ("bash", LAUNCH)
        seconds = self._seconds()
        limits = dataclasses.replace(
            self.request.limits, seconds=seconds, silence=min(seconds, self.sizes.silence)
        )
        job = Job(
            name,
            command,
            self.work.project,
            scratch,
            env=env,
            limits=limits,
            mounts=self.request.mounts,
            network=self.request.network,
            gpus=self.request.gpus,
            image=self.request.image,
        )
        return job, out

    def _caches(self) -> dict[str, str]:
        """Caches of compiled kernels are shared by all runs, inside the scratch folder."""
        shared = self.work.scratch / "caches"
        return {
            "TRITON_CACHE_DIR": str(shared / "triton"),
            "TORCHINDUCTOR_CACHE_DIR": str(shared / "inductor"),
            "MLFLOW_TRACKING_URI": str(shared / "mlflow"),
        }

    def _seconds(self) -> float:
        most = self.sizes.run_seconds
        if self.baseline_seconds is not None:
            most = max(most, self.sizes.run_factor * self.baseline_seconds)
        return max(1.0, min(most, self.deadline - time.monotonic()))


class CancelledError(Exception):
    """A person asked to stop."""


class DeadlineError(Exception):
    """The time of the whole optimization is used up, but for the reports."""


def _joined(env: Mapping[str, str], probe: Mapping[str, str], project: Path) -> dict[str, str]:
    """The probe's environment over the job's; the copy goes before an installed original."""
    paths = [probe.get("PYTHONPATH", ""), str(project)]
    if (project / "src").is_dir():
        paths.append(str(project / "src"))
    paths.append(env.get("PYTHONPATH", ""))
    joined = ":".join(path for path in paths if path)
    return {**env, **probe, "PYTHONPATH": joined}


def launch_script(command: str) -> str:
    """The launch command as a script. It is one plain command, so nothing else is in it."""
    return f"#!/usr/bin/env bash\n{command.strip()}\n"


def command_of(script: str) -> str:
    """The command in a launch script."""
    lines = [line for line in script.splitlines() if line.strip() and not line.startswith("#")]
    return "\n".join(lines)


def _record(run: Run, job: Job) -> dict[str, Any]:
    """What is stored of a run: enough to work out every reported number again."""
    return {
        "version": 1,
        "arm": run.arm.name,
        "commit": run.arm.commit,
        "kind": run.kind.value,
        "number": run.number,
        "wanted": run.wanted,
        "at": time.time(),
        "command": shlex.join(job.command),
        "result": {
            "ended": run.result.ended.value,
            "exit_code": run.result.exit_code,
            "seconds": run.result.seconds,
            "peak_memory": run.result.peak_memory,
            "reason": run.result.reason,
            "log": str(run.result.log),
        },
        "ticks": run.ticks,
        "step_seconds": run.probe.step_seconds(),
        "losses": run.probe.step_losses(),
        "probe": dataclasses.asdict(run.probe),
    }


def sized(run: Run, sizes: Sizes, warm_up: int) -> int:
    """How many steps timed runs keep, from what the first run showed: enough seconds of short
    steps, and no more than the job has when it ended by itself.

    Raises ValueError when the job has too few steps to be measured.
    """
    times = run.probe.step_seconds()[warm_up:]
    typical = statistics.median(times) if times else 1.0
    steps = max(sizes.steps, math.ceil(sizes.kept_seconds / max(typical, 1e-4)))
    steps = min(steps, sizes.most_steps)
    if run.ticks < warm_up + run.wanted + 1:
        steps = min(steps, run.ticks - warm_up - 1)
    if steps < min(5, sizes.steps):
        raise ValueError(
            f"the job ended after {run.ticks} optimizer steps; it takes {warm_up + 6} to measure"
        )
    return steps
