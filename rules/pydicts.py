"""Keyword dictionaries: what `f(**kw)` passes, as far as the module shows it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from pitstop.rules.pyindex import Index, in_block, place
from pitstop.rules.pynames import Names

_MAX_HOPS = 8
_MAX_USES = 100
_MAX_KEYS = 300  # a table, not keywords
_READS = frozenset({"get", "items", "keys", "values", "copy"})
_HARMLESS = frozenset(
    {
        "print", "len", "str", "repr", "bool", "list", "tuple", "sorted", "set", "dict", "iter",
        "any", "all", "enumerate", "isinstance", "type", "json.dumps", "json.dump",
        "pprint.pprint", "pprint.pformat", "copy.copy", "copy.deepcopy",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Item:
    """One key. `value` is None when it may have different values or be absent; `why` says so."""

    key_node: ast.AST
    value: ast.expr | None
    why: str = ""


@dataclass(slots=True)
class KeywordDict:
    """The keys that a dictionary may have; `open` when there may be others too."""

    items: dict[str, Item] = field(default_factory=dict)
    open: bool = False

    def put(self, other: KeywordDict, why: str = "") -> None:
        """What `dict.update` does; with `why`, perhaps."""
        for key, item in other.items.items():
            self.items[key] = Item(item.key_node, None, why) if why else item
        self.open |= other.open

    def blur(self, why: str) -> None:
        """Anything may have happened to it."""
        self.open = True
        self.items = {k: Item(i.key_node, None, why) for k, i in self.items.items()}


def read_dict(
    node: ast.expr, names: Names, index: Index, use: ast.AST, hops: int = 0
) -> KeywordDict | None:
    """The dictionary that an expression makes, seen from `use`; None when it cannot be followed."""
    if hops > _MAX_HOPS:
        return None
    reader = _Reader(names, index, use, hops)
    if isinstance(node, ast.Dict):
        return reader.literal(node)
    if isinstance(node, ast.Call):
        return reader.call(node)
    if isinstance(node, ast.Name):
        return reader.name(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return reader.merged(node.left, node.right)
    if isinstance(node, ast.IfExp):
        return reader.either(node.body, node.orelse)
    return None


@dataclass(frozen=True, slots=True)
class _Reader:
    names: Names
    index: Index
    use: ast.AST
    hops: int

    def inner(self, node: ast.expr) -> KeywordDict:
        found = read_dict(node, self.names, self.index, self.use, self.hops + 1)
        return found if found is not None else KeywordDict(open=True)

    def literal(self, node: ast.Dict) -> KeywordDict:
        found = KeywordDict()
        if len(node.keys) > _MAX_KEYS:
            return KeywordDict(open=True)
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self.spread(found, value)
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                found.items[key.value] = Item(key, value)
            else:
                found.blur("a key of the dictionary is computed")
        return found

    def spread(self, into: KeywordDict, node: ast.expr) -> None:
        """`**other` inside: its unknown keys may replace what stands before."""
        other = self.inner(node)
        if other.open:
            into.blur("an unknown dictionary may replace it")
        into.put(other)

    def call(self, node: ast.Call) -> KeywordDict | None:
        name = self.names.qualified(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in ("copy.copy", "copy.deepcopy") and len(node.args) == 1:
            return self.inner(node.args[0])
        if name is None and method == "copy" and isinstance(node.func, ast.Attribute):
            return self.inner(node.func.value)
        if name not in ("dict", "collections.OrderedDict") or len(node.args) > 1:
            return None
        found = KeywordDict()
        for argument in node.args:
            self.spread(found, argument)
        for keyword in node.keywords:
            if keyword.arg is None:
                self.spread(found, keyword.value)
            else:
                found.items[keyword.arg] = Item(keyword, keyword.value)
        return found

    def merged(self, left: ast.expr, right: ast.expr) -> KeywordDict:
        found = self.inner(left)
        self.spread(found, right)
        return found

    def either(self, body: ast.expr, orelse: ast.expr) -> KeywordDict:
        """A conditional expression: every key of both may be there or not."""
        found = KeywordDict()
        found.put(self.inner(body), "it depends on a condition")
        found.put(self.inner(orelse), "it depends on a condition")
        return found

    def name(self, node: ast.Name) -> KeywordDict | None:
        binding = self.names.binding(node.id, node)
        if binding is None or binding.kind != "value" or binding.value is None:
            return None
        found = read_dict(binding.value, self.names, self.index, self.use, self.hops + 1)
        if found is None:
            return None
        home = self.names.home(node.id, node)
        if isinstance(home, ast.Module) and self.names.rewritten:
            found.blur("it may be changed from outside this file")
        changes = _Changes(self, node, binding.node, found)
        loads = self.index.loads.get(node.id, ())
        if len(loads) > _MAX_USES:
            found.blur("the dictionary is used in too many places")
            return found
        for load in loads:
            if load is not node and self.names.home(node.id, load) is home:
                changes.take(load)
        return found


@dataclass(frozen=True, slots=True)
class _Changes:
    """What the rest of the module does to a dictionary that a name holds."""

    reader: _Reader
    use: ast.Name
    bound: ast.AST
    found: KeywordDict

    def take(self, load: ast.Name) -> None:
        """One other place where the name stands."""
        parents = self.reader.index.parents
        parent = parents.get(load)
        if isinstance(parent, ast.Subscript) and parent.value is load:
            self._subscript(parent)
        elif isinstance(parent, ast.Attribute):
            call = parents.get(parent)
            if isinstance(call, ast.Call) and call.func is parent:
                self._method(parent.attr, call)
            else:
                self.found.blur("the dictionary is used in another way")
        elif not self._harmless(parent, load):
            self.found.blur("the dictionary is handed on")

    def _harmless(self, parent: ast.AST | None, load: ast.Name) -> bool:
        if isinstance(parent, ast.keyword):
            return parent.arg is None
        if isinstance(parent, ast.Dict):
            return any(
                k is None and v is load for k, v in zip(parent.keys, parent.values, strict=True)
            )
        if isinstance(parent, ast.Call):
            return (self.reader.names.qualified(parent.func) or "") in _HARMLESS
        if isinstance(parent, ast.BinOp):
            return True
        return isinstance(
            parent,
            (ast.Compare, ast.FormattedValue, ast.Return, ast.If, ast.For, ast.comprehension),
        )

    def _subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Load):
            return
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if not isinstance(key, str):
            self.found.blur("a key of the dictionary is computed")
            return
        statement = self.reader.index.parents.get(node)
        if isinstance(statement, ast.Assign) and self._certain(statement):
            self.found.items[key] = Item(node.slice, statement.value)
        elif isinstance(statement, ast.Delete) and self._certain(statement):
            self.found.items.pop(key, None)
        else:
            self.found.items[key] = Item(node.slice, None, "it is changed under a condition")

    def _method(self, method: str, call: ast.Call) -> None:
        if method in _READS:
            return
        if method == "update" and len(call.args) <= 1:
            self._update(call)
        elif method in ("setdefault", "pop") and call.args:
            self._one_key(method, call)
        else:
            self.found.blur(f"the dictionary's {method}() is called")

    def _update(self, call: ast.Call) -> None:
        other = KeywordDict()
        for argument in call.args:
            self.reader.spread(other, argument)
        for keyword in call.keywords:
            if keyword.arg is None:
                self.reader.spread(other, keyword.value)
            else:
                other.items[keyword.arg] = Item(keyword, keyword.value)
        if other.open:
            self.found.blur("an unknown dictionary is added to it")
        certain = self._certain(self.reader.index.statement(call))
        self.found.put(other, "" if certain else "it is added under a condition")

    def _one_key(self, method: str, call: ast.Call) -> None:
        key = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
        if not isinstance(key, str):
            self.found.blur("a key of the dictionary is computed")
        elif method == "setdefault" and key in self.found.items:
            return
        elif method == "setdefault" and len(call.args) == 2 and self._certain_call(call):
            self.found.items[key] = Item(call.args[0], call.args[1])
        elif method == "pop" and self._certain_call(call):
            self.found.items.pop(key, None)
        else:
            self.found.items[key] = Item(call.args[0], None, "it is changed under a condition")

    def _certain_call(self, call: ast.Call) -> bool:
        return self._certain(self.reader.index.statement(call))

    def _certain(self, statement: ast.stmt | None) -> bool:
        """A change that has happened, once, whenever the use is reached: it stands in the block
        of the binding, after it and before the use, and the use is in the same function (or the
        block is the module's, which has run when a function of it is called)."""
        index = self.reader.index
        if statement is None or index.parents.get(statement) is not index.parents.get(self.bound):
            return False
        if not _same_block(index.parents[statement], statement, self.bound):
            return False
        home, used = index.scope(statement), index.scope(self.use)
        if used is not home:
            return isinstance(home, ast.Module) and place(self.bound) < place(statement)
        return place(self.bound) < place(statement) < place(self.use)


def _same_block(parent: ast.AST, one: ast.AST, other: ast.AST) -> bool:
    for name in ("body", "orelse", "finalbody", "handlers"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and in_block(one, block):
            return in_block(other, block)
    return False
