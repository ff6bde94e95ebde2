"""What checks of Python code ask: what trains, what runs each step, which names are losses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Setting
from pitstop.rules.job_facts import for_debugging, job_for_debugging
from pitstop.rules.pysource import Call, PyModule

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts

_MANAGED = ("accelerate", "deepspeed", "lightning", "colossalai", "composer", "fastai", "ignite")


def gpu_modules(facts: ProjectFacts) -> Iterator[PyModule]:
    """The modules in training scope that use a GPU themselves or through a module they import,
    except where their own name or that of every job says debugging, profiling or benchmark."""
    for module in facts.training_modules:
        jobs = [job for job in facts.jobs if module.path in job.files]
        aside = for_debugging(module.path) or all(job_for_debugging(job) for job in jobs)
        if not aside and _uses_gpu(module, facts):
            yield module


def _uses_gpu(module: PyModule, facts: ProjectFacts) -> bool:
    return module.uses_gpu or any(other.uses_gpu for other in imported(module, facts))


def imported(module: PyModule, facts: ProjectFacts) -> Iterator[PyModule]:
    """The repository's own modules that a module imports from (one level)."""
    folder = module.path.rpartition("/")[0]
    for name in sorted({*module.imports.values(), *module.star_imports}):
        found = _module_of(name, folder, facts)
        if found is not None and found is not module:
            yield found


def _module_of(name: str, folder: str, facts: ProjectFacts) -> PyModule | None:
    """The module that a qualified name lies in: `a.b.C` is a/b.py, beside the importer or at
    the root."""
    parts = [part for part in name.split(".") if part]
    for end in range(len(parts), 0, -1):
        inner = "/".join(parts[:end])
        for base in dict.fromkeys((folder, "")):
            for path in (f"{inner}.py", f"{inner}/__init__.py"):
                found = facts.module(f"{base}/{path}" if base else path)
                if found is not None:
                    return found
    return None


def libraries(module: PyModule) -> frozenset[str]:
    """The top-level packages that a module imports."""
    names = (*module.imports.values(), *module.star_imports)
    return frozenset(name.partition(".")[0] for name in names)


def managed(module: PyModule) -> bool:
    """Whether a library that owns placement, precision and gradients runs the loop."""
    return not libraries(module).isdisjoint(_MANAGED)


def each_step(module: PyModule, node: ast.AST, *, forward: bool = False) -> bool:
    """Whether a node runs at every training step: not now and then, not by option, and not in
    evaluation."""
    return (
        module.in_step_scope(node, forward=forward)
        and not module.guarded(node)
        and not module.in_eval_scope(node)
        and not _optional(module, node)
    )


_OPTIONS = re.compile(
    r"^(?:self\.)?(?:\w*args|opts?|cfg|\w*config|hparams|flags|params)\b", re.IGNORECASE
)
_RANK = re.compile(r"rank|main_process|master|world|distributed|gpu|device|cuda", re.IGNORECASE)


def _optional(module: PyModule, node: ast.AST) -> bool:
    """Whether an `if` on an option of the program stands around a node; which rank runs it is
    no such option: the others wait."""
    child = node
    for parent in ancestors(module, node):
        if isinstance(parent, ast.If) and child is not parent.test:
            for part in ast.walk(parent.test):
                if isinstance(part, ast.Attribute | ast.Subscript):
                    text = ast.unparse(part)
                    if _OPTIONS.match(text) and not _RANK.search(text):
                        return True
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        child = parent
    return False


def losses(module: PyModule) -> frozenset[str]:
    """The names whose backward pass the module runs: `loss` in `loss.backward()`,
    `scaler.scale(loss).backward()` and `accelerator.backward(loss)`."""
    found: set[str] = set()
    for call in module.calls:
        func = call.node.func
        if isinstance(func, ast.Attribute) and func.attr in ("backward", "manual_backward"):
            for part in (func.value, *call.node.args):
                found |= {n.id for n in ast.walk(part) if isinstance(n, ast.Name)}
    return frozenset(name for name in found if _bound_in_a_step(module, name))


def _bound_in_a_step(module: PyModule, name: str) -> bool:
    """Whether a step binds a name: the scaler and the accelerator are made before the loop."""
    return any(
        isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Store)
        and module.in_step_scope(node)
        for node in module.nodes(ast.Name)
    )


def tensor_names(node: ast.AST, names: frozenset[str]) -> bool:
    """Whether one of the names stands in an expression as a tensor: not inside `float(...)`,
    `.item()`, `.detach()` and their like, which give something else."""
    if isinstance(node, ast.Call):
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in _LEAVES_GRAPH:
            return False
        if isinstance(func, ast.Name) and func.id in ("float", "int", "len", "str", "bool"):
            return False
    if isinstance(node, ast.Name):
        return node.id in names
    return any(tensor_names(child, names) for child in ast.iter_child_nodes(node))


_LEAVES_GRAPH = frozenset({"item", "detach", "cpu", "numpy", "tolist", "size", "dim", "numel"})


def setting_of(facts: ProjectFacts, call: Call, knob: str) -> Setting | None:
    """The setting of a knob that a call makes or leaves to its default, as a job has it."""
    at = call.location
    for job in facts.jobs:
        for setting in job.settings.get(knob, ()):
            where = setting.where
            if (
                where is not None
                and where.path == at.path
                and at.span.start <= where.span.start
                and where.span.end <= at.span.end
            ):
                return setting
    return None


def ancestors(module: PyModule, node: ast.AST) -> Iterator[ast.AST]:
    """The nodes around a node, innermost first."""
    parent = module.parents.get(node)
    while parent is not None:
        yield parent
        parent = module.parents.get(parent)


_PRINTING = frozenset({"print", "tqdm.tqdm.write", "tqdm.write"})
_PROGRESS = frozenset({"set_description", "set_description_str", "set_postfix", "set_postfix_str"})
_LEVELS = frozenset({"debug", "info", "warning", "error", "critical", "log", "print"})


def printer(module: PyModule, node: ast.Call) -> bool:
    """Whether a call writes text: print, a logger's method, a progress bar's description."""
    if (module.qualified(node.func) or "") in _PRINTING:
        return True
    if not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in _PROGRESS:
        return True
    owner = ast.unparse(node.func.value).lower()
    return node.func.attr in _LEVELS and owner.rpartition(".")[2].startswith(("log", "_log"))


def prints(module: PyModule, node: ast.AST) -> bool:
    """Whether a node is (part of) an argument of a call that writes text."""
    for parent in ancestors(module, node):
        if isinstance(parent, ast.Call) and printer(module, parent):
            return True
        if isinstance(parent, ast.stmt):
            return False
    return False
