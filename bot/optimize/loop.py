"""The loop: ten states, at most five rounds, one change at a time, and always a report.

Each state may fail; what fails is recorded with the reason and the next state works with what
there is. The last two, the report and the check of the original, are reached whatever happens.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import TYPE_CHECKING, Any

from pitstop.bot.optimize.arms import (
    LAUNCH,
    Arm,
    CancelledError,
    DeadlineError,
    Run,
    Track,
    command_of,
    launch_script,
    sized,
)
from pitstop.bot.optimize.compare import (
    Comparer,
    Comparison,
    Failed,
    Measured,
    OtherTraining,
    facts_of,
)
from pitstop.bot.optimize.history import History
from pitstop.bot.optimize.machine import describe_machine, write_audit
from pitstop.bot.optimize.proposals import (
    Proposal,
    Reading,
    Wishes,
    new_texts,
    propose,
    read_project,
)
from pitstop.bot.optimize.record import Record, State
from pitstop.bot.optimize.request import OptimizeRequest
from pitstop.bot.optimize.result import planned_steps, rows_of
from pitstop.bot.optimize.search import searched, verified
from pitstop.bot.optimize.session import Say, Session, Tried, sentence
from pitstop.bot.optimize.workfolder import (
    checksums_of,
    copy_project,
    differences,
    open_work,
)
from pitstop.rules.finding import UserError
from pitstop.rules.job import MultiNode
from pitstop.rules.tree import FolderTree
from pitstop.runners.job import Runner
from pitstop.runners.one_node import Rewritten, on_one_node
from pitstop.runners.verify import Faster, NotFaster
from pitstop.transforms.patch import Changed, Unchanged

if TYPE_CHECKING:
    pass


def optimize(
    request: OptimizeRequest,
    runner: Runner,
    *,
    cancel: threading.Event | None = None,
    say: Say = lambda _: None,
) -> Session:
    """Optimize a project in a copy; the original is only read.

    Returns what was found out, with every report written. Raises UserError only when there is no
    place to write to.
    """
    from pitstop.bot.optimize.reports import write_reports

    work = open_work(request.project, request.out)
    record = Record(work.reports / "state.json")
    deadline = time.monotonic() + request.sizes.work_seconds
    session = Session(request, runner, work, record, cancel or threading.Event(), say, deadline)
    record.on_save = lambda: write_reports(session)
    try:
        _work(session)
    except (CancelledError, DeadlineError) as error:
        record.note(stopped=sentence(error))
    except Exception as error:
        record.note(bug=sentence(error))
        raise
    finally:
        _finish(session)
    return session


def _work(session: Session) -> None:
    with session.doing(State.INTAKE) as intake:
        _intake(session)
    if intake.failed:
        return
    with session.doing(State.COPY) as copying:
        _copy(session)
    with session.doing(State.AUDIT):
        _audit(session)
    if copying.failed or session.reading is None:
        return
    with session.doing(State.BASELINE) as baseline:
        _baseline(session)
    with session.doing(State.DIAGNOSE):
        _diagnose(session)
    if baseline.failed or session.best is None:
        return
    _rounds(session)
    _final_comparison(session)


def _intake(session: Session) -> None:
    from pitstop.rules.launch import parse_command

    request = session.request
    if not request.project.is_dir():
        raise UserError(f"{request.project}: no such folder; give the project's folder")
    launch = parse_command(request.command)
    session.record.note(
        project=str(session.work.original),
        command=request.command,
        goal=request.goal,
        runner=session.runner.name,
        quick=request.quick,
        nodes=launch.nodes or 1,
        node_class=launch.multi_node.value,
        started=time.time(),
    )


def _copy(session: Session) -> None:
    request, work = session.request, session.work
    copied = copy_project(work, request.copy_limit, link_data=request.link_data)
    lines = [f"{digest}  {path}" for path, digest in sorted(copied.checksums.items())]
    (work.reports / "original_checksums.txt").write_text("\n".join(lines) + "\n", "utf-8")
    session.copied = copied
    rewritten = on_one_node(request.command, request.gpus)
    if rewritten.node_class is MultiNode.A and request.may_use_nodes:
        rewritten = Rewritten(request.command, nodes=rewritten.nodes, node_class=MultiNode.A)
    session.record.note(
        run_command=rewritten.command, rewrites=[list(c) for c in rewritten.changes]
    )
    (work.project / LAUNCH).write_text(launch_script(rewritten.command), "utf-8")
    history = History(work.project, work.history)
    commit = history.begin()
    session.start = session.best = Arm("v0", commit)
    session.record.note(
        files=copied.files, bytes=copied.bytes, linked=list(copied.linked), start=commit
    )
    session.track = Track(
        work,
        copied,
        history,
        session.runner,
        request,
        session.cancel,
        session.say,
        session.deadline,
    )


def _audit(session: Session) -> None:
    write_audit(session)
    session.reading = _read(session)
    describe_machine(session)
    job = session.reading.job
    session.record.note(
        frameworks=[use.name for use in job.frameworks],
        model=job.model.name,
        job=job.title,
        findings=[_finding(one) for one in session.reading.findings],
    )


def _finding(finding: Any) -> dict[str, Any]:
    at = finding.primary
    return {
        "rule": finding.rule,
        "title": finding.title,
        "severity": finding.severity.name.lower(),
        "place": f"{at.path}:{at.line}",
        "message": finding.message,
    }


def _read(session: Session) -> Reading:
    request = session.request
    try:
        return read_project(FolderTree(session.work.project), None, request.goal)
    except UserError as error:
        raise UserError(str(error).replace(f"bash {LAUNCH}", request.command)) from error


def _baseline(session: Session) -> None:
    """The job as it is, under the probe. Raises ValueError when it cannot be measured."""
    track, start = session.track, session.start
    if track is None or start is None:
        raise ValueError("there is no copy to run")
    comparer = Comparer(track)
    run = _first_good_run(session, comparer, start)
    track.baseline_seconds = run.result.seconds
    track.steps = sized(run, track.sizes, track.warm_up(start))
    comparer.half = _half(session)
    session.comparer = comparer
    session.record.note(steps=track.steps, baseline=run.file.name)


def _first_good_run(session: Session, comparer: Comparer, arm: Arm) -> Run:
    last: Run | None = None
    for _ in range(session.request.sizes.failures):
        last = comparer.prime(arm)
        if last.ok:
            return last
    if last is None:
        raise ValueError("the job was never started")
    session.record.note(baseline_log=last.result.text(4000))
    raise ValueError(_why_not(last))


def _why_not(run: Run) -> str:
    from pitstop.runners.repair import explain

    if run.result.ok and not run.ticks:
        return "the job ended well, but no optimizer step was seen in it"
    if run.result.ok and not run.finite:
        return "a loss is not a number"
    report = explain(run.result.text(), run.result, run.probe)
    return report.sentence


def _half(session: Session) -> bool:
    """Whether the job computes in 16 bits, where rounding is coarser."""
    job = session.reading.job if session.reading else None
    return job is not None and job.value("precision.compute") in ("bf16", "fp16", "fp8")


def _diagnose(session: Session) -> None:
    """Profile the best so far, and say what holds it up; without a profile, from what there is."""
    from pitstop.bot.optimize.profiling import profile_arm

    session.diagnosis = profile_arm(session)


def _rounds(session: Session) -> None:
    sizes = session.request.sizes
    idle, last_cost = 0, 0.0
    for number in range(1, sizes.rounds + 1):
        if session.deadline - time.monotonic() < 1.5 * last_cost:
            session.record.note(ended="too little time is left for another round")
            return
        began = time.monotonic()
        chosen = _chosen(session)
        if not chosen:
            session.record.note(ended="no change is left to try")
            return
        gain = _round(session, number, chosen)
        last_cost = time.monotonic() - began
        idle = 0 if gain >= sizes.small_gain else idle + 1
        if idle >= sizes.idle_rounds:
            session.record.note(
                ended=f"{idle} rounds in a row gained less than {sizes.small_gain:.0%}"
            )
            return
        if gain > 0 and number < sizes.rounds:
            with session.doing(State.DIAGNOSE):
                _diagnose(session)
    session.record.note(ended=f"{sizes.rounds} rounds were done")


def _chosen(session: Session) -> list[Proposal]:
    """The next changes that nobody ruled out and that were not tried yet."""
    request = session.request
    wishes = Wishes(request.only, request.disable, request.allow, _processes(session))
    done = {tried.id for tried in session.tried}
    session.reading = _at_best(session)
    found, rejected = [], {}
    for proposal in propose(session.reading, _shares(session)):
        if proposal.id in done:
            continue
        reason = wishes.reject(proposal)
        if reason is None:
            found.append(proposal)
        else:
            rejected[proposal.id] = {"title": proposal.title, "why": reason}
    session.record.note(not_tried=rejected)
    return found[: request.sizes.candidates]


def _processes(session: Session) -> int:
    """Processes that the job's runs had; 0 when none was seen."""
    runs = session.track.runs if session.track is not None else []
    return max((len(run.probe.ranks) for run in runs), default=0)


