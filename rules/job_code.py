"""The settings that Python code makes: keywords of calls, statements, fields, os.environ."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from pitstop.rules.finding import Location, Setting, Surface, Unknown, Value
from pitstop.rules.frameworks import Framework, matches
from pitstop.rules.frameworks.spelling import PRESENT, Spelling, plain_name
from pitstop.rules.job_modules import Program
from pitstop.rules.job_settings import Rank, Written
from pitstop.rules.job_words import FlagUse
from pitstop.rules.pysource import Argument, Call, Field, Option, PyModule
from pitstop.rules.understood import ENVIRONMENT, Understood

_MAX_NESTING = 3


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The flags that reach a program: `given` by plain name; `more` when others may follow that
    cannot be seen."""

    given: Mapping[str, FlagUse] = field(default_factory=dict)
    more: bool = False


_Open = Callable[[CommandLine], Iterator[Written]]
"""What is written depends on the command line."""


def from_program(framework: Framework, program: Program, line: CommandLine) -> Iterator[Written]:
    """Everything in a program that a framework understands, in the order of the text."""
    found = program.once(("written", framework.name), lambda: tuple(_found(framework, program)))
    for one in found:
        if isinstance(one, Written):
            yield one
        else:
            yield from one(line)


def _found(framework: Framework, program: Program) -> Iterator[Written | _Open]:
    for call in program.calls_of(framework.calls):
        if not for_evaluation(call):
            yield from _from_call(framework.called(call.name), call)
    for part in program.parts:
        yield from _from_assignments(framework, part)
        yield from _from_fields(framework, part)


def anchored_defaults(framework: Framework, program: Program) -> tuple[Setting, ...]:
    """What calls do that leave a keyword out, each at its call: one loader without workers is
    one default. Unknown where `**` may pass the keyword."""
    return program.once(("left out", framework.name), lambda: tuple(_left_out(framework, program)))


def _left_out(framework: Framework, program: Program) -> Iterator[Setting]:
    for call in program.calls_of(framework.calls):
        rows = [row for row in framework.called(call.name) if row.has_default]
        if not rows or for_evaluation(call):
            continue
        for row in rows:
            if row.knob and call.argument(row.name, row.position) is None:
                value = _without(row, call)
                if value is None:
                    continue
                yield Setting(
                    row.knob, value, Surface.DEFAULT, row.name, framework.name,
                    name_at=call.location, condition=condition_of(call.module, call.node),
                    note=call.module.note(call.location.line),
                )  # fmt: skip


def _without(row: Spelling, call: Call) -> Value:
    """What a call does that leaves a keyword out; None when that has no meaning there."""
    if call.open_ended:
        return Unknown("** may pass it")
    if row.beside is None:
        return row.default
    other = call.argument(row.beside)
    if other is None or not other.value:
        return None
    return other.value if isinstance(other.value, Unknown) else row.default


_HELD_OUT = re.compile(r"(?:^|[_.])(?:eval|val|valid|validation|test|dev|infer)(?:[_.\d]|$|[A-Z])")


def for_evaluation(call: Call) -> bool:
    """True for a call that evaluation makes, or a loader of data that are held out, going by
    the names of what it is given and assigned to."""
    module = call.module
    if module.in_eval_scope(call.node):
        return True
    if not call.name.endswith("DataLoader"):
        return False
    parent = module.parents.get(call.node)
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    named = [module.raw(node) for node in (*targets, *call.node.args[:1])]
    return any(_HELD_OUT.search(name) for name in named)


def config_calls(framework: Framework, program: Program) -> tuple[Call, ...]:
    """The calls that make the framework's own configuration object."""
    return tuple(program.calls_of(framework.config_calls))


# --- calls -----------------------------------------------------------------------------------


def _from_call(rows: Iterable[Spelling], call: Call) -> Iterator[Written | _Open]:
    by_name: dict[str, list[Spelling]] = {}
    for row in rows:
        if Surface.KEYWORD in row.surfaces or row.name == PRESENT:
            by_name.setdefault(row.name, []).append(row)
    condition = condition_of(call.module, call.node)
    for name, named in by_name.items():
        own = [row for row in named if row.framework == named[0].framework]
        if name == PRESENT:
            yield _present(tuple(own), call, condition)
            continue
        argument = _argument(call, name, own[0].position)
        if argument is not None:
            yield _from_argument(tuple(own), name, argument, call.module, condition)


def _present(rows: tuple[Spelling, ...], call: Call, condition: str | None) -> Written:
    at = call.location
    raw = call.module.raw(call.node)
    note = call.module.note(at.line)
    return Written(
        rows, call.name, True, Rank.CODE, Surface.STATEMENT, raw, at, at, note, condition,
        single=False,
    )  # fmt: skip


def _argument(call: Call, name: str, position: int | None) -> Argument | None:
    """An argument by its name; a dotted name reaches into dictionaries given as a value."""
    first, *inner = name.split(".")[:_MAX_NESTING]
    found = call.argument(first, position)
    for key in inner:
        if found is None:
            return None
        found = next((a for a in found.nested if a.name == key), None)
    return found


