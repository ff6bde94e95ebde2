"""Which code runs at every training step: loops with a backward pass, guards, evaluation."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pitstop.rules.finding import Location
from pitstop.rules.pyindex import Function, Index, in_block, place
from pitstop.rules.pynames import Names, decorators, last_part
from pitstop.rules.pystatements import dotted

LoopNode = ast.For | ast.AsyncFor | ast.While

_STEP_HOOKS = frozenset(
    {"training_step", "compute_loss", "training_step_end", "on_train_batch_end", "on_step_end",
     "optimizer_step"}
)  # fmt: skip
"""What trainers of libraries call at every step."""
_STEP_NAMES = frozenset({"train_step", "train_batch"})
"""What people call their own step, and a round of rollouts, too: a backward pass must be in it."""
_GUARD_WORDS = re.compile(
    r"log|print|report|eval|valid|save|ckpt|checkpoint|interval|every|freq|verbose|debug|profile"
    r"|is_last|end_of",
    re.IGNORECASE,
)
_COUNTERS = re.compile(r"^(?:i|it|n|idx)$|step|iter|epoch|batch_?(?:idx|i|id)|count", re.IGNORECASE)
_EVAL_FUNCTIONS = re.compile(
    r"eval|valid|test|infer|predict|generate|sample|rollout|demo", re.IGNORECASE
)
_MAX_TESTS = 50
_NO_GRAD = frozenset({"no_grad", "inference_mode"})
_OPTIMIZERS = re.compile(
    r"^(?:torch\.optim\.(?!lr_scheduler)|torch_optimizer\.|bitsandbytes\.optim\.|apex\.optimizers\."
    r"|deepspeed\.ops\.(?:adam|lamb|lion)\.|transformers\.Ada|timm\.optim\.)"
)
_OPTIMIZER_NAME = re.compile(r"^(?:optim|opt(?:_|s?$)|scaler$)|optim(?:izers?)?(?:_\w)?$|_opt$")
_TRAINERS = re.compile(r"(?:^|\.)\w*Trainer$")
_TRAINER_LIBRARIES = frozenset(
    {"transformers", "trl", "lightning", "swift", "sentence_transformers"}
)
_GPU_WORDS = re.compile(r"\bcuda\b|\bhip\b")
_GPU_LIBRARIES = frozenset({"accelerate", "deepspeed", "lightning", "apex", "bitsandbytes"})


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop that trains. "step": each turn is a step (a backward pass or an optimizer step
    stands in it and in no inner loop); "epoch": it encloses step loops."""

    node: LoopNode
    kind: Literal["step", "epoch"]
    location: Location


