"""The audit of a folder on a person's own machine, from options to exit code."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from pitstop.bot import cache, worktree
from pitstop.bot.apply import Applied, SnapshotTree, apply_safe
from pitstop.bot.audit import AuditRequest, Progress, audit_tree, without_cycle_search
from pitstop.bot.config import Config, check_config, find_config, load_config, read_config
from pitstop.bot.report import Report, ReportedFinding
from pitstop.rules.finding import Severity, UserError
from pitstop.rules.tree import FolderTree, GitTree


def audit(options: argparse.Namespace) -> int:
    """Audit, print or write the report, apply safe fixes if asked. Returns the exit code."""
    with without_cycle_search():
        return _audit(options)


def _audit(options: argparse.Namespace) -> int:
    folder: Path = options.path
    if folder.is_file():
        raise UserError(f"{folder} is a file; give the folder of the repository.")
    listed = FolderTree(folder)
    if options.fix or options.base or options.report is not None or options.no_cache:
        return _audited(SnapshotTree(listed), options)[1]
    kept = cache.folder_of(os.environ)
    key = cache.key_of(listed, *_facts_of(options))
    found = cache.find(kept, key, listed.root)
    if found is None:
        reading = cache.ReadingTree(listed, listed.root)
        text, code = _audited(SnapshotTree(reading, listed.root), options)
        cache.keep(kept, key, reading.states, cache.Printed(text, code))
        return code
    _put(found.text, options)
    if sys.stderr.isatty():
        print("pitstop: nothing has changed since an earlier audit", file=sys.stderr)
    return found.code


def _facts_of(options: argparse.Namespace) -> tuple[object, ...]:
    """What decides about the words of an audit, beyond the files of the tree."""
    from pitstop.bot.text import LIST_WIDTH

    apart = {"output", "command", "debug"}
    stated = {name: value for name, value in vars(options).items() if name not in apart}
    terminal = sys.stdout.isatty() and options.output is None
    width = shutil.get_terminal_size().columns if terminal else LIST_WIDTH
    colours = [os.environ.get(name) for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLORTERM")]
    own = _text(options.config) if options.config else ""
    return stated, terminal, width, colours, own, worktree.revision_of(options.path), Path.cwd()


def _audited(tree: SnapshotTree, options: argparse.Namespace) -> tuple[str, int]:
    """Audit a tree and put the report where it belongs: its text, and the exit code."""
    config = config_of(options.config) if options.config else read_config(tree)
    with (
        _with_base(request_of(options, config), options.path, options.base) as request,
        shown_progress() as progress,
    ):
        report = audit_tree(tree, request, progress=progress)
    shown = _introduced(report)
    applied = apply_safe(tree, shown.findings) if options.fix else None
    older = len(report.findings) - len(shown.findings)
    text = _written(shown, tree, options, older)
    _put(text, options)
    if options.report is not None:
        _write_reports(report, options, config)
    if applied is not None:
        _tell(applied, with_diff=options.format == "text")
    left = shown if applied is None else _without(shown, applied.fixed)
    return text, _exit_code(left, options.fail_on or config.fail_on)


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


def _put(text: str, options: argparse.Namespace) -> None:
    """Print a report, or write it to the file that the options name."""
    if options.output is None:
        sys.stdout.write(text)
        return
    try:
        with options.output.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        raise UserError(
            f"{options.output}: cannot be written ({error.strerror}); give another --output."
        ) from error


def _written(report: Report, tree: SnapshotTree, options: argparse.Namespace, older: int) -> str:
    """The report in the form that the options name, for where it goes."""
    if options.format == "text":
        from pitstop.bot import text

        to_file = options.output is not None
        out = text.console(io.StringIO() if to_file else sys.stdout)
        with out.capture() as captured:
            text.TextReport(out, tree, folder=options.path).print(report, older=older)
        return captured.get()
    if options.format == "md":
        from pitstop.bot import report_markdown

        return str(report_markdown.full_report(report, older=older))
    if options.format == "sarif":
        from pitstop.bot import sarif

        return str(sarif.to_sarif(report))
    return report.to_json() + "\n"


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
