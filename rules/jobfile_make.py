"""Makefiles: each recipe line is a shell of its own, after make has put its variables in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pitstop.rules.shell import Script
from pitstop.rules.shell_nesting import COMMAND, closing
from pitstop.rules.shell_reader import read_text
from pitstop.rules.shell_text import Mark, ShellText, TextBuilder
from pitstop.rules.shell_values import MAX_VALUE, Binding, Fragment, Scope
from pitstop.rules.tree import RepoTree, SourceFile

_ASSIGNMENT = re.compile(
    r" *(?:(?P<target>[^\s:=#][^:=#]*):[ \t]*)?(?P<export>export[ \t]+|override[ \t]+)*"
    r"(?P<name>[A-Za-z_][\w.-]*)[ \t]*(?P<op>::?=|:::=|\?=|\+=|!=|=)[ \t]*"
)
_EXPORT = re.compile(r"export[ \t]+([A-Za-z_][\w \t]*)\Z")
_CONDITION = re.compile(r"[ \t]*(ifeq|ifneq|ifdef|ifndef|else|endif)\b[ \t]*(\w*)")
_RULE = re.compile(r"[^\s#=:][^=:]*::?(?!=)[^;=]*(?:;(?P<recipe>.*))?\Z")
_VARIABLE = re.compile(r"\$(?:\((?P<a>[\w.-]+)\)|\{(?P<b>[\w.-]+)\}|(?P<auto>[@<^*?+%|]))")
_MAX_DEPTH = 10
_MAX_LINES = 20_000
_AUTOMATIC = "${{ set by make }}"


Range = tuple[int, int]


@dataclass(slots=True)
class _Makefile:
    """What was read so far. `unsure` variables are set under a condition; `local` ones belong to
    a target; a recipe is its range and the targets it makes."""

    file: SourceFile
    values: dict[str, Range] = field(default_factory=dict)
    appended: dict[str, list[Range]] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    exported: set[str] = field(default_factory=set)
    local: dict[str, dict[str, Range]] = field(default_factory=dict)
    recipes: list[tuple[Range, tuple[str, ...]]] = field(default_factory=list)
    depth: int = 0
    default_for: str = ""
    targets: tuple[str, ...] | None = None


def read_makefile(file: SourceFile, tree: RepoTree) -> Iterator[Script]:
    """A Script for each recipe line."""
    make = _Makefile(file)
    defined = False
    for start, end in _logical_lines(file):
        line = file.text[start:end]
        if defined or line.startswith("define "):
            defined = not line.startswith("endef")
        elif make.targets is not None and line.startswith("\t"):
            make.recipes.append(((start + 1, end), make.targets))
        elif line.strip() and not line.lstrip().startswith("#"):
            _take_line(make, line, start, end)
    for span, targets in make.recipes:
        own = {n: v for t in targets for n, v in make.local.get(t, {}).items()}
        text = _recipe(make, *span, own)
        yield read_text(text, tree, Scope(text, file.path, _exports(make)))


def _take_line(make: _Makefile, line: str, start: int, end: int) -> None:
    """A condition, an assignment, an export or the head of a rule."""
    if condition := _CONDITION.match(line):
        make.depth += {"else": 0, "endif": -1}.get(condition[1], 1)
        make.default_for = condition[2] if condition[1] == "ifndef" else ""
    elif found := _ASSIGNMENT.match(line):
        value = _value(make.file, start + found.end(), end)
        if found["target"]:
            for target in found["target"].split():
                make.local.setdefault(target, {})[found["name"]] = value
            return
        make.targets = None
        sure = make.depth <= 0 or make.default_for == found["name"]
        _assign(make, found, value, sure=sure)
    elif exports := _EXPORT.match(line):
        make.exported.update(exports[1].split())
    elif rule := _RULE.match(line):
        make.targets = tuple(line.partition(":")[0].split())
        if rule["recipe"]:
            make.recipes.append(((start + rule.start("recipe"), end), make.targets))


def _logical_lines(file: SourceFile) -> Iterator[Range]:
    """Lines with their continuations, as ranges of the file without the line end."""
    begin: int | None = None
    for number in range(1, min(len(file.line_starts), _MAX_LINES) + 1):
        start = file.line_starts[number - 1]
        line = file.line_text(number)
        begin = start if begin is None else begin
        if not line.endswith("\\"):
            yield begin, start + len(line)
            begin = None
    if begin is not None:
        yield begin, len(file.text)


def _value(file: SourceFile, start: int, end: int) -> Range:
    """A value without the comment and the blanks behind it."""
    text = file.text[start:end]
    comment = re.search(r"(?<!\\)#", text)
    if comment:
        text = text[: comment.start()]
    return start, start + len(text.rstrip())


def _assign(make: _Makefile, found: re.Match[str], value: Range, *, sure: bool) -> None:
    name, operator = found["name"], found["op"]
    if found["export"] and "export" in found[0]:
        make.exported.add(name)
    if operator == "?=" and name in make.values:
        return
    if not sure or operator == "!=":
        make.unsure.add(name)
    if operator == "+=" and name in make.values:
        make.appended.setdefault(name, []).append(value)
        return
    make.values[name] = value
    make.appended.pop(name, None)


def _exports(make: _Makefile) -> dict[str, Binding]:
    out: dict[str, Binding] = {}
    for name in make.exported & make.values.keys():
        builder = TextBuilder(make.file, *make.values[name])
        _expand(make, builder, make.values[name], {}, 0)
        text = builder.build()
        why = "set under a condition" if name in make.unsure else None
        out[name] = Binding(
            ((Fragment(text.text, text, 0, len(text.text), True, why),),), False, True
        )
    return out


def _recipe(make: _Makefile, start: int, end: int, own: dict[str, Range]) -> ShellText:
    """A recipe line as the shell gets it: `@` and `-` gone, variables put in."""
    while start < end and make.file.text[start] in "@-+ \t":
        start += 1
    builder = TextBuilder(make.file, start, end)
    _expand(make, builder, (start, end), own, 0)
    return builder.build()


def _expand(
    make: _Makefile,
    builder: TextBuilder,
    span: Range,
    own: dict[str, Range],
    depth: int,
) -> None:
    """Copy a range of the file; each `$(NAME)` becomes the text that NAME holds."""
    at, end = span
    text = make.file.text
    while at < end:
        dollar = text.find("$", at, end)
        if dollar < 0 or builder.size > MAX_VALUE:
            break
        builder.take(at, dollar)
        if text.startswith("$$", dollar):
            builder.take(dollar + 1, dollar + 2)
            at = dollar + 2
        elif found := _VARIABLE.match(text, dollar, end):
            _variable(make, builder, found, own, depth)
            at = found.end()
        else:
            at = _function(make, builder, dollar, end)
    if builder.size <= MAX_VALUE:
        builder.take(at, end)


def _variable(
    make: _Makefile,
    builder: TextBuilder,
    found: re.Match[str],
    own: dict[str, Range],
    depth: int,
) -> None:
    name = found["a"] or found["b"]
    if name is None:
        builder.invent(_AUTOMATIC)
        return
    value = own.get(name) or make.values.get(name)
    if value is None or depth >= _MAX_DEPTH:
        builder.invent(f"${{{name}}}")
        return
    start = builder.size
    _expand(make, builder, value, own, depth + 1)
    for more in make.appended.get(name, ()):
        builder.invent(" ")
        _expand(make, builder, more, own, depth + 1)
    if name in make.unsure and name not in own:
        builder.mark(start, Mark(0, 0, why=f"{name} is set under a condition"))


def _function(make: _Makefile, builder: TextBuilder, dollar: int, end: int) -> int:
    """`$(shell ...)`, `$(if ...)`: what make makes of them is not known."""
    if not make.file.text.startswith("$(", dollar):
        builder.invent(_AUTOMATIC)
        return dollar + 2
    stop = closing(make.file.text, dollar + 2, end, COMMAND)
    builder.invent(_AUTOMATIC)
    return stop if stop > 0 else end
