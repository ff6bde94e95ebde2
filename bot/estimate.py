"""`pitstop estimate`: where the bytes of each job go, whether it fits, and what would."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pitstop.bot import wire
from pitstop.bot.estimate_words import gib_range
from pitstop.bot.hardware_options import stated_hardware
from pitstop.rules import facts, job_facts
from pitstop.rules.estimate import Estimates, Part, estimate, estimates, fit_of, largest
from pitstop.rules.finding import UserError
from pitstop.rules.fitting import faster_options, largest_that_fits, options_that_fit
from pitstop.rules.hardware import Gpu, gpus
from pitstop.rules.job import TrainingJob
from pitstop.rules.ranges import Range
from pitstop.rules.setup import Overrides, Sized, Unsized, setup_of
from pitstop.rules.speed import speed_of
from pitstop.rules.trained import Method, Setup
from pitstop.rules.tree import FolderTree

BATCHES = (1, 2, 4, 8, 16, 32)
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
"""Micro batches and lengths that --sweep tabulates."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A configuration that fits: what it changes, bytes at its peak, tokens per second of the
    whole job at the bound (None: not known)."""

    changes: tuple[str, ...]
    memory: Range
    tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a sweep: bytes at the peak."""

    micro_batch: int
    sequence: int
    memory: Range


@dataclass(frozen=True, slots=True)
class JobEstimate:
    """What is told of one job. Sizes are bytes per GPU; `host` bytes of main memory per GPU.

    `parts` are the rows at the peak, of the alternative that needs most; `moments` the totals.
    `verdict` is fits, may not fit, does not fit or unknown; `longest` the tokens per sample that
    fit. `reasons` say why a job could not be estimated; then the rest is empty.
    """

    job: str
    model: str = ""
    parameters: int | None = None
    gpu: str = ""
    capacity: int | None = None
    gpus: int | None = None
    reasons: tuple[str, ...] = ()
    total: Range | None = None
    verdict: str = ""
    peak: str = ""
    parts: tuple[Part, ...] = ()
    moments: tuple[tuple[str, Range], ...] = ()
    host: float = 0.0
    tokens_per_step: Range | None = None
    tokens_per_second: float | None = None
    limited_by: str = ""
    longest: int | None = None
    assumed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    advice: tuple[str, ...] = ()
    sweep: tuple[Cell, ...] = ()

    @property
    def spare(self) -> float | None:
        """Bytes between the high end and the GPU's memory; negative when it is over."""
        if self.capacity is None or self.total is None:
            return None
        return self.capacity - self.total.high


def run(options: argparse.Namespace) -> int:
    """Estimate, print; the exit code."""
    jobs = _jobs(options)
    said = Overrides(options.gpus, options.micro_batch, options.sequence)
    found = tuple(job_estimate(job, said, sweep=options.sweep) for job in jobs)
    if options.format == "json":
        print(json.dumps({"format": 1, "estimates": wire.encode(found)}, indent=1))
        return 0
    from pitstop.bot import estimate_text, text

    estimate_text.show(text.console(sys.stdout), found)
    return 0


def _jobs(options: argparse.Namespace) -> tuple[TrainingJob, ...]:
    hardware = stated_hardware(options)
    if options.model or options.params:
        from pitstop.bot.typed_job import typed_job

        if options.path is not None:
            raise UserError("give a PATH or --model, not both: they name different jobs.")
        return (typed_job(options, hardware),)
    folder = options.path or Path()
    if folder.is_file():
        raise UserError(f"{folder} is a file; give the folder of the repository.")
    project = facts.gather(FolderTree(folder), launch=options.launch, hardware=hardware)
    jobs = tuple(job for job in project.jobs if job.purpose == "train")
    if not jobs:
        raise UserError(
            f"{folder}: no training job found; name one with --launch, or a model with --model."
        )
    return jobs


def job_estimate(
    job: TrainingJob, said: Overrides | None = None, *, sweep: bool = False
) -> JobEstimate:
    """The estimate of a job, with what would fit when it may not."""
    base = JobEstimate(
        job.id,
        model=job.model.name or "",
        parameters=job.model.parameters,
        gpu=job.hardware.gpu or "",
        capacity=job.hardware.memory,
        gpus=(said and said.gpus) or job_facts.gpu_count(job),
    )
    sized = setup_of(job, said)
    if isinstance(sized, Unsized):
        return dataclasses.replace(base, reasons=sized.reasons)
    return _sized(base, job, sized, sweep=sweep)


def _sized(base: JobEstimate, job: TrainingJob, sized: Sized, *, sweep: bool) -> JobEstimate:
    found = estimates(sized.setups)
    most = largest(sized.setups)
    gpu = gpus().get(job.hardware.gpu or "")
    speed = speed_of(most, gpu, job.hardware.gpus_per_node) if gpu else None
    fit = fit_of(found.total, base.capacity)
    missing = sized.missing
    if base.capacity is None:
        missing = (*missing, "the GPU (--gpu)")
    return dataclasses.replace(
        base,
        total=found.total,
        verdict=fit.value,
        peak=found.most.peak.name,
        parts=found.most.peak.parts,
        moments=tuple((moment.name, moment.total) for moment in found.most.moments),
        host=found.most.host,
        tokens_per_step=_tokens(sized.setups),
        tokens_per_second=speed.tokens_per_second if speed else None,
        limited_by=speed.limited_by if speed else "",
        longest=largest_that_fits(most, base.capacity, "sequence") if base.capacity else None,
        assumed=sized.assumed,
        missing=missing,
        choices=tuple(_choices(most, found, base.capacity, gpu, job)),
        advice=tuple(_advice(most, found, base.capacity)),
        sweep=tuple(_sweep(most)) if sweep else (),
    )


def _tokens(setups: Iterable[Setup]) -> Range:
    counts = [float(setup.tokens_per_step) for setup in setups]
    return Range(min(counts), max(counts))


def _choices(
    most: Setup, found: Estimates, capacity: int | None, gpu: Gpu | None, job: TrainingJob
) -> Iterator[Choice]:
    """What fits where the job may not; what could be faster where it does."""
    if capacity is None:
        return
    per_node = job.hardware.gpus_per_node
    if found.total.high > capacity:
        options = options_that_fit(most, capacity, gpu, per_node)
    else:
        options = faster_options(most, capacity, gpu, per_node) if gpu else ()
    for option in options:
        pace = option.speed.tokens_per_second if option.speed else None
        yield Choice(option.changes, option.total, pace)


def _advice(most: Setup, found: Estimates, capacity: int | None) -> Iterator[str]:
    """Ways that change what is trained: said, never ranked with the others."""
    if capacity is None or found.total.high <= capacity or most.method is not Method.FULL:
        return
    for words, fields in (
        ("LoRA of rank 8 on every linear layer", {"method": Method.LORA}),
        ("QLoRA: the same over a 4-bit base", {"method": Method.LORA, "frozen_bits": 4}),
    ):
        changed = dataclasses.replace(most, **fields)
        total = estimate(changed).total
        fits = "fits" if total.high <= capacity else "does not fit either"
        yield f"{words} needs {gib_range(total)} GiB: {fits}"


def _sweep(setup: Setup) -> Iterator[Cell]:
    for size in BATCHES:
        for length in LENGTHS:
            changed = dataclasses.replace(setup, micro_batch=size, sequence=length)
            yield Cell(size, length, estimate(changed).total)
