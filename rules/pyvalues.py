"""What an expression is worth without running it. What is not certain is Unknown, and says why.

A value is followed through names that are bound once, literal arithmetic, keyword dictionaries,
argparse defaults and the defaults of dataclass fields, all inside one module.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pitstop.rules.finding import Scalar, Unknown, Value
from pitstop.rules.pydicts import read_dict
from pitstop.rules.pyindex import Index
from pitstop.rules.pynames import Binding, Names

Origin = Literal["literal", "variable", "dict", "option", "field", "computed"]

_MAX_HOPS = 12
_MAX_INT = 10**18
_MAX_TEXT = 10_000
_DTYPES = re.compile(
    r"^torch\.(?:b?float\d*|double|half|u?int\d+|long|bool|float8_\w+|strided|channels_last(?:_3d)?"
    r"|contiguous_format|preserve_format)$"
)
_LIBRARIES = frozenset(
    {
        "torch", "transformers", "accelerate", "deepspeed", "trl", "peft", "lightning",
        "datasets", "megatron",
    }
)  # fmt: skip
_MEMBER = re.compile(r"^\w+(?:\.\w+)*\.[A-Z]\w*\.[A-Z][A-Z0-9_]*$")
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_CASTS: Mapping[str, Callable[[Any], Any]] = {
    "int": int, "float": float, "str": str, "bool": bool, "abs": abs, "round": round,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Resolved:
    """A value and the expression that decides it.

    `node` is the literal (or the expression that could not be followed) at the end of the way,
    None for a default that is written nowhere. `key` is the option or field passed through.
    "computed" is an expression over names: `args.batch // 2`.
    """

    value: Value
    node: ast.expr | None
    origin: Origin = "literal"
    key: str | None = None

    @property
    def known(self) -> bool:
        """True when the value could be resolved."""
        return not isinstance(self.value, Unknown)


AttributeReader = Callable[[ast.Attribute, "Evaluator", int], Resolved | None]


class Evaluator:
    """Resolves expressions of one module. `read_attribute` knows option and field objects."""

    def __init__(
        self, index: Index, names: Names, read_attribute: AttributeReader | None = None
    ) -> None:
        self.index = index
        self.names = names
        self._read_attribute = read_attribute

    def resolve(self, node: ast.expr, hops: int = 0) -> Resolved:
        """The value of an expression at the place where it stands."""
        if hops > _MAX_HOPS:
            return Resolved(Unknown("too many steps to follow"), node)
        handler = _HANDLERS.get(type(node))
        if handler is None:
            return Resolved(Unknown(_describe(node)), node)
        return handler(self, node, hops)

    def _constant(self, node: ast.Constant, hops: int) -> Resolved:
        value = node.value
        if value is None or isinstance(value, (bool, int, float, str)):
            return Resolved(value, node)
        return Resolved(Unknown(f"a {type(value).__name__} literal"), node)

    def _name(self, node: ast.Name, hops: int) -> Resolved:
        why = self._why_not_followed(node)
        if why:
            return Resolved(Unknown(why), node)
        binding = self.names.binding(node.id, node)
        if binding is None or binding.value is None or binding.kind != "value":
            return Resolved(Unknown(f"{node.id} is not bound to a value"), node)
        found = self.resolve(binding.value, hops + 1)
        origin: Origin = "variable" if found.origin == "literal" else found.origin
        return Resolved(found.value, found.node, origin, found.key)

    def _why_not_followed(self, node: ast.Name) -> str | None:
        names = self.names
        bindings = names.bindings(node.id, node)
        if not bindings:
            return f"{node.id} is not defined in this file"
        if len(bindings) > 1:
            return f"{node.id} is assigned more than once"
        only = bindings[0]
        if only.kind == "param":
            return f"{node.id} is a parameter"
        if only.kind != "value" or not _definite(only, self.index):
            return f"{node.id} is not a plain assignment"
        if isinstance(names.home(node.id, node), ast.Module) and (
            names.rewritten or names.star_imports
        ):
            return f"{node.id} may be changed from outside this file"
        return None

    def _attribute(self, node: ast.Attribute, hops: int) -> Resolved:
        name = self.names.qualified(node)
        if name and (_DTYPES.match(name) or _is_member(name)):
            return Resolved(name, node)
        if self._read_attribute:
            found = self._read_attribute(node, self, hops + 1)
            if found:
                return found
        return Resolved(Unknown(f"{_describe(node)} is set elsewhere"), node)

    def _sequence(self, node: ast.List | ast.Tuple | ast.Set, hops: int) -> Resolved:
        members: list[Scalar] = []
        for element in node.elts:
            found = self.resolve(element, hops + 1).value
            if isinstance(found, (Unknown, tuple)):
                why = found if isinstance(found, Unknown) else Unknown("nested sequences")
                return Resolved(why, node)
            members.append(found)
        return Resolved(tuple(members), node)

    def _unary(self, node: ast.UnaryOp, hops: int) -> Resolved:
        inner = self.resolve(node.operand, hops + 1)
        value = inner.value
        if isinstance(node.op, ast.Not) and inner.known and inner.origin in ("literal", "variable"):
            return Resolved(not value, node, _computed(inner))
        if isinstance(value, (int, float)) and isinstance(node.op, (ast.USub, ast.UAdd)):
            sign = -1 if isinstance(node.op, ast.USub) else 1
            return Resolved(sign * value, node, _computed(inner))
        return Resolved(_unknown(inner, "a computed value"), node)

    def _binary(self, node: ast.BinOp, hops: int) -> Resolved:
        left, right = self.resolve(node.left, hops + 1), self.resolve(node.right, hops + 1)
        for side in (left, right):
            if not side.known:
                return Resolved(side.value, node)
        operate = _BINARY.get(type(node.op))
        if operate is None or not _small(left.value, right.value, node.op):
            return Resolved(Unknown("a computed value"), node)
        try:
            value = operate(left.value, right.value)
        except (TypeError, ValueError, ArithmeticError, MemoryError):
            return Resolved(Unknown("a computed value"), node)
        if isinstance(value, complex):
            return Resolved(Unknown("a computed value"), node)
        return Resolved(value, node, _computed(left, right))

    def _conditional(self, node: ast.IfExp, hops: int) -> Resolved:
        test = self.resolve(node.test, hops + 1)
        if test.known and test.origin in ("literal", "variable"):
            return self.resolve(node.body if test.value else node.orelse, hops + 1)
        body, orelse = self.resolve(node.body, hops + 1), self.resolve(node.orelse, hops + 1)
        if body.known and repr(body.value) == repr(orelse.value):
            return body
        return Resolved(Unknown("it depends on a condition"), node)

    def _named(self, node: ast.NamedExpr, hops: int) -> Resolved:
        return self.resolve(node.value, hops + 1)

    def _text(self, node: ast.JoinedStr, hops: int) -> Resolved:
        parts: list[str] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                plain = part.conversion == -1 and part.format_spec is None
                found = self.resolve(part.value, hops + 1)
                if not plain or not found.known or isinstance(found.value, tuple):
                    return Resolved(_unknown(found, "a formatted text"), node)
                parts.append(str(found.value))
            elif isinstance(part, ast.Constant):
                parts.append(str(part.value))
        return Resolved("".join(parts), node, "computed")

    def _element(self, node: ast.Subscript, hops: int) -> Resolved:
        """`CONFIG["workers"]` of a dictionary that the module shows completely."""
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        found = read_dict(node.value, self.names, self.index, node) if key is not None else None
        item = found.items.get(key) if found and isinstance(key, str) else None
        if item is None or item.value is None:
            return Resolved(Unknown(item.why if item else "an element"), node)
        inner = self.resolve(item.value, hops + 1)
        origin: Origin = "dict" if inner.origin in ("literal", "variable") else inner.origin
        return Resolved(inner.value, inner.node, origin, inner.key)

    def _call(self, node: ast.Call, hops: int) -> Resolved:
        name = self.names.qualified(node.func) or ""
        if name in ("os.environ.get", "os.getenv"):
            return Resolved(Unknown("it comes from the environment"), node)
        cast = _CASTS.get(name)
        if cast and len(node.args) == 1 and not node.keywords:
            inner = self.resolve(node.args[0], hops + 1)
            if inner.known and not isinstance(inner.value, tuple):
                try:
                    return Resolved(cast(inner.value), inner.node, inner.origin, inner.key)
                except (TypeError, ValueError, OverflowError):
                    return Resolved(Unknown(f"{name}() of something else"), node)
            return Resolved(_unknown(inner, f"{name}() of a sequence"), node)
        return Resolved(Unknown(f"the result of {name or 'a call'}()"), node)


_HANDLERS: Mapping[type[ast.expr], Callable[[Evaluator, Any, int], Resolved]] = {
    ast.Constant: Evaluator._constant,
    ast.Name: Evaluator._name,
    ast.Attribute: Evaluator._attribute,
    ast.List: Evaluator._sequence,
    ast.Tuple: Evaluator._sequence,
    ast.Set: Evaluator._sequence,
    ast.UnaryOp: Evaluator._unary,
    ast.BinOp: Evaluator._binary,
    ast.IfExp: Evaluator._conditional,
    ast.NamedExpr: Evaluator._named,
    ast.JoinedStr: Evaluator._text,
    ast.Call: Evaluator._call,
    ast.Subscript: Evaluator._element,
}


def _definite(binding: Binding, index: Index) -> bool:
    """A binding that gives one value: `x += 1` and `del x` do not, and neither does an
    assignment that several targets share with unpacking."""
    return isinstance(binding.node, (ast.Assign, ast.AnnAssign, ast.NamedExpr))


def _is_member(name: str) -> bool:
    """A member of a library's enumeration: `torch.distributed.fsdp.ShardingStrategy.NO_SHARD`."""
    return name.partition(".")[0] in _LIBRARIES and _MEMBER.match(name) is not None


def _computed(*parts: Resolved) -> Origin:
    return "literal" if all(p.origin == "literal" for p in parts) else "computed"


def _small(left: Value, right: Value, op: ast.operator) -> bool:
    """Keeps arithmetic cheap: no towers of powers, no megabytes of repeated text."""
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    if isinstance(op, ast.Add) and isinstance(left, str) and isinstance(right, str):
        return len(left) + len(right) <= _MAX_TEXT
    if not numbers:
        return False
    assert isinstance(left, (int, float)) and isinstance(right, (int, float))  # noqa: S101
    if isinstance(op, (ast.Pow, ast.LShift, ast.RShift)):
        return abs(left) <= 1024 and 0 <= right <= 64
    return abs(left) <= _MAX_INT and abs(right) <= _MAX_INT


def _unknown(found: Resolved, otherwise: str) -> Unknown:
    return found.value if isinstance(found.value, Unknown) else Unknown(otherwise)


def _describe(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"an attribute .{node.attr}"
    words = {
        ast.Dict: "a dictionary", ast.Lambda: "a function",
        ast.BoolOp: "a condition", ast.Compare: "a condition", ast.Await: "an awaited value",
        ast.Starred: "unpacked values",
    }  # fmt: skip
    return words.get(type(node), "an expression")
