"""torch.cuda.synchronize() in every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Fix, Priority, Safety
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.step_code import ancestors, each_step, gpu_modules

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts
    from pitstop.rules.pysource import Call

_CALLS = (
    "torch.cuda.synchronize",
    "torch.accelerator.synchronize",
    "torch.cuda.current_stream.synchronize",
)
_NEAR = 2  # statements between a synchronisation and the clock that it serves
_CLOCKS = frozenset(
    {
        "time.time",
        "time.time_ns",
        "time.perf_counter",
        "time.perf_counter_ns",
        "time.monotonic",
        "time.process_time",
        "timeit.default_timer",
        "torch.cuda.Event",
        "torch.Event",
        ".elapsed_time",
        ".record",
        "torch.cuda.CUDAGraph",
        "torch.cuda.graph",
    }
)


class SynchronisedEachStep(Check):
    """The host waits for the GPU in every step.

    ## What it finds

    `torch.cuda.synchronize()` in the body of the training step, without a condition and without
    a time measurement beside it.

    ## Why it costs

    Launches normally run ahead of the GPU, so that it never starves. After a synchronisation
    the queue is empty, and the GPU idles until the host has prepared the next kernels.

    ## When it is right

    A time is being measured, or a CUDA graph is captured.

    ## Fix

    Delete the call. To measure, record `torch.cuda.Event(enable_timing=True)` and read it when
    logging.

    ## Fix safety

    verify: the numbers are the same; whether something relied on the wait shows in a run.
    """

    id = "GEN-K04"
    name = "synchronised-each-step"
    category = "hot loop"
    priority = Priority.HIGH
    safety = Safety.VERIFY
    cost = (
        "Each step pays its launch latency in full: several per cent for large models, much"
        " more for small ones."
    )
    sources = (
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization",
    )
    bad = (
        Bad(
            {
                "train.py": """\
import torch

def main(model, loader, optimizer):
    for batch in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(batch)
        loss.backward()
        torch.cuda.synchronize()
        optimizer.step()

if __name__ == "__main__":
    from project import parts
    main(*parts())
"""
            },
            "train.py",
            8,
        ),
    )
    good = (
        Good(
            {
                "train.py": """\
import time
import torch

def main(model, loader, optimizer):
    for batch in loader:
        start = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(batch)
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        print(time.perf_counter() - start)

if __name__ == "__main__":
    from project import parts
    main(*parts())
"""
            },
            "a time is measured",
        ),
        Good(
            {
                "train.py": """\
import torch

def main(model, loader, optimizer):
    for step, batch in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(batch)
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            torch.cuda.synchronize()

if __name__ == "__main__":
    from project import parts
    main(*parts())
"""
            },
            "once in a hundred steps",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Unguarded synchronisation that no clock explains."""
        for module in gpu_modules(facts):
            for call in module.calls_of(*_CALLS):
                if each_step(module, call.node, forward=True) and not _timed(call):
                    yield self.info.finding(
                        call.location,
                        f"{call.name}() waits for the GPU in every step.",
                        fix=Fix("drop-synchronize", {}, self.safety, "let the host run ahead"),
                    )


def _timed(call: Call) -> bool:
    """Whether a statement next to the call reads a clock or captures a graph."""
    module = call.module
    statement: ast.AST = call.node
    for parent in ancestors(module, call.node):
        if isinstance(statement, ast.stmt):
            break
        statement = parent
    block = _block(module.parents.get(statement), statement)
    at = block.index(statement) if statement in block else 0
    near = block[max(0, at - _NEAR) : at + _NEAR + 1]
    spans = [module.location(one).span for one in near]
    return any(
        other.name in _CLOCKS
        and any(span.start <= other.location.span.start < span.end for span in spans)
        for other in module.calls
    )


def _block(parent: ast.AST | None, statement: ast.AST) -> list[ast.AST]:
    """The statements among which one stands."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return []
