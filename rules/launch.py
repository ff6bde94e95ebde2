"""From commands to launches: which launchers start which program, on how many GPUs and nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pitstop.rules.job import LaunchCommand, Word
from pitstop.rules.launch_nodes import Counts, Stage, counts
from pitstop.rules.launchers import (
    DEBUGGERS,
    LAUNCHERS,
    MODULES,
    NOT_PROGRAMS,
    PROGRAM_NAMES,
    PYTHON,
    PYTHON_VALUED,
    PYTHON_VARIABLE,
    SELF_LAUNCHING,
    VERBS,
    has_switch,
    option_name,
)
from pitstop.rules.shell import Command, Script
from pitstop.rules.shell_wrappers import SHELLS, command_name, inner_command

TYPED = "<command>"
"""The path of a command that a person typed: no file of a repository."""
MAX_TYPED = 8_000

_STARTING = frozenset({"srun", "sbatch", "mpirun", "pdsh", "ssh", "ray"})
"""Wrappers that start processes elsewhere or several times, and so count as launchers."""


@dataclass(frozen=True, slots=True)
class _Start:
    """A program start while it is taken apart. `stages` are the launchers, outermost first."""

    stages: tuple[Stage, ...]
    entry: Word | None
    args: tuple[Word, ...]
    module: bool = False
    env: Mapping[str, Word] = field(default_factory=dict)


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
    words = tuple(w for w in command.outer) + command.words
    start = _take_apart(words)
    if start is None or not start.stages:
        return None
    env = {**command.env, **start.env}
    found: Counts = counts(start.stages, env, headers)
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


def _take_apart(words: Sequence[Word]) -> _Start | None:
    """Peel wrappers and launchers off until the program is found."""
    stages: list[Stage] = []
    env: dict[str, Word] = {}
    rest = list(words)
    for _ in range(len(words) + 1):
        if not rest:
            return None
        name = PROGRAM_NAMES.get(command_name(rest[0]), command_name(rest[0]))
        if name in SHELLS:
            rest = rest[1:]
            while rest and rest[0].text.startswith("-"):
                rest = rest[1:]
            if len(rest) == 1 and not stages:
                return None
            continue
        program = _program(name, rest)
        if program is not None:
            return replace(program, stages=(*stages, *program.stages), env=env)
        step = inner_command(rest)
        if step is None:
            return None
        if name in _STARTING:
            stages.append(Stage(name, tuple(rest[1:step])))
        env.update(_wrapper_env(name, rest[1:step]))
        rest = rest[step:]
    return None


def _program(name: str, words: Sequence[Word]) -> _Start | None:
    """A launcher with what it launches, a known command, or a Python program."""
    if name in LAUNCHERS:
        verb = VERBS.get(name)
        if verb is None or command_name(words[0]) == "accelerate-launch":
            return _launcher(name, words[1:])
        if len(words) > 1 and words[1].text == verb:
            return _launcher(name, words[2:])
        return None
    if name in SELF_LAUNCHING:
        verbs = SELF_LAUNCHING[name]
        if verbs and (len(words) < 2 or words[1].text not in verbs):
            return None
        return _Start((Stage(name, ()),), words[0], tuple(words[1:]))
    if PYTHON.match(name) or (
        not words[0].known and PYTHON_VARIABLE.fullmatch(words[0].text) is not None
    ):
        return _python(words[1:])
    if words[0].text.endswith(".py"):
        return _Start((Stage("python", ()),), words[0], tuple(words[1:]))
    return None


def _launcher(name: str, words: Sequence[Word]) -> _Start | None:
    """Split at the first word that is neither an option nor the value of one."""
    launcher = LAUNCHERS[name]
    at = 0
    while at < len(words):
        text = words[at].text
        if not (text.startswith("-") and len(text) > 1):
            if not _is_unresolved_options(words, at):
                break
            at += 1
        elif text == "--":
            at += 1
            break
        elif "=" in text or option_name(text) in launcher.switches or _before_script(words, at):
            at += 1
        else:
            at += 2
    args, rest = tuple(words[:at]), words[at:]
    module = has_switch(args, "m", "module")
    if not rest:
        return _Start((Stage(name, args),), None, ()) if args else None
    return _Start((Stage(name, args),), rest[0], tuple(rest[1:]), module)


def _is_unresolved_options(words: Sequence[Word], at: int) -> bool:
    """True for `$ARGS` that stays unresolved with a program behind it."""
    word = words[at]
    if word.known or not word.text.startswith("$") or "/" in word.text or ".py" in word.text:
        return False
    return any(w.text.endswith(".py") for w in words[at + 1 : at + 8]) or (
        at + 1 < len(words) and not words[at + 1].text.startswith("-")
    )


def _before_script(words: Sequence[Word], at: int) -> bool:
    """True for an option that we do not know and that the script follows at once."""
    return at + 1 < len(words) and words[at + 1].text.endswith(".py")


def _python(words: Sequence[Word]) -> _Start | None:
    """`python [options] script | -m module`; None for -c, standard input and tools."""
    at = 0
    while at < len(words):
        text = words[at].text
        if text == "-m":
            return _module(words[at + 1 :])
        if text.startswith("-m") and text[2:3].isalpha():
            return None
        if text in ("-c", "-", "-V", "--version", "-h", "--help") or text.startswith("-c"):
            return None
        if text in PYTHON_VALUED:
            at += 2
        elif text.startswith("-"):
            at += 1
        else:
            break
    if at >= len(words) or words[at].text.rsplit("/", 1)[-1] == "setup.py":
        return None
    return _script(words[at:])


def _script(words: Sequence[Word]) -> _Start | None:
    """`python torchrun ...`: some start the launcher's own file."""
    name = words[0].text.rsplit("/", 1)[-1]
    if name in (*LAUNCHERS, *SELF_LAUNCHING) and not words[0].text.endswith(".py"):
        return _program(name, words)
    return _Start((Stage("python", ()),), words[0], tuple(words[1:]))


