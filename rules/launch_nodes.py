"""Processes per node, nodes, and whether one command starts all nodes (A) or one each (B).

torchrun starts local workers only, whichever rendezvous it uses: with several nodes it is B
unless a wrapper (srun, mpirun, pdsh) runs it on every node. deepspeed reaches other nodes by
itself through a hostfile, accelerate only together with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pitstop.rules.job import MultiNode, Word
from pitstop.rules.launchers import has_switch, host_count, number, option, visible_devices

Env = Mapping[str, Word]


@dataclass(frozen=True, slots=True)
class Stage:
    """One launcher of a command and its own words; `program_args` are those of a program that
    launches itself."""

    name: str
    args: tuple[Word, ...]
    program_args: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    """`processes` per node and `nodes`, None where not stated or not known."""

    processes: int | None = None
    nodes: int | None = None
    multi_node: MultiNode = MultiNode.SINGLE


_FANS_OUT = frozenset({"srun", "mpirun", "pdsh", "ray"})


def counts(stages: Sequence[Stage], env: Env, headers: Env) -> Counts:
    """The counts of a whole command: the innermost launcher that states one decides."""
    allocation = headers
    found: list[Counts] = []
    for stage in stages:
        if stage.name == "sbatch":
            allocation = {**allocation, **_allocation(stage.args)}
        reader = _READERS.get(stage.name)
        options = stage.args + stage.program_args
        found.append(reader(options, env, allocation) if reader else Counts())
    processes = next((c.processes for c in reversed(found) if c.processes is not None), None)
    nodes = next((c.nodes for c in reversed(found) if c.nodes is not None), None)
    classes = [c.multi_node for c in found]
    multi = MultiNode.SINGLE
    if MultiNode.A in classes:
        multi = MultiNode.A
    elif MultiNode.B in classes:
        fanned = any(s.name in _FANS_OUT for s in stages)
        multi = MultiNode.A if fanned else MultiNode.B
    return Counts(processes, nodes, multi)


def _several(count: int | None, stated: Word | None, kind: MultiNode) -> MultiNode:
    """The kind when there are several nodes, or when their number is given but not known."""
    if count is None:
        return kind if stated is not None and not stated.known else MultiNode.SINGLE
    return kind if count > 1 else MultiNode.SINGLE


def _torchrun(args: Sequence[Word], env: Env, _: Env) -> Counts:
    wanted = option(args, "nproc-per-node") or env.get("PET_NPROC_PER_NODE")
    processes = number(wanted)
    if wanted is not None and wanted.text in ("gpu", "auto"):
        processes = visible_devices(env)
    if has_switch(args, "standalone"):
        return Counts(processes, 1)
    stated = option(args, "nnodes") or env.get("PET_NNODES")
    nodes = number(stated)
    return Counts(processes, nodes, _several(nodes, stated, MultiNode.B))


def _accelerate(args: Sequence[Word], _: Env, __: Env) -> Counts:
    stated = option(args, "num-machines")
    nodes = number(stated)
    total = number(option(args, "num-processes"))
    by_file = stated is None and option(args, "config-file") is not None
    processes = None
    if total is not None and not by_file:
        processes = total if stated is None else total // nodes if nodes else None
    standard = option(args, "deepspeed-multinode-launcher")
    reaches = (
        has_switch(args, "use-deepspeed")
        and option(args, "deepspeed-hostfile") is not None
        and (standard is None or standard.text not in ("standard", "nossh"))
    )
    kind = MultiNode.A if reaches else MultiNode.B
    return Counts(processes, nodes, _several(nodes, stated, kind))


def _deepspeed(args: Sequence[Word], env: Env, _: Env) -> Counts:
    include = option(args, "include", "i")
    hosts, slots = _included(include)
    stated = option(args, "num-nodes")
    nodes = number(stated) or hosts
    wanted = option(args, "num-gpus", "num-accelerators")
    processes = number(wanted)
    if wanted is None and processes is None:
        processes = slots if include is not None else visible_devices(env)
    hostfile = option(args, "hostfile", "H")
    if has_switch(args, "no-ssh"):
        by_rank = option(args, "node-rank") is not None
        several = by_rank or (nodes or 1) > 1
        return Counts(processes, nodes, MultiNode.B if several else MultiNode.SINGLE)
    if nodes is None and hostfile is not None:
        return Counts(processes, None, MultiNode.A)
    return Counts(processes, nodes, _several(nodes, stated, MultiNode.A))


def _included(include: Word | None) -> tuple[int | None, int | None]:
    """Hosts and GPUs per host of `localhost:0,1` or `worker-0@worker-1:0,2`."""
    if include is None or not include.known:
        return None, None
    parts = [p for p in include.text.split("@") if p]
    slots = {len([s for s in p.partition(":")[2].split(",") if s]) for p in parts}
    return len(parts) or None, slots.pop() or None if len(slots) == 1 else None


def _mpirun(args: Sequence[Word], _: Env, allocation: Env) -> Counts:
    hosts = option(args, "H", "host", "hosts")
    hostfile = option(args, "hostfile", "machinefile", "f")
    nodes = host_count(hosts.text) if hosts is not None and hosts.known else None
    if nodes is None and hosts is None and hostfile is None:
        nodes = number(allocation.get("nodes"))
    total = number(option(args, "np", "n", "c"))
    per_node = number(option(args, "npernode", "N", "ppn"))
    mapped = option(args, "map-by")
    if per_node is None and mapped is not None:
        ppr = re.fullmatch(r"ppr:(\d{1,4}):node.*", mapped.text)
        per_node = int(ppr[1]) if ppr else None
    if per_node is None and total is not None and hostfile is None:
        per_node = total // nodes if nodes else total if hosts is None else None
    elif per_node and total and nodes is None:
        nodes = -(-total // per_node)
    several = hostfile is not None if nodes is None else nodes > 1
    unknown_hosts = hosts is not None and nodes is None
    kind = MultiNode.A if several or unknown_hosts else MultiNode.SINGLE
    return Counts(per_node, nodes, kind)


_ALLOCATED = {
    "nodes": ("nodes", "N"),
    "ntasks": ("ntasks", "n"),
    "ntasks-per-node": ("ntasks-per-node",),
    "gpus-per-node": ("gpus-per-node",),
    "gres": ("gres",),
}


def _allocation(args: Sequence[Word]) -> dict[str, Word]:
    """What srun or sbatch ask for in their words, by long name."""
    found = {name: option(args, *spellings) for name, spellings in _ALLOCATED.items()}
    return {name: word for name, word in found.items() if word is not None}


def _srun(args: Sequence[Word], _: Env, allocation: Env) -> Counts:
    own = _allocation(args)
    stated = own.get("nodes") or allocation.get("nodes")
    nodes = number(stated)
    per_node = number(own.get("ntasks-per-node"))
    if per_node is None and "ntasks" in own:
        total = number(own["ntasks"])
        per_node = total // nodes if total and nodes else total if stated is None else None
    if per_node is None and "ntasks" not in own:
        per_node = number(allocation.get("ntasks-per-node"))
    return Counts(per_node or None, nodes, _several(nodes, stated, MultiNode.A))


def _pdsh(args: Sequence[Word], _: Env, __: Env) -> Counts:
    hosts = option(args, "w")
    nodes = host_count(hosts.text) if hosts is not None and hosts.known else None
    return Counts(None, nodes, MultiNode.A)


def _ray(_: Sequence[Word], __: Env, ___: Env) -> Counts:
    return Counts(None, None, MultiNode.A)


def _by_environment(args: Sequence[Word], env: Env, _: Env) -> Counts:
    """llamafactory-cli, swift and megatron start torchrun themselves, as the environment says."""
    stated = env.get("NNODES")
    nodes = number(stated)
    processes = number(env.get("NPROC_PER_NODE"))
    return Counts(processes, nodes, _several(nodes, stated, MultiNode.B))


def _llamafactory(args: Sequence[Word], env: Env, headers: Env) -> Counts:
    """Without NPROC_PER_NODE it uses every visible GPU."""
    found = _by_environment(args, env, headers)
    if found.processes is None and "NPROC_PER_NODE" not in env:
        return Counts(visible_devices(env), found.nodes, found.multi_node)
    return found


_MACHINES = ("NUM_MACHINES", "NUM_NODES", "HOST_NUM")
_MASTERS = ("MASTER_IP", "MASTER_ADDR", "CHIEF_IP")


def _flow_factory(args: Sequence[Word], env: Env, _: Env) -> Counts:
    stated = option(args, "num-machines") or next((env[n] for n in _MACHINES if n in env), None)
    nodes = number(stated)
    total = number(option(args, "num-processes"))
    processes = total // (nodes or 1) if total else None
    led = any(n in env for n in _MASTERS) or option(args, "main-process-ip") is not None
    kind = _several(nodes, stated, MultiNode.B) if led else MultiNode.SINGLE
    return Counts(processes, nodes, kind)


_READERS: dict[str, Callable[[Sequence[Word], Env, Env], Counts]] = {
    "torchrun": _torchrun,
    "torch.distributed.launch": _torchrun,
    "tune": _torchrun,
    "colossalai": _torchrun,
    "composer": _torchrun,
    "accelerate": _accelerate,
    "deepspeed": _deepspeed,
    "mpirun": _mpirun,
    "horovodrun": _mpirun,
    "srun": _srun,
    "pdsh": _pdsh,
    "ray": _ray,
    "llamafactory-cli": _llamafactory,
    "swift": _by_environment,
    "megatron": _by_environment,
    "ff-train": _flow_factory,
}
