"""Shell scripts as the commands they run, with every word located where it is written.

Nothing is executed. Variables, arrays, defaults, sourced files and both branches of conditions
are resolved as far as the text alone allows; the rest is marked unknown, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pitstop.rules.finding import Location, Unread
from pitstop.rules.job import Word
from pitstop.rules.tree import RepoTree, SourceFile


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: its words after expansion, in the order the shell passes them.

    `env` holds the exported variables and prefixes (`A=1 cmd`) in force. `condition` is the text
    of the enclosing conditions, joined by `&&`, an else branch as `! (...)`. `outer` are the
    words of the commands that start this one from outside its text: of `srun -N 2 bash -c` for
    what is inside the quotes, or of `srun` for a script it runs. `path` is the file in which
    the command is written, `cwd` the folder it runs in, relative to the tree's root ("" when
    not known or the root).
    """

    words: tuple[Word, ...]
    env: Mapping[str, Word]
    location: Location
    condition: str | None = None
    cwd: str = ""
    path: str = ""
    outer: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Heredoc:
    """A file that a script writes: `cat > target <<EOF`, or `echo '...' > target`.

    `text` is the content after expansion; `pieces` are its parts in order, each with its own
    place, so that a position in `text` can be traced to where it is written.
    """

    target: str
    text: str
    location: Location
    pieces: tuple[Word, ...] = ()

    @property
    def known(self) -> bool:
        """True when no part of the text depends on something that could not be resolved."""
        return all(piece.known for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Script:
    """What one script does, together with the scripts it follows inside the repository.

    `env` is what is exported at its end. `broken_continuations` are places where a comment, an
    empty line or a blank after the backslash ends a command early, so that the flags below it
    are lost. `headers` are scheduler lines and their like, by long name without dashes
    (`#SBATCH -N 2` is nodes).
    """

    path: str
    commands: tuple[Command, ...] = ()
    env: Mapping[str, Word] = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()
    broken_continuations: tuple[Location, ...] = ()
    followed: tuple[str, ...] = ()
    heredocs: tuple[Heredoc, ...] = ()
    headers: Mapping[str, Word] = field(default_factory=dict)


def read_script(file: SourceFile, tree: RepoTree) -> Script:
    """Read one script; never raises for what a person can write: errors stay local (`unread`)."""
    from pitstop.rules.shell_reader import read

    return read(file, tree)
