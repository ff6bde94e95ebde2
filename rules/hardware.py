"""What is known of the machine that a job runs on: from scheduler lines, container resources,
visible devices, and comments that leave no doubt. The rest is unknown."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pitstop.rules.data import load_data
from pitstop.rules.finding import Location
from pitstop.rules.job import HardwareFacts, LaunchCommand, Word
from pitstop.rules.job_words import flag_uses
from pitstop.rules.tree import SourceFile


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU. `memory` is in bytes, `bandwidth` and `link` in bytes per second (`link` between two
    GPUs of a machine, both directions together, 0 without one), `tflops` dense matrix rates in
    1e12 operations per second by number format."""

    key: str
    title: str
    memory: int
    capability: tuple[int, int] | None
    bandwidth: float
    link: float
    tflops: Mapping[str, float]
    names: tuple[str, ...]


@functools.cache
def gpus() -> Mapping[str, Gpu]:
    """Every GPU of the shipped table (gpus.yaml) by key."""
    data = _data()
    return {key: _gpu(key, row, data["gib"]) for key, row in data["gpus"].items()}


def _gpu(key: str, row: Mapping[str, Any], gib: int) -> Gpu:
    capability = tuple(row["capability"]) if row["capability"] else None
    return Gpu(
        key=key,
        title=row["title"],
        memory=int(row["memory"] * gib),
        capability=capability,
        bandwidth=row["bandwidth"],
        link=row["link"],
        tflops=row["tflops"],
        names=(key, *row["names"]),
    )


@functools.cache
def _data() -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = load_data("pitstop.rules", "gpus.yaml")
    return loaded


def find_gpu(text: str) -> HardwareFacts | None:
    """The GPU that a word of a scheduler line or configuration names: `a100-80gb`, `gpu:h100`,
    `NVIDIA-A100-SXM4-40GB`. Of a chip that comes with different memory only the capability is
    known. None when no GPU is named, or several are."""
    words = _parts(text)
    found = [(gpu, _parts(n)) for gpu in gpus().values() for n in gpu.names if _named(n, words)]
    if found:
        best, said = max(found, key=lambda pair: len("".join(pair[1])))
        others = [gpu for gpu, name in found if gpu is not best and not set(name) <= set(said)]
        return None if others else HardwareFacts(best.key, best.memory, best.capability)
    for name, row in _data()["ambiguous"].items():
        if _named(name, words):
            return HardwareFacts(capability=tuple(row["capability"]))
    return None


def _parts(text: str) -> tuple[str, ...]:
    """The words between separators; a trailing count is not part of a name."""
    return tuple(part for part in re.split(r"[^a-z0-9.]+", text.lower()) if part)


def _named(name: str, words: tuple[str, ...]) -> bool:
    """True when the words of a name stand one after the other."""
    wanted = _parts(name)
    return any(words[i : i + len(wanted)] == wanted for i in range(len(words)))


# --- from a job -------------------------------------------------------------------------------

_SCHEDULER = (
    "gres", "gpus", "gpus_per_node", "gpus_per_task", "constraint", "partition", "gpu_type",
    "accelerators", "nvidia.com/gpu", "instance_type",
)  # fmt: skip
_COMMENT = re.compile(
    r"\b(\d{1,4})\s*[x×*]\s*(?:nvidia\s+)?"
    r"([a-z]{1,4}\w*(?:[ \-_]?(?:sxm\d?|pcie))?(?:[ \-_]?\d+\s?gi?b)?)\b",
    re.IGNORECASE,
)


def hardware_of(
    launch: LaunchCommand | None, headers: Mapping[str, Word], notes: Iterable[SourceFile] = ()
) -> HardwareFacts:
    """GPUs by scheduler headers, then the launchers' own options, then comments of `notes`."""
    stated = [(name.replace("-", "_"), word) for name, word in headers.items()]
    if launch is not None:
        for use in flag_uses(launch.launcher_args)[0]:
            stated += [(use.name, word) for word in use.words[:1]]
    facts = HardwareFacts(nodes=launch.nodes if launch else None)
    for name, word in stated:
        if name in _SCHEDULER and word.known:
            facts = _with(facts, name, word)
    for file in notes:
        if facts.gpu is None and facts.memory is None:
            facts = _commented(facts, file)
    return facts


def _with(facts: HardwareFacts, name: str, word: Word) -> HardwareFacts:
    """Facts with what one scheduler option adds: a kind of GPU, a count per node."""
    named = find_gpu(word.text)
    if named is not None and facts.capability is None:
        facts = replace(
            facts,
            gpu=named.gpu,
            memory=named.memory,
            capability=named.capability,
            evidence=f"{name}={word.text}",
            location=word.location,
        )
    count = _count(name, word, facts.nodes or 1)
    if count is not None and facts.gpus_per_node is None:
        evidence = facts.evidence or f"{name}={word.text}"
        at = facts.location or word.location
        facts = replace(facts, gpus_per_node=count, evidence=evidence, location=at)
    return facts


def _count(name: str, word: Word, nodes: int) -> int | None:
    """GPUs per node in an option's value: `gpu:a100:8`, `a100:8`, `8`. Slurm's --gpus counts
    those of all nodes; a container's limit those of one."""
    if name not in ("gres", "gpus", "gpus_per_node", "nvidia.com/gpu", "accelerators"):
        return None
    if name == "gres" and "gpu" not in word.text:
        return None
    match = re.search(r"(?:^|:)(\d{1,4})(?:$|[,(])", word.text)
    count = int(match[1]) if match else 0
    if name == "gpus" and not word.location.path.endswith((".yaml", ".yml")):
        count = count // nodes if count % nodes == 0 else 0
    return count or None


def _commented(facts: HardwareFacts, file: SourceFile) -> HardwareFacts:
    """Facts with a comment such as `# 8x A100 80GB`, when the file's comments name one GPU."""
    found = list(_comments(file))
    if len({(count, gpu.gpu, gpu.capability) for count, gpu, _ in found}) != 1:
        return facts
    count, gpu, at = found[0]
    return replace(
        facts,
        gpu=gpu.gpu,
        memory=gpu.memory,
        capability=gpu.capability,
        gpus_per_node=facts.gpus_per_node or (count if count <= 16 else None),
        evidence=f"comment in {file.path}",
        location=at,
    )


def _comments(file: SourceFile) -> Iterator[tuple[int, HardwareFacts, Location]]:
    for number in range(1, min(len(file.line_starts), 200) + 1):
        line = file.line_text(number).strip()
        if not line.startswith(("#", "//")) or line.startswith("#SBATCH"):
            continue
        for match in _COMMENT.finditer(line):
            named = find_gpu(match[2])
            if named is not None:
                start = file.line_starts[number - 1]
                yield int(match[1]), named, file.location(start, start + len(line))
