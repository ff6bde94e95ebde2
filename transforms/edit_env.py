"""Set, add and remove environment variables of a command by splicing the script's text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from pitstop.rules.finding import Location, Span
from pitstop.rules.job import Word
from pitstop.rules.tree import SourceFile, UnreadableError
from pitstop.transforms.edit_shell import quoted
from pitstop.transforms.members import line_end, line_start, newline
from pitstop.transforms.patch import Edit, Outcome, Refused, Unchanged
from pitstop.transforms.shell_proof import Commands, proved
from pitstop.transforms.yaml_nodes import documents

_EXPORT = re.compile(r"[ \t]*export[ \t]+(?=\w+=)")


def set_env(commands: Commands, at: Location, now: Word | None, name: str, value: str) -> Outcome:
    """Give the command at `at` the variable; `now` is its value there, None when it has none."""
    if now is not None and now.known and now.text == value:
        return Unchanged()
    if now is not None and not (now.known and now.exact):
        return Refused(f"the value of {name} is put together from several places")
    if now is not None:
        file = _file(commands, now.location)
        if file is None:
            return Refused(f"{now.location.path} cannot be read")
        span = now.location.span
        edit = Edit.replace(file, span, quoted(value, file, span))
        return proved(commands, (edit,), at, env=(name, value))
    outcome: Outcome = Refused(f"there is no place where {name} can be written")
    for edits in _additions(commands, at, f"{name}={quoted_alone(value)}"):
        outcome = proved(commands, edits, at, env=(name, value))
        if not isinstance(outcome, Refused):
            return outcome
    return outcome


def remove_env(commands: Commands, at: Location, now: Word | None, name: str) -> Outcome:
    """Take the variable from the command at `at`; `now` is its value there."""
    if now is None:
        return Unchanged("not set")
    file = _file(commands, now.location)
    if file is None or not now.exact:
        return Refused(f"{name} is not assigned in one piece")
    outcome: Outcome = Refused(f"{name} is not assigned in one piece")
    for span in _removals(file, now, name):
        outcome = proved(commands, (Edit.replace(file, span, ""),), at, env=(name, None))
        if not isinstance(outcome, Refused):
            return outcome
    return outcome


def _removals(file: SourceFile, now: Word, name: str) -> Iterator[Span]:
    """The assignment; in job files, the line of a mapping or the two lines of a list item."""
    span = _assignment(file, now, name)
    if span is not None:
        yield _with_export(file, span)
        return
    start, end = line_start(file, now.location.span.start), line_end(file, now.location.span.end)
    value = re.escape(now.text)
    line = rf"[ \t]*(?:(?:ENV|env)[ \t]+{name}[ \t]+|{name}[ \t]*:[ \t]*)[\"']?{value}[\"']?"
    pairs, items = _company(file, now.location.span)
    if pairs > 1 and re.fullmatch(line + r"[ \t]*(#.*)?", file.text[start:end]):
        yield Span(start, _next_line(file, end))
    item = rf"[ \t]*-[ \t]+name:[ \t]*[\"']?{name}[\"']?[ \t]*(?:#.*)?"
    if start and items > 1 and re.fullmatch(item, file.line_text(file.position(start)[0] - 1)):
        yield Span(line_start(file, start - 1), _next_line(file, end))


def _company(file: SourceFile, at: Span) -> tuple[int, int]:
    """In a YAML file: the pairs of the mapping that holds the value, and the items of the list
    around that. An only one is not removed; elsewhere there is no such limit."""
    if not file.path.endswith((".yml", ".yaml")):
        return 2, 0
    pairs = items = 0
    waiting = [root for root in documents(file) if root is not None]
    while waiting:
        node = waiting.pop()
        if node.start <= at.start and at.end <= node.end:
            pairs = len(node.pairs) if node.kind == "mapping" else pairs
            items = len(node.items) if node.kind == "sequence" else items
            waiting = list(node.children())
    return pairs, items


def quoted_alone(value: str) -> str:
    """A value as a word of its own."""
    nothing = SourceFile("", "")
    return quoted(value, nothing, Span(0, 0))


def _additions(commands: Commands, at: Location, assignment: str) -> Iterator[tuple[Edit, ...]]:
    """Beside the last export above the command, else as a line above it, else as its prefix."""
    file = _file(commands, at)
    if file is None:
        return
    start = line_start(file, at.span.start)
    for line in range(file.position(start)[0] - 1, 0, -1):
        text = file.line_text(line)
        found = _EXPORT.match(text)
        if found and not text.rstrip().endswith("\\"):
            end = file.line_starts[line - 1] + len(text)
            mark = newline(file, end)
            yield (Edit.replace(file, Span(end, end), f"{mark}{found[0]}{assignment}"),)
            break
    indent = file.text[start : at.span.start]
    if not indent.strip():
        mark = newline(file, start)
        line_above = f"{indent}export {assignment}{mark}"
        yield (Edit.replace(file, Span(start, start), line_above),)
    if PurePosixPath(at.path).name.lower().startswith(("dockerfile", "containerfile")):
        yield (Edit.replace(file, Span(start, start), f"ENV {assignment}{newline(file, start)}"),)
    here = Span(at.span.start, at.span.start)
    yield (Edit.replace(file, here, f"{assignment} "),)


def _assignment(file: SourceFile, now: Word, name: str) -> Span | None:
    """From the name to the end of the value, quotes included."""
    start, end = now.location.span.start, now.location.span.end
    quote = file.text[start - 1 : start]
    if quote in ("'", '"') and quote == file.text[end : end + 1]:
        start, end = start - 1, end + 1
    begin = start - len(name) - 1
    if begin < 0 or file.text[begin:start] != f"{name}=" or not now.exact:
        return None
    if re.match(r"[^\s;&|)]", file.text[end : end + 1]):
        return None
    return Span(begin, end)


def _with_export(file: SourceFile, span: Span) -> Span:
    """The whole line when it does nothing else, else the assignment and a blank."""
    start, stop = line_start(file, span.start), line_end(file, span.end)
    before, rest = file.text[start : span.start], file.text[span.end : stop]
    if before.strip().lower() in ("", "export", "env") and (
        not rest.strip() or rest.lstrip().startswith("#")
    ):
        return Span(start, _next_line(file, stop))
    if rest[:1] in (" ", "\t"):
        return Span(span.start, span.end + len(rest) - len(rest.lstrip(" \t")))
    return Span(span.start - (len(before) - len(before.rstrip(" \t"))), span.end)


def _next_line(file: SourceFile, end: int) -> int:
    return end + (2 if file.text.startswith("\r\n", end) else int(end < len(file.text)))


def _file(commands: Commands, at: Location) -> SourceFile | None:
    try:
        return commands.tree.read(at.path)
    except UnreadableError:
        return None
