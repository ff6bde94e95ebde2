"""The model that an optimizer of the file trains: its name, where it is made, moved and wrapped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.rules.pysource import Call, PyModule
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case
from pitstop.transforms.training_step import block_of, inner, stores

_DEVICE = re.compile(r"cuda|device|gpu|rank", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """`name` is the variable whose parameters `optimizer` gets; `made` are the statements of one
    block, in order, in which it is bound, moved or wrapped."""

    module: PyModule
    name: str
    optimizer: Call
    made: tuple[ast.stmt, ...]

    @property
    def ready(self) -> ast.stmt:
        """The statement after which the model is as it is trained."""
        return self.made[-1]

    @property
    def moved(self) -> bool:
        """Whether it is put on a GPU before the optimizer is made."""
        return any(
            self._moves(node)
            for statement in self.made
            for node in inner(statement)
            if statement.lineno <= self.optimizer.node.lineno
        )

    def _moves(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        if node.func.attr == "cuda":
            return True
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        return node.func.attr == "to" and any(_DEVICE.search(ast.unparse(one)) for one in given)


def optimizer_calls(case: Case, *classes: str) -> Iterator[Call]:
    """The calls that make an optimizer of PyTorch, or one of these."""
    for call in case.module.calls:
        home, _, name = call.name.rpartition(".")
        known = home == "torch.optim" or home.startswith("torch.optim.ad")
        wanted = name in classes if classes else name[:1].isupper()
        if known and wanted and case.concerns(call.location.span):
            yield call


def trained_models(case: Case, *classes: str) -> Iterator[TrainedModel | Refused]:
    """The model of each optimizer. Several optimizers for one model give it once."""
    seen: set[tuple[str, ast.AST | None]] = set()
    for call in optimizer_calls(case, *classes):
        name = _owner(call)
        if name is None:
            yield Refused("which model's parameters the optimizer gets is not plain")
            continue
        function = case.module.enclosing_function(call.node)
        if (name, function) in seen:
            continue
        seen.add((name, function))
        made = _made(case.module, function or case.module.tree, name)
        if isinstance(made, Refused):
            yield made
        else:
            yield TrainedModel(case.module, name, call, made)


def _owner(call: Call) -> str | None:
    """`model` of `AdamW(model.parameters())`, also within a filter over them."""
    first = call.node.args[0] if call.node.args else None
    found = {
        node.func.value.id
        for node in (ast.walk(first) if first is not None else ())
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("parameters", "named_parameters")
        and isinstance(node.func.value, ast.Name)
    }
    return found.pop() if len(found) == 1 else None


def _made(module: PyModule, function: ast.AST, name: str) -> tuple[ast.stmt, ...] | Refused:
    body = getattr(function, "body", [])
    found = [node for s in body for node in inner(s) if isinstance(node, ast.stmt)]
    binds = [s for s in found if not getattr(s, "body", None) and _about(module, s, name)]
    first = next((s for s in binds if stores(s, name)), None)
    if first is None:
        return Refused(f"{name} is made in another function or file")
    block = block_of(module, first)
    rows = [s for s in block if any(s is b or _inside(module, b, s) for b in binds)]
    if any(not any(b is s or _inside(module, b, s) for s in rows) for b in binds):
        return Refused(f"{name} is bound in more than one block")
    loops = ast.For | ast.AsyncFor | ast.While
    if any(isinstance(s, loops) for s in rows):
        return Refused(f"{name} is bound anew in a loop")
    return tuple(rows)


def _about(module: PyModule, statement: ast.stmt, name: str) -> bool:
    """Whether a statement binds the name, or moves or shards in place what it holds."""
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return stores(statement, name)
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    func, args = statement.value.func, statement.value.args
    if isinstance(func, ast.Attribute) and ast.unparse(func.value) == name:
        return func.attr in ("to", "cuda", "half", "bfloat16", "gradient_checkpointing_enable")
    sharded = (module.qualified(func) or "").endswith("fully_shard")
    return sharded and bool(args) and ast.unparse(args[0]) == name


def _inside(module: PyModule, statement: ast.AST, outer: ast.AST) -> bool:
    parent = module.parents.get(statement)
    while parent is not None and parent is not outer:
        parent = module.parents.get(parent)
    return parent is outer
