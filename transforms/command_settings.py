"""Settings on a command line and in the environment of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pitstop.rules.finding import Scalar
from pitstop.rules.frameworks.spelling import Spelling, Unwritable, plain_name
from pitstop.rules.job import LaunchCommand, TrainingJob, Word
from pitstop.transforms import edit_env, edit_shell
from pitstop.transforms.edit_shell import Target
from pitstop.transforms.patch import Outcome, Refused, Unchanged
from pitstop.transforms.place import Place
from pitstop.transforms.shell_proof import Commands
from pitstop.transforms.spelled import env_text, flag_text

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts


def commands(job: TrainingJob, facts: ProjectFacts) -> Commands | Refused:
    """The scripts and job files of a job."""
    if job.launch is None or job.launch.location.path not in facts.sources.paths:
        return Refused("the command is not written in a file")
    known = {*facts.scripts, *facts.sources.jobfiles}
    return Commands(facts.tree, tuple(sorted(job.files & known)), facts.sources)


def target_of(place: Place, name: str) -> Target | Refused:
    """The words among which a flag of the job's command stands, the launcher's or the program's."""
    found = _launched(place)
    if isinstance(found, Refused):
        return found
    launch, known = found
    if not _has(launch.args, name) and _has(launch.launcher_args, name):
        return Target(known, launch.location, launch.launcher_args)
    return Target(known, launch.location, launch.args, launch.entry_location)


def _launched(place: Place) -> tuple[LaunchCommand, Commands] | Refused:
    launch = place.job.launch
    if launch is None:
        return Refused("nothing is launched")
    found = commands(place.job, place.facts)
    return found if isinstance(found, Refused) else (launch, found)


def _has(words: tuple[Word, ...], name: str) -> bool:
    return any(plain_name(w.text.partition("=")[0]) == plain_name(name) for w in words)


def dashed(name: str) -> str:
    """A flag as it is written on a command line."""
    return name if name.startswith("-") else f"--{name}"


def set_flag(place: Place, row: Spelling, value: Scalar) -> Outcome:
    """Another value for the flag; a switch that is off goes."""
    setting = place.setting
    target = target_of(place, setting.name)
    text = flag_text(row, value, setting.raw)
    if isinstance(text, Unwritable):
        return Refused(text.why)
    if isinstance(target, Refused):
        return target
    name = dashed(setting.name)
    if isinstance(value, bool) and (row.flag_style == "store_true" or _own_switch(place)):
        return Unchanged() if value else edit_shell.remove_flag(target, name, bare=True)
    return edit_shell.set_flag(target, name, text)


def _own_switch(place: Place) -> bool:
    """True for an option of the program's own that takes no value."""
    plain = plain_name(place.setting.name)
    modules = (place.facts.modules.get(path) for path in place.job.files)
    options = (o for module in modules if module for o in module.options)
    return any(plain_name(f) == plain for o in options for f in o.flags if "store_" in o.action)


def add_switch(place: Place, flag: str) -> Outcome:
    """The bare flag of an option of the program's own."""
    target = target_of(place, flag)
    return target if isinstance(target, Refused) else edit_shell.set_flag(target, flag, None)


def remove_flag(place: Place) -> Outcome:
    """The flag goes."""
    target = target_of(place, place.setting.name)
    if isinstance(target, Refused):
        return target
    bare = place.setting.value_at is None
    return edit_shell.remove_flag(target, dashed(place.setting.name), bare=bare)


def respell_flag(place: Place, new: Spelling, value: Scalar) -> Outcome:
    """Another name for the knob, in place of the old one."""
    setting = place.setting
    target = target_of(place, setting.name)
    text = flag_text(new, value, setting.raw)
    if isinstance(text, Unwritable):
        return Refused(text.why)
    if isinstance(target, Refused):
        return target
    bare = setting.value_at is None
    return edit_shell.rename_flag(
        target, dashed(setting.name), dashed(new.name), None if bare else text
    )


def set_variable(place: Place, row: Spelling, value: Scalar, name: str, raw: str = "") -> Outcome:
    """A variable of the job's command."""
    found, text = _launched(place), env_text(row, value, raw)
    if isinstance(text, Unwritable):
        return Refused(text.why)
    if isinstance(found, Refused):
        return found
    launch, known = found
    return edit_env.set_env(known, launch.location, launch.env.get(name), name, text)


def remove_variable(place: Place) -> Outcome:
    """The variable goes from the job's command."""
    found = _launched(place)
    if isinstance(found, Refused):
        return found
    launch, known = found
    name = place.setting.name
    return edit_env.remove_env(known, launch.location, launch.env.get(name), name)
