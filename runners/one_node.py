"""A launch of several nodes as one of this machine, and free ports for launches of one."""

from __future__ import annotations

import functools
import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pitstop.rules.data import load_data
from pitstop.rules.finding import UserError
from pitstop.rules.job import LaunchCommand, MultiNode
from pitstop.rules.launch import parse_command
from pitstop.rules.launch_program import take_apart
from pitstop.rules.launchers import option_name


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A command for this machine. `changes` says what became of each part and why; `processes`
    is the number started here, when it is known; `nodes` and `node_class` are of the original."""

    command: str
    changes: tuple[tuple[str, str], ...] = ()
    processes: int | None = None
    nodes: int | None = None
    node_class: MultiNode = MultiNode.SINGLE


@dataclass(frozen=True, slots=True)
class _Launcher:
    """What the table says of one launcher."""

    valued: frozenset[str] = frozenset()
    switches: frozenset[str] = frozenset()
    set: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    after_entry: bool = False


@functools.cache
def _table() -> tuple[Mapping[str, _Launcher], Mapping[str, Any]]:
    data: dict[str, Any] = load_data("pitstop.runners", "one_node.yaml")
    found: dict[str, _Launcher] = {}
    for name, raw in data["launchers"].items():
        if "like" in raw:
            found[name] = found[raw["like"]]
            continue
        found[name] = _Launcher(
            frozenset(raw.get("valued", ())),
            frozenset(raw.get("switches", ())),
            tuple(raw.get("set", ())),
            tuple(raw.get("unset", ())),
            raw.get("environment", {}),
            bool(raw.get("after_entry", False)),
        )
    return found, data


def scheduler_variable(name: str) -> bool:
    """Whether a variable of the environment would make a job believe in another allocation."""
    return re.search(_table()[1]["scheduler"], name) is not None


def free_port() -> int:
    """A port that nothing listens on now; somebody may still take it before the job does."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def on_one_node(text: str, gpus: int | None, port: int | None = None) -> Rewritten:
    """The typed command `text` for one machine with so many GPUs (None, on the CPU, and -1, all
    of them: as many processes are started as were asked for).

    A command of one node only gets a port of its own, where its launcher has one to set. Raises
    UserError for a command that cannot be brought to one node.
    """
    launch = parse_command(text)
    port = port or free_port()
    if launch.multi_node is MultiNode.SINGLE:
        return _with_port(text, launch, port)
    if not launch.words or take_apart(launch.words, len(launch.words)) is None:
        raise UserError(f"{text!r}: the command on each node cannot be found in it")
    known = gpus if gpus is not None and gpus > 0 else None
    wanted = launch.processes or known or 1
    return _downgraded(launch, wanted if known is None else min(wanted, known), port)


def _downgraded(launch: LaunchCommand, processes: int, port: int) -> Rewritten:
    table, data = _table()
    words = [word.text for word in launch.words]
    env = _prefixes(launch)
    values = {
        "L": str(processes),
        "P": str(port),
        "GPUS": ",".join(str(index) for index in range(processes)),
    }
    changes: list[tuple[str, str]] = []
    words = _without_fan_out(launch, words, data["dropped"], changes)
    for name in launch.launchers:
        row = table.get(name)
        if row is None:
            continue
        words = _one_launcher(name, row, words, launch, values, changes)
        for variable in row.unset:
            if env.pop(variable, None) is not None:
                changes.append((variable, "names other nodes"))
        for variable, value in row.environment.items():
            env[variable] = value.format(**values)
            changes.append((f"{variable}={env[variable]}", "processes of this machine"))
    words = _program_options(words, data["program"], values, changes)
    return Rewritten(
        _joined(env, words), tuple(changes), processes, launch.nodes, launch.multi_node
    )


def _without_fan_out(
    launch: LaunchCommand,
    words: list[str],
    dropped: Sequence[str],
    changes: list[tuple[str, str]],
) -> list[str]:
    """The command as each node runs it: wrappers before the first real launcher go."""
    outer = [name for name in launch.launchers if name in dropped]
    if not outer:
        return words
    inner = next((n for n in launch.launchers if n not in dropped), None)
    if inner is None:
        raise UserError("the wrapper starts no program that is known")
    at = _position(inner, words, launch)
    changes.append((" ".join(words[:at]), "starts the job on other nodes"))
    return words[at:]


