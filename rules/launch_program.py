"""Which program a command starts, behind wrappers and launchers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pitstop.rules.job import Word
from pitstop.rules.launch_nodes import Stage
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
    option,
    option_name,
)
from pitstop.rules.shell_wrappers import WRAPPERS, command_name, inner_command

_STARTING = frozenset({"srun", "sbatch", "mpirun", "pdsh", "ssh", "ray"})
"""Wrappers that start processes elsewhere or several times, and so count as launchers."""


@dataclass(frozen=True, slots=True)
class Start:
    """A program start, taken apart: `stages` are the launchers, outermost first."""

    stages: tuple[Stage, ...]
    entry: Word | None
    args: tuple[Word, ...]
    module: bool = False
    env: Mapping[str, Word] = field(default_factory=dict)


def take_apart(words: Sequence[Word], inherited: int = 0) -> Start | None:
    """Peel wrappers and launchers off until the program is found.

    The first `inherited` words start the command from outside. Behind them, what a shell or a
    remote shell is given (`bash -c`, ssh) is none: it is read as a command of its own.
    """
    stages: list[Stage] = []
    env: dict[str, Word] = {}
    rest = list(words)
    while rest:
        name = PROGRAM_NAMES.get(command_name(rest[0]), command_name(rest[0]))
        program = _program(name, rest)
        if program is not None:
            return replace(program, stages=(*stages, *program.stages), env=env)
        step = inner_command(rest)
        if step is None and not rest[0].known:
            step = 1  # `$PREFIX torchrun ...`
        if step is None:
            return None
        if name in WRAPPERS and WRAPPERS[name].text and len(words) - len(rest) >= inherited:
            return None
        if name in _STARTING:
            stages.append(Stage(name, tuple(rest[1:step])))
        env.update(_wrapper_env(name, rest[1:step]))
        rest = rest[step:]
    return None


def _program(name: str, words: Sequence[Word]) -> Start | None:
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
        args = tuple(words[1:])
        return Start((Stage(name, (), args),), words[0], args)
    if PYTHON.match(name) or (
        not words[0].known and PYTHON_VARIABLE.fullmatch(words[0].text) is not None
    ):
        return _python(words[1:])
    if words[0].text.endswith(".py"):
        return Start((Stage("python", ()),), words[0], tuple(words[1:]))
    return None


def _launcher(name: str, words: Sequence[Word]) -> Start | None:
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
        return Start((Stage(name, args),), None, ()) if args else None
    return Start((Stage(name, args),), rest[0], tuple(rest[1:]), module)


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


def _python(words: Sequence[Word]) -> Start | None:
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


def _script(words: Sequence[Word]) -> Start | None:
    """`python torchrun ...`: some start the launcher's own file."""
    name = words[0].text.rsplit("/", 1)[-1]
    if name in (*LAUNCHERS, *SELF_LAUNCHING) and not words[0].text.endswith(".py"):
        return _program(name, words)
    return Start((Stage("python", ()),), words[0], tuple(words[1:]))


def _module(words: Sequence[Word]) -> Start | None:
    if not words:
        return None
    name = words[0].text
    if name in MODULES:
        return _launcher(MODULES[name], words[1:])
    if name in DEBUGGERS:
        return _debugged(DEBUGGERS[name], words[1:])
    if name in NOT_PROGRAMS or name.split(".")[0] in NOT_PROGRAMS:
        return None
    return Start((Stage("python", ()),), words[0], tuple(words[1:]), module=True)


def _debugged(valued: frozenset[str], words: Sequence[Word]) -> Start | None:
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
