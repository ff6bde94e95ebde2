"""What one simple command does: assign, export, change folder, read another script, run."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pitstop.rules.job import Word
from pitstop.rules.notes import comment_text, explains, note_beside
from pitstop.rules.shell import Command, Heredoc
from pitstop.rules.shell_commands import DECLARATIONS, CommandReader, SimpleCommand, unterminated
from pitstop.rules.shell_expand import Expander
from pitstop.rules.shell_session import Flow, Session
from pitstop.rules.shell_substitution import output
from pitstop.rules.shell_text import Mark, ShellText, TextBuilder
from pitstop.rules.shell_values import (
    Binding,
    Field,
    Scope,
    conditional,
    known,
    text_of,
    unknown,
    word_of,
)
from pitstop.rules.shell_wrappers import SHELLS, WRAPPERS, command_name, inner_command

_PERSONAL = re.compile(r"^(?:/|~|\$\{?HOME\b)|(?:^|/)(?:activate|\w*profile|\.?\w*rc|conda\.sh)$")
"""What a script may source without its being part of a repository."""


class RunText(Protocol):
    """Reads another text in a flow."""

    def __call__(
        self, text: ShellText, flow: Flow, what: object = None, *, child: bool = False
    ) -> None:
        """Read the text; `child` as a process of its own."""


@dataclass(frozen=True, slots=True)
class Call:
    """A simple command after expansion: words and the fields they come from, side by side."""

    simple: SimpleCommand
    words: tuple[Word, ...]
    fields: tuple[Field, ...]
    env: Mapping[str, Binding]

    @property
    def name(self) -> str:
        """The command's name, unresolved as written."""
        return self.words[0].text if self.words else ""