def _position(inner: str, words: list[str], launch: LaunchCommand) -> int:
    """Where the innermost launcher's own name stands."""
    for index, word in enumerate(words):
        name = word.rsplit("/", 1)[-1]
        if name == inner or (inner == "python" and re.fullmatch(r"python[\d.]*", name)):
            return index
        if name.startswith("python") and words[index + 1 : index + 2] == ["-m"]:
            return index
    entry = launch.entry or ""
    return words.index(entry) if entry in words else 0


def _one_launcher(
    name: str,
    row: _Launcher,
    words: list[str],
    launch: LaunchCommand,
    values: Mapping[str, str],
    changes: list[tuple[str, str]],
) -> list[str]:
    """Take options out of a launcher's part of the command, and put those of one node in."""
    entry = launch.entry or ""
    end = len(words)
    if not row.after_entry and entry in words:
        end = words.index(entry)
    kept: list[str] = []
    gone: list[str] = []
    at = first = 0
    while at < len(words):
        word = words[at]
        option = option_name(word) if word.startswith("-") else ""
        if at < end and option in row.valued:
            width = 1 if "=" in word else 2
            gone.append(" ".join(words[at : at + width]))
            first = first or len(kept)
            at += width
            continue
        if at < end and option in row.switches:
            gone.append(word)
            first = first or len(kept)
        else:
            kept.append(word)
        at += 1
    new = [word.format(**values) for word in row.set]
    place = first or _after_name(name, kept)
    changes += [(word, "belongs to several nodes") for word in gone if word not in new]
    changes += [(word, "one node, a free port") for word in new if word not in gone]
    return [*kept[:place], *new, *kept[place:]]


def _after_name(name: str, words: list[str]) -> int:
    """The place behind a launcher's own words: `accelerate launch`, `python -m ...`."""
    for index, word in enumerate(words):
        if word.rsplit("/", 1)[-1] == name:
            return index + (2 if words[index + 1 : index + 2] == ["launch"] else 1)
        if word == "-m":
            return index + 2
    return 1


def _program_options(
    words: list[str],
    rows: Sequence[Mapping[str, Any]],
    values: Mapping[str, str],
    changes: list[tuple[str, str]],
) -> list[str]:
    """Options of the program that repeat the number of nodes."""
    out = list(words)
    for index, word in enumerate(words):
        head, equals, tail = word.partition("=")
        for row in rows:
            if option_name(head) not in row["names"] or not (equals or head.startswith("-")):
                continue
            old = tail if equals else (words[index + 1] if index + 1 < len(words) else "")
            new = str(row["value"]).format(**values)
            if not old.isdigit() or (row.get("most") and int(old) <= int(new)) or old == new:
                continue
            out[index + (0 if equals else 1)] = f"{head}={new}" if equals else new
            changes.append((f"{head} {old} -> {new}", "the program's own count of nodes"))
    return out


def _with_port(text: str, launch: LaunchCommand, port: int) -> Rewritten:
    """A launch of one node whose written port is replaced: it is the likeliest to be taken."""
    words = [word.text for word in launch.words]
    env = _prefixes(launch)
    changes: list[tuple[str, str]] = []
    names = {"master-port", "main-process-port"}
    for index, word in enumerate(words):
        if not word.startswith("-") or option_name(word) not in names:
            continue
        head, equals, _ = word.partition("=")
        if equals:
            words[index] = f"{head}={port}"
        elif index + 1 < len(words):
            words[index + 1] = str(port)
        changes.append((f"{head} {port}", "a port that is free now"))
    if "MASTER_PORT" in env:
        env["MASTER_PORT"] = str(port)
        changes.append((f"MASTER_PORT={port}", "a port that is free now"))
    command = _joined(env, words) if changes else text.strip()
    return Rewritten(command, tuple(changes), launch.processes, launch.nodes, MultiNode.SINGLE)


def _prefixes(launch: LaunchCommand) -> dict[str, str]:
    """The assignments before the command (those that a wrapper hands down stand in its words)."""
    start = launch.words[0].location.span.start
    return {n: w.text for n, w in launch.env.items() if w.location.span.start < start}


def _joined(env: Mapping[str, str], words: Sequence[str]) -> str:
    assignments = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    return " ".join([*assignments, *(shlex.quote(word) for word in words)])
