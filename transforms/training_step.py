"""The anatomy of a plain training step: where it runs, what is the forward pass and the loss,
where gradients are taken and used. What is not one plain step is refused with the reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.rules.pysource import Call, PyModule
from pitstop.rules.step_code import ancestors, managed
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case

Function = ast.FunctionDef | ast.AsyncFunctionDef
Home = ast.For | ast.AsyncFor | ast.While | ast.FunctionDef | ast.AsyncFunctionDef

_MODEL_NAME = re.compile(r"(?:^|_|\.)(?:model|net|network)$", re.IGNORECASE)
_MODEL_METHODS = frozenset(
    {"parameters", "named_parameters", "train", "eval", "state_dict", "load_state_dict"}
)
_WRAPPERS = frozenset(
    {
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.DataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.compile",
    }
)
_OPTIMIZER = re.compile(r"(?:^|_|\.)(?:optimi[sz]ers?|optim|opt)(?:_\w+)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Step:
    """One plain step: `loss` gets its gradient in `backward`, a statement of `block`; `home` is
    the loop or per-step function around it."""

    module: PyModule
    home: Home
    block: list[ast.stmt]
    backward: ast.Expr
    loss: str

    @property
    def root(self) -> ast.expr:
        """What backward() is called on: the loss, or a quotient of it."""
        assert isinstance(self.backward.value, ast.Call)  # noqa: S101 - made so
        assert isinstance(self.backward.value.func, ast.Attribute)  # noqa: S101
        return self.backward.value.func.value

    @property
    def function(self) -> ast.AST:
        """The function around the step, else the module."""
        return self.module.enclosing_function(self.backward) or self.module.tree


def training_steps(case: Case) -> Iterator[Step | Refused]:
    """Every training step that the case is about, as far as it is a plain one."""
    module = case.module
    homes: dict[ast.AST, list[Call]] = {}
    for call in module.calls:
        func = call.node.func
        if not isinstance(func, ast.Attribute) or func.attr not in ("backward", "manual_backward"):
            continue
        if module.in_step_scope(call.node) and not module.in_eval_scope(call.node):
            homes.setdefault(home_of(module, call.node), []).append(call)
    for home, calls in homes.items():
        if isinstance(home, Home) and case.concerns(module.location(home).span):
            yield _step(module, home, calls)


def _step(module: PyModule, home: Home, calls: list[Call]) -> Step | Refused:
    if managed(module):
        return Refused("a library runs the training step")
    if len(calls) > 1:
        return Refused("the step has several backward passes")
    node = calls[0].node
    statement = module.parents.get(node)
    if not isinstance(statement, ast.Expr):
        return Refused("the backward pass is part of a larger expression")
    assert isinstance(node.func, ast.Attribute)  # noqa: S101 - the caller has looked
    if node.func.attr != "backward" or node.args:
        return Refused("a library or a vector of gradients drives the backward pass")
    if any(isinstance(part, ast.Call) for part in ast.walk(node.func.value)):
        return Refused("backward() is called on a computed value, not on a named loss")
    block = block_of(module, statement)
    names = [n.id for n in ast.walk(node.func.value) if isinstance(n, ast.Name)]
    before = block[: block.index(statement)]
    bound = [name for name in dict.fromkeys(names) if any(stores(s, name) for s in before)]
    if len(bound) != 1:
        return Refused("the loss is not computed beside its backward pass")
    return Step(module, home, block, statement, bound[0])


def home_of(module: PyModule, node: ast.AST) -> ast.AST:
    """The innermost training loop or function around a node, else the module."""
    loops = {loop.node for loop in module.train_loops}
    for parent in ancestors(module, node):
        if parent in loops or isinstance(parent, Function):
            return parent
    return module.tree


def forward_of(step: Step) -> tuple[ast.stmt, ...] | Refused:
    """The statements from the first call of the model to the last that binds the loss."""
    module = step.module
    before = step.block[: step.block.index(step.backward)]
    known = models(module)
    first = next((i for i, s in enumerate(before) if _calls_model(module, s, known)), None)
    last = max(i for i, s in enumerate(before) if stores(s, step.loss))
    if first is None:
        return Refused("no call of the model stands before the backward pass")
    if first > last:
        return Refused("the loss is computed before the model is called")
    region = tuple(before[first : last + 1])
    for statement in region:
        for node in inner(statement):
            method = node.func if isinstance(node, ast.Call) else None
            if isinstance(method, ast.Attribute) and method.attr == "step":
                return Refused("an optimizer or scheduler steps between forward and loss")
            if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
                return Refused("the step hands over control between forward and loss")
    return region


def _calls_model(module: PyModule, statement: ast.stmt, known: frozenset[str]) -> bool:
    for node in inner(statement):
        if not isinstance(node, ast.Call) or module.guarded(node) or module.in_eval_scope(node):
            continue
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in ("forward", "module"):
            func = func.value
        if ast.unparse(func) in known:
            return True
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        method = isinstance(func, ast.Attribute) and func.attr in _MODEL_METHODS
        if not method and any(ast.unparse(arg) in known for arg in given):
            return not (isinstance(func, ast.Attribute) and func.attr.startswith("clip_grad"))
    return False


def models(module: PyModule) -> frozenset[str]:
    """The dotted names that hold modules: what is put into train mode, has parameters, or is the
    result of a wrapper; else what is called a model."""
    found: set[str] = set()
    for call in module.calls:
        func = call.node.func
        method = func.attr if isinstance(func, ast.Attribute) else ""
        owner = func.value if isinstance(func, ast.Attribute) else None
        if method in _MODEL_METHODS and isinstance(owner, ast.Name | ast.Attribute):
            found.add(ast.unparse(owner))
        if call.name in _WRAPPERS:
            parent = module.parents.get(call.node)
            if isinstance(parent, ast.Assign):
                found |= {ast.unparse(target) for target in parent.targets}
        text = ast.unparse(func) if isinstance(func, ast.Name | ast.Attribute) else ""
        if _MODEL_NAME.search(text):
            found.add(text)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Update:
    """An optimizer step: the statement, and the optimizer as written."""

    statement: ast.stmt
    optimizer: str
    plain: bool  # `optimizer.step()` as a statement of its own


def updates(step: Step) -> list[Update]:
    """The optimizer steps in the step's home."""
    found = []
    for node in ast.walk(step.home):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value
        if node.func.attr != "step" or not is_optimizer(step.module, owner):
            continue
        statement = statement_of(step.module, node)
        plain = isinstance(statement, ast.Expr) and statement.value is node and not node.args
        found.append(Update(statement, ast.unparse(owner), plain and not node.keywords))
    return found