def _module(words: Sequence[Word]) -> _Start | None:
    if not words:
        return None
    name = words[0].text
    if name in MODULES:
        return _launcher(MODULES[name], words[1:])
    if name in DEBUGGERS:
        return _debugged(DEBUGGERS[name], words[1:])
    if name in NOT_PROGRAMS or name.split(".")[0] in NOT_PROGRAMS:
        return None
    return _Start((Stage("python", ()),), words[0], tuple(words[1:]), module=True)


def _debugged(valued: frozenset[str], words: Sequence[Word]) -> _Start | None:
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        if words[at].text == "-m":
            return _module(words[at + 1 :])
        at += 2 if option_name(words[at].text) in valued and "=" not in words[at].text else 1
    return _script(words[at:]) if at < len(words) else None


# --- environment that wrappers hand down -----------------------------------------------------


def _wrapper_env(name: str, words: Sequence[Word]) -> dict[str, Word]:
    """`env A=1`, `mpirun -x A=1`, `docker run -e A=1`, the env_vars of a Ray runtime."""
    if name == "ray":
        return _runtime_env(words)
    flags = {"mpirun": ("-x", "-env", "-genv"), "docker": ("-e", "--env"), "env": ()}.get(name)
    if flags is None:
        return {}
    out: dict[str, Word] = {}
    for index, word in enumerate(words):
        parts = word.partition("=")
        if parts is None or not parts[0].text.isidentifier():
            continue
        if name == "env" or (index and words[index - 1].text in flags):
            out[parts[0].text] = parts[1]
    return out


def _runtime_env(words: Sequence[Word]) -> dict[str, Word]:
    from pitstop.rules.launchers import option

    word = option(words, "runtime-env-json")
    if word is None or not word.known:
        return {}
    try:
        found = json.loads(word.text.strip("'"))["env_vars"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        str(name): replace(word, text=str(value), exact=False, pieces=())
        for name, value in found.items()
    }


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
    line = " ".join(text.split())
    return f"The launch command `{line if len(line) <= 60 else line[:57] + '...'}`"


def _reason(error: Exception) -> str:
    first = str(error).strip().splitlines()
    return first[0][:80] if first else type(error).__name__
