"""The run stage: a request and a checkout in, a bundle out. No token, no call of GitHub's API.

It runs on the machine with the GPU. The job itself runs in a container beside this one, which
sees the copied project, the data that the default branch's configuration names, and nothing of
this stage: no token, no socket, no environment but the names listed there.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pitstop.bot import workflow
from pitstop.bot.audit import version
from pitstop.bot.optimize.request import QUICK, OptimizeRequest, Sizes
from pitstop.bot.settings import Settings
from pitstop.bot.stages.bundle import Dropped, Kept, Metric, RunBundle, write_bundle
from pitstop.bot.stages.request import RunRequest, read_request
from pitstop.rules.finding import UserError
from pitstop.runners.job import Limits, Mount, Runner, RunnerError

if TYPE_CHECKING:
    from pitstop.bot.optimize.session import Session

WORK, BUNDLE, CONTEXT = "pitstop-work", "pitstop-bundle", "context"
"""Folders of the workspace: what is worked in, what is handed on, and the default branch's
checkout, where an image is built from it."""

GRACE = 2.0
"""Seconds between TERM and KILL of a job: GitHub leaves ten to everything when it cancels."""

_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|API_?KEY", re.IGNORECASE)
_OF_THE_MACHINE = ("Project", "Start")
"""Facts that mean nothing elsewhere: a folder of the machine, and a commit of the copy in it."""

_RUNNER_S = ("GITHUB_", "ACTIONS_", "INPUT_", "RUNNER_")


def run_stage(settings: Settings) -> int:
    """Run what the gate asked for. Raises UserError for a request or a checkout that is not what
    the gate decided on; everything later ends in a bundle."""
    request = read_request(settings.request)
    project = settings.workspace / settings.folder
    head = checked_out(project)
    if head != request.sha:
        raise UserError(
            f"{settings.folder} is at {head[:12] or 'no commit'}, not at {request.sha[:12]}: check"
            " out the gate's output `sha` to it, with `fetch-depth: 1` and no credentials kept."
        )
    cancel = threading.Event()
    with stopped_by_signals(cancel):
        folder = work(settings, request, project, cancel=cancel, say=_say)
    name = folder.relative_to(settings.workspace).as_posix()
    workflow.write_outputs(settings.output, {"bundle": name})
    return 0


def work(
    settings: Settings,
    request: RunRequest,
    project: Path,
    *,
    cancel: threading.Event,
    say: Callable[[str], None],
) -> Path:
    """Optimize a checkout and write the bundle, whatever happens; the bundle's folder."""
    from pitstop.bot.optimize.loop import optimize

    out, folder = settings.workspace / WORK, settings.workspace / BUNDLE
    for old in (out, folder):
        shutil.rmtree(old, ignore_errors=True)
    session: Session | None = None
    try:
        notes: list[str] = []
        chosen = runner_for(settings.runner, request, settings.workspace / CONTEXT, notes)
        wanted = request_for(request, project, out, os.environ, gpus=gpus_for(chosen, request))
        session = optimize(wanted, chosen, cancel=cancel, say=say)
        bundle, patches = bundle_of(session, request, notes)
    except (UserError, RunnerError, OSError) as error:
        bundle, patches = _failed(request, str(error), cancelled=cancel.is_set()), {}
    except Exception as error:
        bundle, patches = _failed(request, f"an error of Pitstop itself: {error!r}"), {}
    reports = sorted(path for path in (out / "reports").glob("*") if path.is_file())
    write_bundle(folder, bundle, patches, reports)
    say(bundle.verdict)
    return folder


