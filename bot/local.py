"""The audit of a folder on a person's own machine, from options to exit code."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import typing
from collections.abc import Iterator
from pathlib import Path

from pitstop.bot import worktree
from pitstop.bot.apply import Applied, SnapshotTree, apply_safe
from pitstop.bot.audit import AuditRequest, Progress, audit_tree
from pitstop.bot.config import Config, check_config, find_config, load_config, read_config
from pitstop.bot.report import Report, ReportedFinding
from pitstop.rules.finding import Severity, UserError
from pitstop.rules.tree import FolderTree, GitTree


def audit(options: argparse.Namespace) -> int:
    """Audit, print or write the report, apply safe fixes if asked. Returns the exit code."""
    folder: Path = options.path
    if folder.is_file():
        raise UserError(f"{folder} is a file; give the folder of the repository.")
    tree = SnapshotTree(FolderTree(folder))
    config = config_of(options.config) if options.config else read_config(tree)
    with (
        _with_base(request_of(options, config), folder, options.base) as request,
        shown_progress() as progress,
    ):
        report = audit_tree(tree, request, progress=progress)
    shown = _introduced(report)
    applied = apply_safe(tree, shown.findings) if options.fix else None
    older = len(report.findings) - len(shown.findings)
    _deliver(shown, tree, options, older)
    if options.report is not None:
        _write_reports(report, options, config)
    if applied is not None:
        _tell(applied, with_diff=options.format == "text")
    left = shown if applied is None else _without(shown, applied.fixed)
    return _exit_code(left, options.fail_on or config.fail_on)


def _write_reports(report: Report, options: argparse.Namespace, config: Config) -> None:
    """The documents of --report, and where they are."""
    from pitstop.bot import static_report

    project = options.path.resolve()
    beside = project.parent / f"{project.name}_static_analysis"
    folder: Path = beside if options.report is True else options.report
    written = static_report.write(
        report,
        project,
        folder,
        goal=options.goal or config.request().goal,
        command=options.launch or "",
        language=options.lang,
    )
    print(f"pitstop: {len(written)} reports in {folder}: {written[0].name}", file=sys.stderr)


def config_of(path: Path) -> Config:
    """The configuration in a file. Raises UserError when it cannot be read or is not valid."""
    return load_config(_text(path), str(path))


def explain_config(path: Path | None) -> str:
    """A sentence about a valid configuration. Raises UserError naming every fault of another."""
    if path is None:
        found = find_config(FolderTree(Path()))
        if found is None:
            return "no .github/pitstop.yml here: the defaults hold"
        path = Path(found)
    _, problems = check_config(_text(path))
    if problems:
        raise UserError("\n".join(f"{path}:{problem.line}: {problem.text}" for problem in problems))
    return f"{path}: valid"


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give the path of a configuration.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text; save it as UTF-8.") from error


def request_of(options: argparse.Namespace, config: Config) -> AuditRequest:
    """The configuration's audit, where the options do not say otherwise."""
    stated = {"gpu": options.gpu, "gpus_per_node": options.gpus_per_node, "nodes": options.nodes}
    config = config.model_copy(update={key: value for key, value in stated.items() if value})
    request = config.request()
    return dataclasses.replace(
        request,
        launch=options.launch,
        select=ids(options.select) or request.select,
        ignore=(*request.ignore, *ids(options.ignore)),
        goal=options.goal or request.goal,
        revision=worktree.revision_of(options.path),
    )


def ids(words: list[str]) -> tuple[str, ...]:
    """The words of an option that may be given often, or with commas."""
    return tuple(word.strip() for item in words for word in item.split(",") if word.strip())


@contextlib.contextmanager
def _with_base(request: AuditRequest, folder: Path, revision: str | None) -> Iterator[AuditRequest]:
    """The request with the state before the change, where a revision is given."""
    if revision is None:
        yield request
        return
    base = worktree.base_of(folder, revision)
    yield dataclasses.replace(
        request, base=base.tree, base_revision=base.revision, renames=base.renames
    )
    if isinstance(base.tree, GitTree):
        base.tree.close()


@contextlib.contextmanager
def shown_progress() -> Iterator[Progress]:
    """What is being done, on standard error and only on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner

    spinner = Spinner("dots", style="status.spinner")
    with Live(
        spinner, console=Console(stderr=True), transient=True, refresh_per_second=12.5
    ) as live:

        def show(doing: str) -> None:
            spinner.update(text=f"[dim]{doing}…")
            live.refresh()  # at once: a step may be over before the next tick

        yield show


def _introduced(report: Report) -> Report:
    return dataclasses.replace(report, findings=report.introduced)


def _without(report: Report, fixed: tuple[ReportedFinding, ...]) -> Report:
    done = {id(reported) for reported in fixed}
    left = tuple(reported for reported in report.findings if id(reported) not in done)
    return dataclasses.replace(report, findings=left)


def _deliver(report: Report, tree: SnapshotTree, options: argparse.Namespace, older: int) -> None:
    """Print the report, or write it to the file that the options name."""
    if options.output is None:
        _write(report, tree, options, older, sys.stdout)
        return
    try:
        with options.output.open("w", encoding="utf-8", errors="backslashreplace") as file:
            _write(report, tree, options, older, file)
    except OSError as error:
        raise UserError(
            f"{options.output}: cannot be written ({error.strerror}); give another --output."
        ) from error


def _write(
    report: Report,
    tree: SnapshotTree,
    options: argparse.Namespace,
    older: int,
    file: typing.TextIO,
) -> None:
    if options.format == "text":
        from pitstop.bot import text

        text.TextReport(text.console(file), tree, folder=options.path).print(report, older=older)
    elif options.format == "md":
        from pitstop.bot import report_markdown

        file.write(report_markdown.full_report(report, older=older))
    elif options.format == "sarif":
        from pitstop.bot import sarif

        file.write(sarif.to_sarif(report))
    else:
        file.write(report.to_json() + "\n")


def _tell(applied: Applied, *, with_diff: bool) -> None:
    """The diff on standard output (where the report is for people), the rest beside it."""
    if with_diff and applied.diff:
        from pitstop.bot import text

        text.print_diff(text.console(sys.stdout), applied.diff)
    for reported, reason in applied.conflicts:
        print(
            f"pitstop: {reported.finding.rule} at {reported.finding.primary} not fixed: {reason}",
            file=sys.stderr,
        )
    count = f"{len(applied.fixed)} of {len(applied.fixed) + len(applied.conflicts)}"
    print(f"pitstop: applied {count} safe fixes", file=sys.stderr)


def _exit_code(report: Report, fail_on: str) -> int:
    worst = report.worst()
    if fail_on == "never" or worst is None:
        return 0
    return int(worst >= Severity[fail_on.upper()])
