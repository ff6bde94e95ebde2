"""A report for the terminal: what, where, why, what it costs, the change, and when to leave it.

Words from the repository are data here: control characters in them never reach the terminal.
"""

from __future__ import annotations

import itertools
import typing
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.style import Style
from rich.table import Table
from rich.text import Text

from pitstop.bot.apply import fixable
from pitstop.bot.markdown import visible
from pitstop.bot.report import Report, ReportedFinding
from pitstop.bot.wording import changed_lines, count, decision, job_cells, notes
from pitstop.rules.finding import Finding, Location, Severity
from pitstop.rules.tree import RepoTree, UnreadableError
from pitstop.transforms.patch import Refused

COLOURS = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
MAX_JOBS = 12
MAX_UNREAD = 20
PIPE_WIDTH = 100
"""Columns of sentences where there is no terminal to ask."""
LIST_WIDTH = 1000
"""Columns of lists there: long names stay on one line."""


def printable(text: str) -> str:
    """The text with everything that could steer a terminal shown as an escape instead."""
    return "\n".join(visible(line) for line in text.replace("\t", "    ").split("\n"))


def console(file: typing.TextIO) -> Console:
    """Where to print: colours only on a terminal and without NO_COLOR."""
    width = None if file.isatty() else LIST_WIDTH
    return Console(file=file, width=width, highlight=False, emoji=False, markup=False)


