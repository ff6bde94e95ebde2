"""The Python files that a program runs: its entry and what it imports from the repository."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar, cast

from pitstop.rules.frameworks import frameworks, matches
from pitstop.rules.job import LaunchCommand
from pitstop.rules.pysource import Call, PyModule
from pitstop.rules.scope import Scope
from pitstop.rules.sources import Sources, folder_of
from pitstop.rules.understood import Understood, Use

_T = TypeVar("_T")

MAX_MODULES = 60
"""More are a library, not a program."""

_TORCH = ("torch", "transformers", "trl", "accelerate", "lightning", "deepspeed", "diffusers")
_TRAINING = ("backward", "train", "Train")
_STEPS = ("backward(", ".step(", "Trainer(", ".fit(", "training_step", ".train(")
_TOP_LEVEL = re.compile(r"^(?:for|while|with|if|try)\b|^[^\s#@].*\.(?:train|fit)\(", re.MULTILINE)
"""A statement outside every function that could hold or start a training loop."""
_ENGINES = ("vllm", "sglang")
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


class Program:
    """The modules that a program runs, its entry first. What is asked of all of them is computed
    once, however many launches and frameworks ask."""

    def __init__(self, parts: tuple[Understood, ...] = ()) -> None:
        self.parts = parts
        self.modules = tuple(part.module for part in parts)
        self._mentioned: dict[str, bool] = {}
        self._kept: dict[Hashable, object] = {}

    def once(self, what: Hashable, compute: Callable[[], _T]) -> _T:
        """What is the same for every job that runs the program."""
        if what not in self._kept:
            self._kept[what] = compute()
        return cast(_T, self._kept[what])

    @property
    def entry(self) -> PyModule | None:
        """The file that is started."""
        return self.modules[0] if self.modules else None

    @functools.cached_property
    def trains(self) -> bool:
        """True when one of the modules trains."""
        return any(module.trains for module in self.modules)

    def mentions(self, word: str) -> bool:
        """True when a word stands anywhere in the program's files."""
        if word not in self._mentioned:
            self._mentioned[word] = any(word in module.file.text for module in self.modules)
        return self._mentioned[word]

    def calls_of(self, patterns: Iterable[str]) -> Iterator[Call]:
        """The calls that fit one of the patterns of frameworks' files, in the order of the files
        and their texts."""
        wanted = self._called.keys() & set(patterns)
        for part in self.parts if wanted else ():
            yield from part.calls_of(wanted)

    def uses(self, patterns: Iterable[str]) -> Use | None:
        """The first call, else the first base class, that fits one of the patterns."""
        for firsts in (self._called, self._extended):
            found = [firsts[pattern] for pattern in patterns if pattern in firsts]
            if found:
                return min(found, key=lambda pair: (pair[0], pair[1].order))[1]
        return None

    def makes(self, patterns: Iterable[str]) -> bool:
        """Whether a call fits one of the patterns."""
        return any(pattern in self._called for pattern in patterns)

    @functools.cached_property
    def _called(self) -> Mapping[str, tuple[int, Use]]:
        return _firsts(part.first_calls for part in self.parts)

    @functools.cached_property
    def _extended(self) -> Mapping[str, tuple[int, Use]]:
        return _firsts(part.first_bases for part in self.parts)


def _firsts(parts: Iterable[Mapping[str, Use]]) -> Mapping[str, tuple[int, Use]]:
    """Pattern to the first of its uses, with the number of the part."""
    found: dict[str, tuple[int, Use]] = {}
    for number, uses in enumerate(parts):
        for pattern, use in uses.items():
            found.setdefault(pattern, (number, use))
    return found


def program_of(sources: Sources, entry: str, scope: Scope) -> Program:
    """The program that starts at a file, read once."""
    if entry not in sources.programs:
        modules = _modules(sources, entry, scope)
        sources.programs[entry] = Program(tuple(map(sources.understood, modules)))
    return sources.programs[entry]


def _modules(sources: Sources, entry: str, scope: Scope) -> tuple[PyModule, ...]:
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
            names = [".py", "/__main__.py", "/__init__.py"] if whole else [".py", "/__init__.py"]
            for name in names:
                if base + name in sources.paths:
                    return base + name
    return None


def may_start(sources: Sources, path: str) -> bool:
    """A cheap test before parsing: a program that could train, or start an engine."""
    file = sources.file(path)
    if file is None:
        return False
    text = file.text
    if any(word in text for word in _ENGINES):
        return True
    if not any(word in text for word in _TORCH):
        return False
    if "__main__" in text:
        return any(word in text for word in _TRAINING)
    return any(word in text for word in _STEPS) and _TOP_LEVEL.search(text) is not None


def starts_training(program: Program) -> bool:
    """True for a file that is run by itself and trains: a main guard, or training outside every
    function; in this file or in what it imports, unless its name says that it does something
    else."""
    module = program.entry
    if module is None or not _runs(module):
        return False
    if module.trains:
        return True
    if _OTHER_ACTION.search(module.path.rpartition("/")[2]):
        return False
    calls_train = any("train" in c.name.lower() or c.name.endswith(".fit") for c in module.calls)
    return calls_train and program.trains


def _runs(module: PyModule) -> bool:
    if "__main__" in module.file.text:
        return True
    loops = (loop.node for loop in module.train_loops)
    trainers = (c.node for c in module.calls if c.name.endswith((".train", ".fit")))
    return any(module.enclosing_function(node) is None for node in (*loops, *trainers))


def starts_engine(program: Program) -> bool:
    """True for a file that starts an inference engine itself."""
    entry = program.entry
    if entry is None or not any(word in entry.file.text for word in _ENGINES):
        return False
    engines = [f for f in frameworks().values() if f.kind == "engine"]
    patterns = tuple(p for f in engines for sign in f.detection.strong for p in sign.calls)
    return any(matches(call.name, patterns) for call in entry.calls)


def does_something_else(entry: str) -> bool:
    """True for a program whose name says that it does not train (evaluate, export, serve)."""
    return _OTHER_ACTION.search(entry.rpartition("/")[2]) is not None
