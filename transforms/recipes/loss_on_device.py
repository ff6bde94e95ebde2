"""Running values that stay on the device until they are shown."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.rules.pysource import Call, PyModule
from pitstop.rules.step_code import ancestors, each_step, losses, prints
from pitstop.transforms.hot_loop import fetched_from, reads
from pitstop.transforms.layout import raw
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Insert, Op, Replace
from pitstop.transforms.training_step import Step, statement_of, training_steps

_LOOPS = ast.For | ast.AsyncFor | ast.While


class LossOnDevice(Recipe):
    """Sum the loss on the device, and fetch it where it is shown.

    `total += loss.item()` becomes `total += loss.detach().double()`, which is the same sum bit
    for bit, since Python adds in double precision too; `total = float(total)` stands where the
    value is read: behind the loop, and before what reads it now and then. Counts of hits
    (`(a == b).sum().item()`) and lists (`losses.append(loss.item())`) likewise.

    Refused where a value fetched in a step is used in every step (it steers the loop, or a
    logger or meter takes it), where what keeps it is not a local name, and on MPS, which has no
    double precision.
    """

    id = "loss-on-device"
    numerics = Numerics.EXACT
    answers = ("GEN-K01",)
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
for epoch in range(2):
    total, correct, history = 0.0, 0, []
    for step, (inputs, labels) in enumerate(batches):
        logits = model(inputs)
        loss = nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
        correct += (logits.argmax(1) == labels).sum().item()
        history.append(loss.item())
        if step % 3 == 2:
            print(f"{step}: {total / (8 * step)}")
    print(total, correct, history)
""",
            """\
import torch
from torch import nn

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(7)]
for epoch in range(2):
    total, correct, history = 0.0, 0, []
    for step, (inputs, labels) in enumerate(batches):
        logits = model(inputs)
        loss = nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach().double() * len(labels)
        correct += (logits.argmax(1) == labels).sum()
        history.append(loss.detach())
        if step % 3 == 2:
            total = float(total)
            print(f"{step}: {total / (8 * step)}")
    total = float(total)
    correct = int(correct)
    history = [float(value) for value in history]
    print(total, correct, history)
""",
        ),
    )
    refuses = (
        Refusal(
            """\
from project import loader, meter, model, optimizer

for batch in loader:
    loss = model(batch)
    loss.backward()
    optimizer.step()
    meter.update(loss.item(), len(batch))
""",
            "used in every step",
        ),
        Refusal(
            """\
from project import loader, model, optimizer

total = 0.0
for batch in loader:
    loss = model(batch)
    loss.backward()
    optimizer.step()
    total += loss.item()
    if total > 100:
        break
""",
            "read in every step",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """All the values that a step fetches, or none of them."""
        fetches = any(_waits(case.module, call) for call in case.module.calls)
        for step in training_steps(case) if fetches else ():
            if isinstance(step, Refused):
                yield step
                continue
            kept = list(_kept(step))
            reason = next((k for k in kept if isinstance(k, Refused)), None)
            ops = [op for k in kept if not isinstance(k, Refused) for op in _moved(step, k)]
            reason = reason or next((op for op in ops if isinstance(op, Refused)), None)
            yield from [reason] if reason else ops


@dataclass(frozen=True, slots=True)
class _Kept:
    """A fetched value: `name` keeps it, `fetch` becomes `text`, `{0}` of `shown` is how the
    kept value is read."""

    name: str
    fetch: ast.Call
    text: str
    shown: str


def _kept(step: Step) -> Iterator[_Kept | Refused]:
    module, names = step.module, losses(step.module)
    for call in module.calls:
        tensor = fetched_from(call)
        if tensor is None or step.home not in ancestors(module, call.node):
            continue
        if not _waits(module, call) or (call.name == "float" and _name(tensor) not in names):
            continue
        yield _keeping(step, call.node, tensor, loss=_name(tensor) in names)


def _waits(module: PyModule, call: Call) -> bool:
    """Whether a value is fetched in every step, and not only to be printed."""
    node = call.node
    return fetched_from(call) is not None and each_step(module, node) and not prints(module, node)


def _keeping(step: Step, fetch: ast.Call, tensor: ast.expr, *, loss: bool) -> _Kept | Refused:
    module, text = step.module, raw(step.module, tensor)
    statement = statement_of(module, fetch)
    if isinstance(tensor, ast.Compare | ast.BinOp):
        text = f"({text})"
    count = not loss and _counts(tensor)
    if not loss and not count:
        return Refused(f"{module.raw(fetch)} is neither the loss nor a count of hits")
    if any(isinstance(n, ast.Constant) and n.value == "mps" for n in module.nodes(ast.Constant)):
        return Refused("MPS has no double precision for the sum")
    shown = "int({0})" if count else "float({0})"
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        name = _name(statement.target)
        plain = _product(statement.value, fetch)
        if name and plain:
            return _Kept(name, fetch, text if count else f"{text}.detach().double()", shown)
    if isinstance(statement, ast.Assign) and statement.value is fetch:
        name = _name(statement.targets[0]) if len(statement.targets) == 1 else None
        if name:
            return _Kept(name, fetch, text if count else f"{text}.detach()", shown)
    value = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        name = _name(value.func.value)
        if name and value.func.attr == "append" and value.args == [fetch]:
            shown = f"[{shown.format('value')} for value in {{0}}]"
            return _Kept(name, fetch, text if count else f"{text}.detach()", shown)
    return Refused(f"{module.raw(fetch)} is used in every step")


def _moved(step: Step, kept: _Kept) -> Iterator[Op | Refused]:
    """The fetch without its wait, and the value made plain where it is read."""
    module, name = step.module, kept.name
    if not isinstance(step.home, _LOOPS):
        yield Refused(f"{name} leaves the function that is one step")
        return
    if _leaves(module, step.function, name):
        yield Refused(f"{name} is shared with other functions")
        return
    yield Replace(kept.fetch, kept.text)
    plain = f"{name} = {kept.shown.format(name)}"
    home, later = statement_of(module, kept.fetch), False
    seen: list[ast.stmt] = []
    for read in reads(step.function, name):
        statement = statement_of(module, read)
        if statement is home:
            continue
        if step.home not in ancestors(module, read):
            later = True
        elif not module.guarded(read) or _tested(module, read):
            yield Refused(f"{name} is read in every step")
        elif statement not in seen:
            seen.append(statement)
            yield Insert(statement, plain)
    if later:
        yield Insert(step.home, plain, after=True)


def _tested(module: PyModule, read: ast.Name) -> bool:
    """Whether the value is part of the header of a compound statement."""
    return hasattr(statement_of(module, read), "body")


def _leaves(module: PyModule, function: ast.AST, name: str) -> bool:
    for node in module.nodes(ast.Global, ast.Nonlocal):
        if name in getattr(node, "names", ()):
            return True
    places = {module.enclosing_function(read) or module.tree for read in reads(function, name)}
    return bool(places - {function})


def _name(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def _product(value: ast.expr, fetch: ast.Call) -> bool:
    """The fetched value alone, or times what is known on the host."""
    if value is fetch:
        return True
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Mult):
        return False
    other = value.right if value.left is fetch else value.left
    sizes = (".size(", ".shape", "len(", "batch_size")
    text = ast.unparse(other)
    known = isinstance(other, ast.Constant) or any(size in text for size in sizes)
    return fetch in (value.left, value.right) and known


def _counts(node: ast.expr) -> bool:
    """`(a == b).sum()` and `a.eq(b).sum()`: whole numbers."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    inner = node.func.value
    compared = isinstance(inner, ast.Compare) or (
        isinstance(inner, ast.Call)
        and isinstance(inner.func, ast.Attribute)
        and inner.func.attr == "eq"
    )
    return node.func.attr == "sum" and not node.args and compared
