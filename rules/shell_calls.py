"""What one simple command does: assign, export, change folder, read another script, run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from pitstop.rules.job import Word
from pitstop.rules.notes import comment_text, explains, note_beside
from pitstop.rules.shell import Heredoc
from pitstop.rules.shell_commands import DECLARATIONS, CommandReader, SimpleCommand, unterminated
from pitstop.rules.shell_expand import Expander
from pitstop.rules.shell_programs import PERSONAL, Call, Programs, RunText
from pitstop.rules.shell_session import Flow, Session
from pitstop.rules.shell_text import ShellText
from pitstop.rules.shell_values import (
    Binding,
    Field,
    conditional,
    text_of,
    unknown,
    word_of,
)


class Calls:
    """Runs the simple commands of one text."""

    def __init__(
        self, session: Session, text: ShellText, reader: CommandReader, run_text: RunText
    ) -> None:
        self.session = session
        self.text = text
        self.reader = reader
        self.run_text = run_text
        self.programs = Programs(session, text, reader, run_text)

    def run(self, simple: SimpleCommand, flow: Flow) -> None:
        """One simple command."""
        scope = flow.scope
        self._report(simple)
        expander = self.programs.expander(scope, flow)
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
            self.programs.start(call, flow)
        else:  # `A=1 $NOTHING` sets A
            for name, binding in call.env.items():
                scope.assign(name, binding)
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
            if not PERSONAL.search(call.words[1].text):
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
        self.run_text(self.programs.typed(call.fields[1:], call), flow)

    def _function(self, call: Call, flow: Flow) -> None:
        scope = flow.scope
        saved = scope.arguments
        scope.arguments = call.fields[1:]
        scope.functions[call.name](replace(flow, scope=scope))
        scope.arguments = saved

    # --- files that a script writes ------------------------------------------------------

    def _written_files(self, simple: SimpleCommand, flow: Flow, call: Call) -> None:
        """`cat > f <<EOF`, `tee f <<EOF`, `echo '...' > f`."""
        expander = self.programs.expander(flow.scope)
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