def _from_argument(
    rows: tuple[Spelling, ...],
    name: str,
    argument: Argument,
    module: PyModule,
    condition: str | None,
) -> Written | _Open:
    note = module.note((argument.name_at or argument.used_at).line)
    if argument.origin in ("option", "field") and argument.key and _direct(argument, module):
        return partial(_from_option, rows, argument, module, note, condition)
    return Written(
        rows, name, argument.value, Rank.CODE, Surface.KEYWORD, argument.raw, argument.value_at,
        argument.name_at or argument.used_at, note, condition, single=False,
    )  # fmt: skip


def _direct(argument: Argument, module: PyModule) -> bool:
    """True when the option reaches the call as it is: `args.workers`, not `args.workers * 2`."""
    span = argument.used_at.span
    used = module.file.text[span.start : span.end]
    return used == argument.key or used.endswith(f".{argument.key}")


def _from_option(
    rows: tuple[Spelling, ...],
    argument: Argument,
    module: PyModule,
    note: str | None,
    condition: str | None,
    line: CommandLine,
) -> Iterator[Written]:
    """An option's default, and above it the flag that the command line gives."""
    key = argument.key or ""
    option = next((o for o in module.options if o.name == key), None)
    names = [plain_name(flag) for flag in option.flags] if option else []
    use = next((line.given[n] for n in (*names, plain_name(key)) if n in line.given), None)
    if use is not None:
        value = _passed(use, option)
        at = use.words[0].location if use.words else None
        yield Written(
            rows, use.spelled, value, Rank.FLAG, Surface.FLAG, use.words[0].text if at else "",
            at, use.name_at, use.note, use.condition, single=False,
        )  # fmt: skip
    value = argument.value
    if line.more and use is None:
        value = Unknown(f"the command line may pass --{key}")
    name_at = option.name_at if option else argument.name_at
    yield Written(
        rows, key, value, Rank.PY_DEFAULT, Surface.PY_DEFAULT, argument.raw, argument.value_at,
        name_at or argument.used_at, note, condition, single=False,
    )  # fmt: skip


def _passed(use: FlagUse, option: Option | None) -> Value:
    """What argparse makes of a flag by its action."""
    action = option.action if option else "store"
    if action == "store_true":
        return True
    if action == "store_false":
        return False
    if "BooleanOptionalAction" in action and not use.words:
        return not use.name.startswith("no_")
    return use.first()


# --- statements ------------------------------------------------------------------------------


def _from_assignments(framework: Framework, part: Understood) -> Iterator[Written]:
    module = part.module
    for one in part.statements:
        if one.target == ENVIRONMENT and one.key:
            rows, rank, surface = framework.named(one.key, Surface.ENV), Rank.CODE_ENV, Surface.ENV
            rank = Rank.CODE if one.weak else rank
            name = one.key
        else:
            rows = framework.stated(one.target) if one.key is None else ()
            rank, surface, name = Rank.CODE, Surface.STATEMENT, one.target
        if rows:
            condition = condition_of(module, one.node)
            yield Written(
                rows, name, one.value, rank, surface, one.raw, one.value_at, one.location,
                module.note(one.location.line), condition, single=False,
            )  # fmt: skip


def _from_fields(framework: Framework, part: Understood) -> Iterator[_Open]:
    """Fields of a dataclass that extends the framework's own arguments: new defaults."""
    for one in part.fields:
        extends = any(matches(base, framework.config_calls) for base in one.bases)
        rows = framework.named(one.name, Surface.KEYWORD) if extends else ()
        if rows:
            yield partial(_from_field, rows, one, part.module.note(one.location.line))


def _from_field(
    rows: tuple[Spelling, ...], one: Field, note: str | None, line: CommandLine
) -> Iterator[Written]:
    doubt = Unknown(f"the command line may pass --{one.name}")
    yield Written(
        rows, one.name, doubt if line.more else one.value, Rank.PY_DEFAULT, Surface.PY_DEFAULT,
        one.raw, one.value_at, one.name_at, note, single=False,
    )  # fmt: skip


# --- conditions ------------------------------------------------------------------------------


def condition_of(module: PyModule, node: ast.AST) -> str | None:
    """The tests of the `if`s around a node, inside its function, joined by `and`; an else branch
    as `not (...)`. `if __name__ == "__main__"` is none."""
    found: list[str] = []
    child: ast.AST = node
    parent = module.parents.get(node)
    while parent is not None and not isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(parent, ast.If) and child is not parent.test:
            test = module.raw(parent.test)
            if "__name__" not in test:
                found.append(test if child in parent.body else f"not ({test})")
        child, parent = parent, module.parents.get(parent)
    if parent is not None and _BY_REQUEST.search(parent.name):
        found.append(f"{parent.name}() is called")
    return " and ".join(reversed(found)) or None


_BY_REQUEST = re.compile(r"determinis|debug|profil|anomal|reproduc", re.IGNORECASE)
"""Functions that somebody calls for a purpose; their statements hold only then."""


def where_trained(module: PyModule) -> Location | None:
    """The first training loop or trainer call: the line to show for a module as a whole."""
    for loop in module.train_loops:
        return loop.location
    for call in module.calls:
        if call.name.endswith((".train", ".fit", "Trainer")):
            return call.location
    return None
