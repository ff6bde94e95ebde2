"""Proof of an edit to commands: the scripts are read again, and every word, variable and
generated file must be as before but for the intended flag or variable."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pitstop.rules.finding import Location
from pitstop.rules.job import Word
from pitstop.rules.shell import Command, Heredoc, Script, read_script
from pitstop.rules.sources import Sources
from pitstop.rules.tree import RepoTree, SourceFile, UnreadableError
from pitstop.transforms.edited_tree import EditedTree
from pitstop.transforms.patch import Changed, Edit, Outcome, Patch, Refused

_HARMLESS = frozenset({"echo", "printf", "mkdir", "tee", "logger", ":"})
"""Commands that may show a changed value without starting anything with it."""


@dataclass(frozen=True)
class Commands:
    """The commands of some files of a tree: shell scripts and job files. `sources` are those of
    the tree, where it has been read before."""

    tree: RepoTree
    paths: tuple[str, ...]
    sources: Sources | None = None

    def read(self, edits: tuple[Edit, ...] = ()) -> tuple[Script, ...]:
        """What the files say after the edits. Raises UnreadableError."""
        return _read(EditedTree(self.tree, edits), self.paths) if edits else self.unedited

    @functools.cached_property
    def unedited(self) -> tuple[Script, ...]:
        """What the files say now. Raises UnreadableError."""
        return _read(self.tree, self.paths, self.sources)


def _read(
    tree: RepoTree, paths: Iterable[str], before: Sources | None = None
) -> tuple[Script, ...]:
    found = (_known(path, before) or scripts(tree.read(path), tree) for path in paths)
    return tuple(script for inside in found for script in inside)


def _known(path: str, sources: Sources | None) -> tuple[Script, ...]:
    """What `scripts` has made of a file before, if it has."""
    if sources is None:
        return ()
    if _is_shell(path):
        return (sources.scripts[path],) if path in sources.scripts else ()
    return sources.jobfiles.get(path, ())


def _is_shell(path: str) -> bool:
    return path.endswith((".sh", ".bash"))


def scripts(file: SourceFile, tree: RepoTree) -> tuple[Script, ...]:
    """A shell script as one, a job file as the scripts inside it."""
    if _is_shell(file.path):
        return (read_script(file, tree),)
    from pitstop.rules.jobfiles import read_jobfile

    return read_jobfile(file, tree) or (read_script(file, tree),)


Words = tuple[str, ...]
Explains = Callable[[Words, Words], bool]
"""Says whether a command's words became the second ones by the intended change alone."""


def proved(
    commands: Commands,
    edits: tuple[Edit, ...],
    at: Location,
    *,
    words: Explains | None = None,
    env: tuple[str, str | None] | None = None,
) -> Outcome:
    """The patch, when the command at `at` shows the intended change (`words`, or the variable
    `env` with its new value, None for gone) and nothing else differs."""
    try:
        before, after = commands.read(), commands.read(edits)
    except UnreadableError as error:
        return Refused(f"not readable: {error}")
    old, new = ([c for script in side for c in script.commands] for side in (before, after))
    if len(old) != len(new) or len(before) != len(after):
        return Refused("the change would add or lose a command")
    hit = False
    for command, changed in zip(old, new, strict=True):
        target = command.location.path == at.path and command.location.span == at.span
        reason, done = _compare(command, changed, words, env)
        if reason and not (command.words and command.words[0].text in _HARMLESS):
            return Refused(reason)
        if target and not done:
            return Refused("the change would not reach the command")
        hit = hit or (target and done)
    if not hit:
        return Refused("the command is not found again")
    return _rest(before, after, env) or Changed(Patch(edits))


def proved_file(
    commands: Commands, edits: tuple[Edit, ...], heredoc: Heredoc, text: str
) -> Outcome:
    """The patch, when the file that a script writes becomes `text` and nothing else differs."""
    try:
        before, after = commands.read(), commands.read(edits)
    except UnreadableError as error:
        return Refused(f"not readable: {error}")
    old, new = ([c for script in side for c in script.commands] for side in (before, after))
    if len(old) != len(new) or len(before) != len(after):
        return Refused("the change would add or lose a command")
    for command, changed in zip(old, new, strict=True):
        reason, _ = _compare(command, changed, None, None)
        if reason:
            return Refused(reason)
    return _rest(before, after, None, (heredoc, text)) or Changed(Patch(edits))


def _compare(
    old: Command, new: Command, words: Explains | None, env: tuple[str, str | None] | None
) -> tuple[str | None, bool]:
    """Why a command must not differ like that, and whether it shows the intended change."""
    before, after = texts(old.words), texts(new.words)
    done = False
    if before != after:
        if words is None or not words(before, after):
            return f"the change would also change the command at {old.location}", False
        done = True
    if (texts(old.outer), old.condition) != (texts(new.outer), new.condition):
        return f"the change would also change what surrounds the command at {old.location}", False
    had, has = environment(old.env), environment(new.env)
    if env is not None:
        name, value = env
        done = has.get(name) == value and had.get(name) != value
        if done:
            had.pop(name, None)
            has.pop(name, None)
    if had != has:
        return f"the change would also change a variable of the command at {old.location}", False
    return None, done


def _rest(
    before: tuple[Script, ...],
    after: tuple[Script, ...],
    env: tuple[str, str | None] | None,
    rewritten: tuple[Heredoc, str] | None = None,
) -> Refused | None:
    """Files written, scheduler lines, what is unread or broken: all as before."""
    for old, new in zip(before, after, strict=True):
        wanted = [_wanted(heredoc, rewritten) for heredoc in old.heredocs]
        if wanted != [heredoc.text for heredoc in new.heredocs]:
            return Refused("the change would also change a file that the script writes")
        if environment(old.headers) != environment(new.headers):
            return Refused("the change would also change a scheduler line")
        if len(old.unread) != len(new.unread):
            return Refused("the script would be read differently")
        if len(old.broken_continuations) < len(new.broken_continuations):
            return Refused("the change would break a line continuation")
        had, has = environment(old.env), environment(new.env)
        if env:
            had.pop(env[0], None)
            has.pop(env[0], None)
        if had != has:
            return Refused("the change would also change an exported variable")
    return None


def _wanted(heredoc: Heredoc, rewritten: tuple[Heredoc, str] | None) -> str:
    """The text that a written file must have afterwards."""
    if rewritten is not None and heredoc.location == rewritten[0].location:
        return rewritten[1]
    return heredoc.text


def texts(words: Iterable[Word]) -> Words:
    """Words as the shell would pass them, what is unknown marked as such."""
    return tuple(w.text if w.known else f"\0{w.text}" for w in words)


def environment(env: Mapping[str, Word]) -> dict[str, str]:
    """Variables with their texts, what is unknown marked as such."""
    return dict(zip(env, texts(env.values()), strict=True))


def is_flag(text: str) -> bool:
    """True for `-x` and `--long`, not for a negative number."""
    return bool(re.match(r"--?[A-Za-z]", text))
