"""The output of `$(...)` for the few commands whose output the text alone decides."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from pitstop.rules.shell_arithmetic import evaluate
from pitstop.rules.shell_commands import CommandReader, SimpleCommand
from pitstop.rules.shell_expand import Expander
from pitstop.rules.shell_lexer import Lexer
from pitstop.rules.shell_session import Session
from pitstop.rules.shell_text import ShellText
from pitstop.rules.shell_values import Field, Fragment, Scope, known, text_of

_MAX_PARTS = 4
_MAX_SEQUENCE = 1_000
_OPERATOR = re.compile(r"\s*(&&|\|\||\||;|\n|\Z)\s*")


def output(session: Session, inner: ShellText, lexer: Lexer, scope: Scope) -> Field | None:
    """What the commands print, without the last line end; None when it cannot be known."""
    reader = CommandReader(Lexer(inner.text, work=lexer.work))
    commands, operators = _sequence(reader)
    lexer.spend(len(inner.text))
    if not commands or len(commands) > _MAX_PARTS:
        return None
    depth = session.enter(None)
    if not depth:
        return None
    try:
        return _Evaluation(session, inner, reader, scope).run(commands, operators)
    finally:
        session.leave()


def _sequence(reader: CommandReader) -> tuple[list[SimpleCommand], list[str]]:
    """Simple commands and the operators between them; empty for anything else."""
    commands: list[SimpleCommand] = []
    operators: list[str] = []
    text, at = reader.text, 0
    while at < len(text) and len(commands) <= _MAX_PARTS:
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
        simple = reader.read(at, len(text))
        if simple.end <= at:
            break
        commands.append(simple)
        bodies = [r.heredoc.after for r in simple.redirects if r.heredoc]
        if bodies:
            rest = text[simple.end : min(b.heredoc.body[0] for b in simple.redirects if b.heredoc)]
            if rest.strip():
                return [], []
            at = max(bodies)
            continue
        found = _OPERATOR.match(text, simple.end)
        if found is None:
            return [], []
        if found.end() < len(text):
            operators.append(found[1])
        at = found.end()
    return commands, operators


class _Evaluation:
    def __init__(
        self, session: Session, inner: ShellText, reader: CommandReader, scope: Scope
    ) -> None:
        self.session = session
        self.inner = inner
        self.reader = reader
        self.scope = scope
        self.expander = Expander(inner, reader.lexer, scope, self._nested)

    def _nested(self, start: int, end: int) -> Field | None:
        return output(self.session, self.inner.slice(start, end), self.reader.lexer, self.scope)

    def run(self, commands: Sequence[SimpleCommand], operators: Sequence[str]) -> Field | None:
        names = [c.name for c in commands]
        if any(c.assignments for c in commands):
            return None
        if len(commands) == 1:
            return self._one(commands[0])
        if names == ["cd", "pwd"] and operators[0] in ("&&", ";"):
            return self._folder(commands[0])
        if names == ["echo", "tr", "wc"] and list(operators) == ["|", "|"]:
            return self._counted(commands)
        return None

    def _one(self, command: SimpleCommand) -> Field | None:
        if command.name == "cat":
            return self._heredoc(command)
        handler = _COMMANDS.get(command.name or "")
        if handler is None:
            return None
        fields = self.expander.all_fields(command.words[1:])
        if command.name == "echo":
            return self._echo(fields)
        if not all(map(known, fields)):
            return None
        text = handler([text_of(f) for f in fields], self.scope)
        return None if text is None else (self._made(text),)

    def _made(self, text: str) -> Fragment:
        return Fragment(text, self.inner, 0, len(self.inner.text), exact=False)

    def _heredoc(self, command: SimpleCommand) -> Field | None:
        heredoc = next((r.heredoc for r in command.redirects if r.heredoc), None)
        if heredoc is None or len(command.words) > 1:
            return None
        value = self.expander.text(self.reader.heredoc_word(heredoc).parts)
        return _without_line_ends(value)

    def _echo(self, fields: Sequence[Field]) -> Field | None:
        out: list[Fragment] = []
        words = list(fields)
        if words and text_of(words[0]) == "-n":
            words = words[1:]
        if words and text_of(words[0]).startswith("-e"):
            return None
        for index, field in enumerate(words):
            if index:
                out.append(self._made(" "))
            out += field
        return tuple(out)

    def _folder(self, cd: SimpleCommand) -> Field | None:
        fields = self.expander.all_fields(cd.words[1:])
        targets = [f for f in fields if text_of(f) not in ("--", "-P", "-L")]
        if len(targets) != 1 or not known(targets[0]):
            return None
        return (self._made(_normal(text_of(targets[0]))),)

    def _counted(self, commands: Sequence[SimpleCommand]) -> Field | None:
        """`echo $GPUS | tr ',' '\\n' | wc -l`: the usual way to count GPUs."""
        echo, tr, wc = ([w.literal for w in c.words[1:]] for c in commands)
        if tr not in ([",", "\\n"], [",", "\n"]) or wc != ["-l"] or len(echo) != 1:
            return None
        fields = self.expander.all_fields(commands[0].words[1:])
        if len(fields) != 1 or not known(fields[0]):
            return None
        return (self._made(str(text_of(fields[0]).count(",") + 1)),)


def _without_line_ends(value: Field) -> Field:
    out = list(value)
    while out and out[-1].why is None:
        text = out[-1].text.rstrip("\r\n")
        if text:
            out[-1] = out[-1].cut(0, len(text)) if out[-1].exact else replace(out[-1], text=text)
            break
        out.pop()
    return tuple(out)


def _normal(path: str) -> str:
    return posixpath.normpath(path) if path else "."


def _dirname(args: Sequence[str], _: Scope) -> str | None:
    names = [a for a in args if a != "--"]
    return posixpath.dirname(names[0].rstrip("/")) or "." if len(names) == 1 else None


def _basename(args: Sequence[str], _: Scope) -> str | None:
    if not args or args[0].startswith("-"):
        return None
    name = posixpath.basename(args[0].rstrip("/"))
    return name.removesuffix(args[1]) if len(args) == 2 else name


def _realpath(args: Sequence[str], _: Scope) -> str | None:
    names = [a for a in args if not a.startswith("-")]
    return _normal(names[0]) if len(names) == 1 else None


def _pwd(_: Sequence[str], scope: Scope) -> str | None:
    return scope.cwd or "."


def _which(args: Sequence[str], _: Scope) -> str | None:
    names = [a for a in args if not a.startswith("-")]
    return names[0] if len(names) == 1 else None


def _seq(args: Sequence[str], _: Scope) -> str | None:
    if not 1 <= len(args) <= 3 or not all(re.fullmatch(r"-?\d{1,9}", a) for a in args):
        return None
    numbers = [int(a) for a in args]
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) == 3 else 1
    if step == 0:
        return None
    values = range(first, numbers[-1] + (1 if step > 0 else -1), step)
    return " ".join(map(str, values)) if len(values) <= _MAX_SEQUENCE else None


def _expr(args: Sequence[str], _: Scope) -> str | None:
    value = evaluate(" ".join(args), lambda _: None)
    return None if value is None else str(value)


def _git(args: Sequence[str], _: Scope) -> str | None:
    return "." if list(args) == ["rev-parse", "--show-toplevel"] else None


_COMMANDS: dict[str, Callable[[Sequence[str], Scope], str | None]] = {
    "echo": lambda args, _: " ".join(args),
    "dirname": _dirname,
    "basename": _basename,
    "realpath": _realpath,
    "readlink": _realpath,
    "pwd": _pwd,
    "which": _which,
    "command": _which,
    "seq": _seq,
    "expr": _expr,
    "git": _git,
}
