"""A training job: one run of one program, with every setting and where it comes from."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pitstop.rules.architecture import Architecture
from pitstop.rules.finding import Location, Setting, Span, Unread, Value


class MultiNode(enum.StrEnum):
    """A: the command starts every node by itself. B: it must be started on each node."""

    SINGLE = "single"
    A = "A"
    B = "B"


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command: its text after resolution, where it was written, and whether
    everything in it could be resolved (`why_unknown` says what could not).

    `exact` says that the characters at `location` are `text`, neither more nor less (quotes
    lie outside), so that they may be edited. A word that stands for a variable is located where
    the variable's value is written. One put together from several places (`--lr=$LR`) is not
    exact, lies where it is used and lists its `pieces`, each with its own place.
    """

    text: str
    location: Location
    why_unknown: str | None = None
    condition: str | None = None
    note: str | None = None
    exact: bool = True
    pieces: tuple[Word, ...] = ()

    @property
    def known(self) -> bool:
        """True when the text is what the shell would pass."""
        return self.why_unknown is None

    def partition(self, separator: str) -> tuple[Word, Word] | None:
        """What stands before and after the first separator (`--lr=1e-4` at `=`), each located
        by itself; None when there is no separator, or only inside what is unknown."""
        return _partition(self, separator)


def _partition(word: Word, separator: str) -> tuple[Word, Word] | None:
    if not word.pieces:
        head, found, _ = word.text.partition(separator)
        if not found or not word.known:
            return None
        return _cut(word, 0, len(head)), _cut(word, len(head) + len(separator), len(word.text))
    for index, piece in enumerate(word.pieces):
        cut = _partition(piece, separator)
        if cut:
            before = (*word.pieces[:index], cut[0])
            return _join(word, before), _join(word, (cut[1], *word.pieces[index + 1 :]))
    return None


def _cut(word: Word, start: int, end: int) -> Word:
    """Part of a word's text; exact when the word is and lies on one line."""
    at = word.location
    if not word.exact or at.line != at.end_line:
        return replace(word, text=word.text[start:end], exact=False)
    place = Location(
        at.path,
        Span(at.span.start + start, at.span.start + end),
        at.line,
        at.column + start,
        at.line,
        at.column + end,
    )
    return replace(word, text=word.text[start:end], location=place)


def _join(word: Word, pieces: tuple[Word, ...]) -> Word:
    """The pieces as one word of their own; empty ones count only when nothing else is there."""
    kept = tuple(p for p in pieces if p.text or not p.known) or pieces[:1]
    if len(kept) == 1:
        return replace(kept[0], condition=word.condition, note=word.note)
    return replace(
        word,
        text="".join(p.text for p in kept),
        why_unknown=next((p.why_unknown for p in kept if not p.known), None),
        exact=False,
        pieces=kept,
    )


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """One process start that runs a program on accelerators.

    `launchers` are outermost first ("srun", "torchrun"); `launcher_args` are the words of the
    launchers, `args` those after the entry. `env` holds exports and prefixes in force.
    `processes` is per node; None when not stated, Unknown text stays in the words.

    Names of launchers: torchrun (also for `python -m torch.distributed.run`),
    torch.distributed.launch, accelerate, deepspeed, mpirun (also mpiexec), srun, sbatch, pdsh,
    ssh, ray, python; and the programs that start processes by themselves: llamafactory-cli,
    swift, megatron, and the like. Those have the subcommand in `args[0]` and their own name as
    entry. `module` says that the entry is a module's name (`-m`). `multi_node` is B also when a
    count of nodes is given but unknown: nothing then may be concluded from `nodes`.
    """

    launchers: tuple[str, ...]
    entry: str | None  # script path as written, or module name after -m, or subcommand's program
    entry_location: Location | None
    words: tuple[Word, ...]
    launcher_args: tuple[Word, ...]
    args: tuple[Word, ...]
    env: Mapping[str, Word]
    location: Location
    processes: int | None = None
    nodes: int | None = None
    multi_node: MultiNode = MultiNode.SINGLE
    cwd: str = ""  # directory the command runs in, relative to the tree root, when known
    module: bool = False
    condition: str | None = None  # text of the shell conditions under which it runs


@dataclass(frozen=True, slots=True)
class Fact:
    """A value with the evidence for it. `value` None means unknown."""

    value: Value
    evidence: str = ""
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of the model. Counts are in parameters, sizes in units of the model.

    `kind` is llm, vlm, video, vision, other; `moe` is True for mixture of experts. `shape` is
    worked out from the rest or the model's config.json, and no part of a report.
    """

    name: str | None = None
    family: str | None = None  # the model_type of transformers: llama, qwen2, ...
    kind: str | None = None
    moe: bool | None = None
    parameters: int | None = None
    active_parameters: int | None = None
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    vocabulary: int | None = None
    evidence: str = ""
    location: Location | None = None
    shape: Architecture | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class HardwareFacts:
    """What is known of the machine. `memory` is bytes per GPU, `capability` is (9, 0) for sm90."""

    gpu: str | None = None  # key of gpus.yaml
    memory: int | None = None
    capability: tuple[int, int] | None = None
    gpus_per_node: int | None = None
    nodes: int | None = None
    evidence: str = ""
    location: Location | None = None

    @property
    def total_gpus(self) -> int | None:
        """GPUs over all nodes, when both factors are known (one node unless said otherwise)."""
        if self.gpus_per_node is None:
            return None
        return self.gpus_per_node * (self.nodes or 1)


@dataclass(frozen=True, slots=True)
class FrameworkUse:
    """A framework recognised in a job; `version` is a PEP 440 specifier text, "" if unpinned."""

    name: str
    version: str = ""
    evidence: str = ""
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One run, resolved.

    `settings` maps a knob to all its settings, the winner first (command line over config file
    over code over default); a knob without any entry is not known to the job's frameworks.
    `purpose` is "train" or "serve". `files` are all paths that take part in the job.
    """

    id: str
    title: str
    purpose: str
    frameworks: tuple[FrameworkUse, ...]
    settings: Mapping[str, tuple[Setting, ...]]
    launch: LaunchCommand | None = None
    entry: str | None = None
    configs: tuple[str, ...] = ()
    files: frozenset[str] = frozenset()
    model: ModelFacts = ModelFacts()
    hardware: HardwareFacts = HardwareFacts()
    location: Location | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()

    @property
    def framework(self) -> str:
        """The training framework that wins by precedence."""
        return self.frameworks[0].name if self.frameworks else "generic"

    def get(self, knob: str) -> Setting | None:
        """The setting that decides, or None when the frameworks do not have this knob."""
        found = self.settings.get(knob)
        return found[0] if found else None

    def value(self, knob: str) -> Value:
        """The deciding value; None also when the knob does not exist here."""
        setting = self.get(knob)
        return setting.value if setting else None

    def written(self) -> Iterator[Setting]:
        """Every setting that somebody wrote, shadowed ones included."""
        for found in self.settings.values():
            yield from (s for s in found if s.written)
