"""Data loaders on the training path, and which of a job's settings decide about each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pitstop.rules.finding import Setting, Surface
from pitstop.rules.frameworks.spelling import plain_name
from pitstop.rules.job import TrainingJob
from pitstop.rules.pysource import Call, PyModule
from pitstop.rules.step_code import ancestors, gpu_modules, imported, libraries

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts

LOADERS = (
    "torch.utils.data.DataLoader",
    "torchdata.stateful_dataloader.StatefulDataLoader",
    "torch_geometric.loader.DataLoader",
)
_TRAIN = re.compile(r"(?<![a-z])tr(ai)?n", re.IGNORECASE)
_OTHER = re.compile(
    r"val|test|eval|dev(?!ice)|infer|pred|sample|demo|replay|rollout|buffer|calib|gallery|query",
    re.IGNORECASE,
)
_IN_MEMORY = ("torch.utils.data.TensorDataset",)


@dataclass(frozen=True, slots=True)
class TrainingLoader:
    """A loader that a job trains from. `names` are those it is bound to; `repeated` says that an
    epoch loop goes over it several times."""

    job: TrainingJob
    call: Call
    names: tuple[str, ...]
    repeated: bool

    def setting(self, knob: str, keyword: str, position: int | None = None) -> Setting | None:
        """The job's setting of a knob that decides for this call: the flag or the option's
        default that reaches the keyword, what the call says, or what it leaves out."""
        argument = self.call.argument(keyword, position)
        at = self.call.location
        key = argument.key if argument and argument.origin in ("option", "field") else None
        for setting in self.job.settings.get(knob, ()):
            where = setting.where
            if key is not None and plain_name(setting.name) == key:
                return setting
            inside = (
                where is not None
                and where.path == at.path
                and at.span.start <= where.span.start
                and where.span.end <= at.span.end
            )
            if inside and (argument is not None) == (setting.surface is not Surface.DEFAULT):
                return setting
        return None


def training_loaders(facts: ProjectFacts) -> Iterator[TrainingLoader]:
    """Loaders that feed training on a GPU; evaluation, tensors in memory and data sets that
    work on the GPU themselves are left out."""
    for module in gpu_modules(facts):
        if "ray" in libraries(module):
            continue  # the driver hands batches to other processes
        for call in module.calls_of(*LOADERS):
            names = bound_names(module, call.node)
            loops = list(loops_over(module, call, names))
            if not _trains(module, call, names, loops) or _special(module, call, facts):
                continue
            repeated = any(_inside_epochs(module, loop) for loop in loops)
            for job in facts.jobs:
                if job.purpose == "train" and module.path in job.files:
                    yield TrainingLoader(job, call, names, repeated)


def bound_names(module: PyModule, node: ast.AST) -> tuple[str, ...]:
    """The names that a call's result gets, through wrappers such as `prepare(...)`."""
    for parent in ancestors(module, node):
        if isinstance(parent, ast.Assign):
            return tuple(_text(target) for target in parent.targets)
        if isinstance(parent, ast.AnnAssign):
            return (_text(parent.target),)
        if isinstance(parent, ast.stmt):
            return ()
    return ()


def _text(node: ast.expr) -> str:
    """`self.train_loader`, `loaders["train"]` as text."""
    return ast.unparse(node)


def loops_over(module: PyModule, call: Call, names: tuple[str, ...]) -> Iterator[ast.AST]:
    """The step loops that iterate over the loader, by its name or in place."""
    for loop in module.train_loops:
        if loop.kind != "step" or not isinstance(loop.node, ast.For | ast.AsyncFor):
            continue
        for part in ast.walk(loop.node.iter):
            named = isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part) in names
            if part is call.node or named:
                yield loop.node
                break


def _inside_epochs(module: PyModule, loop: ast.AST) -> bool:
    """Whether an epoch loop stands around a loop, or around a call of the function it is in."""
    epochs = {other.node for other in module.train_loops if other.kind == "epoch"}
    function = module.enclosing_function(loop)
    calls = [c.node for c in module.calls if function is not None and _calls(c, function.name)]
    return any(parent in epochs for node in (loop, *calls) for parent in ancestors(module, node))


def _calls(call: Call, name: str) -> bool:
    return call.name.rpartition(".")[2] == name


def _trains(module: PyModule, call: Call, names: tuple[str, ...], loops: list[ast.AST]) -> bool:
    """Whether a training step takes its batches from the loader, or its name says so."""
    if module.in_eval_scope(call.node):
        return False
    function = module.enclosing_function(call.node)
    data = ast.unparse(call.node.args[0]) if call.node.args else _keyword(call, "dataset")
    said = [*names, data, function.name if function is not None else ""]
    if any(_OTHER.search(name) for name in said):
        return False
    return bool(loops) or any(_TRAIN.search(name) for name in said)


def _keyword(call: Call, name: str) -> str:
    return next((ast.unparse(k.value) for k in call.node.keywords if k.arg == name), "")


def _special(module: PyModule, call: Call, facts: ProjectFacts) -> bool:
    """Tensors that are in memory already, or a data set whose items are made on the GPU."""
    argument = call.argument("dataset", 0)
    made = _made_by(module, argument.node if argument else None)
    if made in _IN_MEMORY:
        return True
    return any(_gpu_items(other) for other in (module, *imported(module, facts)))


def _made_by(module: PyModule, node: ast.expr | None) -> str | None:
    """The qualified name of the call whose result an expression is, through one name."""
    if isinstance(node, ast.Name):
        values = [
            statement.value
            for statement in module.nodes(ast.Assign)
            if isinstance(statement, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == node.id for t in statement.targets)
        ]
        node = values[0] if len(values) == 1 else None
    return module.qualified(node.func) if isinstance(node, ast.Call) else None


def _gpu_items(module: PyModule) -> bool:
    """Whether some `__getitem__` or `__iter__` of the module puts tensors on the GPU."""
    for call in module.calls:
        func = call.node.func
        function = module.enclosing_function(call.node)
        if function is None or function.name not in ("__getitem__", "__iter__", "collate_fn"):
            continue
        if isinstance(func, ast.Attribute) and func.attr == "cuda":
            return True
        if isinstance(func, ast.Attribute) and func.attr == "to" and _to_device(call.node):
            return True
    return False


def _to_device(node: ast.Call) -> bool:
    words = " ".join(ast.unparse(a) for a in (*node.args, *(k.value for k in node.keywords)))
    return "cuda" in words or "device" in words