def print_diff(out: Console, diff: str) -> None:
    """A unified diff in its usual colours."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in diff.splitlines():
        text = Text(printable(line), colours.get(line[:1], ""), no_wrap=True, overflow="ignore")
        out.print(text, crop=False)


class TextReport:
    """Prints a report. `tree` gives the lines to show, `folder` is where its files lie."""

    def __init__(self, out: Console, tree: RepoTree, *, folder: Path) -> None:
        self._out = out
        self._tree = tree
        self._folder = folder
        self._width = None if out.is_terminal else PIPE_WIDTH
        self._explained: set[str] = set()

    def print(self, report: Report, *, older: int = 0) -> None:
        """The whole report; `older` findings were there before the change and are left out."""
        by_path = itertools.groupby(
            sorted(report.findings, key=lambda r: (r.finding.primary, -r.finding.severity)),
            key=lambda reported: reported.finding.primary.path,
        )
        for path, group in by_path:
            rule = Rule(self._link(path), align="left", style="dim")
            self._out.print(rule, width=self._width)
            for reported in group:
                self._out.print(self._head(reported.finding), soft_wrap=True)
                self._out.print(self._body(reported), width=self._width)
                self._out.print()
        for part in (_jobs(report), _unread(report), _notes(report)):
            if part is not None:
                self._out.print(part)
                self._out.print()
        self._out.print(_verdict(report, older))

    def _link(self, path: str, location: Location | None = None) -> Text:
        """`path:line:column`, which terminals open, and a hyperlink for those that show it."""
        where = f":{location.line}:{location.column}" if location else ""
        target = self._folder / path
        style = Style(bold=True, link=target.resolve().as_uri() if self._out.is_terminal else None)
        return Text(f"{printable(str(target))}{where}", style)

    def _head(self, finding: Finding) -> Text:
        return Text.assemble(
            self._link(finding.primary.path, finding.primary),
            "  ",
            (finding.severity.label, COLOURS[finding.severity]),
            "  ",
            (finding.rule, "bold"),
            " ",
            printable(finding.title),
        )

    def _body(self, reported: ReportedFinding) -> RenderableType:
        finding = reported.finding
        again = finding.rule in self._explained
        self._explained.add(finding.rule)
        return Group(
            *self._excerpt(finding.primary, COLOURS[finding.severity]),
            _indent(Text(printable(finding.message)), 2),
            _indent(_details(finding, again=again), 2),
            *_change(reported),
        )

    def _excerpt(self, at: Location, colour: str) -> Iterator[RenderableType]:
        """The line, with a mark under the range. Nothing when the file is not there."""
        try:
            line = self._tree.read(at.path).line_text(at.line)
        except UnreadableError:
            return
        end = at.end_column - 1 if at.end_line == at.line else len(line)
        before, marked = printable(line[: at.column - 1]), printable(line[at.column - 1 : end])
        number = f"{at.line:>6}"
        gutter = " " * len(number)
        shown = before.lstrip()
        text = Text.assemble((f"{number} │ ", "dim"), shown, (marked, colour))
        text.append(printable(line[end:]))
        text.no_wrap, text.overflow = True, "ellipsis"
        mark = "^" + "─" * max(cell_len(marked) - 1, 0)
        under = Text.assemble((f"{gutter} │ ", "dim"), " " * cell_len(shown), (mark, colour))
        under.no_wrap, under.overflow = True, "crop"
        yield text
        yield under


def _details(finding: Finding, *, again: bool) -> Table:
    """Facts of this finding; what its rule always says, the first time only."""
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True, min_width=len("leave if"))
    table.add_column(overflow="fold")
    for label, text in (*_facts(finding), *(() if again else _reasons(finding))):
        table.add_row(label, printable(text))
    return table


def _facts(finding: Finding) -> Iterator[tuple[str, str]]:
    if decided := decision(finding):
        yield "decides", decided
    if finding.jobs and finding.jobs != (finding.primary.path,):
        yield "jobs", _some(finding.jobs, 4)
    for related in finding.related:
        yield "see", f"{related.location}  {related.text}"


def _reasons(finding: Finding) -> Iterator[tuple[str, str]]:
    if finding.cost:
        yield "cost", f"{finding.cost} ({finding.source})" if finding.source else finding.cost
    if finding.leave_when:
        yield "leave if", finding.leave_when
    if finding.advice:
        yield "advice", finding.advice


def _some(words: tuple[str, ...], most: int) -> str:
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _change(reported: ReportedFinding) -> Iterator[RenderableType]:
    """The fix as lines to take out and put in, or why there is none."""
    fix, outcome = reported.finding.fix, reported.outcome
    if fix is None:
        return
    head = Text.assemble(
        ("fix      ", "dim"), printable(fix.text), (f" [{fix.safety.value}]", "dim")
    )
    yield _indent(head, 2)
    for line in changed_lines(reported.diff):
        colour = "red" if line.startswith("-") else "green"
        yield _indent(Text(printable(line), colour, no_wrap=True, overflow="ellipsis"), 4)
    if isinstance(outcome, Refused):
        yield _indent(Text(f"by hand: {printable(outcome.reason)}", "dim"), 4)


def _indent(part: RenderableType, columns: int) -> Padding:
    return Padding(part, (0, 0, 0, columns), expand=False)


def _jobs(report: Report) -> RenderableType | None:
    if not report.jobs:
        return None
    found = Counter(job for reported in report.findings for job in reported.finding.jobs)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("findings", justify="right")
    for name in ("framework", "processes", "model", "GPU"):
        table.add_column(name, no_wrap=True, max_width=24)
    table.add_column("job", overflow="fold")
    for job in sorted(report.jobs, key=lambda job: (-found[job.id], job.id))[:MAX_JOBS]:
        name, *cells = (printable(cell) for cell in job_cells(job))
        table.add_row(str(found[job.id] or "·"), *cells, name)
    if len(report.jobs) > MAX_JOBS:
        return Group(table, Text(f"… and {len(report.jobs) - MAX_JOBS} more jobs", "dim"))
    return table


def _unread(report: Report) -> RenderableType | None:
    if not report.unread:
        return None
    lines = [
        f"{unread.path}{f':{unread.line}' if unread.line else ''}: {unread.reason}"
        for unread in report.unread[:MAX_UNREAD]
    ]
    if len(report.unread) > MAX_UNREAD:
        lines.append(f"… and {len(report.unread) - MAX_UNREAD} more (--format json has all)")
    return _listed(f"Not read or not understood ({len(report.unread)})", lines)


def _notes(report: Report) -> RenderableType | None:
    lines = tuple(notes(report))
    return _listed("Notes", lines) if lines else None


def _listed(title: str, lines: Iterable[str]) -> RenderableType:
    return Group(Text(title, "dim"), *(Text(f"  {printable(line)}") for line in lines))


def _verdict(report: Report, older: int) -> Text:
    text = Text()
    by_severity = Counter(reported.finding.severity for reported in report.findings)
    if not by_severity:
        text.append("No findings" if not older else "No new findings", "green")
    for severity in sorted(by_severity, reverse=True):
        text.append(", " if text else "")
        text.append(count(severity, by_severity[severity]), COLOURS[severity])
    if safe := len(fixable(report.findings)):
        text.append(f" · {safe} can be fixed with --fix safe")
    if older:
        text.append(f" · {older} older not shown", "dim")
    jobs = f"{len(report.jobs)} job{'' if len(report.jobs) == 1 else 's'}"
    text.append(f" · {report.files} files, {jobs}, {report.seconds:.1f} s", "dim")
    return text
