"""A Python file as rules see it: calls with their arguments, settings by assignment, options,
training loops, each with its place. Found with the standard `ast`; nothing is imported or run."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pitstop.rules.finding import Location, Unknown, Value
from pitstop.rules.notes import comment_text, explains
from pitstop.rules.pycomments import read_comments
from pitstop.rules.pydicts import KeywordDict, read_dict
from pitstop.rules.pyfields import Fields
from pitstop.rules.pyindex import Function, Index
from pitstop.rules.pynames import Names
from pitstop.rules.pyobjects import Objects
from pitstop.rules.pyoptions import Options
from pitstop.rules.pyparse import Offsets, parse
from pitstop.rules.pyscopes import Loop, Scopes
from pitstop.rules.pystatements import Store, stores
from pitstop.rules.pyvalues import Evaluator, Origin, Resolved
from pitstop.rules.tree import SourceFile


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call.

    `name` is the keyword, "" for a positional one. `value_at` and `raw` are those of the
    expression that decides (for `num_workers=args.workers` the option's default, for a name the
    literal bound to it); `used_at` is the expression in the call, and the same where the default
    is written nowhere (`action="store_true"`). `name_at` is the keyword or the
    dictionary's key. `key` is the option or field that the value passed through. `nested` are
    the entries of a dictionary.
    """

    name: str
    value: Value
    raw: str
    value_at: Location
    name_at: Location | None
    origin: Origin
    used_at: Location
    node: ast.expr | None
    key: str | None = None
    nested: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `name` is qualified through imports (`torch.utils.data.DataLoader`); a method of
    something unknown is `.item`; a plain unknown name is itself."""

    name: str
    node: ast.Call
    module: PyModule = field(repr=False, compare=False)

    @property
    def location(self) -> Location:
        """From the first character of the called name to the closing bracket."""
        return self.module.location(self.node)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Positional ones first, then keywords, then those of `**` dictionaries."""
        return self.module.arguments(self.node)[0]

    @property
    def open_ended(self) -> bool:
        """Whether `*args` or a dictionary that cannot be followed may pass more, so that an
        absent keyword is unknown, not absent."""
        return self.module.arguments(self.node)[1]

    def argument(self, keyword: str, position: int | None = None) -> Argument | None:
        """The argument given by keyword, or at a position (from 0)."""
        for argument in self.arguments:
            if argument.name == keyword:
                return argument
        before = [] if position is None else self.node.args[: position + 1]
        if position is None or len(before) <= position:
            return None
        if any(isinstance(a, ast.Starred) for a in before):
            return None
        return self.arguments[position]


@dataclass(frozen=True, slots=True)
class Assignment:
    """A setting by statement: `torch.backends.cudnn.benchmark = True`.

    `target` is the dotted name, qualified through imports. For a subscript it is the name before
    the brackets and `key` the text in them: target "os.environ", key "NCCL_DEBUG".
    `os.environ.setdefault/update/putenv` calls are here too; `weak` marks setdefault.
    """

    target: str
    key: str | None
    value: Value
    raw: str
    value_at: Location
    location: Location
    origin: Origin
    node: ast.AST
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """A default that a command line overrides: `parser.add_argument("--lr", default=1e-4)`.

    `name` is the attribute of the namespace, `flags` its spellings. `value_at` is where the
    default is written, None when it is not.
    """

    name: str
    flags: tuple[str, ...]
    value: Value
    raw: str
    value_at: Location | None
    name_at: Location
    location: Location
    type: str
    action: str


@dataclass(frozen=True, slots=True)
class Field:
    """An annotated field of a dataclass-like class; `bases` are the class's qualified bases."""

    owner: str
    bases: tuple[str, ...]
    name: str
    value: Value
    raw: str
    value_at: Location | None
    name_at: Location
    location: Location
    type: str


def read_module(file: SourceFile) -> PyModule:
    """Parses a file. Raises UnreadableError("line 7: ...") for what is not Python here."""
    tree, offsets = parse(file)
    return PyModule(file, tree, offsets)


