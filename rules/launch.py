"""From commands to launches: which launchers start which program, on how many GPUs and nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pitstop.rules.finding import Location, UserError
from pitstop.rules.job import LaunchCommand, Word
from pitstop.rules.launch_nodes import counts
from pitstop.rules.launch_program import take_apart
from pitstop.rules.shell import Command, Script
from pitstop.rules.shell_wrappers import SHELLS, command_name
from pitstop.rules.tree import SourceFile

TYPED = "<command>"
"""The path of a command that a person typed: no file of a repository."""
MAX_TYPED = 8_000


def find_launches(script: Script) -> tuple[LaunchCommand, ...]:
    """Every program start of a script, in the order of its commands.

    A start is a launcher, a known training command or a Python program; `python -c`, pip and
    the like are none. Counts come from the words, the exports and the scheduler's headers;
    what a configuration file says (accelerate's --config_file, a hostfile) is left out.
    """
    found = (launch_of(command, script.headers) for command in script.commands)
    return tuple(launch for launch in found if launch is not None)


def launch_of(command: Command, headers: Mapping[str, Word]) -> LaunchCommand | None:
    """The program start that one command is, or None."""
    words = command.outer + command.words
    start = take_apart(words, len(command.outer) if command.path != TYPED else len(words))
    if start is None or not start.stages:
        return None
    env = {**command.env, **start.env}
    found = counts(start.stages, env, headers)
    return LaunchCommand(
        launchers=tuple(s.name for s in start.stages),
        entry=_entry_text(start.entry),
        entry_location=start.entry.location if start.entry else None,
        words=words,
        launcher_args=tuple(w for s in start.stages for w in s.args),
        args=start.args,
        env=env,
        location=command.location,
        processes=found.processes,
        nodes=found.nodes,
        multi_node=found.multi_node,
        cwd=command.cwd,
        module=start.module,
        condition=command.condition,
    )


def _entry_text(entry: Word | None) -> str | None:
    """As written, unless nothing of it is known."""
    if entry is None or (not entry.known and entry.text.startswith("$") and "/" not in entry.text):
        return None
    return entry.text


# --- a command that a person types -----------------------------------------------------------


def parse_command(text: str) -> LaunchCommand:
    """One plain command, with `NAME=value` before it if need be, as given to --launch.

    Raises UserError for anything else: pipes, redirections, substitutions, variables, several
    commands, quotes that never end, or a command that starts no program we know.
    """
    file = SourceFile(TYPED, text)
    env, words = _plain_words(text, file)
    whole = file.location(0, len(text))
    launch = launch_of(Command(words, env, whole, path=TYPED), {})
    if launch is not None:
        return launch
    if command_name(words[0]) in SHELLS and len(words) > 1 and not words[1].text.startswith("-"):
        return _script_start(words, env, whole)
    raise UserError(
        f"{_shown(text)} starts no training program that Pitstop knows; give the command that"
        " starts it, such as `torchrun --nproc_per_node 8 train.py`."
    )


def _script_start(
    words: tuple[Word, ...], env: Mapping[str, Word], whole: Location
) -> LaunchCommand:
    """`bash train.sh args`: what it launches is in the script."""
    return LaunchCommand(
        (command_name(words[0]),),
        words[1].text,
        words[1].location,
        words,
        (),
        words[2:],
        env,
        whole,
    )


def _plain_words(text: str, file: SourceFile) -> tuple[dict[str, Word], tuple[Word, ...]]:
    """Assignments and words of the one command; raises UserError."""
    import bashlex

    if not text.strip():
        raise UserError("The launch command is empty; give one such as `torchrun train.py`.")
    if len(text) > MAX_TYPED:
        raise UserError(f"The launch command is longer than {MAX_TYPED} characters; shorten it.")
    try:
        trees = bashlex.parse(text.strip())
    except Exception as error:  # on odd input the parser raises whatever it trips over
        raise _refusal(text, f"cannot be read as a shell command ({_reason(error)})") from error
    if len(trees) != 1:
        raise _refusal(text, "holds more than one command")
    tree = trees[0]
    if tree.kind != "command":
        raise _refusal(text, _COMPOUND.get(tree.kind, "is not one plain command"))
    env: dict[str, Word] = {}
    words: list[Word] = []
    shift = len(text) - len(text.lstrip())
    for part in tree.parts:
        _check_part(text, part)
        word = Word(part.word, file.location(*(p + shift for p in part.pos)), exact=False)
        cut = word.partition("=") if part.kind == "assignment" else None
        if cut is not None:
            env[cut[0].text] = cut[1]
        else:
            words.append(word)
    if not words:
        raise _refusal(text, "sets variables but starts nothing")
    return env, tuple(words)


_COMPOUND = {
    "pipeline": "holds a pipe or `!`",
    "list": "holds more than one command (`;`, `&&`, `||` or `&`)",
    "compound": "is a compound command",
    "function": "defines a function",
}
_INSIDE = {
    "commandsubstitution": "holds a command substitution",
    "processsubstitution": "holds a process substitution",
    "parameter": "uses a variable, which Pitstop cannot expand; write its value",
}


def _check_part(text: str, part: Any) -> None:
    if part.kind not in ("word", "assignment"):
        what = "a redirection" if part.kind == "redirect" else f"a {part.kind}"
        raise _refusal(text, f"holds {what}")
    for inner in part.parts:
        if inner.kind in _INSIDE:
            raise _refusal(text, _INSIDE[inner.kind])


def _refusal(text: str, reason: str) -> UserError:
    return UserError(
        f"{_shown(text)} {reason}; give one plain command, such as"
        " `NCCL_DEBUG=WARN torchrun --nproc_per_node 8 train.py`."
    )


def _shown(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return f"The launch command `{line if len(line) <= 60 else line[:57] + '...'}`"


def _reason(error: Exception) -> str:
    """The parser's words when it has any for people; it also fails on what it lacks."""
    if type(error).__name__ in ("ParsingError", "MatchedPairError"):
        return str(error).strip().splitlines()[0][:80]
    return "not a plain command"
