"""Programs that a script starts: kept as commands, and read on where they are shell again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pitstop.rules.job import Word
from pitstop.rules.shell import Command
from pitstop.rules.shell_commands import CommandReader, SimpleCommand
from pitstop.rules.shell_expand import Expander
from pitstop.rules.shell_lexer import WORD
from pitstop.rules.shell_session import Flow, Session
from pitstop.rules.shell_substitution import output
from pitstop.rules.shell_text import Mark, ShellText, TextBuilder
from pitstop.rules.shell_values import Binding, Field, Scope, known, text_of, word_of
from pitstop.rules.shell_wrappers import SHELLS, WRAPPERS, command_name, inner_command

PERSONAL = re.compile(r"^(?:/|~|\$\{?HOME\b)|(?:^|/)(?:activate|\w*profile|\.?\w*rc|conda\.sh)$")
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


class Programs:
    """Starts the programs of one text."""

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

    def start(self, call: Call, flow: Flow) -> None:
        """Keep a command, then read what it starts as far as that is shell."""
        where, _ = self.text.place(call.simple.start, call.simple.end)
        env = {**flow.scope.exports(), **call.env}
        self.reader.lexer.spend(4 * len(flow.scope.variables))
        words = {n: self._env_word(b, call) for n, b in env.items()}
        command = Command(
            call.words, words, where, flow.condition, flow.scope.cwd, where.path, flow.outer
        )
        self.session.add(command)
        self._follow(call, env, flow)

    def _env_word(self, binding: Binding, call: Call) -> Word:
        """A variable as a word; the same one is asked for with every command."""
        cached = self.session.env_words.get(id(binding))
        if cached is None or cached[0] is not binding:
            word = word_of(binding.value, self.text, call.simple.start, call.simple.end)
            cached = self.session.env_words[id(binding)] = (binding, word)
        return cached[1]

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
                self._child(self.typed(call.fields[at:], call), (), env, inner)
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
            self._child(self.typed((value,), call), (), env, inner)

    def _shell(self, call: Call, at: int, env: dict[str, Binding], flow: Flow) -> None:
        """`bash script args`, `bash -c text args`, `bash <<EOF`."""
        at += 1
        while at < len(call.words) and call.words[at].text[:1] in ("-", "+"):
            switch = call.words[at].text
            at += 1
            if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", switch):
                if at < len(call.words):
                    text = self.typed(call.fields[at : at + 1], call)
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
                self._child(self.typed((content,), call), (), env, flow)

    def _script(self, call: Call, at: int, env: dict[str, Binding], flow: Flow) -> None:
        """A script of the repository that is started as a program."""
        path = self.session.find_file(call.words[at].text, flow.scope)
        file = self.session.open(path) if path else None
        if path is None or file is None:
            if not PERSONAL.search(call.words[at].text):
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

    def typed(self, fields: Sequence[Field], call: Call) -> ShellText:
        """Fields as shell text, joined by blanks, each character with its origin."""
        where, _ = self.text.place(call.simple.start, call.simple.end)
        home = self.text.slice(call.simple.start, call.simple.end).home
        builder = TextBuilder(home[0], where.span.start, where.span.end)
        for index, field in enumerate(fields):
            if index:
                builder.invent(" ")
            self.reader.lexer.spend(sum(len(f.text) + WORD for f in field))
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


def _is_script(word: Word) -> bool:
    """`./run.sh`, `scripts/run.sh`: a path, started directly."""
    return word.text.endswith((".sh", ".bash", ".slurm", ".sbatch"))


def _without_prefix(value: Field, length: int) -> Field:
    """The field without its first characters, which lie in its first fragment."""
    return (value[0].cut(length, len(value[0].text)), *value[1:])