def _shares(session: Session) -> dict[str, float]:
    if session.diagnosis is None:
        return {}
    return {one.kind: one.share for one in session.diagnosis.bottlenecks}


def _at_best(session: Session) -> Reading:
    if session.track is None or session.best is None:
        raise ValueError("there is nothing to start from")
    session.track.history.switch(session.best.commit)
    return _read(session)


def _round(session: Session, number: int, chosen: list[Proposal]) -> float:
    """Try each change against the best so far; the gain of those kept (lower bounds, together)."""
    gain = 1.0
    for index, proposal in enumerate(chosen, 1):
        current = _same_again(session, proposal)
        if current is None:
            continue
        arm: Arm | None = None
        name = f"v{number}-c{index}"
        with session.doing(State.APPLY):
            arm = _apply(session, searched(session, current, name), name, number)
        if arm is None:
            continue
        comparison: Comparison | None = None
        with session.doing(State.VERIFY):
            comparison, arm = verified(session, arm, current.numerics)
        if comparison is None:
            session.tried[-1].outcome = "failed"
            continue
        with session.doing(State.DECIDE):
            gain *= _decide(session, arm, comparison)
    return gain - 1.0


def _same_again(session: Session, proposal: Proposal) -> Proposal | None:
    """The proposal on the project as it now is; None when an earlier change took its place."""
    session.reading = _at_best(session)
    found = propose(session.reading, _shares(session))
    return next((one for one in found if one.id == proposal.id), None)


