"""What a name stands for: imports, and names that are bound exactly once."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from pitstop.rules.pyindex import COMPREHENSIONS, Function, Index

_MAX_HOPS = 5
_MAX_BINDINGS = 50  # beyond, a name is not worth following
_REEXPORTS = (
    # where a class is defined -> where its documentation says to import it from
    (re.compile(r"^torch\.utils\.data\.dataloader\."), "torch.utils.data."),
    (re.compile(r"^torch\.nn\.parallel\.distributed\."), "torch.nn.parallel."),
    (re.compile(r"^torch\.nn\.parallel\.(?:data_parallel\.)?(?=DataParallel$)"), "torch.nn."),
    (re.compile(r"^torch\.optim\.(?!lr_scheduler\.)[a-z]\w*\.(?=[A-Z])"), "torch.optim."),
    (re.compile(r"^torch\.amp\.(?:autocast_mode|grad_scaler)\."), "torch.amp."),
    (re.compile(r"^torch\.cuda\.amp\.(?:autocast_mode|grad_scaler)\."), "torch.cuda.amp."),
    (re.compile(r"^torch\.distributed\.fsdp\.(?:fully_sharded_data_parallel|api)\."),
     "torch.distributed.fsdp."),
    (re.compile(r"^torch\.distributed\.distributed_c10d\."), "torch.distributed."),
    (re.compile(r"^transformers\.(?:trainer|training_args|trainer_seq2seq|hf_argparser"
                r"|training_args_seq2seq|modeling_utils|models\.auto(?:\.\w+)?)\."),
     "transformers."),
    (re.compile(r"^accelerate\.(?:accelerator|utils\.dataclasses)\.(?=Accelerator$)"),
     "accelerate."),
    (re.compile(r"^accelerate\.utils\.dataclasses\."), "accelerate.utils."),
    (re.compile(r"^pytorch_lightning\."), "lightning.pytorch."),
    (re.compile(r"^lightning\.(?=(?:Trainer|LightningModule|LightningDataModule)$)"),
     "lightning.pytorch."),
)  # fmt: skip

Kind = Literal["value", "unpack", "param", "import", "def", "class", "other"]


@dataclass(frozen=True, slots=True)
class Binding:
    """One place that binds a name. `value` is the bound expression ("value"), or the unpacked
    one with the position in it ("unpack"); `target` is the import's qualified name."""

    kind: Kind
    node: ast.AST
    value: ast.expr | None = None
    index: int = 0
    target: str = ""


