"""The Python files that a program runs: its entry and what it imports from the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pitstop.rules.job import LaunchCommand
from pitstop.rules.pysource import PyModule
from pitstop.rules.scope import Scope
from pitstop.rules.sources import Sources, folder_of

MAX_MODULES = 60
"""More are a library, not a program."""

_TORCH = ("torch", "transformers", "trl", "accelerate", "lightning", "deepspeed", "diffusers")
_OTHER_ACTION = re.compile(
    r"(^|[/_\-.])(eval\w*|infer\w*|predict\w*|test\w*|demo|serve\w*|server|export|convert\w*|generate"
    r"|sample|download\w*|prepare\w*|preprocess\w*|plot\w*|visuali[sz]e\w*|merge\w*|upload|app|gradio"
    r"|webui|benchmark\w*|bench)(?=[_\-.]|$)",
    re.IGNORECASE,
)


def entry_path(sources: Sources, launch: LaunchCommand, folders: tuple[str, ...]) -> str | None:
    """The file of a launch's entry: a script path, or a module after -m."""
    entry = launch.entry
    if not entry:
        return None
    if entry.endswith(".py"):
        return sources.resolve(entry, *folders)
    if launch.module and re.fullmatch(r"[A-Za-z_][\w.]*", entry):
        return _module_path(sources, entry.split("."), (*folders, "src"), whole=True)
    return None


def program_modules(sources: Sources, entry: str, scope: Scope) -> tuple[PyModule, ...]:
    """The entry and the repository's modules it imports, directly or not, entry first; without a
    framework's own source, tests and copies."""
    first = sources.module(entry)
    if first is None:
        return ()
    found = {entry: first}
    queue = [first]
    while queue and len(found) < MAX_MODULES:
        module = queue.pop(0)
        for path in imported_paths(sources, module, folder_of(entry)):
            if path in found or not scope.audits_code(path):
                continue
            if not sources.mentions(path, _TORCH):
                continue
            imported = sources.module(path)
            if imported is not None:
                found[path] = imported
                queue.append(imported)
    return tuple(found.values())


def imported_paths(sources: Sources, module: PyModule, entry_folder: str) -> Iterator[str]:
    """The repository's files that a module imports."""
    folders = tuple(dict.fromkeys((entry_folder, folder_of(module.path), "", "src")))
    names = dict.fromkeys((*module.imports.values(), *module.star_imports))
    for name in names:
        path = _module_path(sources, name.split("."), folders, whole=False)
        if path is not None and path != module.path:
            yield path


def _module_path(
    sources: Sources, parts: list[str], folders: tuple[str, ...], *, whole: bool
) -> str | None:
    """The file of a dotted name; unless `whole`, trailing parts may be names inside it."""
    for folder in folders:
        prefix = f"{folder}/" if folder else ""
        last = len(parts) - 1 if whole else 0
        for end in range(len(parts), last, -1):
            base = prefix + "/".join(parts[:end])
            started = (f"{base}/__main__.py",) if whole else ()
            for path in (f"{base}.py", *started, f"{base}/__init__.py"):
                if path in sources.paths:
                    return path
    return None


def may_start(sources: Sources, path: str) -> bool:
    """A cheap test before parsing: a program that could train."""
    file = sources.file(path)
    if file is None or not any(word in file.text for word in _TORCH):
        return False
    return "train" in file.text.lower() or "backward" in file.text


def starts_training(module: PyModule, modules: tuple[PyModule, ...]) -> bool:
    """True for a file that is run by itself and trains: a main guard, or training outside every
    function; in this file or in what it imports, unless its name says that it does something
    else."""
    if not _runs(module):
        return False
    if module.trains:
        return True
    if _OTHER_ACTION.search(module.path.rpartition("/")[2]):
        return False
    calls_train = any("train" in c.name.lower() or c.name.endswith(".fit") for c in module.calls)
    return calls_train and any(m.trains for m in modules)


def _runs(module: PyModule) -> bool:
    if "__main__" in module.file.text:
        return True
    loops = (loop.node for loop in module.train_loops)
    trainers = (c.node for c in module.calls if c.name.endswith((".train", ".fit")))
    return any(module.enclosing_function(node) is None for node in (*loops, *trainers))


def does_something_else(entry: str) -> bool:
    """True for a program whose name says that it does not train (evaluate, export, serve)."""
    return _OTHER_ACTION.search(entry.rpartition("/")[2]) is not None
