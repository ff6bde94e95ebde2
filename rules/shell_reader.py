"""Reads a whole script: its statements, what it exports, its scheduler headers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pitstop.rules.shell import Script
from pitstop.rules.shell_commands import SimpleCommand
from pitstop.rules.shell_expand import Expander
from pitstop.rules.shell_lexer import ExhaustedError, Lexer, RawWord
from pitstop.rules.shell_programs import Call
from pitstop.rules.shell_session import Flow, Session
from pitstop.rules.shell_statements import Statements
from pitstop.rules.shell_text import ShellText
from pitstop.rules.shell_values import Field, Scope, word_of
from pitstop.rules.tree import RepoTree, SourceFile


def read(file: SourceFile, tree: RepoTree) -> Script:
    """The script in a file of the tree."""
    text = ShellText.of_file(file)
    return read_text(text, tree, Scope(text, file.path))


def read_text(text: ShellText, tree: RepoTree, scope: Scope) -> Script:
    """The script in any text, from a scope that may hold variables already."""
    return _read(text, tree, scope, lambda statements, flow: statements.run(flow))


def read_words(text: ShellText, fields: Sequence[Field], tree: RepoTree, scope: Scope) -> Script:
    """One command given as a list of words, as containers start it without a shell; `text` is
    the place to show for it."""

    def start(statements: Statements, flow: Flow) -> None:
        words = tuple(word_of(f, text, 0, len(text.text)) for f in fields)
        whole = SimpleCommand(0, len(text.text))
        statements.calls.programs.start(Call(whole, words, tuple(fields), {}), flow)

    return _read(text, tree, scope, start)


def expanded(text: ShellText, word: RawWord, scope: Scope) -> Field:
    """A word of a text with the variables of a scope put in."""
    return Expander(text, Lexer(text.text), scope, lambda *_: None).text(word.parts)


def _read(
    text: ShellText,
    tree: RepoTree,
    scope: Scope,
    act: Callable[[Statements, Flow], None],
) -> Script:
    session = Session(tree)
    session.enter(("file", text.path))
    session.take_headers(text, scope)
    try:
        act(Statements(session, text), Flow(scope))
    except ExhaustedError as reached:
        session.note_unread(text, 0, f"read in part: {reached}")
    except RecursionError:  # the limits on nesting come first, unless our caller is deep already
        session.note_unread(text, 0, "read in part: nested too deeply")
    exports = {
        name: word_of(binding.value, text, 0, 0) for name, binding in scope.exports().items()
    }
    return session.script(text.path, exports)
