"""Dockerfiles: what a container of each stage starts. RUN builds the image and is no job."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.rules.shell import Script
from pitstop.rules.shell_lexer import Lexer
from pitstop.rules.shell_reader import expanded, read_text, read_words
from pitstop.rules.shell_text import ShellText, TextBuilder
from pitstop.rules.shell_values import Binding, Field, Fragment, Scope
from pitstop.rules.tree import RepoTree, SourceFile

_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)[ \t]+")
_HEREDOC = re.compile(r"<<-?[ \t]*[\"']?(\w+)[\"']?")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_PAIR = re.compile(r"([A-Za-z_]\w*)=")
_MAX_LINES = 5_000


@dataclass(frozen=True, slots=True)
class _Start:
    """CMD or ENTRYPOINT: words of the JSON form, or shell text."""

    text: ShellText
    words: tuple[Field, ...] | None


def read_dockerfile(file: SourceFile, tree: RepoTree) -> Iterator[Script]:
    """One Script for each stage that says what it starts."""
    scope = Scope(ShellText.of_file(file), file.path)
    starts: dict[str, _Start] = {}
    for name, text in _instructions(file):
        if name == "FROM":
            yield from _stage(starts, scope, tree)
            arguments = {n: b for n, b in scope.variables.items() if not b.exported}
            scope, starts = Scope(scope.source, file.path, arguments), {}
        elif name in ("CMD", "ENTRYPOINT"):
            starts[name] = _Start(text, _json_words(text))
        elif name in ("ENV", "ARG"):
            _set_variables(text, scope, exported=name == "ENV")
    yield from _stage(starts, scope, tree)


def _stage(starts: dict[str, _Start], scope: Scope, tree: RepoTree) -> Iterator[Script]:
    """ENTRYPOINT with CMD as its arguments; a shell-form ENTRYPOINT takes none."""
    entry, command = starts.get("ENTRYPOINT"), starts.get("CMD")
    first = entry or command
    if first is None:
        return
    if first.words is None:
        yield read_text(first.text, tree, scope.fork())
        return
    more = command.words if entry and command and command.words else ()
    yield read_words(first.text, (*first.words, *(more or ())), tree, scope.fork())


def _instructions(file: SourceFile) -> Iterator[tuple[str, ShellText]]:
    """Name and argument of each instruction, continued lines joined, comments left out."""
    builder: TextBuilder | None = None
    name, delimiter = "", None
    for number in range(1, min(len(file.line_starts), _MAX_LINES) + 1):
        line, start = file.line_text(number), file.line_starts[number - 1]
        if delimiter is not None:
            delimiter = None if line.strip() == delimiter else delimiter
            continue
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if builder is None:
            found = _INSTRUCTION.match(line)
            if found is None:
                continue
            name, begin = found[1].upper(), start + found.end()
            builder = TextBuilder(file, begin, start + len(line))
        else:
            begin = start
        stop = start + len(line.rstrip())
        continued = line.rstrip().endswith("\\")
        builder.take(begin, stop - 1 if continued else stop)
        if continued:
            builder.invent(" ")
            continue
        text, builder = builder.build(), None
        heredoc = _HEREDOC.search(text.text) if name in ("RUN", "COPY", "ADD") else None
        delimiter = heredoc[1] if heredoc else None
        yield name, text
    if builder is not None:
        yield name, builder.build()


def _json_words(text: ShellText) -> tuple[Field, ...] | None:
    """The words of `["a", "b"]`; None for the shell form."""
    if not text.text.lstrip().startswith("["):
        return None
    try:
        values = json.loads(text.text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        return None
    words: list[Field] = []
    for found, value in zip(_STRING.finditer(text.text), values, strict=False):
        start, end = found.start() + 1, found.end() - 1
        words.append((Fragment(value, text, start, end, text.text[start:end] == value),))
    return tuple(words)


def _set_variables(text: ShellText, scope: Scope, *, exported: bool) -> None:
    """`A=1 B="x y"`, or the old `A some words`."""
    lexer = Lexer(text.text)
    at = len(text.text) - len(text.text.lstrip())
    if _PAIR.match(text.text, at) is None:
        old = re.compile(r"([A-Za-z_]\w*)[ \t]+(.*\S)").match(text.text, at)
        if old and exported:
            value = Fragment(old[2], text, old.start(2), old.end(2))
            scope.variables[old[1]] = Binding(((value,),), exported=True)
        return
    while found := _PAIR.match(text.text, at):
        word = lexer.word(found.end(), len(text.text))
        scope.variables[found[1]] = Binding((expanded(text, word, scope),), exported=exported)
        at = word.end
        while at < len(text.text) and text.text[at] in " \t":
            at += 1
