"""How many processes a job has, on how many machines, and how the model is spread over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pitstop.rules.finding import Setting, Surface, Unknown, Value
from pitstop.rules.frameworks import Framework
from pitstop.rules.job import LaunchCommand, MultiNode
from pitstop.rules.job_files import NamedConfig

Settings = Mapping[str, tuple[Setting, ...]]


def with_parallelism(
    settings: Settings,
    launch: LaunchCommand | None,
    configs: Iterable[NamedConfig],
    speakers: tuple[Framework, ...],
) -> tuple[Settings, LaunchCommand | None]:
    """The settings with parallel.strategy decided, and the launch with the processes and nodes
    that an accelerate config or the environment adds."""
    launch = _with_counts(launch, configs, settings) if launch else None
    found = {**settings}
    named = found.get("parallel.strategy", ())
    if any(s.value == "fsdp2" for s in named):
        named = tuple(sorted(named, key=lambda s: s.value != "fsdp2"))
    if not named or all(s.condition for s in named):
        derived = _derived(settings, launch, speakers)
        named = (*named, *((derived,) if derived else ()))
    if named:
        found["parallel.strategy"] = named
    return found, launch


def _with_counts(
    launch: LaunchCommand,
    configs: Iterable[NamedConfig],
    settings: Settings,
) -> LaunchCommand:
    processes, nodes = launch.processes, launch.nodes
    for named in configs:
        if named.framework is not None and named.framework.name == "accelerate":
            total = _number(named, "num_processes")
            nodes = nodes if nodes is not None else _number(named, "num_machines")
            if processes is None and total is not None:
                processes = total // (nodes or 1)
    if processes is None:
        processes = _visible(launch, settings)
    if nodes is not None and nodes > 1 and launch.multi_node is MultiNode.SINGLE:
        return replace(launch, processes=processes, nodes=nodes, multi_node=MultiNode.B)
    return replace(launch, processes=processes, nodes=nodes)


def _number(named: NamedConfig, key: str) -> int | None:
    entry = named.config.get(key)
    value = entry.value if entry else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _visible(launch: LaunchCommand, settings: Settings) -> int | None:
    """Processes of launchers that start one per visible GPU."""
    if not {"deepspeed", "llamafactory-cli", "accelerate"} & {*launch.launchers, launch.entry}:
        return None
    return visible_gpus(settings)


def visible_gpus(settings: Settings) -> int | None:
    """GPUs that CUDA_VISIBLE_DEVICES leaves; None when it is not set or not known."""
    found = settings.get("cuda.visible_devices")
    value = found[0].value if found else None
    if not isinstance(value, str) or not value.strip():
        return None
    return len([part for part in value.split(",") if part.strip()])


def _derived(
    settings: Settings,
    launch: LaunchCommand | None,
    speakers: tuple[Framework, ...],
) -> Setting | None:
    """What the trainers do by themselves: DDP for several processes, nn.DataParallel for one
    process that sees several GPUs. None where only the program's own code could say."""
    names = {f.name for f in speakers}
    trainer = bool(names & {"hf_trainer", "trl", "llamafactory", "swift"})
    if launch is None or not (trainer or "accelerate" in names):
        return None
    plain = trainer and launch.launchers in ((), ("python",))
    processes = 1 if plain and launch.processes is None else launch.processes
    value: Value = Unknown("the number of processes is not known")
    if processes is not None:
        total = processes * (launch.nodes or 1)
        value = "ddp" if total > 1 else "none"
        if total == 1 and plain:
            gpus = visible_gpus(settings)
            several = gpus is not None and gpus > 1
            value = "dp" if several else "none" if gpus == 1 else Unknown("GPUs are not known")
    return Setting(
        "parallel.strategy", value, Surface.DEFAULT, "", speakers[0].name,
        name_at=launch.entry_location or launch.location,
    )  # fmt: skip
