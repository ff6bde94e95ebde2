"""What is known of the programs that start training processes: options, entries, counts.

Sources: `torch/distributed/run.py`, `accelerate/commands/launch.py`,
`deepspeed/launcher/runner.py`, the manual pages of mpirun and srun.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pitstop.rules.job import Word

TORCHRUN, TORCH_LAUNCH, ACCELERATE, DEEPSPEED = (
    "torchrun",
    "torch.distributed.launch",
    "accelerate",
    "deepspeed",
)


@dataclass(frozen=True, slots=True)
class Launcher:
    """A program that starts another one: `switches` are its options without a value; every
    other option takes the next word unless written with `=`."""

    name: str
    switches: frozenset[str]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TORCH_SWITCHES = "standalone m module no-python run-path use-env virtual-local-rank"

LAUNCHERS: Mapping[str, Launcher] = {
    TORCHRUN: Launcher(TORCHRUN, _words(_TORCH_SWITCHES)),
    TORCH_LAUNCH: Launcher(TORCH_LAUNCH, _words(_TORCH_SWITCHES)),
    ACCELERATE: Launcher(
        ACCELERATE,
        _words(
            "cpu multi-gpu tpu use-mps-device use-deepspeed use-fsdp use-megatron-lm"
            " use-parallelism-config use-xpu ipex quiet q m module no-python debug same-network"
            " tpu-cluster no-tpu-cluster tpu-use-sudo dynamo-use-fullgraph dynamo-use-dynamic"
            " dynamo-use-regional-compilation enable-cpu-affinity downcast-bf16 fp16 h help"
            " fp8-use-autocast-during-eval"
        ),
    ),
    DEEPSPEED: Launcher(
        DEEPSPEED,
        _words(
            "no-python module m no-local-rank no-ssh no-ssh-check force-multi save-pid"
            " elastic-training bind-cores-to-rank"
        ),
    ),
    "horovodrun": Launcher("horovodrun", _words("verbose gloo mpi disable-cache")),
    "colossalai": Launcher("colossalai", _words("m")),
    "composer": Launcher("composer", _words("m module-mode c command-mode verbose v")),
    "tune": Launcher("tune", _words(_TORCH_SWITCHES)),
}

MODULES: Mapping[str, str] = {
    "torch.distributed.run": TORCHRUN,
    "torch.distributed.launch": TORCH_LAUNCH,
    "accelerate.commands.launch": ACCELERATE,
    "deepspeed.launcher.runner": DEEPSPEED,
    "deepspeed": DEEPSPEED,
}
"""`python -m NAME` that is a launcher."""

VERBS: Mapping[str, str] = {"accelerate": "launch", "colossalai": "run", "tune": "run"}
"""The subcommand that launches."""

PROGRAM_NAMES: Mapping[str, str] = {
    "lmf": "llamafactory-cli",
    "accelerate-launch": "accelerate",
    "torchrun-nv": "torchrun",
    "ds": "deepspeed",
}

SELF_LAUNCHING: Mapping[str, frozenset[str]] = {
    "llamafactory-cli": frozenset(),
    "swift": _words("sft pt rlhf infer merge-lora web-ui deploy rollout eval export sample app"),
    "megatron": _words("sft pt rlhf export"),
    "ff-train": frozenset(),
    "trl": _words("sft dpo grpo kto rloo reward vllm-serve"),
    "axolotl": _words("train inference preprocess"),
    "xtuner": _words("train"),
    "litgpt": frozenset(),
    "vllm": frozenset({"serve"}),
    "fairseq-train": frozenset(),
    "fairseq-hydra-train": frozenset(),
    "lightning": frozenset({"run"}),
    "fabric": frozenset({"run"}),
}
"""Commands of Python packages that train or serve, with their subcommands ("": any)."""

NOT_PROGRAMS = _words(
    "pip pip3 venv virtualenv ensurepip json.tool http.server build pytest unittest doctest"
    " compileall zipfile timeit site black ruff flake8 mypy pylint isort twine wheel setuptools"
    " pre_commit sphinx mkdocs ipykernel jupyter notebook nltk.downloader spacy grpc_tools.protoc"
    " huggingface_hub.commands.huggingface_cli tensorboard.main uv this"
)
"""Modules that `python -m` runs for other purposes than a program of the repository."""

DEBUGGERS: Mapping[str, frozenset[str]] = {
    "pdb": frozenset({"c"}),
    "cProfile": frozenset({"o", "s"}),
    "debugpy": frozenset({"listen", "connect", "log-to"}),
    "ipdb": frozenset({"c"}),
    "torch.utils.bottleneck": frozenset(),
    "scalene": frozenset(),
    "kernprof": frozenset(),
    "viztracer": frozenset({"o"}),
    "coverage": frozenset(),
}
"""Modules that run the script behind them, with their options that take a value."""

PYTHON = re.compile(r"(?:python|pypy|ipython)(?:\d(?:\.\d+)?)?(?:\.exe)?$")
PYTHON_VALUED = frozenset({"-W", "-X", "--check-hash-based-pycs"})
PYTHON_VARIABLE = re.compile(r"\$\{?\w*(?:PYTHON|python)\w*(?::-[^}]*)?\}?")
"""A variable that nothing sets but whose name says what it holds."""


def option_name(text: str) -> str:
    """`--nproc_per_node=8` to `nproc-per-node`: launchers accept both spellings."""
    return text.lstrip("-").partition("=")[0].replace("_", "-")


def option(words: Sequence[Word], *names: str) -> Word | None:
    """The value of the last of some options, however it is attached (`--a b`, `--a=b`, `-ab`)."""
    found: Word | None = None
    for index, word in enumerate(words):
        if not word.text.startswith("-"):
            continue
        if option_name(word.text) in names:
            if "=" in word.text:
                parts = word.partition("=")
                found = parts[1] if parts else word
            elif index + 1 < len(words):
                found = words[index + 1]
        elif word.text[:2] in {f"-{n}" for n in names if len(n) == 1} and word.text[2:].isdigit():
            found = _glued(word)
    return found


def _glued(word: Word) -> Word:
    """The number of `-N4`."""
    parts = word.partition(word.text[:2])
    return parts[1] if parts else word


def has_switch(words: Sequence[Word], *names: str) -> bool:
    """True when one of the switches is given."""
    return any(w.text.startswith("-") and option_name(w.text) in names for w in words)


def number(word: Word | None) -> int | None:
    """A count; of a range `1:4` or `1-4` the larger end; None for anything else."""
    if word is None or not word.known:
        return None
    found = re.fullmatch(r"(?:\d+[:-])?(\d{1,6})", word.text.strip())
    return int(found[1]) if found else None


def visible_devices(env: Mapping[str, Word]) -> int | None:
    """How many GPUs CUDA_VISIBLE_DEVICES leaves visible; None when it is not set or not known."""
    for name in ("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        word = env.get(name)
        if word is not None:
            devices = [d for d in word.text.split(",") if d.strip()]
            return len(devices) if word.known and devices else None
    return None


def host_count(hosts: str) -> int | None:
    """Hosts in `a,b`, `a:8,b:8` or `node[1-4,7]`; None for what is not understood."""
    total = 0
    for part in _outside_brackets(hosts):
        found = re.fullmatch(r"[\w.-]*\[([\d,-]+)\][\w.-]*(?::\d+)?", part)
        if found:
            sizes = [_range_size(r) for r in found[1].split(",")]
            if None in sizes:
                return None
            total += sum(s for s in sizes if s)
        elif re.fullmatch(r"[\w.@-]+(?::\d+)?", part):
            total += 1
        else:
            return None
    return total or None


def _outside_brackets(hosts: str) -> Iterable[str]:
    return (p for p in re.split(r",(?![^\[]*\])", hosts) if p)


def _range_size(text: str) -> int | None:
    found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text)
    if found is None:
        return None
    return int(found[2]) - int(found[1]) + 1 if found[2] else 1
