"""The loss printed every N steps instead of in each."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pitstop.rules.pysource import PyModule
from pitstop.rules.step_code import each_step, losses, printer
from pitstop.transforms.layout import raw
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Op, Replace, Wrap
from pitstop.transforms.training_step import home_of, inner, statement_of, used_names


class LogNowAndThen(Recipe):
    """Print the loss every N steps.

    A statement that prints the loss, or a value fetched from the GPU, in every step goes under
    `if step % 50 == 0:` with the loop's own counter; a loop without one is counted by
    `enumerate`. What is printed keeps its text and its values.

    Refused in `while` loops without a counter, in functions that are one step, and where the
    printing call is part of a larger statement.
    """

    id = "log-now-and-then"
    numerics = Numerics.EXACT
    answers = ("GEN-K02",)
    arguments = {"every": 50}  # noqa: RUF012 - as its annotation in the base says
    sources = (
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization",
    )
    examples = (
        Example(
            """\
import torch
from torch import nn

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(7)]
for inputs, labels in batches:
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"loss {loss.item()}")
""",
            """\
import torch
from torch import nn

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(7)]
for step, (inputs, labels) in enumerate(batches):
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 3 == 0:
        print(f"loss {loss.item()}")
""",
            {"every": 3},
        ),
        Example(
            """\
from project import loader, model, optimizer

for i, batch in enumerate(loader, start=1):
    loss = model(batch)
    loss.backward()
    optimizer.step()
    # progress
    print(i, loss)
""",
            """\
from project import loader, model, optimizer

for i, batch in enumerate(loader, start=1):
    loss = model(batch)
    loss.backward()
    optimizer.step()
    # progress
    if i % 50 == 0:
        print(i, loss)
""",
            runs=False,
        ),
    )
    refuses = (
        Refusal(
            """\
from project import model, next_batch, optimizer

while True:
    loss = model(next_batch())
    loss.backward()
    optimizer.step()
    print(loss)
""",
            "counter",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """Every printing statement of a step, and one counter for each loop."""
        module = case.module
        counted: dict[ast.AST, str] = {}
        seen: set[ast.stmt] = set()
        for call in module.calls:
            node = call.node
            if not printer(module, node) or not case.concerns(call.location.span):
                continue
            if not each_step(module, node) or not _shows(module, node):
                continue
            statement, loop = statement_of(module, node), home_of(module, node)
            if statement in seen:
                continue
            seen.add(statement)
            if not isinstance(statement, ast.Expr) or statement.value is not node:
                yield Refused("the printing call is part of a larger statement")
                continue
            counter = counted.get(loop) or _counter(loop)
            if counter is None and isinstance(loop, ast.For) and "step" not in used_names(module):
                counter = "step"
                yield Replace(loop.target, f"step, {_target(module, loop.target)}")
                yield Replace(loop.iter, f"enumerate({raw(module, loop.iter)})")
            if counter is None:
                yield Refused("the loop has no counter, and none can be added")
                continue
            counted[loop] = counter
            yield Wrap((statement,), f"if {counter} % {case.args['every']} == 0:")


def _shows(module: PyModule, node: ast.Call) -> bool:
    """Whether a call prints the loss or a fetched value."""
    names = losses(module)
    return any(
        (isinstance(part, ast.Name) and part.id in names)
        or (isinstance(part, ast.Attribute) and part.attr == "item")
        for part in inner(node)
    )


def _counter(loop: ast.AST) -> str | None:
    """The name that counts the turns of a loop."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return None
    func, target = loop.iter.func, loop.target
    made = func.id if isinstance(func, ast.Name) else ""
    if made in ("tqdm", "trange") and loop.iter.args and isinstance(loop.iter.args[0], ast.Call):
        inside = loop.iter.args[0].func
        made = inside.id if isinstance(inside, ast.Name) else ""
    if made in ("range", "trange") and isinstance(target, ast.Name):
        return target.id
    first = target.elts[0] if isinstance(target, ast.Tuple) else None
    return first.id if made == "enumerate" and isinstance(first, ast.Name) else None


def _target(module: PyModule, target: ast.expr) -> str:
    """A loop's target as one element of a tuple."""
    text = raw(module, target)
    return text if not isinstance(target, ast.Tuple) or text.startswith("(") else f"({text})"
