"""torch.cuda.empty_cache() or gc.collect() in every step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.rules.finding import Finding, Fix, Priority, Safety
from pitstop.rules.rule import Bad, Check, Good
from pitstop.rules.step_code import each_step, gpu_modules, libraries

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts

_CALLS = ("torch.cuda.empty_cache", "torch.cuda.memory.empty_cache", "gc.collect")
_ENGINES = frozenset({"vllm", "sglang"})


class CacheEmptiedEachStep(Check):
    """Cached memory is given back in every step.

    ## What it finds

    `torch.cuda.empty_cache()` or `gc.collect()` in the body of the training step, without a
    condition that makes it rare.

    ## Why it costs

    Emptying the cache waits for the GPU and returns every unused block to the driver; the next
    step asks for the same blocks again, at the price of a driver call each. Collecting garbage
    walks all Python objects. Neither lowers the peak that the step itself needs.

    ## When it is right

    Between phases with different needs: before evaluation, between epochs, around an inference
    engine that shares the GPU, or after an out-of-memory error was caught.

    ## Fix

    Delete the call, or move it out of the step loop. Against fragmentation set
    `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.

    ## Fix safety

    verify: the numbers are the same, but the peak of reserved memory should be watched once.
    """

    id = "GEN-C07"
    name = "cache-emptied-each-step"
    category = "memory"
    priority = Priority.MEDIUM
    safety = Safety.VERIFY
    cost = "5 to 30 % of a short step: one wait for the GPU and new allocations each time."
    sources = (
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management",
        "https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html",
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
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.empty_cache()

if __name__ == "__main__":
    from project import parts
    main(*parts())
"""
            },
            "train.py",
            10,
        ),
    )
    good = (
        Good(
            {
                "train.py": """\
import torch

def main(model, loader, optimizer, epochs):
    for epoch in range(epochs):
        for step, batch in enumerate(loader):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(batch)
            loss.backward()
            optimizer.step()
            if step % 1000 == 0:
                torch.cuda.empty_cache()
        torch.cuda.empty_cache()

if __name__ == "__main__":
    from project import parts
    main(*parts())
"""
            },
            "every thousand steps and once per epoch is rare",
        ),
        Good(
            {
                "train.py": """\
import torch

def main(model, loader, optimizer):
    for batch in loader:
        try:
            loss = model(batch).half()
            loss.backward()
            optimizer.step()
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()

if __name__ == "__main__":
    from project import parts
    main(*parts())
"""
            },
            "it answers an error",
        ),
    )

    def check(self, facts: ProjectFacts) -> Iterator[Finding]:
        """Unguarded calls in what runs each step."""
        for module in gpu_modules(facts):
            if libraries(module) & _ENGINES:
                continue  # the engine and the trainer take turns on the GPU
            for call in module.calls_of(*_CALLS):
                if each_step(module, call.node, forward=True):
                    yield self.info.finding(
                        call.location,
                        f"{call.name}() runs in every training step.",
                        fix=Fix(
                            "drop-cache-emptying",
                            {},
                            self.safety,
                            "keep the allocator's cache between steps",
                        ),
                    )
