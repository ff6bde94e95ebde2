"""What a person may write after `/optimize`. Pure: text in, a command out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from pitstop.bot.config_text import did_you_mean
from pitstop.rules.finding import UserError

HELP = """\
```
/optimize [options] [-- launch command]
/optimize only ID...        try only these changes
/optimize disable ID...     do not try these changes
/optimize status | cancel | help
```

| option | meaning |
| --- | --- |
| `--job NAME` | a job of `.github/pitstop.yml` on the default branch |
| `--goal throughput`, `memory` or `balanced` | what counts as better |
| `--steps N` | optimizer steps of a timed run |
| `--rounds N` | rounds, at most 5 |
| `--quick` | a first look: one round, few runs |
| `--allow ID...` | changes to the training itself that may be tried |
| `--sha FULL` | the commit that you have read, all 40 hex digits |

Behind `--` stands one plain command, with `NAME=value` before it if need be.
"""

Goal = Literal["throughput", "memory", "balanced"]
GOALS: tuple[Goal, ...] = get_args(Goal)
MOST_IDS = 50
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NAME = re.compile(r"[\w .:/-]{1,100}")
SHA = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Optimize:
    """Run the job and look for what makes it faster. None where nothing is said; `launch` is one
    plain command."""

    goal: Goal | None = None
    steps: int | None = None
    rounds: int | None = None
    job: str | None = None
    sha: str | None = None
    quick: bool = False
    only: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    launch: str | None = None


@dataclass(frozen=True, slots=True)
class Help:
    """Show what can be written; `reason` is what was not understood, in one sentence."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """Say how the last run stands."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the run that is on."""


Command = Optimize | Help | Status | Cancel


def read_command(line: str) -> Command:
    """The command in a line that begins with `/optimize`."""
    text, dashes, launch = f"{line.strip()} ".partition(" -- ")
    try:
        words = shlex.split(text)[1:]
    except ValueError:
        return Help("A quote is not closed.")
    plain: dict[str, Command] = {"help": Help(), "status": Status(), "cancel": Cancel()}
    if words and words[0] in plain:
        if len(words) > 1 or dashes:
            return Help(f"`{words[0]}` stands alone.")
        return plain[words[0]]
    try:
        found = _options(words)
        return replace(found, launch=_launch(launch)) if dashes else found
    except UserError as error:
        return Help(str(error))


def _options(words: list[str]) -> Optimize:
    found: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if name == "--quick" and not equals:
            found["quick"] = True
        elif name in _LISTS:
            key = _LISTS[name]
            given = [value] if equals else []
            while left and not left[0].startswith("--") and left[0] not in _LISTS:
                given.append(left.pop(0))
            found[key] = (*found.get(key, ()), *_ids(name, given))
        elif name in _VALUES:
            if not equals:
                if not left:
                    raise UserError(f"`{name}` needs a value.")
                value = left.pop(0)
            key = name.removeprefix("--")
            if key in found:
                raise UserError(f"`{name}` is given twice.")
            found[key] = _VALUES[name](name, value)
        else:
            known = (*_VALUES, *_LISTS, "--quick", "help", "status", "cancel")
            raise UserError(f"{_shown(word)} is not understood; {did_you_mean(name, known)}")
    return Optimize(**found)


def _shown(word: str) -> str:
    return f"`{word[:60]}`" if "`" not in word else "What stands there"


def _goal(name: str, value: str) -> str:
    if value not in GOALS:
        raise UserError(f"`{name}` is one of {', '.join(GOALS)}, not {_shown(value)}.")
    return value


def _count(most: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if not (value.isascii() and value.isdigit() and 1 <= int(value) <= most):
            raise UserError(f"`{name}` is a whole number from 1 to {most}, not {_shown(value)}.")
        return int(value)

    return read


def _job(name: str, value: str) -> str:
    if not _NAME.fullmatch(value):
        raise UserError(f"`{name}`: {_shown(value)} is no name of a job.")
    return value


def _sha(name: str, value: str) -> str:
    if not SHA.fullmatch(value.lower()):
        raise UserError(f"`{name}` needs all 40 hex digits of the commit, not {_shown(value)}.")
    return value.lower()


_VALUES: dict[str, Callable[[str, str], object]] = {
    "--goal": _goal,
    "--steps": _count(2000),
    "--rounds": _count(5),
    "--job": _job,
    "--sha": _sha,
}
_LISTS = {
    "only": "only",
    "--only": "only",
    "disable": "disable",
    "--disable": "disable",
    "--allow": "allow",
}


def _ids(name: str, given: list[str]) -> tuple[str, ...]:
    ids = tuple(word for text in given for word in text.split(",") if word)
    if not ids:
        raise UserError(f"`{name}` needs at least one id.")
    if len(ids) > MOST_IDS:
        raise UserError(f"`{name}` takes at most {MOST_IDS} ids.")
    for one in ids:
        if not _ID.fullmatch(one):
            raise UserError(f"`{name}`: {_shown(one)} is no id of a rule, recipe or plan row.")
    return ids


def _launch(text: str) -> str:
    from pitstop.rules.launch import parse_command

    text = text.strip()
    if not text:
        raise UserError("`--` needs the launch command behind it.")
    if len(text) > 4000:
        raise UserError("The launch command is longer than 4000 characters.")
    parse_command(text)  # raises UserError for anything but one plain command
    return text
