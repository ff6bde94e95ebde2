"""The page about the machine, and the audit's own report, as the optimization writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pitstop.bot.optimize.record import write_text
from pitstop.bot.render import render
from pitstop.runners.resources import GIB, Resources, collect

if TYPE_CHECKING:
    from pitstop.bot.optimize.session import Session


def describe_machine(session: Session) -> None:
    """Write `v0_system-resources-report.md` and note machine and software. What the job's own
    container sees may differ; then the probe's words count."""
    found = collect(session.work.root)
    launch = session.reading.job.launch if session.reading is not None else None
    ranks = (launch.processes if launch is not None else None) or 1
    session.record.note(machine=machine_words(found), software=software_words(found))
    page = render("run/resources.md.j2", **_view(found, ranks))
    write_text(session.work.reports / "v0_system-resources-report.md", str(page))


def machine_words(found: Resources) -> str:
    """The machine in one line."""
    gpus = f"{len(found.gpus)} x {found.gpus[0].name}" if found.gpus else "no GPU"
    return f"{gpus}, {found.usable_cores} usable cores ({found.cpu}), {found.memory / GIB:.0f} GiB"


def software_words(found: Resources) -> str:
    """Versions that decide, in one line."""
    named = dict(found.packages)
    shown = [f"{name} {named[name]}" for name in ("torch", "transformers") if name in named]
    return ", ".join([f"Python {found.python}", *shown])


def _view(found: Resources, ranks: int) -> dict[str, object]:
    shared = found.shared_memory
    return {
        "items": [
            ("CPU", found.cpu),
            ("cores", f"{found.cores} physical, {found.usable_cores} usable"),
            ("memory", f"{found.memory / GIB:.1f} GiB, {found.available / GIB:.1f} available"),
            ("shared memory", f"{shared / GIB:.1f} GiB" if shared is not None else "not seen"),
            ("disk", f"{found.disk_kind or 'unknown'}, {found.disk_free / GIB:.0f} GiB free"),
            ("system", found.system),
        ],
        "gpus": [
            (
                gpu.name,
                gpu.capability,
                f"{gpu.memory / GIB:.1f} GiB",
                f"{gpu.used / GIB:.1f} GiB",
                f"{gpu.power_limit:.0f} W" if gpu.power_limit else "",
            )
            for gpu in found.gpus
        ],
        "missing": found.gpus_missing,
        "software": [("python", found.python), *found.packages],
        "advice": list(found.advice(ranks)),
    }


def write_audit(session: Session) -> None:
    """Write the audit of the whole project: the static analysis and its scorecards."""
    from pitstop.bot import static_report
    from pitstop.bot.audit import AuditRequest, audit_tree
    from pitstop.rules.tree import FolderTree

    original = session.work.original
    report = audit_tree(FolderTree(original), AuditRequest(goal="balanced"))
    static_report.write(report, original, session.work.reports, goal="balanced")
