"""Walks the statements of one text: branches, loops, functions, pipelines.

Every branch is followed, each with its condition; loops are read once, with what changes in them
unknown; a function is read where it is called, or at the end when nothing calls it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pitstop.rules.shell_branches import Branch, merge
from pitstop.rules.shell_calls import Calls
from pitstop.rules.shell_commands import CommandReader, SimpleCommand
from pitstop.rules.shell_lexer import Lexer, Literal, Parameter, RawWord
from pitstop.rules.shell_session import Flow, Session
from pitstop.rules.shell_text import ShellText
from pitstop.rules.shell_tree import (
    assigned_names,
    between,
    flattened,
    parse,
    simple_start,
    statements,
)
from pitstop.rules.shell_values import Binding, Field, Scope, both, unknown

if TYPE_CHECKING:
    from tree_sitter import Node

Functions = dict[str, Callable[[Flow], None]]

_TESTS = frozenset({"[", "[[", "test"})
_RESERVED = frozenset({"if", "then", "elif", "else", "fi", "do", "done", "while", "until"}) | {
    "{",
    "}",
    "!",
    "time",
    "coproc",
    "function",
}
_SKIPPED = frozenset({"for", "select", "case", "in", "esac"})
_MAX_CONDITION = 160


class Statements:
    """Reads one text in one session."""

    def __init__(
        self, session: Session, text: ShellText, uncalled: Functions | None = None
    ) -> None:
        self.session = session
        self.text = text
        self.lexer = Lexer(text.text, work=session.work)
        self.reader = CommandReader(self.lexer)
        self.calls = Calls(session, text, self.reader, self.run_text)
        self._last = (-1, -1)
        self._uncalled: Functions = {} if uncalled is None else uncalled
        self._owner = uncalled is None

    # --- entry points --------------------------------------------------------------------

    def run(self, flow: Flow) -> None:
        """Read the whole text."""
        root = parse(self.text.text, self.reader.heredocs)
        self.statement(root, flow) if root.is_error else self.block(root, flow)
        for body in list(self._uncalled.values()) if self._owner else ():
            body(replace(flow, scope=flow.scope.fork()))
        self.session.work = max(self.session.work, self.lexer.work)

    def run_text(
        self, text: ShellText, flow: Flow, what: object = None, *, child: bool = False
    ) -> None:
        """Read another text from here: a sourced file, `eval`, the inside of `$()`; a script of
        its own (`child`) does not share functions."""
        if not self.session.enter(what):
            return
        try:
            self.lexer.spend(5 * len(text.text))  # the grammar and the search for heredocs
            self.session.work = max(self.session.work, self.lexer.work)
            Statements(self.session, text, None if child else self._uncalled).run(flow)
            self.lexer.work = self.session.work
        finally:
            self.session.leave()

    # --- structure -----------------------------------------------------------------------

    def block(self, node: Node, flow: Flow) -> None:
        """The statements inside a node, one after the other."""
        self.sequence(statements(node), flow)

    def sequence(self, nodes: Iterable[Node], flow: Flow) -> None:
        """Statements one after the other."""
        for node in nodes:
            self.statement(node, flow)

    def statement(self, node: Node, flow: Flow) -> None:
        """One statement of any kind."""
        if self._last[0] < node.start_byte < self._last[1]:
            return  # the grammar cut a command in two; it was read whole
        self.session.count_statement()
        start = simple_start(node)
        if start is not None:
            self._simple(start, node.end_byte, flow)
            return
        handler = _HANDLERS.get(node.type)
        if handler is None:
            return
        if not self.session.enter(None):
            self.session.note_unread(self.text, node.start_byte, "nested too deeply")
            return
        try:
            handler(self, node, flow)
        finally:
            self.session.leave()

    def _simple(self, start: int, end: int, flow: Flow) -> None:
        simple = self.reader.read(start, len(self.text.text))
        self._last = (simple.start, simple.end)
        self.calls.run(simple, flow)
        if self.text.text[simple.end : end].strip(" \t\r\n\\;&") and not simple.comment:
            self._flat(simple.end, end, flow)

    def _redirected(self, node: Node, flow: Flow) -> None:
        body = node.child_by_field_name("body")
        if body is not None:
            self.statement(body, flow)
        for redirect in node.children_by_field_name("redirect"):
            target = redirect.child_by_field_name("destination")
            if target is not None:  # `done < <(python list.py)`
                word = self.lexer.word(target.start_byte, target.end_byte)
                self.calls.programs.expander(flow.scope, flow).fields(word)

    def _list(self, node: Node, flow: Flow) -> None:
        condition: str | None = None
        empty: str | None = None
        for operator, item in flattened(node):
            if operator == "||" and condition:
                condition, empty = negated(condition), None
            if condition is None:
                self.statement(item, flow)
            else:
                self._conditional(item, flow, condition, empty)
            if item.type in ("test_command", "negated_command") or self._is_test(item):
                condition, empty = self._source([item]), self._empty([item])

    def _conditional(self, item: Node, flow: Flow, condition: str, empty: str | None) -> None:
        """A statement that runs only under a condition."""
        before = dict(flow.scope.variables)
        self.statement(item, replace(flow, condition=both(flow.condition, condition)))
        branches = [
            Branch(condition, flow.scope.variables, empty),
            Branch(negated(condition), before),
        ]
        flow.scope.variables = merge(before, branches)

    def _subshell(self, node: Node, flow: Flow) -> None:
        self.block(node, replace(flow, scope=flow.scope.fork()))

    def _pipeline(self, node: Node, flow: Flow) -> None:
        for item in statements(node):
            self.statement(item, replace(flow, scope=flow.scope.fork()))

    def _if(self, node: Node, flow: Flow) -> None:
        ways: list[tuple[str, str | None, Sequence[Node]]] = []
        conditions = between(node, "if", "then")
        self.sequence([c for c in conditions if c.is_named], flow)
        first = self._source(conditions)
        empty = self._empty(conditions)
        body = [c for c in between(node, "then", "fi") if not c.type.endswith("_clause")]
        ways.append((first, empty, body))
        otherwise: list[Node] = []
        for clause in node.children:
            if clause.type == "elif_clause":
                conditions = between(clause, "elif", "then")
                self.sequence([c for c in conditions if c.is_named], flow)
                body = between(clause, "then", "")
                ways.append((self._source(conditions), self._empty(conditions), body))
            elif clause.type == "else_clause":
                otherwise = between(clause, "else", "")
        last = negated(" || ".join(w[0] for w in ways))
        filled = self._empty(between(node, "if", "then"), filled=True) if len(ways) == 1 else None
        ways.append((last, filled, otherwise))
        self._branches(ways, flow)

    def _branches(self, ways: Sequence[tuple[str, str | None, Sequence[Node]]], flow: Flow) -> None:
        """Run each way from the same start, then join what the variables hold."""
        before = flow.scope.variables
        branches: list[Branch] = []
        for condition, empty, body in ways:
            flow.scope.variables = dict(before)
            inside = replace(flow, condition=both(flow.condition, condition))
            self.sequence([n for n in body if n.is_named and n.type != "comment"], inside)
            branches.append(Branch(condition, flow.scope.variables, empty))
        flow.scope.variables = merge(before, branches)
        self.lexer.spend(len(before))

    def _case(self, node: Node, flow: Flow) -> None:
        subject = self._source(between(node, "case", "in"))
        ways: list[tuple[str, str | None, Sequence[Node]]] = []
        complete = False
        for item in (c for c in node.children if c.type == "case_item"):
            pattern = self._source(_before(item, ")"))
            complete = complete or pattern == "*"
            ways.append((f"{subject} is {pattern}", None, between(item, ")", "")))
        if not complete:
            ways.append((f"{subject} is anything else", None, ()))
        self._branches(ways, flow)

    def _loop(self, node: Node, flow: Flow) -> None:
        scope = flow.scope
        before = dict(scope.variables)
        names = assigned_names(node)
        for name in names & scope.variables.keys():
            scope.variables[name] = self._changing(name, scope.variables[name], node)
        if "shift" in names and scope.arguments:
            scope.arguments = tuple(
                tuple(replace(f, why="arguments are shifted") for f in a) for a in scope.arguments
            )
        self._loop_variable(node, scope)
        body = next(
            (c for c in node.children if c.type in ("do_group", "compound_statement")), None
        )
        self.sequence([c for c in node.children if _is_loop_condition(c)], flow)
        if body is not None:
            self.block(body, flow)
        header = self._source([c for c in node.children if c is not body and c != body])
        branches = [Branch(header, scope.variables), Branch(negated(header), before)]
        scope.variables = merge(before, branches)

    def _changing(self, name: str, binding: Binding, node: Node) -> Binding:
        """A variable in the middle of a loop that changes it."""
        why = f"{name} changes in a loop"
        mark = (unknown(self.text, node.start_byte, node.start_byte, why, soft=True),)
        return (
            Binding((*binding.fields, mark), True, binding.exported)
            if binding.array
            else (Binding((mark,), False, binding.exported))
        )

    def _loop_variable(self, node: Node, scope: Scope) -> None:
        if node.type != "for_statement":
            return
        variable = node.child_by_field_name("variable")
        if variable is None:
            return
        name = self.text.text[variable.start_byte : variable.end_byte]
        values: list[Field] = []
        for child in node.children_by_field_name("value"):
            word = self.lexer.word(child.start_byte, child.end_byte)
            values += self.calls.programs.expander(scope).fields(word)
        if len(values) == 1:
            scope.assign(name, Binding((values[0],)))
            return
        why = f"{name} is each of {len(values)} values in turn" if values else f"{name} varies"
        mark = unknown(self.text, variable.start_byte, variable.end_byte, why)
        scope.assign(name, Binding(((mark,),)))

    def _function(self, node: Node, flow: Flow) -> None:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name is None or body is None:
            return
        key = self.text.text[name.start_byte : name.end_byte]
        place = (self.text.path, body.start_byte)

        def call(inner: Flow) -> None:
            self._uncalled.pop(key, None)
            if self.session.enter(place):
                try:
                    self.statement(body, inner)
                finally:
                    self.session.leave()

        flow.scope.functions[key] = call
        self._uncalled[key] = call

    # --- conditions ----------------------------------------------------------------------

    def _source(self, nodes: Sequence[Node]) -> str:
        """The text of some nodes on one line."""
        if not nodes:
            return ""
        text = self.text.text[nodes[0].start_byte : nodes[-1].end_byte]
        text = re.sub(r"\s*\\?\s+", " ", text).strip(" ;")
        return text if len(text) <= _MAX_CONDITION else text[:_MAX_CONDITION] + "..."

    def _is_test(self, node: Node) -> bool:
        return node.type == "command" and self.text.text.startswith("test ", node.start_byte)

    def _empty(self, nodes: Sequence[Node], *, filled: bool = False) -> str | None:
        """The variable that a test finds empty (or, with `filled`, finds not to be)."""
        named = [n for n in nodes if n.is_named and n.type != "comment"]
        if len(named) != 1:
            return None
        simple = self.reader.read(named[0].start_byte, named[0].end_byte)
        if simple.name not in _TESTS:
            return None
        words = [w for w in simple.words[1:] if w.bare not in ("]", "]]")]
        return _tested_variable(words, filled=filled)

    # --- where the grammar gives up ------------------------------------------------------

    def _error(self, node: Node, flow: Flow) -> None:
        self.session.note_unread(self.text, node.start_byte, "not valid shell; read word by word")
        self._flat(node.start_byte, node.end_byte, flow)

    def _flat(self, at: int, end: int, flow: Flow) -> None:
        """Read simple commands one after the other, without their structure."""
        text = self.text.text
        bodies = {h.body[0]: h.after for h in self.reader.heredocs}
        while at < end:
            if text[at] in " \t\r;&|()":
                at += 1
            elif text[at] == "\n":
                at = bodies.get(at + 1, at + 1)
            elif text[at] == "#":
                line_end = text.find("\n", at, end)
                at = line_end if line_end >= 0 else end
            else:
                at = max(self._flat_command(at, end, flow), at + 1)
        self._last = (self._last[0], max(self._last[1], end))

    def _flat_command(self, at: int, end: int, flow: Flow) -> int:
        self.session.count_statement()
        word = self.lexer.word(at, end)
        if word.bare in _RESERVED:
            return word.end
        simple: SimpleCommand = self.reader.read(at, end)
        if word.bare not in _SKIPPED:
            self.calls.run(simple, flow)
        return simple.end


def negated(condition: str) -> str:
    """The opposite of a condition, as text."""
    return condition[3:-1] if condition.startswith("! (") else f"! ({condition})"


def _before(node: Node, token: str) -> list[Node]:
    out: list[Node] = []
    for child in node.children:
        if child.type == token:
            break
        out.append(child)
    return out


def _is_loop_condition(node: Node) -> bool:
    return node.type in ("command", "list", "pipeline", "negated_command", "redirected_statement")


def _tested_variable(words: Sequence[RawWord], *, filled: bool) -> str | None:
    """X of `-z "$X"` and `"$X" = ""`; with `filled`, of `-n "$X"`, `"$X"` and `"$X" != ""`."""
    texts = [w.literal for w in words]
    if len(words) == 2 and texts[0] == ("-n" if filled else "-z"):
        return _only_parameter(words[1])
    if len(words) == 1 and filled:
        return _only_parameter(words[0])
    if len(words) == 3 and texts[1] in (("!=",) if filled else ("=", "==")) and texts[2] == "":
        return _only_parameter(words[0])
    return None


def _only_parameter(word: RawWord) -> str | None:
    """NAME of a word that is `$NAME`, `${NAME}`, `${NAME:-}` or `${NAME+x}`, quoted or not."""
    parts = [p for p in word.parts if not (isinstance(p, Literal) and not p.text)]
    if len(parts) != 1 or not isinstance(parts[0], Parameter) or parts[0].index:
        return None
    return parts[0].name if parts[0].operator in ("", ":-", "-", "+", ":+") else None


_HANDLERS: dict[str, Callable[[Statements, Node, Flow], None]] = {
    "ERROR": Statements._error,
    "list": Statements._list,
    "pipeline": Statements._pipeline,
    "subshell": Statements._subshell,
    "compound_statement": Statements.block,
    "negated_command": Statements.block,
    "redirected_statement": Statements._redirected,
    "if_statement": Statements._if,
    "case_statement": Statements._case,
    "for_statement": Statements._loop,
    "c_style_for_statement": Statements._loop,
    "while_statement": Statements._loop,
    "function_definition": Statements._function,
}
