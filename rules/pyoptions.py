"""Defaults that a command line or a caller may override: argparse options, dataclass fields."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pitstop.rules.finding import Unknown, Value
from pitstop.rules.pyindex import Index
from pitstop.rules.pynames import Binding, Names, decorators, last_part
from pitstop.rules.pyvalues import Evaluator, Resolved

_PARSES = frozenset({"parse_args", "parse_known_args", "parse_intermixed_args"})
_CLASS_PARSES = frozenset(
    {"parse_args_into_dataclasses", "parse_args_and_config", "parse_yaml_file", "parse_json_file",
     "parse_dict"}
)  # fmt: skip
_NAMESPACES = frozenset({"args", "opt", "opts", "options", "flags", "FLAGS", "hparams", "cli_args"})
_MODELS = frozenset({"BaseModel", "BaseSettings", "NamedTuple"})
_TYPES: Mapping[str, Callable[[Any], Any]] = {"int": int, "float": float, "str": str}
_MAX_BASES = 10


@dataclass(frozen=True, slots=True)
class OptionNode:
    """One `add_argument` call, or one annotated field of a class (`owner` is then its name)."""

    name: str
    call: ast.AST
    name_node: ast.AST
    default: Resolved
    flags: tuple[str, ...] = ()
    type: str = ""
    action: str = "store"
    owner: str = ""
    bases: tuple[str, ...] = ()


class Options:
    """The options and fields of a module, and the objects that carry them."""

    def __init__(self, index: Index, names: Names) -> None:
        self.index = index
        self.names = names
        self._plain = Evaluator(index, names)

    # argparse

    @functools.cached_property
    def options(self) -> tuple[OptionNode, ...]:
        """Every `add_argument` call with literal names, in order."""
        found = []
        for call in self.index.all(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
                option = self._option(call)
                if option:
                    found.append(option)
        return tuple(found)

    def _option(self, call: ast.Call) -> OptionNode | None:
        words = [a.value for a in call.args if isinstance(a, ast.Constant)]
        flags = [w for w in words if isinstance(w, str)]
        if not flags or len(flags) != len(call.args):
            return None
        keywords = {k.arg: k.value for k in call.keywords}
        open_ended = any(k.arg is None for k in call.keywords)
        long = next((f for f in flags if f.startswith("--")), flags[0])
        dest = keywords.get("dest")
        name = dest.value if isinstance(dest, ast.Constant) else long.lstrip("-").replace("-", "_")
        action = self._word(keywords.get("action")) or "store"
        kind = self._word(keywords.get("type"))
        default = self._default(keywords, action, kind)
        if open_ended and "default" not in keywords:
            default = Resolved(Unknown("the option is built from a dictionary"), None, "option")
        return OptionNode(str(name), call, call.args[0], default, tuple(flags), kind, action)

    def _word(self, node: ast.expr | None) -> str:
        """`"store_true"`, `int` or `argparse.BooleanOptionalAction` as a word."""
        if isinstance(node, ast.Constant):
            return str(node.value)
        return last_part(self.names.qualified(node)) if node is not None else ""

    def _default(self, keywords: Mapping[str | None, ast.expr], action: str, kind: str) -> Resolved:
        node = keywords.get("default")
        if node is not None:
            found = self._plain.resolve(node)
            return Resolved(_cast(found.value, kind), found.node, "option")
        if action in ("store_true", "store_false"):
            return Resolved(action == "store_false", None, "option")
        required = keywords.get("required")
        if isinstance(required, ast.Constant) and required.value:
            return Resolved(Unknown("the option is required"), None, "option")
        return Resolved(None, None, "option")

    @functools.cached_property
    def _option_by_name(self) -> dict[str, Resolved]:
        found: dict[str, Resolved] = {}
        for option in self.options:
            default = option.default
            earlier = found.get(option.name)
            if earlier and repr(earlier.value) != repr(default.value):
                default = Resolved(Unknown("two options of this name differ"), None, "option")
            if option.name in self._overridden or None in self._overridden:
                default = Resolved(Unknown("the option is changed later"), None, "option")
            found[option.name] = Resolved(default.value, default.node, "option", option.name)
        return found

    @functools.cached_property
    def _overridden(self) -> set[str | None]:
        """Options whose value the module changes after parsing; None stands for all."""
        found: set[str | None] = set()
        for node in self.index.all(ast.Attribute):
            if not isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name):
                if node.value.id not in ("self", "cls"):
                    found.add(node.attr)
            elif node.attr == "__dict__" or node.attr == "set_defaults":
                found |= self._bulk(node)
        for call in self.index.all(ast.Call):
            name = self.names.qualified(call.func)
            if name == "setattr" or (name == "vars" and self._is_changed(call)):
                found.add(None)
        return found

    def _bulk(self, node: ast.Attribute) -> set[str | None]:
        call = self.index.parents.get(node)
        if node.attr == "set_defaults" and isinstance(call, ast.Call):
            return {k.arg for k in call.keywords}
        return {None} if self._is_changed(node) else set()

    def _is_changed(self, node: ast.AST) -> bool:
        """`vars(args).update(...)`, `args.__dict__["x"] = ...`, or kept for later."""
        parent = self.index.parents.get(node)
        if isinstance(parent, ast.Attribute):
            return parent.attr in ("update", "setdefault", "pop", "clear")
        if isinstance(parent, ast.Subscript):
            return not isinstance(parent.ctx, ast.Load)
        return isinstance(parent, (ast.Assign, ast.AugAssign))

    # dataclasses

    @functools.cached_property
    def fields(self) -> tuple[OptionNode, ...]:
        """Every annotated field of a dataclass-like class, in order."""
        found: list[OptionNode] = []
        for cls in self.index.all(ast.ClassDef):
            if self._has_fields(cls):
                found += self._fields(cls)
        return tuple(found)

    def _has_fields(self, cls: ast.ClassDef) -> bool:
        if any(last_part(d) in ("dataclass", "define", "frozen", "mutable", "attrs")
               for d in decorators(cls, self.names)):  # fmt: skip
            return True
        return any(last_part(self.names.qualified(b)) in _MODELS for b in cls.bases)

    def _fields(self, cls: ast.ClassDef) -> Iterator[OptionNode]:
        bases = tuple(self.names.qualified(b) or "" for b in cls.bases)
        for statement in cls.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                annotation = statement.annotation
                kind = self._word(annotation) if not isinstance(annotation, ast.Subscript) else ""
                if kind == "ClassVar":
                    continue
                default = self._field_default(statement.value)
                yield OptionNode(
                    statement.target.id, statement, statement.target, default,
                    type=kind, owner=cls.name, bases=bases,
                )  # fmt: skip

    def _field_default(self, node: ast.expr | None) -> Resolved:
        if node is None:
            return Resolved(Unknown("the field has no default"), None, "field")
        if isinstance(node, ast.Call):
            maker = last_part(self.names.qualified(node.func))
            if maker in ("field", "Field", "ib", "attrib", "HfArg", "Arg"):
                return self._made(node)
        found = self._plain.resolve(node)
        return Resolved(found.value, found.node, "field")

    def _made(self, call: ast.Call) -> Resolved:
        """`field(default=...)`, pydantic's `Field(4)`, `default_factory=list`."""
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
        found = self._plain.resolve(node)
        return Resolved(found.value, found.node, "field")

    @functools.cached_property
    def _field_by_owner(self) -> dict[str, dict[str, Resolved]]:
        found: dict[str, dict[str, Resolved]] = {}
        for option in self.fields:
            default = option.default
            default = Resolved(default.value, default.node, "field", option.name)
            found.setdefault(option.owner, {})[option.name] = default
        return found

    def field(self, owner: str, name: str, hops: int = 0) -> Resolved | None:
        """A field's default, inherited ones of the module included."""
        found = self._field_by_owner.get(owner, {}).get(name)
        if found or hops > _MAX_BASES:
            return found
        bases = next((o.bases for o in self.fields if o.owner == owner), ())
        for base in bases:
            found = self.field(base, name, hops + 1)
            if found:
                return found
        return None

    # objects that carry them

    def read_attribute(
        self, node: ast.Attribute, evaluator: Evaluator, hops: int
    ) -> Resolved | None:
        """`args.x`, `training_args.x`, `cfg.x`; None when the object is none of these."""
        if not isinstance(node.value, ast.Name):
            return None
        binding = self.names.binding(node.value.id, node.value)
        if binding is None:
            return None
        if self._is_namespace(binding, node.value.id):
            return self._option_by_name.get(node.attr)
        given, owner = self._instance(binding)
        if not owner:
            return None
        if node.attr in self._overridden or None in self._overridden:
            return Resolved(Unknown(f"{node.attr} is changed later"), node)
        if given is not None:
            for keyword in given.keywords:
                if keyword.arg == node.attr:
                    return evaluator.resolve(keyword.value, hops + 1)
            if given.args or any(k.arg is None for k in given.keywords):
                return Resolved(Unknown("the object is built from other values"), node)
        return self.field(owner, node.attr)

    def _is_namespace(self, binding: Binding, name: str) -> bool:
        """Whether a name holds what argparse parsed."""
        if not self.options:
            return False
        if binding.kind == "param":
            return name in _NAMESPACES or name in self._parsed_names
        return self._parses(binding)

    def _parses(self, binding: Binding, hops: int = 0) -> bool:
        call = binding.value
        if not isinstance(call, ast.Call) or hops > 2:
            return False
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if method in _PARSES:
            return binding.kind == "value" or (method != "parse_args" and binding.index == 0)
        if binding.kind != "value" or not isinstance(call.func, ast.Name):
            return False
        functions = self.index.functions.get(call.func.id, [])
        return len(functions) == 1 and self._returns_namespace(functions[0], hops)

    def _returns_namespace(self, function: ast.AST, hops: int) -> bool:
        returns = [n for n in ast.walk(function) if isinstance(n, ast.Return)]
        return bool(returns) and all(self._returned(r.value, hops) for r in returns)

    def _returned(self, node: ast.expr | None, hops: int) -> bool:
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Attribute) and node.func.attr == "parse_args"
        if not isinstance(node, ast.Name):
            return False
        binding = self.names.binding(node.id, node)
        return binding is not None and self._parses(binding, hops + 1)

    @functools.cached_property
    def _parsed_names(self) -> frozenset[str]:
        """Names that are bound to what argparse parsed somewhere in the module."""
        found = set()
        for name in self.index.all(ast.Name):
            parent = self.index.parents.get(name)
            if (
                isinstance(name.ctx, ast.Store)
                and isinstance(parent, ast.Assign)
                and self._parses(Binding("value", parent, parent.value))
            ):
                found.add(name.id)
        return frozenset(found)

    def _instance(self, binding: Binding) -> tuple[ast.Call | None, str]:
        """(the call that made the object, if it is a plain one; name of its class)."""
        if binding.kind == "param" and isinstance(binding.node, ast.arg):
            return None, self._class_of(binding.node.annotation)
        call = binding.value
        if not isinstance(call, ast.Call):
            return None, ""
        made = self._class_of(call.func)
        if made and binding.kind == "value":
            return call, made
        if last_part(self.names.qualified(call.func)) == "cli" and call.args:
            return None, self._class_of(call.args[0])
        if isinstance(call.func, ast.Attribute) and call.func.attr in _CLASS_PARSES:
            return None, self._parsed_class(call.func.value, binding)
        return None, ""

    def _class_of(self, node: ast.expr | None) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value if node.value in self._field_by_owner else ""
        name = self.names.qualified(node) if node is not None else None
        return name if name in self._field_by_owner else ""

    def _parsed_class(self, parser: ast.expr, binding: Binding) -> str:
        """The class at a place of `HfArgumentParser((ModelArguments, DataArguments))`."""
        if isinstance(parser, ast.Name):
            bound = self.names.binding(parser.id, parser)
            parser = bound.value if bound and bound.value else parser
        if not isinstance(parser, ast.Call):
            return ""
        classes = parser.args[0] if parser.args else None
        if isinstance(classes, (ast.Tuple, ast.List)):
            at = binding.index if binding.kind == "unpack" else -1
            return self._class_of(classes.elts[at]) if 0 <= at < len(classes.elts) else ""
        return self._class_of(classes)


def _cast(value: Value, kind: str) -> Value:
    """What argparse's `type=` makes of a default that is a text."""
    if not isinstance(value, str) or not kind or kind == "str":
        return value
    cast = _TYPES.get(kind)
    if cast is None:
        return Unknown(f"the option's type {kind} decides")
    try:
        return cast(value)  # type: ignore[no-any-return]
    except ValueError:
        return Unknown(f"{value!r} is no {kind}")
