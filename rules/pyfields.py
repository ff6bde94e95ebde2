"""The fields of classes that hold settings: dataclasses, pydantic models, plain classes."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.rules.finding import Unknown
from pitstop.rules.pyindex import Index
from pitstop.rules.pynames import Names, decorators, last_part
from pitstop.rules.pyvalues import Evaluator, Resolved

_DECORATORS = frozenset({"dataclass", "define", "frozen", "mutable", "attrs"})
_BASES = frozenset({"BaseModel", "BaseSettings", "NamedTuple"})
_MAKERS = frozenset({"field", "Field", "ib", "attrib", "HfArg"})
_MAX_BASES = 10


@dataclass(frozen=True, slots=True)
class FieldNode:
    """One annotated field of a dataclass-like class; `bases` are the qualified bases."""

    name: str
    statement: ast.AnnAssign
    name_node: ast.Name
    default: Resolved
    type: str
    owner: str
    bases: tuple[str, ...]


class Fields:
    """The fields of a module's classes."""

    def __init__(self, index: Index, names: Names) -> None:
        self.index = index
        self.names = names
        self._evaluator = Evaluator(index, names)

    @functools.cached_property
    def all(self) -> tuple[FieldNode, ...]:
        """Every annotated field of a dataclass-like class, in order."""
        return tuple(f for cls in self.index.all(ast.ClassDef) for f in self._fields(cls))

    @functools.cached_property
    def _classes(self) -> dict[str, ast.ClassDef]:
        """The classes whose name is theirs alone."""
        found: dict[str, ast.ClassDef] = {}
        twice: set[str] = set()
        for cls in self.index.all(ast.ClassDef):
            twice |= {cls.name} & found.keys()
            found[cls.name] = cls
        return {name: cls for name, cls in found.items() if name not in twice}

    @functools.cached_property
    def _by_owner(self) -> dict[str, dict[str, Resolved]]:
        found: dict[str, dict[str, Resolved]] = {}
        for field in self.all:
            default = Resolved(field.default.value, field.default.node, "field", field.name)
            found.setdefault(field.owner, {})[field.name] = default
        return found

    def knows(self, owner: str) -> bool:
        """Whether a class of this module may be asked for defaults."""
        return owner in self._classes

    def default(self, owner: str, name: str, hops: int = 0) -> Resolved | None:
        """What an attribute of a fresh object, or of the class, is; bases in this module
        included. None when the class does not say."""
        cls = self._classes.get(owner)
        if cls is None or hops > _MAX_BASES:
            return None
        found = self._by_owner.get(owner, {}).get(name) or self._class_attribute(cls, name)
        if found:
            return found
        for base in cls.bases:
            found = self.default(self.names.qualified(base) or "", name, hops + 1)
            if found:
                return found
        return None

    def is_record(self, owner: str) -> bool:
        """Whether calling the class makes an object from keywords that are its fields."""
        cls = self._classes.get(owner)
        return cls is not None and self._has_fields(cls)

    def _class_attribute(self, cls: ast.ClassDef, name: str) -> Resolved | None:
        """`workers = 4` in the body of a class that does not set `self.workers`."""
        values = [
            s.value for s in cls.body
            if isinstance(s, (ast.Assign, ast.AnnAssign)) and _binds(s, name) and s.value
        ]  # fmt: skip
        if len(values) != 1 or self._is_enum(cls):
            return None
        if name in self._set_on_self:
            return Resolved(Unknown(f"{name} is set on the object"), values[0], "field", name)
        found = self._evaluator.resolve(values[0])
        return Resolved(found.value, found.node, "field", name)

    def _is_enum(self, cls: ast.ClassDef) -> bool:
        """A member of an enumeration is not its value, unless it is a text too."""
        bases = [last_part(self.names.qualified(b)) for b in cls.bases]
        return any(b in ("Enum", "Flag", "ExplicitEnum") for b in bases) and "str" not in bases

    @functools.cached_property
    def _set_on_self(self) -> frozenset[str]:
        return frozenset(
            node.attr
            for node in self.index.all(ast.Attribute)
            if not isinstance(node.ctx, ast.Load)
        )

    def _has_fields(self, cls: ast.ClassDef) -> bool:
        if any(last_part(d) in _DECORATORS for d in decorators(cls, self.names)):
            return True
        return any(last_part(self.names.qualified(b)) in _BASES for b in cls.bases)

    def _fields(self, cls: ast.ClassDef) -> Iterator[FieldNode]:
        if not self._has_fields(cls):
            return
        bases = tuple(self.names.qualified(b) or "" for b in cls.bases)
        for statement in cls.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                kind = self._annotation(statement.annotation)
                if kind != "ClassVar":
                    yield FieldNode(
                        statement.target.id, statement, statement.target,
                        self._default(statement.value), kind, cls.name, bases,
                    )  # fmt: skip

    def _annotation(self, node: ast.expr) -> str:
        """The last word of a plain annotation; of `ClassVar[int]` the outer one."""
        outer = node.value if isinstance(node, ast.Subscript) else node
        return last_part(self.names.qualified(outer))

    def _default(self, node: ast.expr | None) -> Resolved:
        if node is None:
            return Resolved(Unknown("the field has no default"), None, "field")
        if isinstance(node, ast.Call) and last_part(self.names.qualified(node.func)) in _MAKERS:
            return self._made(node)
        found = self._evaluator.resolve(node)
        return Resolved(found.value, found.node, "field")

    def _made(self, call: ast.Call) -> Resolved:
        """`field(default=...)`, pydantic's `Field(4)`, `field(default_factory=list)`."""
        keywords = {k.arg: k.value for k in call.keywords}
        node = keywords.get("default")
        if node is None and call.args and last_part(self.names.qualified(call.func)) == "Field":
            node = call.args[0]
        factory = keywords.get("default_factory")
        if isinstance(factory, ast.Lambda):
            node = factory.body
        elif isinstance(factory, ast.Name) and factory.id in ("list", "dict", "tuple", "set"):
            return Resolved((), factory, "field")
        if node is None or (isinstance(node, ast.Constant) and node.value is Ellipsis):
            return Resolved(Unknown("the field has no plain default"), None, "field")
        found = self._evaluator.resolve(node)
        return Resolved(found.value, found.node, "field")


def _binds(statement: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(isinstance(t, ast.Name) and t.id == name for t in targets)