def checked_out(project: Path) -> str:
    """The commit that a folder is at; empty when it is at none."""
    options = ["-c", f"safe.directory={project}", "-c", "core.fsmonitor=false"]
    try:
        done = subprocess.run(
            ["git", *options, "rev-parse", "HEAD"],
            cwd=project,
            capture_output=True,
            env={"PATH": os.environ.get("PATH", ""), "GIT_CONFIG_GLOBAL": os.devnull},
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.decode("ascii", "replace").strip() if done.returncode == 0 else ""


def runner_for(name: str, request: RunRequest, context: Path, notes: list[str]) -> Runner:
    """The runner of the job, with its image made ready; `context` is the default branch's
    checkout, `notes` takes what could not be had. Raises UserError and RunnerError."""
    if name == "local":
        from pitstop.runners.local_runner import LocalRunner

        return LocalRunner()
    from pitstop.bot.stages.images import image_for
    from pitstop.runners.docker_runner import DockerRunner

    return DockerRunner(image_for(DockerRunner(), request.environment, context, notes))


def gpus_for(runner: Runner, request: RunRequest) -> int | None:
    """How many GPUs the job's container gets: what the configuration says, else all that docker
    hands out (-1), none where it hands out none."""
    from pitstop.runners.docker_runner import DockerRunner

    if request.environment.gpus is not None or not isinstance(runner, DockerRunner):
        return request.environment.gpus
    return -1 if runner.has_gpus() else None


def request_for(
    request: RunRequest,
    project: Path,
    out: Path,
    environ: Mapping[str, str],
    *,
    gpus: int | None = None,
) -> OptimizeRequest:
    """The gate's request as one of an optimization on this machine."""
    where = request.environment
    stated: dict[str, Any] = {
        "steps": request.steps,
        "rounds": request.rounds,
        "session_seconds": float(request.deadline),
    }
    sizes = replace(QUICK if request.quick else Sizes(), **{k: v for k, v in stated.items() if v})
    return OptimizeRequest(
        project,
        request.launch,
        goal=request.goal,
        out=out,
        only=request.only,
        disable=request.disable,
        allow=request.allow,
        sizes=sizes,
        quick=request.quick,
        limits=Limits(memory=where.memory, grace=GRACE),
        mounts=tuple(Mount(Path(source), target) for target, source in where.data.items()),
        env=tuple((name, environ[name]) for name in where.env if _may_see(name, environ)),
        network=where.network,
        gpus=gpus,
        may_use_nodes=where.multinode,
        language=request.language,
    )


def _may_see(name: str, environ: Mapping[str, str]) -> bool:
    """Whether the job may have a variable of the runner, even if the configuration lists it."""
    return name in environ and not name.startswith(_RUNNER_S) and not _SECRET.search(name)


# --- the bundle ------------------------------------------------------------------------------


def bundle_of(
    session: Session, request: RunRequest, notes: Sequence[str] = ()
) -> tuple[RunBundle, dict[str, bytes]]:
    """What an optimization found out, and its patches by file name; `notes` join what is not
    verified."""
    from pitstop.bot.optimize.summary import summarise

    facts = session.record.facts
    steps = [asdict(step) for step in session.record.steps]
    told = summarise(facts, steps, finished=session.record.finished)
    names: Mapping[str, str] = facts.get("patches", {})
    kept = [one for one in facts.get("tried", ()) if one["outcome"] == "kept"]
    parity = facts.get("final", {}).get("parity", {})
    bundle = RunBundle(
        tool=f"pitstop {version()}",
        sha=request.sha,
        outcome=_outcome(facts, steps, bool(kept)),
        verdict=_cut(told.verdict),
        rows=tuple(
            Metric(**{k: _cut(v, 200) for k, v in asdict(row).items()}) for row in told.rows
        ),
        kept=tuple(_kept(one, names.get(one["commit"], "")) for one in kept),
        dropped=tuple(
            Dropped(id=id_, title=_cut(title, 200), outcome=word, why=_cut(why))
            for _, id_, title, _, word, why in told.dropped[:100]
        ),
        not_tried=tuple(
            Dropped(id=id_, title=_cut(title, 200), outcome="not tried", why=_cut(why))
            for id_, title, why in told.not_tried[:200]
        ),
        not_verified=tuple(_cut(line) for line in (*told.not_verified, *notes)),
        environment=tuple(
            (_cut(name, 200), _cut(value))
            for name, value in told.project[:30]
            if name not in _OF_THE_MACHINE
        ),
        command=told.command_before[:4000],
        new_command=told.command_after[:8000] if told.command_after != told.command_before else "",
        losses=(tuple(parity.get("before", ()))[:500], tuple(parity.get("after", ()))[:500]),
        seconds=float(facts.get("ended_at", 0)) - float(facts.get("started", 0) or 0),
        runs=len(session.track.runs) if session.track else 0,
        integrity=_cut(told.integrity),
        quick=request.quick,
    )
    folder = session.work.reports / "patches"
    patches = {one.patch: (folder / one.patch).read_bytes() for one in bundle.kept if one.patch}
    return bundle, patches


def _metric(row: Mapping[str, str]) -> Metric:
    return Metric(**{name: _cut(text, 200) for name, text in row.items()})


def _outcome(facts: Mapping[str, Any], steps: list[dict[str, Any]], kept: bool) -> Any:
    if facts.get("stopped") == "cancelled":
        return "cancelled"
    if facts.get("bug") or not facts.get("steps"):
        return "failed"
    return "kept" if kept else "nothing"


def _kept(one: Mapping[str, Any], patch: str) -> Kept:
    found = one.get("comparison", {})
    return Kept(
        id=one["id"],
        title=_cut(one["title"], 200),
        why=_cut(one["why"]),
        round=one["round"],
        numerics=one["numerics"],
        effect=_cut(found.get("speed_text") or one["reason"]),
        losses=_cut(found.get("parity", {}).get("text", "")),
        memory=_cut(found.get("memory_text", "")),
        patch=patch,
    )


def _failed(request: RunRequest, why: str, *, cancelled: bool = False) -> RunBundle:
    return RunBundle(
        tool=f"pitstop {version()}",
        sha=request.sha,
        outcome="cancelled" if cancelled else "failed",
        verdict=_cut(f"Nothing was measured: {why}"),
        command=request.launch,
    )


def _cut(text: object, most: int = 2000) -> str:
    shown = str(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


# --- around it -------------------------------------------------------------------------------


@contextmanager
def stopped_by_signals(cancel: threading.Event) -> Iterator[None]:
    """A cancelled workflow ends the run that is on, and the bundle says so."""

    def stop(number: int, _: object) -> None:
        cancel.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(text: str) -> None:
    print(workflow.log_line(text), flush=True)
