"""Commands of Kubernetes objects (Volcano, Kubeflow and Ray too), Compose and SkyPilot files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pitstop.rules.configs import ConfigFile, Entry, Path
from pitstop.rules.jobfile_yaml import (
    decoded,
    environment,
    headers,
    joined_lines,
    mapped,
    named_list,
    scalar_field,
    scalar_text,
    strings,
)
from pitstop.rules.shell import Script
from pitstop.rules.shell_reader import read_text, read_words
from pitstop.rules.shell_text import ShellText
from pitstop.rules.shell_values import Binding, Scope
from pitstop.rules.tree import RepoTree, SourceFile

_GPUS = ("nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910")


def read_kubernetes(file: SourceFile, config: ConfigFile, tree: RepoTree) -> Iterator[Script]:
    """Each container's command, and the entrypoint of a RayJob."""
    for document, path in _containers(config):
        command = strings(config.get(*path, "command", document=document))
        args = strings(config.get(*path, "args", document=document))
        env = environment(file, named_list(config, *path, "env", document=document))
        found = _words(file, (*command, *args), env, tree)
        yield replace(found, headers=headers(file, _requests(config, path, document)))
    for document in range(config.documents):
        entry = config.get("spec", "entrypoint", document=document)
        if entry is not None:
            text = scalar_text(file, entry)
            yield read_text(text, tree, Scope(text, file.path))


def _containers(config: ConfigFile) -> Iterator[tuple[int, Path]]:
    """Places that have a command (or arguments) and an image."""
    seen: set[tuple[int, Path]] = set()
    for entry in config.entries:
        place = (entry.document, entry.path[:-1])
        if entry.path[-1] not in ("command", "args") or place in seen:
            continue
        if config.get(*entry.path[:-1], "image", document=entry.document) is not None:
            seen.add(place)
            yield place


def _requests(config: ConfigFile, path: Path, document: int) -> dict[str, Entry | None]:
    """GPUs per container, and the replicas of the nearest object around it."""
    found: dict[str, Entry | None] = {}
    for kind in ("limits", "requests"):
        for name in _GPUS:
            entry = config.get(*path, "resources", kind, name, document=document)
            found["gpus"] = found.get("gpus") or entry
    for length in range(len(path), -1, -1):
        entry = config.get(*path[:length], "replicas", document=document)
        if entry is not None:
            found["replicas"] = entry
            break
    return found


def _words(
    file: SourceFile, entries: tuple[Entry, ...], env: dict[str, Binding], tree: RepoTree
) -> Script:
    """A command given as a list of words."""
    if not entries:
        return Script(file.path)
    first, last = entries[0].value_at.span.start, entries[-1].value_at.span.end
    home = ShellText.of_file(file).slice(first, max(first, last))
    scope = Scope(home, file.path, env)
    return read_words(home, tuple(scalar_field(file, e) for e in entries), tree, scope)


def read_compose(file: SourceFile, config: ConfigFile, tree: RepoTree) -> Iterator[Script]:
    """Each service's entrypoint and command."""
    for service in config.keys("services"):
        path = ("services", service)
        entries = [config.get(*path, key) for key in ("entrypoint", "command")]
        env = environment(file, mapped(config, *path, "environment"))
        written = [e for e in entries if e is not None and e.value]
        if any(e.items for e in written):
            yield _words(file, tuple(s for e in written for s in strings(e)), env, tree)
        elif written:
            text = scalar_text(file, written[-1])
            yield read_text(text, tree, Scope(text, file.path, env))


def read_skypilot(file: SourceFile, config: ConfigFile, tree: RepoTree) -> Iterator[Script]:
    """The `run` part of each task; it runs on every node."""
    for document in range(config.documents):
        run = config.get("run", document=document)
        if run is None or not isinstance(run.value, str):
            continue
        text = joined_lines(file, strings(run))
        if text is None:
            continue
        nodes = config.get("num_nodes", document=document)
        accelerators = config.get("resources", "accelerators", document=document)
        scope = Scope(text, file.path)
        for key in ("envs", "env"):
            scope.variables.update(environment(file, mapped(config, key, document=document)))
        scope.variables.update(_skypilot_variables(file, nodes, accelerators))
        asked = headers(file, {"nodes": nodes, "accelerators": accelerators})
        yield replace(read_text(text, tree, scope), headers=asked)


def _skypilot_variables(
    file: SourceFile, nodes: Entry | None, accelerators: Entry | None
) -> dict[str, Binding]:
    """What SkyPilot sets to the numbers that the task asks for."""
    out: dict[str, Binding] = {}
    if nodes is not None:
        out["SKYPILOT_NUM_NODES"] = Binding((scalar_field(file, nodes),), exported=True)
    if accelerators is not None and not accelerators.items:
        name, separator, count = decoded(accelerators).rpartition(":")
        if separator and count.isdigit():
            whole = scalar_field(file, accelerators)[0]
            part = whole.cut(len(name) + 1, len(whole.text))
            out["SKYPILOT_NUM_GPUS_PER_NODE"] = Binding(((part,),), exported=True)
    return out
