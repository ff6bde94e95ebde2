"""Expansion: from words as written to the fields that the shell would pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from pitstop.rules.shell_arithmetic import evaluate
from pitstop.rules.shell_commands import MAX_ELEMENTS, RawArray, RawAssignment
from pitstop.rules.shell_lexer import (
    PLACEHOLDER,
    WORD,
    Arithmetic,
    Lexer,
    Literal,
    Mode,
    Parameter,
    Part,
    RawWord,
    Substitution,
)
from pitstop.rules.shell_patterns import transformed
from pitstop.rules.shell_text import Mark, ShellText
from pitstop.rules.shell_values import (
    Binding,
    Field,
    Fragment,
    Scope,
    bounded,
    known,
    noted,
    soft,
    split,
    text_of,
    total,
    unknown,
    unquoted,
)

MAX_DEPTH = 20
"""Defaults inside defaults."""

Substitute = Callable[[int, int], Field | None]
"""Gives the output of the commands in a range of the text, None when it cannot be known."""


class Expander:
    """Expands words of one text in one scope (which `${X:=...}` may change)."""

    def __init__(
        self, source: ShellText, lexer: Lexer, scope: Scope, substitute: Substitute
    ) -> None:
        self.source = source
        self.lexer = lexer
        self.scope = scope
        self.substitute = substitute
        self._depth = 0

    # --- words ---------------------------------------------------------------------------

    def fields(self, word: RawWord) -> list[Field]:
        """The words that one written word becomes: none, one or many."""
        out: list[Field] = []
        current: list[Fragment] | None = None
        for part in word.parts:
            if isinstance(part, Parameter) and _is_list(part):
                pieces, glue_before, glue_after = self._list(part), True, True
            elif isinstance(part, Literal) or part.quoted:
                pieces, glue_before, glue_after = [self.value(part)], True, True
            else:
                leading, pieces, trailing = split(self.value(part))
                glue_before, glue_after = not leading, not trailing
            if current is not None and not glue_before:
                out.append(tuple(current))
                current = None
            for index, piece in enumerate(pieces):
                if index and current is not None:
                    out.append(tuple(current))
                    current = None
                if current is None:
                    current = []
                current += piece
            if current is not None and not glue_after:
                out.append(tuple(current))
                current = None
        if current is not None:
            out.append(tuple(current))
        self.lexer.spend(WORD * total(out))
        return out

    def all_fields(self, words: Sequence[RawWord]) -> list[Field]:
        """The words of a command, at most MAX_ELEMENTS."""
        out: list[Field] = []
        for word in words:
            out += self.fields(word)
            if len(out) > MAX_ELEMENTS:
                return out[:MAX_ELEMENTS]
        return out

    def text(self, parts: Sequence[Part], *, keep_quotes: bool = False) -> Field:
        """Parts as one value, as in an assignment or a heredoc: nothing is split."""
        out: list[Fragment] = []
        for part in parts:
            value = self.value(part)
            if keep_quotes and part.quoted:
                value = tuple(replace(f, quoted=True) for f in value)
            out += value
        self.lexer.spend(WORD * len(out))
        return bounded(tuple(out))

    def value(self, part: Part) -> Field:
        """One part as one value."""
        if isinstance(part, Literal):
            return self._literal(part)
        if isinstance(part, Parameter):
            return self._parameter(part)
        if isinstance(part, Arithmetic):
            return (self._arithmetic(part),)
        if isinstance(part, Substitution):
            found = self.substitute(*part.inner)
            if found is None or part.process:
                return (self._unknown(part, "output of a command"),)
            return found
        return (self._unknown(part, part.why),)

    def _literal(self, part: Literal) -> Field:
        """Characters as they stand, cut where something more is known of some of them."""
        whole = Fragment(part.text, self.source, part.start, part.end, part.exact)
        if self.source.marks:
            out = [self._marked(whole, *stretch) for stretch in self._stretches(part)]
            return tuple(out)
        if "<" in part.text and part.exact:
            return _placeholders(whole)
        return (whole,)

    def _stretches(self, part: Literal) -> list[tuple[int, int, Mark | None]]:
        found = list(self.source.stretches(part.start, part.end))
        return found if part.exact else [(part.start, part.end, found[0][2] if found else None)]

    def _marked(self, whole: Fragment, start: int, end: int, mark: Mark | None) -> Fragment:
        cut = whole.cut(start - whole.start, end - whole.start) if whole.exact else whole
        if mark is None:
            return cut
        return replace(cut, condition=mark.condition, note=mark.note, why=mark.why)

    def _unknown(self, part: Part, why: str, *, soft: bool = False) -> Fragment:
        return unknown(self.source, part.start, part.end, why, soft=soft)

    def _made(self, part: Part, text: str) -> Fragment:
        """A value that is computed, and so stands nowhere as it is."""
        return Fragment(text, self.source, part.start, part.end, exact=False)

    # --- assignments ---------------------------------------------------------------------

    def binding(self, assignment: RawAssignment, note: str | None = None) -> Binding:
        """What a variable holds after an assignment (`export NAME` leaves it as it is)."""
        old = self.scope.variables.get(assignment.name, Binding(()))
        value = assignment.value
        if value is None:
            return old
        if isinstance(value, RawArray):
            return self._array(value, old if assignment.append else Binding((), array=True))
        new = unquoted(noted(self.text(value.parts), note))
        if assignment.indexed:
            why = unknown(self.source, assignment.start, assignment.end, "set by index")
            return Binding((*old.fields, (why,)), array=True)
        if not assignment.append:
            return Binding((new,))
        if old.array:
            return Binding((bounded((*old.value, *new)), *old.fields[1:]), array=True)
        return Binding((bounded((*old.value, *new)),))

    def _array(self, array: RawArray, old: Binding) -> Binding:
        fields = list(old.fields)
        for word, note in array.elements:
            if _is_keyed(self.source.text, word):
                fields.append((unknown(self.source, word.start, word.end, "set by key"),))
            else:
                fields += (unquoted(noted(field, note)) for field in self.fields(word))
            if len(fields) > MAX_ELEMENTS:
                break
        if not array.complete or len(fields) > MAX_ELEMENTS:
            rest = unknown(self.source, array.start, array.start + 1, "array is too long or open")
            fields = [*fields[:MAX_ELEMENTS], (rest,)]
        return Binding(tuple(fields), array=True)

    # --- arithmetic ----------------------------------------------------------------------

    def _arithmetic(self, part: Arithmetic) -> Fragment:
        inner = self._nested(part.inner, quoted=True)
        if not known(inner):
            return self._unknown(part, "arithmetic on what is not known")
        value = evaluate(text_of(inner), self._number)
        if value is None:
            return self._unknown(part, "arithmetic on what is not known")
        return self._made(part, str(value))

    def _number(self, name: str) -> int | None:
        binding = self.scope.variables.get(name)
        if binding is None or not known(binding.value):
            return None
        text = text_of(binding.value)
        return int(text) if re.fullmatch(r"-?\d{1,18}", text, re.ASCII) else None

    def _nested(self, span: tuple[int, int], *, quoted: bool, keep_quotes: bool = False) -> Field:
        """Expand a range inside an expansion."""
        if self._depth >= MAX_DEPTH:
            return (unknown(self.source, *span, "nested too deeply"),)
        self._depth += 1
        try:
            parts = self.lexer.parts(*span, Mode.QUOTED if quoted else Mode.VALUE)
            return self.text(parts, keep_quotes=keep_quotes)
        finally:
            self._depth -= 1

    # --- parameters ----------------------------------------------------------------------

    def _list(self, part: Parameter) -> list[Field]:
        """`$@`, `${A[@]}` and their like: each element a field of its own when quoted."""
        fields = self._elements(part)
        if fields is None or (not fields and part.operator in (":-", "-", ":=", "=")):
            if part.operator in (":-", "-", ":=", "="):
                fields = [self._nested(part.argument, quoted=part.quoted, keep_quotes=True)]
            elif part.operator in (":+", "+"):
                fields = []
            else:
                name = "the script's arguments" if part.name in "@*" else f"{part.name} is not set"
                fields = [(self._unknown(part, name, soft=True),)]
        elif part.operator in (":+", "+"):
            fields = [self._nested(part.argument, quoted=part.quoted)] if fields else []
        elif part.operator and part.operator not in (":-", "-", ":=", "=", ":?", "?"):
            fields = [(self._unknown(part, "unusual expansion"),)]
        if part.quoted:
            return fields
        return [word for field in fields for word in split(field)[1]]

    def _elements(self, part: Parameter) -> list[Field] | None:
        if part.name in ("@", "*"):
            arguments = self.scope.arguments
            return None if arguments is None else list(arguments)
        binding = self.scope.variables.get(part.name)
        return None if binding is None else list(binding.fields)

    def _parameter(self, part: Parameter) -> Field:
        if part.operator == "length":
            return (self._length(part),)
        value = self._lookup(part)
        handler = _OPERATORS.get(part.operator)
        if handler is not None:
            return handler(self, part, value)
        if value is None:
            return (self._unset(part),)
        if not part.operator:
            return value
        return self._transformed(part, value)

    def _unset(self, part: Parameter) -> Fragment:
        if part.name.isdigit():
            return self._unknown(part, f"argument {part.name} of the script", soft=True)
        if part.name in ("@", "*"):
            return self._unknown(part, "the script's arguments", soft=True)
        if not part.name[0].isalpha() and part.name[0] != "_":
            return self._unknown(part, f"${part.name} is only known when it runs")
        return self._unknown(part, f"{part.name} is not set here", soft=True)

    def _lookup(self, part: Parameter) -> Field | None:
        """The parameter's value; None when nothing in the script sets it."""
        name, scope = part.name, self.scope
        if name == "0" or name == "BASH_SOURCE":
            return (self._made(part, scope.script if name == "0" else self.source.path),)
        if name == "PWD" and name not in scope.variables:
            return (self._made(part, scope.cwd or "."),)
        if name == "#" and scope.arguments is not None:
            return (self._made(part, str(len(scope.arguments))),)
        if name.isdigit():
            arguments = scope.arguments
            if arguments is None:
                return None
            return arguments[int(name) - 1] if int(name) <= len(arguments) else ()
        if name in ("@", "*"):
            return _spaced(self, part, scope.arguments)
        binding = scope.variables.get(name)
        if binding is None:
            return None
        if part.index is None or part.index == "0":
            return binding.value
        if part.index in ("@", "*"):
            return _spaced(self, part, binding.fields)
        return self._indexed(part, binding)

    def _indexed(self, part: Parameter, binding: Binding) -> Field:
        index = int(part.index) if part.index and re.fullmatch(r"\d{1,6}", part.index) else None
        if index is not None and index < len(binding.fields) and all(map(known, binding.fields)):
            return binding.fields[index]
        return (self._unknown(part, f"an element of {part.name}"),)

    def _length(self, part: Parameter) -> Fragment:
        if part.index in ("@", "*"):
            binding = self.scope.variables.get(part.name)
            if binding is not None and all(map(known, binding.fields)):
                return self._made(part, str(len(binding.fields)))
        elif part.name == "@" and self.scope.arguments is not None:
            return self._made(part, str(len(self.scope.arguments)))
        elif (value := self._lookup(part)) is not None and known(value):
            return self._made(part, str(len(text_of(value))))
        return self._unknown(part, "a length")

    def _default(self, part: Parameter, value: Field | None) -> Field:
        """`:-`, `-`, `:=`, `=`."""
        empty_counts = part.operator.startswith(":")
        if value is not None and not soft(value):
            filled = not known(value) or text_of(value)
            if filled or not empty_counts:
                return value
        found = self._nested(part.argument, quoted=part.quoted, keep_quotes=not part.quoted)
        default = tuple(replace(f, default=True) for f in found)
        if part.operator.endswith("="):
            self.scope.assign(part.name, Binding((unquoted(default),)))
        return default

    def _alternative(self, part: Parameter, value: Field | None) -> Field:
        """`:+`, `+`: something only when the parameter is set."""
        if value is None or soft(value):
            return ()
        if not known(value):
            return (self._unknown(part, f"depends on {part.name}"),)
        if not text_of(value) and part.operator == ":+":
            return ()
        return self._nested(part.argument, quoted=part.quoted, keep_quotes=not part.quoted)

    def _required(self, part: Parameter, value: Field | None) -> Field:
        """`:?`, `?`: the value, which somebody has to give."""
        return value if value is not None else (self._unset(part),)

    def _transformed(self, part: Parameter, value: Field) -> Field:
        """Cuts, replacements and letter case, on known text."""
        if soft(value):
            return (self._unknown(part, f"part of {part.name}", soft=True),)
        argument = self._nested(part.argument, quoted=True)
        if not (known(value) and known(argument)):
            return (self._unknown(part, f"part of {part.name}"),)
        text, pattern = text_of(value), text_of(argument)
        self.lexer.spend(len(text) * 10)
        result = transformed(text, part.operator, pattern)
        if result is None:
            return (self._unknown(part, f"part of {part.name}"),)
        if len(value) == 1 and result and (at := text.find(result)) >= 0 and result != text:
            return (value[0].cut(at, at + len(result)),)
        return value if result == text else (self._made(part, result),)


