"""One reading of a script: what was found so far, which limits are left, which files belong."""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pitstop.rules.finding import Location, Unread
from pitstop.rules.job import Word
from pitstop.rules.shell import Command, Heredoc, Script
from pitstop.rules.shell_headers import SLURM_VARIABLES, read_headers
from pitstop.rules.shell_lexer import ExhaustedError
from pitstop.rules.shell_text import ShellText
from pitstop.rules.shell_values import Binding, Fragment, Scope
from pitstop.rules.tree import RepoTree, SourceFile, UnreadableError, normalise

MAX_STATEMENTS = 20_000
MAX_COMMANDS = 5_000
MAX_NESTING = 40
"""Statements, functions, scripts and substitutions inside each other."""
MAX_FOLLOWED = 60
_MAX_UNREAD = 50

_LEADING_VARIABLE = re.compile(r"^(?:\$\{?\w+\}?|\$\([^)]*\))/+")


@dataclass(frozen=True, slots=True)
class Flow:
    """Where a statement stands: its scope, the conditions around it, the commands that start it
    from outside."""

    scope: Scope
    condition: str | None = None
    outer: tuple[Word, ...] = ()


@dataclass(slots=True)
class Session:
    """Collects the results of one `read_script`; every limit is counted here."""

    tree: RepoTree
    commands: list[Command] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    broken: dict[Location, None] = field(default_factory=dict)
    heredocs: dict[Location, Heredoc] = field(default_factory=dict)
    followed: dict[str, None] = field(default_factory=dict)
    headers: dict[str, Word] = field(default_factory=dict)
    env_words: dict[int, tuple[Binding, Word]] = field(default_factory=dict)
    work: int = 0
    _statements: int = 0
    _nesting: int = 0
    _active: list[object] = field(default_factory=list)
    _folders: frozenset[str] | None = None
    _files: frozenset[str] | None = None

    def count_statement(self) -> None:
        """Raises ExhaustedError when a script has, or runs, too many statements."""
        self._statements += 1
        if self._statements > MAX_STATEMENTS:
            raise ExhaustedError(f"more than {MAX_STATEMENTS} statements")

    def add(self, command: Command) -> None:
        """Keep a command; raises ExhaustedError when there are too many."""
        if len(self.commands) >= MAX_COMMANDS:
            raise ExhaustedError(f"more than {MAX_COMMANDS} commands")
        self.commands.append(command)

    def note_unread(self, text: ShellText, at: int, reason: str) -> None:
        """Report something that was not understood."""
        where, _ = text.place(at, at)
        entry = Unread(where.path, reason, where.line)
        if entry not in self.unread and len(self.unread) < _MAX_UNREAD:
            self.unread.append(entry)

    def enter(self, what: object) -> bool:
        """Go one level deeper; False when it is too deep, or when `what` (a script, a function)
        is already being read."""
        if self.full or (what is not None and what in self._active):
            return False
        self._nesting += 1
        self._active.append(what)
        return True

    @property
    def full(self) -> bool:
        """True when nothing more may nest."""
        return self._nesting >= MAX_NESTING

    def leave(self) -> None:
        """Undo `enter`."""
        self._nesting -= 1
        self._active.pop()

    def take_headers(self, text: ShellText, scope: Scope) -> None:
        """Read the scheduler's headers of a text; they decide what SLURM_* hold in it."""
        found = read_headers(text)
        for name, word in found.items():
            self.headers.setdefault(name, word)
        for variable, name in SLURM_VARIABLES.items():
            if name in found and variable not in scope.variables:
                at = found[name].location.span
                source = ShellText.of_file(SourceFile(text.path, text.home[0].text))
                value = Fragment(found[name].text, source, at.start, at.end, found[name].exact)
                scope.variables[variable] = Binding(((value,),), exported=True)

    # --- files ---------------------------------------------------------------------------

    def open(self, path: str) -> SourceFile | None:
        """A script to follow; None when there are too many or it cannot be read."""
        if len(self.followed) >= MAX_FOLLOWED and path not in self.followed:
            return None
        try:
            file = self.tree.read(path)
        except UnreadableError:
            return None
        self.followed[path] = None
        return file

    def find_file(self, written: str, scope: Scope) -> str | None:
        """The file in the tree that a path in a script means, or None."""
        return next((p for p in self._candidates(written, scope) if p in self.files), None)

    def find_folder(self, written: str, scope: Scope) -> str | None:
        """The folder in the tree that `cd` leads to, or None."""
        return next((p for p in self._candidates(written, scope) if p in self.folders), None)

    def _candidates(self, written: str, scope: Scope) -> Iterator[str]:
        """A script may be started from the root, from its own folder or any in between."""
        rest = _LEADING_VARIABLE.sub("", written)
        here = posixpath.dirname(scope.source.path)
        bases = [scope.cwd, "", here]
        while here:
            here = posixpath.dirname(here)
            bases.append(here)
        if rest.startswith(("/", "~", "$")):
            return
        for base in bases:
            found = normalise(posixpath.join(base, rest))
            if found is not None:
                yield found
        if rest != written:
            ends = [p for p in self.files if p.endswith("/" + rest.removeprefix("./"))]
            if len(ends) == 1:
                yield ends[0]

    @property
    def files(self) -> frozenset[str]:
        """All paths of the tree."""
        if self._files is None:
            self._files = frozenset(self.tree.paths)
        return self._files

    @property
    def folders(self) -> frozenset[str]:
        """All folders of the tree; the root is ""."""
        if self._folders is None:
            found = {""}
            for path in self.files:
                while path := posixpath.dirname(path):
                    if path in found:
                        break
                    found.add(path)
            self._folders = frozenset(found)
        return self._folders

    # --- the end -------------------------------------------------------------------------

    def script(self, path: str, env: dict[str, Word]) -> Script:
        """Everything found."""
        return Script(
            path,
            _one_each(self.commands),
            env,
            tuple(self.unread),
            tuple(sorted(self.broken)),
            tuple(sorted(self.followed.keys() - {path})),
            tuple(self.heredocs.values()),
            self.headers,
        )


def _one_each(commands: list[Command]) -> tuple[Command, ...]:
    """Commands of one place, run several times (a function, a followed script), become one; what
    differs between the runs is unknown."""
    groups: dict[tuple[object, ...], list[Command]] = {}
    for command in commands:
        outer = tuple(w.text for w in command.outer)
        key = (command.location, outer, command.words[0].text if command.words else "")
        groups.setdefault(key, []).append(command)
    return tuple(functools.reduce(_merged, group) for group in groups.values())


def _merged(a: Command, b: Command) -> Command:
    words = list(map(_merged_word, a.words, b.words))
    longer = max(a.words, b.words, key=len)
    words += (replace(w, why_unknown="not in every run") for w in longer[len(words) :])
    env = {n: _merged_word(w, b.env[n]) for n, w in a.env.items() if n in b.env}
    condition = a.condition if a.condition == b.condition else None
    return replace(a, words=tuple(words), env=env, condition=condition)


def _merged_word(a: Word, b: Word) -> Word:
    if a.text == b.text or not a.known:
        return a
    return b if not b.known else replace(a, why_unknown=f"{a.text!r} or {b.text!r}, as it is run")
