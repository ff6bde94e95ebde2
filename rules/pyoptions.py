"""argparse options and their defaults."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pitstop.rules.finding import Unknown, Value
from pitstop.rules.pyindex import Index
from pitstop.rules.pynames import Names, last_part
from pitstop.rules.pyvalues import Evaluator, Resolved

_CASTS: Mapping[str, Callable[[Any], Any]] = {"int": int, "float": float}


@dataclass(frozen=True, slots=True)
class OptionNode:
    """One `add_argument` call. `name` is the attribute of the parsed namespace."""

    name: str
    call: ast.Call
    name_node: ast.AST
    default: Resolved
    flags: tuple[str, ...]
    type: str
    action: str


class Options:
    """The options of a module."""

    def __init__(self, index: Index, names: Names) -> None:
        self.index = index
        self.names = names
        self._evaluator = Evaluator(index, names)

    @functools.cached_property
    def all(self) -> tuple[OptionNode, ...]:
        """Every `add_argument` call with literal names, in order."""
        found = []
        for call in self.index.all(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
                option = self._option(call)
                if option:
                    found.append(option)
        return tuple(found)

    def default(self, name: str) -> Resolved | None:
        """What the namespace's attribute is when the command line does not say; None when there
        is no such option."""
        return self._defaults.get(name)

    def _option(self, call: ast.Call) -> OptionNode | None:
        words = [a.value for a in call.args if isinstance(a, ast.Constant)]
        flags = [w for w in words if isinstance(w, str)]
        if not flags or len(flags) != len(call.args):
            return None
        keywords = {k.arg: k.value for k in call.keywords}
        long = next((f for f in flags if f.startswith("--")), flags[0])
        dest = keywords.get("dest")
        name = dest.value if isinstance(dest, ast.Constant) else long.lstrip("-").replace("-", "_")
        action = self._word(keywords.get("action")) or "store"
        kind = self._word(keywords.get("type"))
        default = self._default(keywords, action, kind)
        return OptionNode(str(name), call, call.args[0], default, tuple(flags), kind, action)

    def _word(self, node: ast.expr | None) -> str:
        """`"store_true"`, `int` or `argparse.BooleanOptionalAction` as a word; "?" for what is
        not a name."""
        if node is None:
            return ""
        if isinstance(node, ast.Constant):
            return str(node.value)
        return last_part(self.names.qualified(node)) or "?"

    def _default(self, keywords: Mapping[str | None, ast.expr], action: str, kind: str) -> Resolved:
        node = keywords.get("default")
        if node is not None:
            found = self._evaluator.resolve(node)
            return Resolved(_cast(found.value, kind), found.node, "option")
        if None in keywords:
            return _unknown("the option is built from a dictionary")
        if action in ("store_true", "store_false"):
            return Resolved(action == "store_false", None, "option")
        required = keywords.get("required")
        if required is not None and not _is_false(required):
            return _unknown("the option is required")
        return Resolved(None, None, "option")

    @functools.cached_property
    def _defaults(self) -> dict[str, Resolved]:
        found: dict[str, Resolved] = {}
        for option in self.all:
            default = option.default
            earlier = found.get(option.name)
            if earlier and repr(earlier.value) != repr(default.value):
                default = _unknown("two options of this name differ")
            if option.name in self.changed or None in self.changed:
                default = _unknown("the option is changed later")
            found[option.name] = Resolved(default.value, default.node, "option", option.name)
        return found

    @functools.cached_property
    def changed(self) -> frozenset[str | None]:
        """Attributes that the module sets on an object other than `self`; None when any may be
        (`setattr`, `vars(args).update(...)`)."""
        found: set[str | None] = set()
        for node in self.index.all(ast.Attribute):
            if not isinstance(node.ctx, ast.Load):
                if not isinstance(node.value, ast.Name) or node.value.id not in ("self", "cls"):
                    found.add(node.attr)
            elif node.attr == "set_defaults":
                call = self.index.parents.get(node)
                found |= {k.arg for k in call.keywords} if isinstance(call, ast.Call) else {None}
            elif node.attr == "__dict__" and self._written(node):
                found.add(None)
        for call in self.index.all(ast.Call):
            if isinstance(call.func, ast.Name) and (
                call.func.id == "setattr" or (call.func.id == "vars" and self._written(call))
            ):
                found.add(None)
        return frozenset(found)

    def _written(self, node: ast.AST) -> bool:
        """`vars(args).update(...)`, `args.__dict__["x"] = ...`, or kept under another name."""
        parent = self.index.parents.get(node)
        if isinstance(parent, ast.Attribute):
            return parent.attr in ("update", "setdefault", "pop", "clear")
        if isinstance(parent, ast.Subscript):
            return not isinstance(parent.ctx, ast.Load)
        return isinstance(parent, (ast.Assign, ast.AugAssign))


def _unknown(why: str) -> Resolved:
    return Resolved(Unknown(why), None, "option")


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _cast(value: Value, kind: str) -> Value:
    """What argparse's `type=` makes of a default that is a text; other defaults stay."""
    if not isinstance(value, str) or kind in ("", "str"):
        return value
    cast = _CASTS.get(kind)
    if cast is None:
        return Unknown(f"the option's type {kind} decides")
    try:
        return cast(value)  # type: ignore[no-any-return]
    except ValueError:
        return Unknown(f"{value!r} is no {kind}")