def _apply(session: Session, proposal: Proposal, name: str, number: int) -> Arm | None:
    tried = Tried(proposal.id, proposal.title, proposal.why, proposal.numerics, number, "running")
    session.tried.append(tried)
    outcome = proposal.make()
    if not isinstance(outcome, Changed):
        tried.outcome = "refused"
        tried.reason = outcome.reason
        if isinstance(outcome, Unchanged):
            tried.outcome = "already so"
        _noted(session)
        return None
    if session.track is None or session.best is None or session.reading is None:
        raise ValueError("there is nothing to change")
    texts = new_texts(session.reading, outcome)
    commit = session.track.history.commit(texts, f"{proposal.title}\n\n{proposal.why}\n")
    tried.commit = commit
    tried.diff = session.track.history.patch(session.best.commit, commit)
    compiled = session.best.compiled or proposal.id.startswith("compile") or "compile" in tried.diff
    _noted(session)
    return Arm(name, commit, compiled)


def _decide(session: Session, arm: Arm, comparison: Comparison) -> float:
    """Keep or drop the change last tried; the factor gained (1 when dropped)."""
    tried = session.tried[-1]
    factor = 1.0
    match comparison:
        case Failed(run):
            tried.outcome, tried.reason = "failed", _why_not(run)
        case OtherTraining(why, parity):
            tried.outcome, tried.reason = "other training", why
            tried.comparison = {"parity": dataclasses.asdict(parity)} if parity else {}
        case Measured():
            tried.comparison = facts_of(comparison)
            kept, tried.outcome, tried.reason = judged(comparison, session.request.goal)
            if kept and isinstance(comparison.verdict, Faster):
                factor = comparison.verdict.low
            if kept:
                session.best = arm
    _noted(session)
    return factor