_OPERATORS: dict[str, Callable[[Expander, Parameter, Field | None], Field]] = {
    ":-": Expander._default,
    "-": Expander._default,
    ":=": Expander._default,
    "=": Expander._default,
    ":+": Expander._alternative,
    "+": Expander._alternative,
    ":?": Expander._required,
    "?": Expander._required,
}


def _placeholders(whole: Fragment) -> Field:
    """`<path to model>` inside quotes is no value either."""
    out: list[Fragment] = []
    at = 0
    for found in PLACEHOLDER.finditer(whole.text):
        if at < found.start():
            out.append(whole.cut(at, found.start()))
        out.append(replace(whole.cut(*found.span()), why="left for the reader to fill in"))
        at = found.end()
    if at < len(whole.text) or not out:
        out.append(whole.cut(at, len(whole.text)))
    return tuple(out)


def _is_list(part: Parameter) -> bool:
    """True for what becomes several fields: `$@`, `${A[@]}`, and unquoted `$*`, `${A[*]}`."""
    mark = part.name if part.name in ("@", "*") else part.index
    return part.operator != "length" and (mark == "@" or (mark == "*" and not part.quoted))


def _is_keyed(text: str, word: RawWord) -> bool:
    return re.compile(r"\[[^\]\s]+\]=").match(text, word.start, word.end) is not None


def _spaced(expander: Expander, part: Parameter, fields: Sequence[Field] | None) -> Field | None:
    """Elements as one value, blanks between."""
    if fields is None:
        return None
    out: list[Fragment] = []
    for field in fields:
        if out:
            out.append(expander._made(part, " "))
        out += field
    return bounded(tuple(out)) if out else ()