class Scopes:
    """The training structure of one module."""

    def __init__(self, index: Index, names: Names) -> None:
        self.index = index
        self.names = names
        self._skips: dict[ast.AST, ast.If | None] = {}
        self._guards: dict[ast.expr, bool] = {}
        self._evaluates: dict[ast.AST | None, bool] = {}

    # what trains

    @functools.cached_property
    def step_calls(self) -> tuple[ast.Call, ...]:
        """Backward passes and optimizer steps."""
        found = []
        for call in self.index.all(ast.Call):
            if isinstance(call.func, ast.Attribute):
                method = call.func.attr
                backward = method in ("backward", "manual_backward")
                if (backward and not self._defines_autograd(call)) or (
                    method == "step" and self._is_optimizer(call.func.value)
                ):
                    found.append(call)
        return tuple(found)

    def _defines_autograd(self, call: ast.Call) -> bool:
        """`super().backward(...)` or a custom autograd function calling its own pieces."""
        function = self.index.enclosing_function(call)
        return function is not None and function.name == "backward"

    def _is_optimizer(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Call):  # self.optimizers().step()
            node = node.func
        name = dotted(node).rpartition(".")[2].lower()
        if _OPTIMIZER_NAME.search(name) and "sched" not in name:
            return True
        binding = self.names.binding(node.id, node) if isinstance(node, ast.Name) else None
        if binding is None or not isinstance(binding.value, ast.Call):
            return False
        made = self.names.qualified(binding.value.func) or ""
        engine = made == "deepspeed.initialize" and binding.index < 2
        return engine or (binding.kind == "value" and bool(_OPTIMIZERS.match(made)))

    @functools.cached_property
    def trains(self) -> bool:
        """Whether the module trains: a backward pass, an optimizer step, a training step of
        Lightning, or a Trainer at work (a library's, or one of the repository's that is told
        to `train` or `fit`)."""
        if self.step_calls:
            return True
        trainers = starts = False
        for call in self.index.all(ast.Call):
            name = self.names.qualified(call.func) or ""
            if _TRAINERS.search(name):
                trainers = True
                if name.partition(".")[0] in _TRAINER_LIBRARIES:
                    return True
            starts |= isinstance(call.func, ast.Attribute) and call.func.attr in ("train", "fit")
        if trainers and starts:
            return True
        return any(
            last_part(base) == "LightningModule" and any(_methods(cls, {"training_step"}))
            for cls in self.index.all(ast.ClassDef)
            for base in self._bases(cls)
        )

    @functools.cached_property
    def uses_gpu(self) -> bool:
        """Whether the module itself speaks of GPUs or of a library that does."""
        imported = {name.partition(".")[0] for name in self.names.imports.values()}
        if imported & _GPU_LIBRARIES:
            return True
        if any(n.attr in ("cuda", "hip") for n in self.index.all(ast.Attribute)):
            return True
        for constant in self.index.all(ast.Constant):
            value = constant.value
            if isinstance(value, str) and len(value) < 20 and _GPU_WORDS.search(value):
                return True
        return any(
            _TRAINERS.search(name) and name.partition(".")[0] in _TRAINER_LIBRARIES
            for name in self.names.imports.values()
        )

    # loops

    @functools.cached_property
    def _loops(self) -> dict[ast.AST, Literal["step", "epoch"]]:
        found: dict[ast.AST, Literal["step", "epoch"]] = {}
        for loop in self._step_loops():
            found[loop] = "step"
        for loop in list(found):
            for outer in self._outer_loops(loop):
                found.setdefault(outer, "epoch")
        for function in {self.index.enclosing_function(loop) for loop in list(found)}:
            for call in self._calls_of(function):
                for outer in self._outer_loops(call):
                    found.setdefault(outer, "epoch")
        return found

    def _step_loops(self) -> Iterator[ast.AST]:
        """The nearest loop around each step call, or around the call of the function that makes
        it (one level of indirection)."""
        for call in self.step_calls:
            loop = next(self._outer_loops(call), None)
            if loop is not None:
                yield loop
                continue
            for outside in self._calls_of(self.index.enclosing_function(call)):
                loop = next(self._outer_loops(outside), None)
                if loop is not None:
                    yield loop

    def _outer_loops(self, node: ast.AST) -> Iterator[ast.AST]:
        """The loops around a node, innermost first, inside its function."""
        child = node
        for parent in self.index.ancestors(node):
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                return
            if isinstance(parent, LoopNode) and not in_block(child, parent.orelse):
                yield parent
            child = parent

    def _calls_of(self, function: Function | None) -> list[ast.Call]:
        """The calls of a function or method of this module, found by its name."""
        if function is None or len(self.index.functions[function.name]) != 1:
            return []
        return self._calls_by_name.get(function.name, [])

    @functools.cached_property
    def _calls_by_name(self) -> dict[str, list[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        for call in self.index.all(ast.Call):
            if isinstance(call.func, ast.Name):
                found.setdefault(call.func.id, []).append(call)
            elif isinstance(call.func, ast.Attribute) and dotted(call.func.value) == "self":
                found.setdefault(call.func.attr, []).append(call)
        return found

    def loops(self) -> Iterator[tuple[LoopNode, Literal["step", "epoch"]]]:
        """The training loops in the order of the text."""
        for node in self.index.all(ast.For, ast.AsyncFor, ast.While):
            if node in self._loops and isinstance(node, LoopNode):
                yield node, self._loops[node]

    # where a node stands

    @functools.cached_property
    def _step_functions(self) -> set[ast.AST]:
        """Functions whose body runs once per step."""
        found: set[ast.AST] = set()
        for function in self.index.all(ast.FunctionDef, ast.AsyncFunctionDef):
            if function.name in _STEP_HOOKS or (
                function.name in _STEP_NAMES and self._called_in_a_step(function)
            ):
                found.add(function)
        for call in self.step_calls:
            home = self.index.enclosing_function(call)
            if home is None or any(True for _ in self._outer_loops(call)):
                continue
            if home.name in _STEP_NAMES or self._called_in_a_step(home):
                found.add(home)
        return found

    def _called_in_a_step(self, function: Function) -> bool:
        return any(
            self._loops.get(loop) == "step"
            for call in self._calls_of(function)
            for loop in self._outer_loops(call)
        )

    @functools.cached_property
    def _forwards(self) -> set[ast.AST]:
        return {
            method
            for cls in self.index.all(ast.ClassDef)
            if self._is_module(cls)
            for method in _methods(cls, {"forward"})
        }

    def _is_module(self, cls: ast.ClassDef, hops: int = 0) -> bool:
        for base in self._bases(cls):
            if last_part(base) in ("Module", "LightningModule", "PreTrainedModel"):
                return True
            local = self._classes.get(base, ())
            if hops < 5 and any(self._is_module(c, hops + 1) for c in local if c is not cls):
                return True
        return False

    @functools.cached_property
    def _classes(self) -> dict[str, list[ast.ClassDef]]:
        found: dict[str, list[ast.ClassDef]] = {}
        for cls in self.index.all(ast.ClassDef):
            found.setdefault(cls.name, []).append(cls)
        return found

    def _bases(self, cls: ast.ClassDef) -> Iterator[str]:
        for base in cls.bases:
            yield self.names.qualified(base) or dotted(base)

    def step_home(self, node: ast.AST, *, forward: bool = False) -> ast.AST | None:
        """The step loop or per-step function whose body a node stands in, else None."""
        functions = self._step_functions | self._forwards if forward else self._step_functions
        child = node
        for parent in self.index.ancestors(node):
            if self._loops.get(parent) == "step" and _in_body(parent, child):
                return parent
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if parent in functions and in_block(child, parent.body):
                    return parent
                return None  # a nested function runs when it is called
            child = parent
        return None

    def guarded(self, node: ast.AST) -> bool:
        """Whether a node runs only now and then, or only on error: under an `if` that counts,
        names logging, saving or debugging, in an except handler, or after `if ...: continue`."""
        home = self.step_home(node, forward=True)
        child: ast.AST = node
        for parent in self.index.ancestors(node):
            if isinstance(parent, ast.ExceptHandler):
                return True
            if any(self._is_guard(test) for test in _tests(parent, child)):
                return True
            if isinstance(child, ast.stmt) and self._skipped_before(parent, child):
                return True
            if parent is home or isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return False
            child = parent
        return False

    def _skipped_before(self, parent: ast.AST, statement: ast.stmt) -> bool:
        """An earlier `if step % n: continue` in the same block."""
        if parent not in self._skips:
            self._skips[parent] = next(self._skipping(parent), None)
        first = self._skips[parent]
        return first is not None and place(first) < place(statement)

    def _skipping(self, parent: ast.AST) -> Iterator[ast.If]:
        for earlier in getattr(parent, "body", None) or ():
            if isinstance(earlier, ast.If) and not earlier.orelse:
                leaves = isinstance(earlier.body[-1], (ast.Continue, ast.Return))
                if leaves and self._is_guard(earlier.test):
                    yield earlier

    def _is_guard(self, test: ast.expr) -> bool:
        if test not in self._guards:
            self._guards[test] = self._guards_something(test)
        return self._guards[test]

    def _guards_something(self, test: ast.expr) -> bool:
        for node in ast.walk(test):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                return True
            word = node.id if isinstance(node, ast.Name) else ""
            word = node.attr if isinstance(node, ast.Attribute) else word
            if word == "__debug__" or (word and _GUARD_WORDS.search(word)):
                return True
            if isinstance(node, ast.Compare) and _compares_counter(node):
                return True
        return False

    def in_eval_scope(self, node: ast.AST) -> bool:
        """Whether a node belongs to evaluation: by its function's name, or without gradients and
        without a backward pass."""
        statement = self.index.statement(node)
        if statement not in self._evaluates:
            self._evaluates[statement] = self._in_evaluation(statement or node)
        return self._evaluates[statement]

    def _in_evaluation(self, node: ast.AST) -> bool:
        for parent in self.index.ancestors(node):
            if isinstance(parent, (ast.With, ast.AsyncWith)) and self._without_gradients(parent):
                return True
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if any(last_part(d) in _NO_GRAD for d in decorators(parent, self.names)):
                    return not self._steps_in(parent)
                if _EVAL_FUNCTIONS.search(parent.name) and not self._steps_in(parent):
                    return True
        return False

    def _without_gradients(self, node: ast.With | ast.AsyncWith) -> bool:
        for item in node.items:
            call = item.context_expr
            target = call.func if isinstance(call, ast.Call) else call
            if last_part(dotted(target)) in _NO_GRAD:
                return not self._steps_in(node)
        return False

    def _steps_in(self, node: ast.AST) -> bool:
        return node in self._around_steps

    @functools.cached_property
    def _around_steps(self) -> set[ast.AST]:
        """Everything that a backward pass or an optimizer step stands in."""
        found: set[ast.AST] = set()
        for call in self.step_calls:
            for parent in self.index.ancestors(call):
                if parent in found:
                    break
                found.add(parent)
        return found


def _in_body(loop: ast.AST, child: ast.AST) -> bool:
    """True in the body; a `while` test runs each turn too, a `for` iterable and `else` do not."""
    if isinstance(loop, ast.While):
        return child is loop.test or in_block(child, loop.body)
    return isinstance(loop, (ast.For, ast.AsyncFor)) and in_block(child, loop.body)


def _tests(parent: ast.AST, child: ast.AST) -> list[ast.expr]:
    """What has to hold for a child of an `if`, a conditional or an `and` to be reached."""
    if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
        return [parent.test]
    if isinstance(parent, ast.BoolOp):
        return [v for v in parent.values[:_MAX_TESTS] if place(v) < place(child)]
    return []


def _compares_counter(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    counts = any(_COUNTERS.search(dotted(s).rpartition(".")[2]) for s in sides if dotted(s))
    return counts and any(isinstance(s, ast.Constant) for s in sides)


def _methods(cls: ast.ClassDef, wanted: set[str]) -> Iterator[Function]:
    for statement in cls.body:
        if isinstance(statement, Function) and statement.name in wanted:
            yield statement
