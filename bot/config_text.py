"""The text of a configuration file as plain data with line numbers, and its faults in words."""

from __future__ import annotations

import difflib
import typing
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MAX_CHARACTERS = 100_000
MAX_NODES = 10_000
MAX_DEPTH = 20
MAX_NAMED = 40

Path = tuple[int | str, ...]


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault, at a line from 1."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """`data` is plain Python; `lines` has the line of every key and item by its path."""

    data: typing.Any = None
    lines: Mapping[Path, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def line(self, path: Path) -> int:
        """The line of a path, or of the nearest thing around it that is written."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """The end of a sentence about an unknown word."""
    near = difflib.get_close_matches(word, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    if not known:
        return "it takes no keys"
    return f"known are {', '.join(known)}" if len(known) < MAX_NAMED else "nothing like it is known"


def read(text: str) -> Document:
    """YAML to data. Never raises: what is wrong with the text stands in `problems`."""
    import ruamel.yaml
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if len(text) > MAX_CHARACTERS:
        return Document(problems=(Problem(1, f"longer than {MAX_CHARACTERS:,} characters"),))
    loader = ruamel.yaml.YAML(typ="safe", pure=True)
    try:
        with warnings.catch_warnings():  # a second anchor of one name is no matter for stderr
            warnings.simplefilter("ignore")
            node = loader.compose(text.removeprefix("\ufeff"))
        return _Reader(loader).document(node)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        return Document(problems=(Problem(line, f"not YAML: {error.problem or error.context}"),))
    except (YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())
        return Document(problems=(Problem(1, f"not YAML: {reason}"),))
    except RecursionError:
        return Document(problems=(Problem(1, f"nested deeper than {MAX_DEPTH} levels"),))


class _Reader:
    """Walks composed nodes once, within limits, so that aliases cannot multiply."""

    def __init__(self, loader: typing.Any) -> None:
        self._construct = loader.constructor.construct_object
        self._lines: dict[Path, int] = {}
        self._problems: list[Problem] = []
        self._nodes = 0

    def document(self, node: typing.Any) -> Document:
        if node is None:
            return Document(data={})
        data = self._read(node, ())
        if not self._problems and not isinstance(data, dict):
            self._problems.append(Problem(1, "must be a mapping of keys to values"))
        return Document(data, self._lines, tuple(self._problems))

    def _read(self, node: typing.Any, path: Path) -> typing.Any:
        self._nodes += 1
        line = node.start_mark.line + 1
        if self._nodes > MAX_NODES:
            if self._nodes == MAX_NODES + 1:
                self._problems.append(Problem(line, "aliases expand to too many values"))
            return None
        if len(path) > MAX_DEPTH:
            self._problems.append(Problem(line, f"nested deeper than {MAX_DEPTH} levels"))
            return None
        self._lines.setdefault(path, line)
        if node.id == "mapping":
            return self._mapping(node, path)
        if node.id == "sequence":
            return [self._read(item, (*path, i)) for i, item in enumerate(node.value)]
        return self._construct(node)

    def _mapping(self, node: typing.Any, path: Path) -> dict[str, typing.Any]:
        found: dict[str, typing.Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.id != "scalar":
                self._problems.append(Problem(line, "a key must be a single word"))
                continue
            key = str(key_node.value)
            if key in found:
                self._problems.append(Problem(line, f"{key!r} is set twice"))
            self._lines[(*path, key)] = line
            found[key] = self._read(value_node, (*path, key))
        return found