def judged(measured: Measured, goal: str) -> tuple[bool, str, str]:
    """Whether a change is kept, the word for its outcome, and the reason in a sentence."""
    verdict, memory = measured.verdict, measured.memory
    if isinstance(verdict, Faster) and not (goal == "memory" and memory.larger):
        return True, "kept", verdict.text
    if memory.leaner and goal in ("memory", "balanced"):
        return True, "kept", memory.text
    if isinstance(verdict, Faster):
        return False, "not leaner", memory.text
    word = "not faster" if isinstance(verdict, NotFaster) else "within noise"
    return False, word, verdict.text


def _noted(session: Session) -> None:
    session.record.note(
        tried=[dataclasses.asdict(one) for one in session.tried],
        best=session.best.name if session.best else None,
        best_commit=session.best.commit if session.best else None,
    )


def _final_comparison(session: Session) -> None:
    """The start against the end, on fresh runs: the gain that is reported."""
    start, best, comparer = session.start, session.best, session.comparer
    if start is None or best is None or comparer is None or best.commit == start.commit:
        return
    with session.doing(State.VERIFY):
        worst = _coarsest(one.numerics for one in session.tried if one.outcome == "kept")
        parity = comparer.parity(start, best, worst)
        if isinstance(parity, Failed):
            raise ValueError(_why_not(parity.run))
        measured = comparer.timed(start, best, parity)
        if isinstance(measured, Failed):
            raise ValueError(_why_not(measured.run))
        job = session.reading.job if session.reading else None
        session.record.note(
            final=facts_of(measured),
            rows=rows_of(measured, planned_steps(job)),
        )


def _hand_over(session: Session) -> None:
    """Leave the copy at the best state, and each kept change as a patch for `git am`."""
    track, start, best = session.track, session.start, session.best
    if track is None or start is None or best is None:
        return
    track.history.switch(best.commit)
    script = (session.work.project / LAUNCH).read_text("utf-8", "replace")
    session.record.note(
        diff=track.history.patch(start.commit, best.commit), new_command=command_of(script)
    )
    folder = session.work.reports / "patches"
    mails = track.history.mail(start.commit, best.commit, without=LAUNCH)
    for number, mail in enumerate((text for text in mails.values() if text), 1):
        folder.mkdir(exist_ok=True)
        (folder / f"{number:04d}.patch").write_text(mail, "utf-8", "surrogateescape")
    numbered = (commit for commit, text in mails.items() if text)
    session.record.note(patches={c: f"{n:04d}.patch" for n, c in enumerate(numbered, 1)})


def _coarsest(classes: Any) -> str:
    order = ("exact", "equivalent", "precision", "semantics")
    return max(classes, key=order.index, default="exact")


def _finish(session: Session) -> None:
    """The kept changes as patches, the check of the original, and the report."""
    record = session.record
    _hand_over(session)
    step = record.begin(State.CHECK)
    changed: tuple[str, ...] = ()
    if session.copied is not None:
        linked = set(session.copied.linked)
        now = {p: d for p, d in checksums_of(session.work.original).items() if p not in linked}
        changed = differences(session.copied.checksums, now)
    record.facts["integrity"] = {"checked": session.copied is not None, "changed": list(changed)}
    record.end(step, "failed" if changed else "done", "; ".join(changed[:5]))
    step = record.begin(State.REPORT)
    record.facts["ended_at"] = time.time()
    record.finished = True
    record.end(step)
