"""Attributes of objects that carry settings: `args.x`, `training_args.x`, `cfg.x`, `Config.x`."""

from __future__ import annotations

import ast
import functools

from pitstop.rules.finding import Unknown
from pitstop.rules.pyfields import Fields
from pitstop.rules.pyindex import Function, Index
from pitstop.rules.pynames import Binding, Names, last_part
from pitstop.rules.pyoptions import Options
from pitstop.rules.pyvalues import Evaluator, Resolved

_PARSES = frozenset({"parse_args", "parse_known_args", "parse_intermixed_args"})
_CLASS_PARSES = frozenset(
    {
        "parse_args_into_dataclasses", "parse_args_and_config", "parse_yaml_file",
        "parse_json_file", "parse_dict",
    }
)  # fmt: skip
_PARSERS = frozenset({"HfArgumentParser", "TrlParser", "cli"})
_NAMESPACES = frozenset({"args", "opt", "opts", "options", "flags", "FLAGS", "hparams", "cli_args"})


class Objects:
    """What an attribute of a name is worth, where its object is known."""

    def __init__(self, index: Index, names: Names, options: Options, fields: Fields) -> None:
        self.index = index
        self.names = names
        self.options = options
        self.fields = fields
        self._namespaces: dict[Binding, bool] = {}

    def read_attribute(
        self, node: ast.Attribute, evaluator: Evaluator, hops: int
    ) -> Resolved | None:
        """The attribute's value; None when the object is nothing that we know."""
        if not isinstance(node.value, ast.Name):
            return None
        bindings = self.names.bindings(node.value.id, node.value)
        if not bindings:
            return None
        if len(bindings) == 1 and self._is_namespace(bindings[0], node.value.id):
            return self.options.default(node.attr)
        owners = {self._instance(b) for b in bindings}
        if len(owners) != 1:
            return None
        call, owner = owners.pop()
        if not owner:
            return None
        if node.attr in self.options.changed or None in self.options.changed:
            return Resolved(Unknown(f"{node.attr} is changed later"), node)
        given = self._given(call, node, evaluator, hops) if call else None
        return given or self.fields.default(owner, node.attr)

    def _given(
        self, call: ast.Call, node: ast.Attribute, evaluator: Evaluator, hops: int
    ) -> Resolved | None:
        """What the call that made the object says about the attribute."""
        for keyword in call.keywords:
            if keyword.arg == node.attr:
                return evaluator.resolve(keyword.value, hops + 1)
        if call.args or any(k.arg is None for k in call.keywords):
            return Resolved(Unknown("the object is built from other values"), node)
        return None

    # what argparse parsed

    def _is_namespace(self, binding: Binding, name: str) -> bool:
        if not self.options.all:
            return False
        if binding.kind == "param":
            return name in _NAMESPACES or name in self._parsed_names
        if binding not in self._namespaces:
            self._namespaces[binding] = self._parses(binding, 0)
        return self._namespaces[binding]

    def _parses(self, binding: Binding, hops: int) -> bool:
        """Whether a binding's value is a parsed namespace, directly or through one function."""
        call = binding.value
        if not isinstance(call, ast.Call) or hops > 2:
            return False
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if method in _PARSES:
            whole = method != "parse_known_args"
            return (
                binding.kind == "value"
                if whole
                else binding.kind == "unpack" and not (binding.index)
            )
        if binding.kind != "value" or not isinstance(call.func, ast.Name):
            return False
        functions = self.index.functions.get(call.func.id, [])
        return len(functions) == 1 and self._returns_namespace(functions[0], hops)

    def _returns_namespace(self, function: Function, hops: int) -> bool:
        returns = self._returns.get(function, [])
        return bool(returns) and all(self._returned(r.value, hops) for r in returns)

    @functools.cached_property
    def _returns(self) -> dict[ast.AST, list[ast.Return]]:
        found: dict[ast.AST, list[ast.Return]] = {}
        for node in self.index.all(ast.Return):
            home = self.index.enclosing_function(node)
            if home is not None:
                found.setdefault(home, []).append(node)
        return found

    def _returned(self, node: ast.expr | None, hops: int) -> bool:
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Attribute) and node.func.attr == "parse_args"
        if not isinstance(node, ast.Name):
            return False
        binding = self.names.binding(node.id, node)
        return binding is not None and self._parses(binding, hops + 1)

    @functools.cached_property
    def _parsed_names(self) -> frozenset[str]:
        """Names that are bound to a parsed namespace somewhere in the module."""
        return frozenset(
            target.id
            for node in self.index.all(ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and self._parses(Binding("value", node, node.value), 0)
        )

    # objects of classes

    def _instance(self, binding: Binding) -> tuple[ast.Call | None, str]:
        """(the call that made the object, if it is plain; the name of its class in this module)."""
        if binding.kind == "class" and isinstance(binding.node, ast.ClassDef):
            return None, binding.node.name
        if binding.kind == "param" and isinstance(binding.node, ast.arg):
            owner = self._record(binding.node.annotation)
            return None, owner if owner in self._from_command_line else ""
        value, place = binding.value, binding.index if binding.kind == "unpack" else None
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
            place = value.slice.value if isinstance(value.slice.value, int) else None
            value = value.value
        if not isinstance(value, ast.Call):
            return None, ""
        if isinstance(value.func, ast.Attribute) and value.func.attr in _CLASS_PARSES:
            return None, self._parsed_class(value.func.value, place)
        if place is not None or binding.kind != "value":
            return None, ""
        if last_part(self.names.qualified(value.func)) == "cli" and value.args:
            return None, self._record(value.args[0])
        made = self._class(value.func)
        if self.fields.is_record(made) or not (value.args or value.keywords):
            return value, made
        return None, ""

    @functools.cached_property
    def _from_command_line(self) -> frozenset[str]:
        """Classes of which this module makes objects only from the command line or from nothing:
        an object that comes as a parameter then has the defaults of its fields."""
        parsed: set[str] = set()
        built: set[str] = set()
        for call in self.index.all(ast.Call):
            made = self._class(call.func)
            if made:
                (built if call.args or call.keywords else parsed).add(made)
            elif call.args and last_part(self.names.qualified(call.func)) in _PARSERS:
                first = call.args[0]
                classes = first.elts if isinstance(first, (ast.Tuple, ast.List)) else [first]
                parsed |= {self._record(c) for c in classes}
        return frozenset(parsed - built - {""})

    def _class(self, node: ast.expr | None) -> str:
        name = self.names.qualified(node) if node is not None else None
        return name if name and self.fields.knows(name) else ""

    def _record(self, node: ast.expr | None) -> str:
        """A dataclass-like class, given by name or as text in an annotation."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value
        else:
            name = self._class(node)
        return name if self.fields.is_record(name) else ""

    def _parsed_class(self, parser: ast.expr, place: int | None) -> str:
        """The class at a place of `HfArgumentParser((ModelArguments, DataArguments))`."""
        if isinstance(parser, ast.Name):
            bound = self.names.binding(parser.id, parser)
            parser = bound.value if bound and bound.value else parser
        if not isinstance(parser, ast.Call) or not parser.args:
            return ""
        classes = parser.args[0]
        if not isinstance(classes, (ast.Tuple, ast.List)):
            return self._record(classes) if place in (None, 0) else ""
        inside = place is not None and 0 <= place < len(classes.elts)
        return self._record(classes.elts[place]) if inside and place is not None else ""