class Calls:
    """Runs the simple commands of one text."""

    def __init__(
        self, session: Session, text: ShellText, reader: CommandReader, run_text: RunText
    ) -> None:
        self.session = session
        self.text = text
        self.reader = reader
        self.run_text = run_text

    def expander(self, scope: Scope, flow: Flow | None = None) -> Expander:
        """An expander in a scope; with a flow, commands inside `$()` are kept too."""

        def substitute(start: int, end: int) -> Field | None:
            inner = self.text.slice(start, end)
            found = output(self.session, inner, self.reader.lexer, scope)
            if found is None and flow is not None:
                self.run_text(inner, replace(flow, scope=scope.fork()))
            return found

        return Expander(self.text, self.reader.lexer, scope, substitute)

    def run(self, simple: SimpleCommand, flow: Flow) -> None:
        """One simple command."""
        scope = flow.scope
        self._report(simple)
        expander = self.expander(scope, flow)
        note = self._note(simple)
        if not simple.words:
            for assignment in simple.assignments:
                scope.assign(assignment.name, expander.binding(assignment, note))
            return
        if simple.words[0].bare in DECLARATIONS:
            self._declare(simple, expander, note)
            return
        call = self._expanded(simple, expander, note)
        builtin = _BUILTINS.get(call.name)
        if builtin is not None:
            builtin(self, call, flow)
        elif call.name in scope.functions:
            self._function(call, flow)
        elif call.words:
            self._command(call, flow)
        self._written_files(simple, flow, call)

    # --- reading the words ---------------------------------------------------------------

    def _report(self, simple: SimpleCommand) -> None:
        for span in simple.broken:
            where, _ = self.text.place(*span)
            self.session.broken.setdefault(where)
        if not simple.complete:
            self.session.note_unread(self.text, simple.start, "command has too many words")
        if any(map(unterminated, simple.words)):
            self.session.note_unread(self.text, simple.start, "a quote or `${` never ends")

    def _note(self, simple: SimpleCommand) -> str | None:
        """The author's reason beside a command or directly above it."""
        if simple.comment is not None:
            return comment_text(simple.comment) if explains(simple.comment) else None
        where, exact = self.text.place(simple.start, simple.end)
        file = self.text.home[0]
        if not exact or file.path != where.path:
            return None
        return note_beside(file, where.line, where.span.end)

    def _expanded(self, simple: SimpleCommand, expander: Expander, note: str | None) -> Call:
        words: list[Word] = []
        fields: list[Field] = []
        for raw in simple.words:
            for value in expander.fields(raw):
                fields.append(value)
                word = word_of(value, self.text, raw.start, raw.end)
                words.append(replace(word, note=note) if note and not word.note else word)
            if len(words) > 20_000:
                self.session.note_unread(self.text, simple.start, "command has too many words")
                break
        env = {a.name: expander.binding(a, note) for a in simple.assignments}
        return Call(simple, tuple(words), tuple(fields), env)

    def _declare(self, simple: SimpleCommand, expander: Expander, note: str | None) -> None:
        """`export`, `declare` and the like."""
        scope = expander.scope
        switches = [w.literal or "" for w in simple.words[1:]]
        exports = simple.words[0].bare == "export" or any(
            s.startswith("-") and "x" in s for s in switches
        )
        for assignment in simple.assignments:
            if assignment.value is None and assignment.name not in scope.variables:
                continue  # exported from outside: nothing is known of it
            binding = expander.binding(assignment, note)
            if "-n" in switches:
                scope.variables[assignment.name] = replace(binding, exported=False)
            else:
                scope.assign(assignment.name, replace(binding, exported=exports))

    # --- builtins ------------------------------------------------------------------------

    def _unset(self, call: Call, flow: Flow) -> None:
        for word in call.words[1:]:
            flow.scope.variables.pop(word.text, None)

    def _cd(self, call: Call, flow: Flow) -> None:
        targets = [w for w in call.words[1:] if not w.text.startswith("-") or w.text == "-"]
        if not targets:
            return
        folder = self.session.find_folder(targets[0].text, flow.scope)
        flow.scope.cwd = folder if folder is not None else ""

    def _set(self, call: Call, flow: Flow) -> None:
        texts = [w.text for w in call.words[1:]]
        if "--" in texts:
            flow.scope.arguments = call.fields[texts.index("--") + 2 :]
        elif texts and (texts[0] in ("-a", "+a") or "allexport" in texts):
            flow.scope.export_all = texts[0].startswith("-")

    def _shift(self, call: Call, flow: Flow) -> None:
        count = call.words[1].text if len(call.words) > 1 else "1"
        if flow.scope.arguments is not None:
            known_count = int(count) if count.isdigit() and len(count) < 5 else 0
            flow.scope.arguments = flow.scope.arguments[known_count:]

    def _read(self, call: Call, flow: Flow) -> None:
        """`read A B`, `mapfile A`, `printf -v A`: the variables hold something unknown."""
        texts = [w.text for w in call.words]
        names = texts[1:]
        if call.name == "printf":
            names = texts[2:3] if texts[1:2] == ["-v"] else []
        for name in names:
            if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
                why = f"{name} is set by {call.name}"
                mark = unknown(self.text, call.simple.start, call.simple.end, why)
                flow.scope.assign(name, Binding(((mark,),)))

    def _source(self, call: Call, flow: Flow) -> None:
        if len(call.words) < 2:
            return
        path = self.session.find_file(call.words[1].text, flow.scope)
        file = self.session.open(path) if path else None
        if path is None or file is None:
            if not _PERSONAL.search(call.words[1].text):
                reason = f"sources {call.words[1].text}, which is not in the repository"
                self.session.note_unread(self.text, call.simple.start, reason)
            return
        scope = flow.scope
        saved = scope.arguments, scope.source
        if len(call.fields) > 2:
            scope.arguments = call.fields[2:]
        scope.source = ShellText.of_file(file)
        self.run_text(scope.source, flow, ("file", path))
        scope.arguments, scope.source = saved

    def _eval(self, call: Call, flow: Flow) -> None:
        self.run_text(self._typed(call.fields[1:], call), flow)

    def _function(self, call: Call, flow: Flow) -> None:
        scope = flow.scope
        saved = scope.arguments
        scope.arguments = call.fields[1:]
        scope.functions[call.name](replace(flow, scope=scope))
        scope.arguments = saved

    # --- programs ------------------------------------------------------------------------

    def _command(self, call: Call, flow: Flow) -> None:
        """Keep a command, then read what it starts as far as that is shell."""
        where, _ = self.text.place(call.simple.start, call.simple.end)
        env = self._environment(call, flow.scope)
        words = {
            n: word_of(b.value, self.text, call.simple.start, call.simple.end)
            for n, b in env.items()
        }
        self.session.add(
            Command(
                call.words,
                words,
                where,
                flow.condition,
                flow.scope.cwd,
                where.path,
                flow.outer,
            )
        )
        self._follow(call, env, flow)

    def _environment(self, call: Call, scope: Scope) -> dict[str, Binding]:
        env = scope.exports()
        env.update(call.env)
        return env

    def _follow(self, call: Call, env: dict[str, Binding], flow: Flow) -> None:
        """Look through wrappers for a shell, a script of the repository or shell text."""
        at = 0
        while at < len(call.words):
            name = command_name(call.words[at])
            outer = (*flow.outer, *call.words[:at])
            if name in SHELLS:
                self._shell(call, at, env, replace(flow, outer=outer))
                return
            if _is_script(call.words[at]):
                self._script(call, at, env, replace(flow, outer=outer))
                return
            self._wrapped_text(call, at, env, flow)
            step = inner_command(call.words[at:])
            if step is None:
                if name in ("sbatch", "ssh"):
                    inner = replace(flow, outer=(*flow.outer, *call.words[at:]))
                    self._heredoc_script(call, env, inner)
                return
            if name == "env":
                env = {**env, **self._assigned(call, at, at + step)}
            at += step
            if name in WRAPPERS and WRAPPERS[name].text:
                inner = replace(flow, outer=(*flow.outer, *call.words[:at]))
                self._child(self._typed(call.fields[at:], call), (), env, inner)
                return

    def _assigned(self, call: Call, start: int, stop: int) -> dict[str, Binding]:
        """The `A=1` words of `env`."""
        out: dict[str, Binding] = {}
        for field in call.fields[start:stop]:
            name, separator, value = text_of(field).partition("=")
            if separator and name.isidentifier() and len(field) == 1:
                out[name] = Binding(((field[0].cut(len(name) + 1, len(field[0].text)),),))
            elif separator and name.isidentifier() and known(field):
                made = replace(field[-1], text=value, exact=False)
                out[name] = Binding(((made,),))
        return out

    def _wrapped_text(self, call: Call, at: int, env: dict[str, Binding], flow: Flow) -> None:
        """`sbatch --wrap "..."`: the command as an option's value."""
        if call.words[at].text != "sbatch":
            return
        for index in range(at + 1, len(call.words)):
            text = call.words[index].text
            if text == "--wrap" and index + 1 < len(call.words):
                value = call.fields[index + 1]
            elif text.startswith("--wrap="):
                value = _without_prefix(call.fields[index], len("--wrap="))
            else:
                continue
            inner = replace(flow, outer=(*flow.outer, *call.words[at:index]))
            self._child(self._typed((value,), call), (), env, inner)

    def _shell(self, call: Call, at: int, env: dict[str, Binding], flow: Flow) -> None:
        """`bash script args`, `bash -c text args`, `bash <<EOF`."""
        at += 1
        while at < len(call.words) and call.words[at].text[:1] in ("-", "+"):
            switch = call.words[at].text
            at += 1
            if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", switch):
                if at < len(call.words):
                    text = self._typed(call.fields[at : at + 1], call)
                    self._child(text, call.fields[at + 2 :], env, flow)
                return
            if switch in ("-o", "-O", "+o", "--rcfile", "--init-file"):
                at += 1
        if at < len(call.words):
            self._script(call, at, env, flow)
            return
        self._heredoc_script(call, env, flow)

    def _heredoc_script(self, call: Call, env: dict[str, Binding], flow: Flow) -> None:
        """`bash <<EOF`, `sbatch <<EOF`, `ssh host <<EOF`: the script is the heredoc."""
        for redirect in call.simple.redirects:
            if redirect.heredoc is not None:
                body = self.reader.heredoc_word(redirect.heredoc)
                content = self.expander(flow.scope).text(body.parts)
                self._child(self._typed((content,), call), (), env, flow)

    def _script(self, call: Call, at: int, env: dict[str, Binding], flow: Flow) -> None:
        """A script of the repository that is started as a program."""
        path = self.session.find_file(call.words[at].text, flow.scope)
        file = self.session.open(path) if path else None
        if path is None or file is None:
            if not _PERSONAL.search(call.words[at].text):
                reason = f"starts {call.words[at].text}, which is not in the repository"
                self.session.note_unread(self.text, call.simple.start, reason)
            return
        text = ShellText.of_file(file)
        self._child(text, call.fields[at + 1 :], env, flow, ("file", path))

    def _child(
        self,
        text: ShellText,
        arguments: Sequence[Field],
        env: Mapping[str, Binding],
        flow: Flow,
        what: object = None,
    ) -> None:
        """Read a text as a process of its own: only the environment is handed down."""
        inherited = {n: replace(b, exported=True) for n, b in env.items()}
        scope = Scope(
            text if what is not None else flow.scope.source,
            text.path if what is not None else flow.scope.script,
            inherited,
            arguments=tuple(arguments),
            cwd=flow.scope.cwd,
        )
        self.session.take_headers(text, scope)
        self.run_text(text, replace(flow, scope=scope), what, child=True)

    def _typed(self, fields: Sequence[Field], call: Call) -> ShellText:
        """Fields as shell text, joined by blanks, each character with its origin."""
        where, _ = self.text.place(call.simple.start, call.simple.end)
        home = self.text.slice(call.simple.start, call.simple.end).home
        builder = TextBuilder(home[0], where.span.start, where.span.end)
        for index, field in enumerate(fields):
            if index:
                builder.invent(" ")
            for f in field:
                start = builder.size
                if f.exact:
                    builder.copy(f.source, f.start, f.end)
                else:
                    builder.invent(f.text)
                why = None if f.text.startswith("$") else f.why  # `$X` may be known there
                if f.condition or f.note or why:
                    builder.mark(start, Mark(0, 0, f.condition, f.note, why))
        return builder.build()

    # --- files that a script writes ------------------------------------------------------

    def _written_files(self, simple: SimpleCommand, flow: Flow, call: Call) -> None:
        """`cat > f <<EOF`, `tee f <<EOF`, `echo '...' > f`."""
        expander = self.expander(flow.scope)
        targets = [
            text_of(field)
            for r in simple.redirects
            if r.operator in (">", ">>", ">|") and r.descriptor in ("", "1")
            for field in expander.fields(r.target)
        ]
        if call.name == "tee":
            targets += [w.text for w in call.words[1:] if not w.text.startswith("-")]
        if not targets:
            return
        content: Field | None = None
        for redirect in simple.redirects:
            if redirect.heredoc is not None and call.name in ("cat", "tee"):
                content = expander.text(self.reader.heredoc_word(redirect.heredoc).parts)
        if content is None and call.name == "echo" and len(call.fields) == 2:
            content = call.fields[1]
        if content:
            self._heredoc(targets[0], conditional(content, flow.condition), simple)

    def _heredoc(self, target: str, content: Field, simple: SimpleCommand) -> None:
        first, last = content[0], content[-1]
        if first.source is self.text and last.source is self.text:
            where, _ = self.text.place(first.start, last.end)
        else:
            where, _ = self.text.place(simple.start, simple.end)
        pieces = tuple(word_of((f,), f.source, f.start, f.end) for f in content)
        found = Heredoc(target, text_of(content), where, pieces)
        self.session.heredocs.setdefault(where, found)


def _is_script(word: Word) -> bool:
    """`./run.sh`, `scripts/run.sh`: a path, started directly."""
    return word.text.endswith((".sh", ".bash", ".slurm", ".sbatch")) and bool(
        posixpath.basename(word.text)
    )


def _without_prefix(value: Field, length: int) -> Field:
    """The field without its first characters, which lie in its first fragment."""
    return (value[0].cut(length, len(value[0].text)), *value[1:])


_BUILTINS: dict[str, Callable[[Calls, Call, Flow], None]] = {
    "unset": Calls._unset,
    "cd": Calls._cd,
    "pushd": Calls._cd,
    "set": Calls._set,
    "shift": Calls._shift,
    "read": Calls._read,
    "mapfile": Calls._read,
    "readarray": Calls._read,
    "printf": Calls._read,
    "source": Calls._source,
    ".": Calls._source,
    "eval": Calls._eval,
}
