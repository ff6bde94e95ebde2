"""Commands inside YAML: strings as shell text whose characters lead back to the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from pitstop.rules.configs import ConfigFile, Entry
from pitstop.rules.finding import Unknown
from pitstop.rules.job import Word
from pitstop.rules.shell_text import ShellText, TextBuilder
from pitstop.rules.shell_values import Binding, Field, Fragment, word_of
from pitstop.rules.tree import SourceFile

_TOKEN = re.compile(r"[^ \t\r\n]+|[ \t\r\n]+")
_GAP = re.compile(r"[\s\\]*\Z")
_RUN = re.compile(r"\s*\S+")
_HEADER = re.compile(r"[|>][-+\d]*[ \t]*(?:#[^\n]*)?\r?\n")


def decoded(entry: Entry) -> str:
    """A scalar as the string that a program gets: numbers and booleans as they are written."""
    return entry.value if isinstance(entry.value, str) else entry.raw.strip("\"'")


def scalar_text(file: SourceFile, entry: Entry) -> ShellText:
    """A string in any of YAML's styles. Words that stand in the file as they are lead back to
    their place, what YAML rewrites (escapes, folded line ends) does not."""
    span = entry.value_at.span
    builder = TextBuilder(file, span.start, span.end)
    at, end = span.start, span.end
    if header := _HEADER.match(file.text, at, end):
        at = header.end()
    elif file.text[at:end][:1] in ("'", '"'):
        at, end = at + 1, end - 1
    for token in _TOKEN.findall(decoded(entry)):
        found = file.text.find(token, at, end)
        if found >= 0 and _GAP.match(file.text, at, found):
            builder.take(found, found + len(token))
            at = found + len(token)
        else:
            builder.invent(token)
            rewritten = None if token.isspace() else _RUN.match(file.text, at, end)
            at = rewritten.end() if rewritten else at
    return builder.build()


def scalar_field(file: SourceFile, entry: Entry) -> Field:
    """A string as one word or as the value of a variable."""
    text = scalar_text(file, entry)
    why = entry.value.why if isinstance(entry.value, Unknown) else None
    if why is None and re.search(r"\$?\{\{", text.text):
        why = "template expression"
    return (Fragment(text.text, text, 0, len(text.text), True, why),)


def scalar_word(file: SourceFile, entry: Entry) -> Word:
    """A string as a Word."""
    field = scalar_field(file, entry)
    return word_of(field, field[0].source, 0, len(field[0].text))


def strings(entry: Entry | None) -> tuple[Entry, ...]:
    """The members of a list of strings, or the one string; nothing when there is neither."""
    if entry is None or entry.value is None or entry.value == ():
        return ()
    return entry.items or (entry,)


def joined_lines(file: SourceFile, entries: Iterable[Entry]) -> ShellText | None:
    """Strings that run one after the other in one shell, a line each."""
    builder: TextBuilder | None = None
    for entry in entries:
        text = scalar_text(file, entry)
        if builder is None:
            builder = TextBuilder(file, entry.value_at.span.start, entry.value_at.span.end)
        builder.copy(text, 0, len(text.text))
        builder.invent("\n")
    return builder.build() if builder else None


def environment(file: SourceFile, entries: Iterable[tuple[str, Entry]]) -> dict[str, Binding]:
    """Exported variables from name and value."""
    return {
        name: Binding((scalar_field(file, entry),), exported=True)
        for name, entry in entries
        if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
    }


def mapped(config: ConfigFile, *path: str | int, document: int = 0) -> Iterator[tuple[str, Entry]]:
    """Name and value of the scalars of a mapping."""
    for entry in config.find(*path, document=document):
        if len(entry.path) == len(path) + 1 and not entry.items:
            yield str(entry.path[-1]), entry


def named_list(
    config: ConfigFile, *path: str | int, document: int = 0
) -> Iterator[tuple[str, Entry]]:
    """Name and value of `- {name: A, value: b}` as Kubernetes writes environments."""
    for entry in config.find(*path, document=document):
        if len(entry.path) == len(path) + 2 and entry.path[-1] == "name":
            value = config.get(*entry.path[:-1], "value", document=document)
            if value is not None:
                yield decoded(entry), value


def headers(file: SourceFile, found: Mapping[str, Entry | None]) -> dict[str, Word]:
    """What the file asks of its scheduler, by name."""
    return {n: scalar_word(file, e) for n, e in found.items() if e is not None}
