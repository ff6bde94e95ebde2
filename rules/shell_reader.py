"""Reads a whole script: its statements, what it exports, its scheduler headers."""

from __future__ import annotations

from pitstop.rules.shell import Script
from pitstop.rules.shell_lexer import ExhaustedError
from pitstop.rules.shell_session import Flow, Session
from pitstop.rules.shell_statements import Statements
from pitstop.rules.shell_text import ShellText
from pitstop.rules.shell_values import Scope, word_of
from pitstop.rules.tree import RepoTree, SourceFile


def read(file: SourceFile, tree: RepoTree) -> Script:
    """The script in a file of the tree."""
    text = ShellText.of_file(file)
    return read_text(text, tree, Scope(text, file.path))


def read_text(text: ShellText, tree: RepoTree, scope: Scope) -> Script:
    """The script in any text, from a scope that may hold variables already."""
    session = Session(tree)
    session.enter(("file", text.path))
    session.take_headers(text, scope)
    try:
        Statements(session, text).run(Flow(scope))
    except ExhaustedError as reached:
        session.note_unread(text, 0, f"read in part: {reached}")
    exports = {
        name: word_of(binding.value, text, 0, 0) for name, binding in scope.exports().items()
    }
    return session.script(text.path, exports)
