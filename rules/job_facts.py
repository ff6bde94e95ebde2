"""The facts about a job that a row may ask for, and how their operands are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from pitstop.rules.finding import Scalar, Unknown, Value
from pitstop.rules.job import MultiNode, TrainingJob

Operand = Scalar | tuple[Scalar, ...] | tuple[int, int]
"""What a value is tested against."""


@dataclass(frozen=True, slots=True)
class FactKind:
    """How a fact is got from a job and how its operands are written in a row."""

    get: Callable[[TrainingJob], Value | tuple[int, int]]
    operand: str  # text | number | count | capability | flag
    text: str


def gpu_count(job: TrainingJob) -> int | None:
    """GPUs over all nodes: what the launch starts, else what the machine is said to have."""
    launch = job.launch
    if launch is None or launch.processes is None:
        return job.hardware.total_gpus
    nodes = _nodes(job)
    if nodes is None:
        return launch.processes if launch.multi_node is MultiNode.SINGLE else None
    return launch.processes * nodes


def _nodes(job: TrainingJob) -> int | None:
    """Machines: what the launch says, else what the job's header or hardware does."""
    stated = job.launch.nodes if job.launch is not None else None
    return stated if stated is not None else job.hardware.nodes


def _visible_gpus(job: TrainingJob) -> int | None:
    """GPUs named in CUDA_VISIBLE_DEVICES, else those of the machine."""
    setting = job.get("cuda.visible_devices")
    if setting is None or not setting.written:
        return job.hardware.gpus_per_node
    if isinstance(setting.value, Unknown):
        return None
    return len([part for part in str(setting.value).split(",") if part.strip()])


def _entry_name(job: TrainingJob) -> str | None:
    """The program's file name, also when the file is not in the repository."""
    entry = job.entry or (job.launch.entry if job.launch is not None else None)
    return PurePosixPath(entry).name if entry else None


_FOR_DEBUGGING = re.compile(
    r"(?<![a-z])(debug|repro(?!j)|profil|bench|smoke|tests?(?![a-z]))", re.IGNORECASE
)


def for_debugging(path: str) -> bool:
    """Whether a file, by its name or a folder's, is no production run: debugging, profiling,
    benchmarks, tests."""
    return any(_FOR_DEBUGGING.search(part) for part in PurePosixPath(path).parts)


def job_for_debugging(job: TrainingJob) -> bool:
    """Whether the files that make the job say so by their names."""
    named = [job.entry, *job.configs, job.location.path if job.location else None]
    if job.launch is not None:
        named.append(job.launch.location.path)
    return any(for_debugging(path) for path in named if path)


def _launcher(job: TrainingJob) -> str | None:
    """The innermost launcher's name; "python" for a plain start, None without a command."""
    if job.launch is None:
        return None
    return job.launch.launchers[-1] if job.launch.launchers else "python"


_OTHER_CHIPS = {
    "npu": re.compile(r"(?<![a-z])(npu|ascend)", re.IGNORECASE),
    "tpu": re.compile(r"(?<![a-z])(tpu|xla)(?![a-z])", re.IGNORECASE),
    "hpu": re.compile(r"(?<![a-z])(hpu|gaudi)", re.IGNORECASE),
    "xpu": re.compile(r"(?<![a-z])xpu", re.IGNORECASE),
}


def _accelerator(job: TrainingJob) -> str | None:
    """A chip other than a GPU that the job's files or variables name; None is no statement."""
    named = [*job.configs, job.location.path if job.location else ""]
    if job.launch is not None:
        named += [job.launch.location.path, *job.launch.env]
    for chip, words in _OTHER_CHIPS.items():
        if any(words.search(name) for name in named):
            return chip
    return None


def _memory_gib(job: TrainingJob) -> float | None:
    memory = job.hardware.memory
    return None if memory is None else memory / 2**30


def _memory_fit(job: TrainingJob) -> str | None:
    """fits, may not fit or does not fit; None where the GPU or the job's sizes are not known."""
    from pitstop.rules.job_memory import memory_of

    found = memory_of(job) if job.hardware.memory is not None else None
    return None if found is None else found.fit.value


FACTS: Mapping[str, FactKind] = {
    "job.purpose": FactKind(lambda job: job.purpose, "text", "train or serve"),
    "job.framework": FactKind(lambda job: job.framework, "text", "the training framework"),
    "job.entry_name": FactKind(_entry_name, "text", "file name of the program"),
    "job.for_debugging": FactKind(
        job_for_debugging, "flag", "a script or config named debug, profile, repro, bench or test"
    ),
    "job.accelerator": FactKind(_accelerator, "text", "npu, tpu, hpu or xpu, where one is named"),
    "job.uses": FactKind(
        lambda job: tuple(use.name for use in job.frameworks), "text", "every framework recognised"
    ),
    "job.launcher": FactKind(_launcher, "text", "the innermost launcher, python for none"),
    "job.launched": FactKind(
        lambda job: job.launch is not None, "flag", "started by a command line that was read"
    ),
    "job.gpus": FactKind(gpu_count, "number", "GPUs over all nodes"),
    "job.machine_gpus": FactKind(_visible_gpus, "number", "GPUs that a process may see"),
    "job.nodes": FactKind(_nodes, "number", "machines"),
    "gpu.name": FactKind(lambda job: job.hardware.gpu, "text", "kind of GPU"),
    "gpu.memory_gib": FactKind(_memory_gib, "number", "memory of one GPU"),
    "gpu.capability": FactKind(
        lambda job: job.hardware.capability, "capability", "compute capability, sm80"
    ),
    "model.kind": FactKind(lambda job: job.model.kind, "text", "llm, vlm, video, vision, other"),
    "model.family": FactKind(lambda job: job.model.family, "text", "model_type of transformers"),
    "model.moe": FactKind(lambda job: job.model.moe, "flag", "mixture of experts"),
    "model.parameters": FactKind(lambda job: job.model.parameters, "count", "parameters"),
    "memory.fit": FactKind(
        _memory_fit, "text", "predicted memory: fits, may not fit, does not fit"
    ),
    "model.vocabulary": FactKind(lambda job: job.model.vocabulary, "count", "tokens known"),
}
"""Every fact a row may ask for."""

_CAPABILITY = re.compile(r"sm(\d+)(\d)[a-z]?")
_COUNT = re.compile(r"(\d+(?:\.\d+)?)([KMBT])")
_SCALES = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


def parse_operand(kind: str, raw: object) -> Operand:
    """An operand as a row writes it: sm80 is (8, 0), 7B is 7,000,000,000.

    Raises ValueError with what was expected.
    """
    if isinstance(raw, list):
        return tuple(_scalar(parse_operand(kind, item)) for item in raw)
    if kind == "capability":
        found = _CAPABILITY.fullmatch(str(raw))
        if not found:
            raise ValueError(f"{raw!r} is no compute capability, write sm80")
        return int(found[1]), int(found[2])
    if kind == "count" and isinstance(raw, str):
        found = _COUNT.fullmatch(raw)
        if not found:
            raise ValueError(f"{raw!r} is no count, write 7B, 500M or a number")
        return int(float(found[1]) * _SCALES[found[2]])
    if raw is None or isinstance(raw, bool | int | float | str):
        return raw
    raise ValueError(f"{raw!r} is no scalar")


def _scalar(operand: Operand) -> Scalar:
    if isinstance(operand, tuple):
        raise ValueError("lists do not nest")
    return operand
