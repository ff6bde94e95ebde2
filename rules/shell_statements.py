"""Walks the statements of one text: branches, loops, functions, pipelines.

Every branch is followed, each with its condition; loops are read once, with what changes in them
unknown; a function is read where it is called, or at the end when nothing calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pitstop.rules.shell_branches import Branch, merge
from pitstop.rules.shell_calls import Calls
from pitstop.rules.shell_commands import CommandReader, SimpleCommand
from pitstop.rules.shell_lexer import Lexer
from pitstop.rules.shell_session import Flow, Session
from pitstop.rules.shell_tests import Tests, Way, negated, none_of, possible_ways
from pitstop.rules.shell_text import ShellText
from pitstop.rules.shell_tree import (
    assigned_names,
    between,
    flattened,
    simple_start,
    statements,
)
from pitstop.rules.shell_values import Binding, Field, Scope, both, known, unknown

if TYPE_CHECKING:
    from tree_sitter import Node

Functions = dict[str, Callable[[Flow], None]]

_RESERVED = frozenset(
    {
        "if", "then", "elif", "else", "fi", "do", "done", "while", "until", "{", "}", "!", "time",
        "coproc", "function",
    }
)  # fmt: skip
_SKIPPED = frozenset({"for", "select", "case", "in", "esac"})


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
        self.tests = Tests(text, self.reader, self.calls.programs.expander)
        self._last = (-1, -1)
        self._uncalled: Functions = {} if uncalled is None else uncalled
        self._owner = uncalled is None

    # --- entry points --------------------------------------------------------------------

    def run(self, flow: Flow) -> None:
        """Read the whole text."""
        root = self.reader.root
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
            if self.session.full:
                self.session.note_unread(text, 0, "nested too deeply")
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
        """`test && command || command`: what follows a test runs under its condition."""
        test: Way | None = None
        for operator, item in flattened(node):
            if operator == "||" and test is not None:
                test = test.opposite()
            if test is None:
                self.statement(item, flow)
            else:
                self._branches([replace(test, body=(item,)), test.opposite()], flow)
            if self.tests.is_test(item):
                test = self.tests.way([item], flow.scope)

    def _subshell(self, node: Node, flow: Flow) -> None:
        self.block(node, replace(flow, scope=flow.scope.fork()))

    def _pipeline(self, node: Node, flow: Flow) -> None:
        for item in statements(node):
            self.statement(item, replace(flow, scope=flow.scope.fork()))

    def _if(self, node: Node, flow: Flow) -> None:
        conditions = between(node, "if", "then")
        self.sequence([c for c in conditions if c.is_named], flow)
        body = [c for c in between(node, "then", "fi") if not c.type.endswith("_clause")]
        ways = [replace(self.tests.way(conditions, flow.scope), body=body)]
        otherwise: list[Node] = []
        for clause in node.children:
            if clause.type == "elif_clause":
                conditions = between(clause, "elif", "then")
                self.sequence([c for c in conditions if c.is_named], flow)
                way = self.tests.way(conditions, flow.scope)
                ways.append(replace(way, body=between(clause, "then", "")))
            elif clause.type == "else_clause":
                otherwise = between(clause, "else", "")
        last = ways[0].opposite() if len(ways) == 1 else none_of(ways)
        self._branches([*ways, replace(last, body=otherwise)], flow)

    def _branches(self, ways: Sequence[Way], flow: Flow) -> None:
        """Run each way from the same start, then join what the variables hold."""
        scope = flow.scope
        before, cwd = scope.variables, scope.cwd
        branches: list[Branch] = []
        folders: set[str] = set()
        for way, possible in zip(ways, possible_ways(ways), strict=True):
            scope.variables, scope.cwd = dict(before), cwd
            inside = replace(flow, condition=both(flow.condition, way.condition))
            body = [n for n in way.body if n.is_named and n.type != "comment"]
            self.sequence(body, inside)
            if possible and not (body and self.tests.leaves(body[-1])):
                branches.append(Branch(way.condition, scope.variables, way.empty))
                folders.add(scope.cwd)
        scope.variables = merge(before, branches)
        scope.cwd = folders.pop() if len(folders) == 1 else cwd
        self.lexer.spend(len(before))

    def _case(self, node: Node, flow: Flow) -> None:
        subject = between(node, "case", "in")
        ways: list[Way] = []
        for item in (c for c in node.children if c.type == "case_item"):
            way = self.tests.case_way(subject, _before(item, ")"), flow.scope)
            ways.append(replace(way, body=between(item, ")", "")))
        if not any(way.truth and way.rest for way in ways):
            ways.append(self.tests.case_rest(subject))
        self._branches(ways, flow)

    def _loop(self, node: Node, flow: Flow) -> None:
        """A loop is read once; what it changes is unknown inside, unless it runs just once."""
        scope = flow.scope
        before = dict(scope.variables)
        values = self._loop_values(node, scope)
        certain = bool(values) and all(map(known, values))
        if not certain or len(values) > 1:
            self._forget_changes(node, scope)
        self._loop_variable(node, scope, values)
        body = next(
            (c for c in node.children if c.type in ("do_group", "compound_statement")), None
        )
        self.sequence([c for c in node.children if _is_loop_condition(c)], flow)
        if body is not None:
            self.block(body, flow)
        header = self.tests.source([c for c in node.children if c != body])
        branches = [Branch(header, scope.variables)]
        if not certain:
            branches.append(Branch(negated(header), before))
        scope.variables = merge(before, branches)

    def _forget_changes(self, node: Node, scope: Scope) -> None:
        names = assigned_names(node)
        for name in names & scope.variables.keys():
            scope.variables[name] = self._changing(name, scope.variables[name], node)
        if "shift" in names and scope.arguments:
            scope.arguments = tuple(
                tuple(replace(f, why="arguments are shifted") for f in a) for a in scope.arguments
            )

    def _changing(self, name: str, binding: Binding, node: Node) -> Binding:
        """A variable in the middle of a loop that changes it."""
        why = f"{name} changes in a loop"
        mark = (unknown(self.text, node.start_byte, node.start_byte, why, soft=True),)
        fields = (*binding.fields, mark) if binding.array else (mark,)
        return replace(binding, fields=fields)

    def _loop_values(self, node: Node, scope: Scope) -> list[Field]:
        """The words after `in`."""
        values: list[Field] = []
        for child in node.children_by_field_name("value"):
            word = self.lexer.word(child.start_byte, child.end_byte)
            values += self.calls.programs.expander(scope).fields(word)
        return values if node.type == "for_statement" else []

    def _loop_variable(self, node: Node, scope: Scope, values: Sequence[Field]) -> None:
        variable = node.child_by_field_name("variable")
        if node.type != "for_statement" or variable is None:
            return
        name = self.text.text[variable.start_byte : variable.end_byte]
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
        self._last = (self._last[0], max(self._last[1], at))

    def _flat_command(self, at: int, end: int, flow: Flow) -> int:
        self.session.count_statement()
        word = self.lexer.word(at, end)
        if word.bare in _RESERVED:
            return word.end
        simple: SimpleCommand = self.reader.read(at, len(self.text.text))
        self._last = (simple.start, simple.end)
        if word.bare not in _SKIPPED:
            self.calls.run(simple, flow)
        return simple.end


def _before(node: Node, token: str) -> list[Node]:
    out: list[Node] = []
    for child in node.children:
        if child.type == token:
            break
        out.append(child)
    return out


def _is_loop_condition(node: Node) -> bool:
    return node.type in ("command", "list", "pipeline", "negated_command", "redirected_statement")


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
