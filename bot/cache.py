"""What an audit of a folder printed, kept until something that it read is another.

An entry belongs to a program, its options and a list of paths, and names the content of every
file that the audit read. If all of that is as it was, so is the answer, and it is printed again;
times of files are never trusted. Entries are written whole or not at all, so that runs may share
the folder; one that is damaged is as good as none, and so is a folder that cannot be written.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pitstop.rules.tree import MAX_FILE_BYTES, RepoTree, SourceFile, UnreadableError

FORMAT = 1
MOST_ENTRIES = 40
MOST_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class Printed:
    """The words of an audit, and its exit code."""

    text: str
    code: int


class ReadingTree:
    """A folder's tree that remembers what each file was when it was asked for."""

    def __init__(self, tree: RepoTree, root: Path) -> None:
        self._tree = tree
        self._root = root
        self.states: dict[str, str] = {}
        self.paths = tree.paths
        self.unread = tree.unread

    def read(self, path: str) -> SourceFile:
        """The file's text. Raises UnreadableError."""
        try:
            file = self._tree.read(path)
        except UnreadableError:
            self.states.setdefault(path, _state(self._root, path))
            raise
        if path not in self.states:  # text and bytes are one to the other (see `decode`)
            self.states[path] = _digest(file.text.encode("utf-8", "surrogateescape"))
        return file


def folder_of(environ: Mapping[str, str]) -> Path:
    """Where entries lie: below XDG_CACHE_HOME, or ~/.cache."""
    base = environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "pitstop"


def program() -> str:
    """The program at hand, its rules and data with it: other files, another program."""
    root = Path(__file__).resolve().parents[1]
    parts = []
    for name in ("bot", "rules", "transforms"):
        for folder, folders, files in os.walk(root / name):
            folders[:] = sorted(one for one in folders if one != "__pycache__")
            for file in sorted(files):
                found = os.stat(os.path.join(folder, file))  # noqa: PTH116, PTH118 - many files
                parts.append(f"{folder}/{file} {found.st_size} {found.st_mtime_ns}")
    return _digest("\n".join(parts).encode())


def key_of(tree: RepoTree, *facts: object) -> str:
    """The name of the entry for a tree's paths and whatever else decides."""
    said = json.dumps([FORMAT, program(), *facts], default=str, sort_keys=True)
    listed = "\n".join(tree.paths).encode("utf-8", "surrogateescape")
    unread = repr(tree.unread).encode("utf-8", "surrogateescape")
    return _digest(said.encode("utf-8", "surrogatepass") + b"\0" + listed + b"\0" + unread)


def find(folder: Path, key: str, root: Path) -> Printed | None:
    """What was printed for this key, if every file that was read then is as it was."""
    try:
        data = json.loads((folder / f"{key}.json").read_bytes())
        read, text, code = data["read"], data["text"], data["code"]
        if not isinstance(text, str) or type(code) is not int:
            return None
        if any(_state(root, path) != state for path, state in read.items()):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Printed(text, code)


def keep(folder: Path, key: str, states: Mapping[str, str], printed: Printed) -> None:
    """Keep what was printed. Nothing happens where it cannot be written."""
    data = {"read": dict(states), "text": printed.text, "code": printed.code}
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".new", delete=False) as file:
            file.write(json.dumps(data).encode("utf-8", "surrogatepass"))
        Path(file.name).replace(folder / f"{key}.json")
        _prune(folder)
    except (OSError, ValueError):
        return


def _prune(folder: Path) -> None:
    """The newest entries stay, within what all together may take."""
    room = MOST_BYTES
    files = sorted(folder.glob("*.json"), key=lambda one: -one.stat().st_mtime_ns)
    for number, file in enumerate(files):
        room -= file.stat().st_size
        if number >= MOST_ENTRIES or (room < 0 and number):
            file.unlink(missing_ok=True)


def _state(root: Path, path: str) -> str:
    """What a file's content is, in a word. No audit reads what is larger than its limit."""
    try:
        handle = os.open(f"{root}/{path}", os.O_RDONLY | os.O_NONBLOCK)
        try:
            size = os.fstat(handle).st_size
            if size > MAX_FILE_BYTES:
                return f"large {size}"
            return _digest(_all(handle, size))
        finally:
            os.close(handle)
    except OSError as error:
        return f"error {error.errno}"


def _all(handle: int, size: int) -> bytes:
    data = os.read(handle, size + 1)
    if len(data) == size:
        return data
    parts = [data]
    while part := os.read(handle, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=20).hexdigest()