def is_optimizer(module: PyModule, owner: ast.expr) -> bool:
    """Whether an expression is an optimizer, by what it is bound to or by its name."""
    text = ast.unparse(owner)
    made = (_made_by(module, text) or "").rpartition(".")
    if "sched" in text.lower() or "lr_scheduler" in made[0]:
        return False
    return made[0] == "torch.optim" or bool(_OPTIMIZER.search(text))


def _made_by(module: PyModule, text: str) -> str | None:
    """The qualified name of the call that is assigned to a name."""
    for node in module.nodes(ast.Assign):
        made = node.value if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(made, ast.Call):
            names = [ast.unparse(target) for target in node.targets]
            if text in names:
                return module.qualified(made.func)
    return None


def device_type(module: PyModule) -> str:
    """An expression for the kind of device that this file trains on: that of its own `device`
    where it has one, else "cuda"."""
    for call in module.calls:
        func = call.node.func
        if isinstance(func, ast.Attribute) and func.attr == "to" and len(call.node.args) == 1:
            given = call.node.args[0]
            if isinstance(given, ast.Name) and (text := _device_text(module, given.id)):
                return text
    return '"cuda"'


def _device_text(module: PyModule, name: str) -> str | None:
    """`device.type` for a torch.device, `device` for a plain word; None for what is neither."""
    values = [
        node.value
        for node in module.nodes(ast.Assign)
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    made = {module.qualified(v.func) if isinstance(v, ast.Call) else None for v in values}
    if made and made <= {"torch.device", "torch.accelerator.current_accelerator"}:
        return f"{name}.type"
    if values and all(_words(v) for v in values):
        return name
    return None


def _words(node: ast.expr) -> bool:
    """Whether an expression is the name of a kind of device, without a number."""
    if isinstance(node, ast.IfExp):
        return _words(node.body) and _words(node.orelse)
    return isinstance(node, ast.Constant) and node.value in ("cuda", "cpu", "mps", "xpu")


# --- places -----------------------------------------------------------------------------------


def statement_of(module: PyModule, node: ast.AST) -> ast.stmt:
    """The innermost statement that a node is or stands in."""
    while not isinstance(node, ast.stmt):
        node = module.parents[node]
    return node


def block_of(module: PyModule, statement: ast.stmt) -> list[ast.stmt]:
    """The statements among which one stands."""
    parent = module.parents[statement]
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    raise ValueError("a statement outside every block")  # a match case has a body too


def inner(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what runs with it: nothing inside nested functions."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from inner(child)


def stores(statement: ast.AST, name: str) -> bool:
    """Whether a name is bound in a statement."""
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in inner(statement)
    )


def used_names(module: PyModule) -> frozenset[str]:
    """Every name that the file mentions; a new one must not be among them."""
    kinds = (ast.Name, ast.arg, ast.alias, ast.FunctionDef, ast.ClassDef)
    fields = ("id", "arg", "name", "asname")
    words = (getattr(node, field, None) for node in module.nodes(*kinds) for field in fields)
    return frozenset(word for word in words if isinstance(word, str))