class PyModule:
    """One file. What is costly is computed when it is first asked for."""

    def __init__(self, file: SourceFile, tree: ast.Module, offsets: Offsets) -> None:
        self.file = file
        self.tree = tree
        self._offsets = offsets
        self._index = Index(tree)
        self._names = Names(self._index, file.path)
        self._scopes = Scopes(self._index, self._names)
        self._options = Options(self._index, self._names)
        self._fields = Fields(self._index, self._names)
        objects = Objects(self._index, self._names, self._options, self._fields)
        self._evaluator = Evaluator(self._index, self._names, objects.read_attribute)
        self._arguments: dict[ast.Call, tuple[tuple[Argument, ...], bool]] = {}

    @property
    def path(self) -> str:
        """The file's path."""
        return self.file.path

    @property
    def parents(self) -> Mapping[ast.AST, ast.AST]:
        """Every node's parent."""
        return self._index.parents

    @property
    def imports(self) -> Mapping[str, str]:
        """Alias to qualified name, of the whole file; relative imports are dotted paths from the
        tree's root."""
        return self._names.imports

    @property
    def star_imports(self) -> tuple[str, ...]:
        """The modules of `from x import *`."""
        return self._names.star_imports

    def qualified(self, node: ast.AST) -> str | None:
        """A name or attribute through imports: `nn.Linear` is "torch.nn.Linear"; None for what
        hangs on a variable."""
        return self._names.qualified(node)

    def enclosing_function(self, node: ast.AST) -> Function | None:
        """The innermost `def` around a node."""
        return self._index.enclosing_function(node)

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class around a node."""
        return self._index.enclosing_class(node)

    def nodes(self, *kinds: type[ast.AST]) -> list[ast.AST]:
        """All nodes of these exact classes, in the order of the text."""
        return self._index.all(*kinds)

    # places

    def location(self, node: ast.AST) -> Location:
        """Where a node stands."""
        return self.file.location(*self._span(node))

    def raw(self, node: ast.AST) -> str:
        """A node's text."""
        start, end = self._span(node)
        return self.file.text[start:end]

    def _span(self, node: ast.AST) -> tuple[int, int]:
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", None) or line
        end_column = getattr(node, "end_col_offset", None)
        end_column = column if end_column is None else end_column
        return self._offsets.offset(line, column), self._offsets.offset(end_line, end_column)

    # calls

    @functools.cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call, in the order of the text."""
        qualified = self._names.qualified
        found = []
        for node in self._index.all(ast.Call):
            func, name = node.func, qualified(node.func)
            if name is None:
                name = (
                    f".{func.attr}" if isinstance(func, ast.Attribute) else getattr(func, "id", "")
                )
            found.append(Call(name, node, self))
        return tuple(found)

    def calls_of(self, *names: str) -> Iterator[Call]:
        """The calls with one of these names."""
        return (c for c in self.calls if c.name in names)

    def arguments(self, node: ast.Call) -> tuple[tuple[Argument, ...], bool]:
        """(the arguments of a call, whether there may be more)."""
        if node not in self._arguments:
            self._arguments[node] = self._read_arguments(node)
        return self._arguments[node]

    def _read_arguments(self, node: ast.Call) -> tuple[tuple[Argument, ...], bool]:
        found: list[Argument] = []
        open_ended = False
        for value in node.args:
            open_ended |= isinstance(value, ast.Starred)
            found.append(self._argument("", None, value))
        for keyword in node.keywords:
            if keyword.arg is not None:
                found.append(self._argument(keyword.arg, keyword, keyword.value))
        for keyword in node.keywords:
            if keyword.arg is None:
                entries = read_dict(keyword.value, self._names, self._index, node)
                open_ended |= entries is None or entries.open
                found += self._dict_arguments(entries, keyword.value)
        return tuple(found), open_ended

    def _argument(
        self, name: str, name_node: ast.AST | None, value: ast.expr, depth: int = 0
    ) -> Argument:
        resolved = self._evaluator.resolve(value)
        nested: tuple[Argument, ...] = ()
        if isinstance(resolved.value, Unknown) and depth < 3:
            entries = read_dict(value, self._names, self._index, value)
            if entries is not None and not entries.open:
                nested = tuple(self._dict_arguments(entries, value, depth + 1))
        decides = resolved.node if resolved.node is not None else value
        return Argument(
            name,
            resolved.value,
            self.raw(decides),
            self.location(decides),
            self._name_at(name, name_node),
            resolved.origin,
            self.location(value),
            decides,
            resolved.key,
            nested,
        )

    def _dict_arguments(
        self, entries: KeywordDict | None, value: ast.expr, depth: int = 0
    ) -> Iterator[Argument]:
        for name, item in (entries.items if entries else {}).items():
            if item.value is None:
                at = self.location(item.key_node)
                yield Argument(
                    name, Unknown(item.why), self.raw(item.key_node), at, at, "dict",
                    self.location(value), None,
                )  # fmt: skip
                continue
            found = self._argument(name, item.key_node, item.value, depth)
            yield _through_dict(found, self.location(value))

    def _name_at(self, name: str, node: ast.AST | None) -> Location | None:
        if node is None:
            return None
        start, end = self._span(node)
        end = start + len(name) if isinstance(node, ast.keyword) else end
        return self.file.location(start, end)

    def value(self, node: ast.expr) -> Resolved:
        """What an expression is worth where it stands."""
        return self._evaluator.resolve(node)

    # statements and defaults

    @functools.cached_property
    def assignments(self) -> tuple[Assignment, ...]:
        """Attributes and elements that are assigned, in the order of the text."""
        found = [self._assignment(store) for store in stores(self._index, self._names)]
        return tuple(sorted(found, key=lambda a: a.location.span))

    def _assignment(self, store: Store) -> Assignment:
        found = self._evaluator.resolve(store.value)
        decides = found.node if found.node is not None else store.value
        return Assignment(
            store.target, store.key, found.value, self.raw(decides), self.location(decides),
            self.location(store.node), found.origin, store.node, store.weak,
        )  # fmt: skip

    @functools.cached_property
    def options(self) -> tuple[Option, ...]:
        """Every `add_argument` call, in order."""
        return tuple(
            Option(
                o.name, o.flags, o.default.value, *self._written(o.default),
                self.location(o.name_node), self.location(o.call), o.type, o.action,
            )
            for o in self._options.all
        )  # fmt: skip

    @functools.cached_property
    def fields(self) -> tuple[Field, ...]:
        """Every annotated field of a dataclass-like class, in order."""
        return tuple(
            Field(
                f.owner, f.bases, f.name, f.default.value, *self._written(f.default),
                self.location(f.name_node), self.location(f.statement), f.type,
            )
            for f in self._fields.all
        )  # fmt: skip

    def _written(self, default: Resolved) -> tuple[str, Location | None]:
        node = default.node
        return (self.raw(node), self.location(node)) if node is not None else ("", None)

    @functools.cached_property
    def comments(self) -> Mapping[int, str]:
        """The comment of each line that has one (line from 1 to its text with the `#`)."""
        return read_comments(self.file)

    def note(self, line: int) -> str | None:
        """The comment that explains a choice made on a line: on it, or directly above."""
        for number in (line, line - 1):
            comment = self.comments.get(number)
            above = number != line and not self.file.line_text(number).lstrip().startswith("#")
            if comment and not above and explains(comment):
                return comment_text(comment)
        return None

    # training

    @property
    def trains(self) -> bool:
        """Whether the file trains: a backward pass, an optimizer step, or a Trainer at work."""
        return self._scopes.trains

    @property
    def uses_gpu(self) -> bool:
        """Whether this file itself speaks of GPUs, or of a library that does."""
        return self._scopes.uses_gpu

    @functools.cached_property
    def train_loops(self) -> tuple[Loop, ...]:
        """The loops that train, in the order of the text."""
        return tuple(Loop(node, kind, self.location(node)) for node, kind in self._scopes.loops())

    def in_step_scope(self, node: ast.AST, *, forward: bool = False) -> bool:
        """Whether a node runs at every training step; `forward` includes the `forward` methods of
        the modules defined here."""
        return self._scopes.step_home(node, forward=forward) is not None

    def guarded(self, node: ast.AST) -> bool:
        """Whether a node runs only now and then (logging, saving, debugging) or on error."""
        return self._scopes.guarded(node)

    def in_eval_scope(self, node: ast.AST) -> bool:
        """Whether a node belongs to evaluation or inference."""
        return self._scopes.in_eval_scope(node)


def _through_dict(found: Argument, used_at: Location) -> Argument:
    direct = found.origin in ("literal", "variable")
    return replace(found, origin="dict" if direct else found.origin, used_at=used_at)
