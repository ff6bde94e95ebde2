"""`pitstop optimize PATH -- LAUNCH COMMAND`: from options to exit code."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from pitstop.bot.optimize.loop import optimize
from pitstop.bot.optimize.reports import summary_of
from pitstop.bot.optimize.request import QUICK, OptimizeRequest, Sizes
from pitstop.bot.optimize.session import Session
from pitstop.bot.optimize.summary import verdict
from pitstop.rules.finding import UserError
from pitstop.runners.job import Limits, Mount, Runner


def run(options: argparse.Namespace) -> int:
    """Optimize and say what came of it. 0 also when nothing was gained: that is a result."""
    request = request_of(options)
    cancel = threading.Event()
    began = time.monotonic()
    with _stopped_by_signals(cancel):
        session = optimize(request, runner_of(options), cancel=cancel, say=_teller(began))
    return _tell(session)


def request_of(options: argparse.Namespace) -> OptimizeRequest:
    """The request that the options make. Raises UserError for what cannot be."""
    words: list[str] = options.launch_words
    if not words:
        raise UserError(
            "give the launch command after `--`: pitstop optimize . -- torchrun"
            " --nproc_per_node 2 train.py"
        )
    command = words[0] if len(words) == 1 else shlex.join(words)
    sizes = QUICK if options.quick else Sizes()
    stated = {
        "steps": options.steps,
        "rounds": options.rounds,
        "session_seconds": options.deadline * 60 if options.deadline else None,
    }
    sizes = replace(sizes, **{name: value for name, value in stated.items() if value})
    return OptimizeRequest(
        options.path,
        command,
        goal=options.goal,
        out=options.out,
        only=_ids(options.only),
        disable=_ids(options.disable),
        allow=_ids(options.allow),
        sizes=sizes,
        quick=options.quick,
        copy_limit=int(options.copy_limit * 2**30),
        link_data=options.link_data,
        limits=Limits(memory=int(options.memory * 2**30) if options.memory else None),
        mounts=tuple(_mount(text) for text in options.mount),
        env=tuple(_variable(text) for text in options.env),
        image=options.image,
        network=options.network,
        gpus=options.gpus,
        may_use_nodes=True,
    )


def runner_of(options: argparse.Namespace) -> Runner:
    """The runner that is asked for."""
    if options.runner == "docker":
        from pitstop.runners.docker_runner import DockerRunner

        return DockerRunner(options.image)
    if options.runner == "slurm":
        from pitstop.runners.slurm_runner import SlurmRunner

        return SlurmRunner(tuple(options.sbatch))
    from pitstop.runners.local_runner import LocalRunner

    return LocalRunner()


def _ids(given: list[str]) -> tuple[str, ...]:
    return tuple(word.strip() for text in given for word in text.split(",") if word.strip())


def _mount(text: str) -> Mount:
    source, _, target = text.partition(":")
    path = Path(source).resolve()
    if not path.exists():
        raise UserError(f"--mount {text}: {source} is not there")
    return Mount(path, target or str(path))


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UserError(f"--env {text}: write NAME=value")
    return name, value


@contextmanager
def _stopped_by_signals(cancel: threading.Event) -> Iterator[None]:
    """The first interrupt ends the run that is on and writes the report; the second ends us."""

    def stop(number: int, _: object) -> None:
        if cancel.is_set():
            raise KeyboardInterrupt
        print("pitstop: stopping; the report is being written", file=sys.stderr)
        cancel.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _teller(began: float) -> Callable[[str], None]:
    """Tells on standard error what is being done, with the minutes that have passed."""

    def say(text: str) -> None:
        seconds = int(time.monotonic() - began)
        print(f"[{seconds // 60:3d}:{seconds % 60:02d}] {text}", file=sys.stderr, flush=True)

    return say


def _tell(session: Session) -> int:
    facts = session.record.facts
    print(verdict(facts, [asdict(step) for step in session.record.steps]))
    report = session.work.reports / "final_optimization-summary.md"
    print(f"report: {report}" if not session.record.unwritten else summary_of(session))
    if session.best is not None and session.start is not None and session.best != session.start:
        print(f"optimized copy: {session.work.project}")
        print("apply it:       git am " + str(session.work.reports / "patches") + "/*.patch")
    if facts.get("integrity", {}).get("changed"):
        raise UserError(
            "the original changed while the job ran: see the report; was it edited meanwhile?"
        )
    if session.record.unwritten:
        raise UserError(
            f"not everything could be written ({session.record.unwritten}), so the summary stands"
            " above; make room, or give another folder with --out"
        )
    return 0
