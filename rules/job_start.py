"""Where jobs may begin: launch commands, configs that are a job by themselves, entry points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pitstop.rules.configs import ConfigFile
from pitstop.rules.detection import config_framework, config_words
from pitstop.rules.job import LaunchCommand
from pitstop.rules.job_modules import may_start, program_of, starts_engine, starts_training
from pitstop.rules.scope import Scope
from pitstop.rules.shell import Heredoc, Script
from pitstop.rules.sources import Sources

_SHELL = (".sh", ".bash", ".slurm", ".sbatch", ".sub", ".zsh", ".ksh", ".pbs", ".lsf", ".job")
_JOB_NAMES = ("makefile", "gnumakefile", "dockerfile", "justfile", "containerfile")
_LAUNCHES = (
    "python", "torchrun", "accelerate", "deepspeed", "llamafactory", "lmf ", "swift ", "megatron ",
    "srun", "mpirun", "mpiexec", "ff-train", "trl ", "vllm ", "sglang", "ray job", "bash", ".sh",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Start:
    """One way in which a job may begin: a launch found in a script, or a path of a config or a
    program that nobody is known to launch."""

    launch: LaunchCommand | None = None
    script: Script | None = None
    config: str | None = None
    entry: str | None = None

    @property
    def heredocs(self) -> tuple[Heredoc, ...]:
        """Files that the launching script writes."""
        return self.script.heredocs if self.script else ()


def launch_starts(sources: Sources, scope: Scope) -> Iterator[Start]:
    """Every launch command of the tree's scripts and job files. A script that another one runs
    is read there, with what it is given; alone only when nobody runs it."""
    scripts = [
        s for path in sources.tree.paths if scope.trains(path) for s in _scripts(sources, path)
    ]
    seen: set[tuple[object, ...]] = set()
    for script in sorted(scripts, key=lambda s: (-len(s.followed), s.path)):
        for launch in _launches(script):
            if not scope.trains(launch.location.path):
                continue
            place = (launch.location, tuple(word.text for word in launch.words))
            inner = (launch.location, None)
            foreign = launch.location.path != script.path
            if place in seen or (not foreign and inner in seen):
                continue
            seen.add(place)
            if foreign:
                seen.add(inner)
            yield Start(launch, script)


def _launches(script: Script) -> tuple[LaunchCommand, ...]:
    from pitstop.rules.launch import find_launches

    return find_launches(script)


def _scripts(sources: Sources, path: str) -> Iterable[Script]:
    name = path.rpartition("/")[2].lower()
    shell = name.endswith(_SHELL)
    jobfile = name.startswith(_JOB_NAMES) or name.endswith((".mk", ".dockerfile"))
    yaml = name.endswith((".yml", ".yaml"))
    unnamed = "." not in name and not jobfile
    if not (shell or jobfile or yaml or unnamed) or not sources.mentions(path, _LAUNCHES):
        return
    if jobfile or yaml:
        yield from sources.jobfile(path)
        return
    file = sources.file(path)
    if shell or (file is not None and _is_shell(file.text)):
        script = sources.script(path)
        if script is not None:
            yield script


def _is_shell(text: str) -> bool:
    first = text.partition("\n")[0]
    return first.startswith("#!") and first.rstrip().endswith(("sh", "bash", "zsh", "ksh"))


def config_starts(sources: Sources, scope: Scope, used: Iterable[str]) -> Iterator[Start]:
    """Configs that describe a whole training job and that no launch has named."""
    words, taken = config_words(), set(used)
    for path in sources.tree.paths:
        if path in taken or not path.lower().endswith((".yaml", ".yml", ".json")):
            continue
        if not scope.trains(path) or not sources.mentions(path, words):
            continue
        if path.endswith(".json") and _is_list(sources, path):
            continue  # records, which may be many
        config = sources.config(path)
        framework = config_framework(config) if config else None
        if config is None or framework is None or framework.kind != "main":
            continue
        keys = framework.detection.job_keys
        if keys and all(_set(config, key) for key in keys):
            yield Start(config=path)


def _is_list(sources: Sources, path: str) -> bool:
    file = sources.file(path)
    return file is not None and file.text[:200].lstrip("\ufeff \t\r\n").startswith("[")


def _set(config: ConfigFile, key: str) -> bool:
    """True when a key is there and not false."""
    entry = config.get(*key.split("."))
    return entry is not None and entry.value not in (False, None, "false")


def entry_starts(sources: Sources, scope: Scope, used: Iterable[str]) -> Iterator[Start]:
    """Programs that train, or start an engine, and that no launch has named."""
    taken = set(used)
    for path in sources.tree.paths:
        if not path.endswith(".py") or path in taken or not scope.audits_code(path):
            continue
        if not may_start(sources, path):
            continue
        program = program_of(sources, path, scope)
        if starts_training(program) or starts_engine(program):
            yield Start(entry=path)