class Names:
    """The names of a module."""

    def __init__(self, index: Index, path: str) -> None:
        self.index = index
        self._package = PurePosixPath(path).parts[:-1]
        self.imports, self._ambiguous = self._read_imports()
        self._resolved: dict[tuple[str, ast.AST], tuple[ast.AST | None, list[Binding]]] = {}

    # imports

    def _read_imports(self) -> tuple[dict[str, str], set[str]]:
        imports: dict[str, str] = {}
        ambiguous: set[str] = set()
        for node in self.index.all(ast.Import, ast.ImportFrom):
            for alias, target in self._targets(node):
                if imports.setdefault(alias, target) != target:
                    ambiguous.add(alias)
        return imports, ambiguous

    def _targets(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
        """(alias, qualified name) of each name that an import binds."""
        if isinstance(node, ast.Import):
            for name in node.names:
                root = name.name.split(".")[0]
                yield (name.asname, name.name) if name.asname else (root, root)
            return
        origin = self._origin(node)
        for name in node.names:
            if name.name != "*":
                yield name.asname or name.name, f"{origin}.{name.name}"

    def _origin(self, node: ast.ImportFrom) -> str:
        """The module of a from-import; a relative one as dotted path from the tree's root."""
        module = node.module or ""
        if not node.level:
            return module
        climbed = node.level - 1
        if climbed > len(self._package):
            return "." * node.level + module
        base = self._package[: len(self._package) - climbed]
        return ".".join([*base, *([module] if module else [])])

    @functools.cached_property
    def star_imports(self) -> tuple[str, ...]:
        """The modules of `from x import *`."""
        return tuple(
            self._origin(node)
            for node in self.index.all(ast.ImportFrom)
            if any(name.name == "*" for name in node.names)
        )

    # qualified names

    def qualified(self, node: ast.AST, hops: int = 0) -> str | None:
        """`nn.Linear` as `torch.nn.Linear`; a function or class of the module, a builtin or an
        unbound name as itself; None for what hangs on a variable or a call."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        root = self._root(node, hops)
        if root is None or not parts:
            return canonical(root) if root else None
        if root == node.id and not self._is_home_made(root):
            return None  # a method of something unknown
        return canonical(".".join([root, *reversed(parts)]))

    def _is_home_made(self, name: str) -> bool:
        return name in self.imports or name in self._defined

    @functools.cached_property
    def _defined(self) -> frozenset[str]:
        index = self.index
        defs = index.all(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return frozenset(d.name for d in defs)

    def _root(self, node: ast.Name, hops: int) -> str | None:
        name = node.id
        if name not in self._bound_otherwise:
            return (
                self.imports.get(name, name)
                if name not in self._ambiguous
                else self._scoped(node, hops)
            )
        return self._scoped(node, hops)

    def _scoped(self, node: ast.Name, hops: int) -> str | None:
        bindings = self.bindings(node.id, node)
        if len(bindings) > _MAX_BINDINGS:
            return None
        imported = [b for b in bindings if b.kind == "import"]
        others = [b for b in bindings if b.kind != "import" and not _is_fallback(b, self.index)]
        if imported and not others:
            return imported[0].target
        if not bindings:
            return node.id
        if len(bindings) != 1 or hops > _MAX_HOPS:
            return None
        only = bindings[0]
        if only.kind in ("def", "class"):
            return node.id
        if only.kind == "value" and isinstance(only.value, (ast.Name, ast.Attribute)):
            found = self.qualified(only.value, hops + 1)
            return found if found and "." in found else None
        return None

    # bindings

    @functools.cached_property
    def _bound_otherwise(self) -> set[str]:
        """Names that something else than an import binds somewhere."""
        index = self.index
        names = {n.id for n in index.all(ast.Name) if not isinstance(n.ctx, ast.Load)}
        names |= {a.arg for a in index.all(ast.arg)}
        defs = index.all(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        names |= {d.name for d in defs}
        names |= {h.name for h in index.all(ast.ExceptHandler) if h.name}
        names |= {m.name for m in index.all(ast.MatchAs, ast.MatchStar) if m.name}
        return names | {m.rest for m in index.all(ast.MatchMapping) if m.rest}

    @functools.cached_property
    def _table(self) -> dict[ast.AST, dict[str, list[Binding]]]:
        """Every binding, by scope and name."""
        table: dict[ast.AST, dict[str, list[Binding]]] = {}
        redirected = self._redirected
        for scope, name, binding in self._all_bindings():
            home = redirected.get((scope, name), scope)
            table.setdefault(home, {}).setdefault(name, []).append(binding)
        return table

    @functools.cached_property
    def _redirected(self) -> dict[tuple[ast.AST, str], ast.AST]:
        """(function, name) -> the scope that a global or nonlocal statement sends it to."""
        found: dict[tuple[ast.AST, str], ast.AST] = {}
        for node in self.index.all(ast.Global, ast.Nonlocal):
            scope = self.index.scope(node)
            outer = self.index.enclosing_function(scope)
            target = self.index.tree if isinstance(node, ast.Global) or outer is None else outer
            found.update({(scope, name): target for name in node.names})
        return found

    def _all_bindings(self) -> Iterator[tuple[ast.AST, str, Binding]]:
        index = self.index
        for name in index.all(ast.Name):
            if not isinstance(name.ctx, ast.Load):
                binding = _of_target(name, index)
                if binding:
                    yield self._home(name), name.id, binding
        for arg in index.all(ast.arg):
            owner = next(p for p in index.ancestors(arg) if not isinstance(p, ast.arguments))
            yield owner, arg.arg, Binding("param", arg)
        for function in index.all(ast.FunctionDef, ast.AsyncFunctionDef):
            yield index.scope(function), function.name, Binding("def", function)
        for cls in index.all(ast.ClassDef):
            yield index.scope(cls), cls.name, Binding("class", cls)
        for node in index.all(ast.Import, ast.ImportFrom):
            for alias, target in self._targets(node):
                yield index.scope(node), alias, Binding("import", node, target=target)
        yield from self._rare_bindings()

    def _rare_bindings(self) -> Iterator[tuple[ast.AST, str, Binding]]:
        for node in self.index.all(ast.ExceptHandler, ast.MatchAs, ast.MatchStar):
            if node.name:
                yield self.index.scope(node), node.name, Binding("other", node)
        for mapping in self.index.all(ast.MatchMapping):
            if mapping.rest:
                yield self.index.scope(mapping), mapping.rest, Binding("other", mapping)

    def _home(self, name: ast.Name) -> ast.AST:
        """The scope that a target binds in; `:=` leaves comprehensions."""
        scope = self.index.scope(name)
        if isinstance(self.index.parents.get(name), ast.NamedExpr):
            while isinstance(scope, COMPREHENSIONS):
                scope = self.index.scope(scope)
        return scope

    def bindings(self, name: str, at: ast.AST) -> list[Binding]:
        """All bindings of the variable that `name` means at a node; [] for a builtin."""
        return self._resolve(name, at)[1]

    def binding(self, name: str, at: ast.AST) -> Binding | None:
        """The only binding of a name, or None when there are none or several."""
        found = self.bindings(name, at)
        return found[0] if len(found) == 1 else None

    def home(self, name: str, at: ast.AST) -> ast.AST | None:
        """The scope that owns the variable which `name` means at a node."""
        return self._resolve(name, at)[0]

    def _resolve(self, name: str, at: ast.AST) -> tuple[ast.AST | None, list[Binding]]:
        key = (name, self.index.scope(at))
        if key not in self._resolved:
            self._resolved[key] = self._looked_up(*key)
        return self._resolved[key]

    def _looked_up(self, name: str, scope: ast.AST) -> tuple[ast.AST | None, list[Binding]]:
        first = True
        while True:
            if not isinstance(scope, ast.ClassDef) or first:
                home = self._redirected.get((scope, name), scope)
                found = self._table.get(home, {}).get(name)
                if found:
                    return home, found
            if isinstance(scope, ast.Module):
                return None, []
            first = False
            scope = self.index.scope(scope)

    @functools.cached_property
    def rewritten(self) -> bool:
        """True when module names may change unseen: `exec(...)` or `globals()` at work."""
        for call in self.index.all(ast.Call):
            if isinstance(call.func, ast.Name) and call.func.id in ("exec", "globals"):
                return True
        return False


def _is_fallback(binding: Binding, index: Index) -> bool:
    """`Name = None` and classes or functions under `except`/`else`: what is used when the import
    fails, which is not what runs on a training machine."""
    if isinstance(binding.value, ast.Constant) and binding.value.value in (None, False):
        return True
    return any(isinstance(p, ast.ExceptHandler) for p in index.ancestors(binding.node))


def _of_target(name: ast.Name, index: Index) -> Binding | None:
    """How a name that is stored to or deleted gets its value; None for a bare annotation."""
    parent = index.parents[name]
    if isinstance(parent, ast.Assign):
        return Binding("value", parent, parent.value)
    if isinstance(parent, ast.AnnAssign):
        return Binding("value", parent, parent.value) if parent.value else None
    if isinstance(parent, ast.NamedExpr):
        return Binding("value", parent, parent.value)
    if isinstance(parent, (ast.Tuple, ast.List)):
        statement = index.parents.get(parent)
        if isinstance(statement, ast.Assign) and parent in statement.targets:
            return _unpacked(name, parent, statement)
    return Binding("other", parent)


def _unpacked(name: ast.Name, target: ast.Tuple | ast.List, statement: ast.Assign) -> Binding:
    few = len(target.elts) <= _MAX_BINDINGS
    if not few or any(isinstance(e, ast.Starred) for e in target.elts):
        return Binding("other", statement)
    place = target.elts.index(name)
    value = statement.value
    if isinstance(value, (ast.Tuple, ast.List)):
        if len(value.elts) != len(target.elts) or any(
            isinstance(e, ast.Starred) for e in value.elts
        ):
            return Binding("other", statement)
        return Binding("value", statement, value.elts[place])
    return Binding("unpack", statement, value, place)


def canonical(name: str) -> str:
    """The name under which a class is documented, where it is imported from its inner module."""
    if name.count(".") < 1:
        return name
    for pattern, target in _REEXPORTS:
        if pattern.match(name):
            return pattern.sub(target, name, count=1)
    return name


def last_part(name: str | None) -> str:
    """`torch.optim.AdamW` -> `AdamW`."""
    return name.rpartition(".")[2] if name else ""


def decorators(node: Function | ast.ClassDef, names: Names) -> Iterable[str]:
    """The qualified names of a definition's decorators, with or without call."""
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        yield names.qualified(target) or (
            f".{target.attr}" if isinstance(target, ast.Attribute) else ""
        )
