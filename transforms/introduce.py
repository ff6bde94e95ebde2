"""Write a knob that nobody has written: in the call that leaves it out, in the job's config
file, on its command line, in the call that makes the configuration, or as a variable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from pitstop.rules.detection import config_framework
from pitstop.rules.finding import Location, Scalar, Setting, Surface
from pitstop.rules.frameworks import Framework, frameworks, matches
from pitstop.rules.frameworks.spelling import Spelling, Unwritable
from pitstop.rules.pysource import Call
from pitstop.rules.written_names import speakers
from pitstop.transforms import command_settings, config_settings, edit_python, edit_shell
from pitstop.transforms.edit_python import Code
from pitstop.transforms.patch import Outcome, Refused
from pitstop.transforms.place import Place
from pitstop.transforms.spelled import flag_text, literal, writers

_RELATED = ("batch", "training", "optimizer", "precision", "dataloader", "save", "log")


def introduce(place: Place, value: Scalar) -> Outcome:
    """Write the knob of a default; the first place that works is taken."""
    refused: Outcome | None = None
    for way in _ways(place):
        outcome = way(place, value)
        if not isinstance(outcome, Refused):
            return outcome
        refused = refused or outcome
    return refused or Refused(f"there is no place where {place.setting.knob} can be written")


def _ways(place: Place) -> Iterator[Callable[[Place, Scalar], Outcome]]:
    spelled_out = place.setting.raw != ""  # `bf16: false`: written again where that stands
    if place.setting.name_at is not None and not spelled_out:
        yield _at_call
        return
    for framework in _frameworks(place):
        for path in sorted(place.job.configs, key=partial(_elsewhere, place)):
            if _kin(place, path, framework):
                yield partial(_into_config, path=path, framework=framework)
        if _takes_flags(place, framework):
            yield partial(_as_flag, framework=framework)
        yield partial(_into_config_call, framework=framework)
    yield _as_variable


def _elsewhere(place: Place, path: str) -> bool:
    """Files are asked in the job's order, the one that spells the default out first."""
    where = place.setting.where
    return where is None or where.path != path


def _frameworks(place: Place) -> tuple[Framework, ...]:
    """The one whose default it is, then the job's others."""
    own = frameworks().get(place.setting.framework)
    return tuple(dict.fromkeys((*((own,) if own else ()), *speakers(place.job))))


def _rows(place: Place, framework: Framework, surface: Surface, value: Scalar) -> list[Spelling]:
    """The rows that can say the value, the best first."""
    rows = writers(framework, place.setting.knob, surface, place.facts.versions)
    return [row for row in rows if not isinstance(row.written(value), Unwritable)]


# --- configuration files ---------------------------------------------------------------------


def _kin(place: Place, path: str, framework: Framework) -> bool:
    """Whether a config file is written in the words of the framework."""
    config = place.facts.configs.get(path)
    kin = config_framework(config) if config else None
    if kin is not None:
        return kin.name in (framework.name, framework.extends, framework.part_of)
    here = {s.framework for s in place.job.written() if s.value_at and s.value_at.path == path}
    return framework.name in here


def _into_config(place: Place, value: Scalar, *, path: str, framework: Framework) -> Outcome:
    found = config_settings.source(place, path)
    if isinstance(found, Refused):
        return found
    for row in _rows(place, framework, found.surface, value):
        written = row.written(value)
        if row.calls or isinstance(written, Unwritable):
            continue
        beside = _neighbour(place, path)
        parts = tuple(beside.name.split(".")) if beside else None
        key = tuple(row.name.split("."))
        return found.finished(
            config_settings.set_key(found.file, found.surface, key, written, parts)
        )
    return Refused(f"{path} does not take {place.setting.knob}")


def _neighbour(place: Place, path: str) -> Setting | None:
    """The setting in a file behind which a reader would look for the new one."""
    here = [s for s in place.job.written() if s.name_at and s.name_at.path == path]
    here.sort(key=_start)
    own = place.setting.knob.partition(".")[0]
    for group in (own, *_RELATED):
        found = [s for s in here if s.knob.partition(".")[0] == group]
        if found:
            return found[-1]
    return None


def _start(setting: Setting) -> int:
    return setting.name_at.span.start if setting.name_at else -1


# --- command lines ---------------------------------------------------------------------------


def _takes_flags(place: Place, framework: Framework) -> bool:
    """Whether the framework parses the command line of the job's program. Of a program that is
    not in the repository, the flags that it is given tell."""
    job = place.job
    if job.launch is None or (framework.kind == "helper" and framework.part_of is None):
        return False
    if not framework.parsers:
        return framework.name == job.framework and framework.name != "pytorch"
    if job.entry is None:
        given = (s.framework for s in job.written() if s.surface is Surface.FLAG)
        return framework.name in given
    modules = (place.facts.modules.get(path) for path in job.files)
    calls = (call for module in modules if module for call in module.calls)
    return any(matches(call.name, framework.parsers) for call in calls)


def _as_flag(place: Place, value: Scalar, *, framework: Framework) -> Outcome:
    for row in _rows(place, framework, Surface.FLAG, value):
        text = flag_text(row, value)
        target = command_settings.target_of(place, row.name)
        if isinstance(target, Refused) or isinstance(text, Unwritable):
            continue
        bare = row.flag_style == "store_true" and isinstance(value, bool)
        if bare and not value:
            return Refused(f"{row.name} cannot be switched off")
        name = _flag_name(row.name, tuple(word.text for word in target.words))
        beside = _flag_beside(place)
        return edit_shell.set_flag(target, name, None if bare else text, beside=beside)
    return Refused(f"the command line does not take {place.setting.knob}")


def _flag_name(name: str, words: tuple[str, ...]) -> str:
    """With dashes inside where the command's other flags have them."""
    long = [w.partition("=")[0][2:] for w in words if w.startswith("--")]
    dashes = any("-" in w for w in long) and not any("_" in w for w in long)
    return "--" + (name.replace("_", "-") if dashes else name)


def _flag_beside(place: Place) -> Location | None:
    """The flag of a related knob."""
    own = place.setting.knob.partition(".")[0]
    found = [
        s.name_at
        for s in place.job.written()
        if s.surface is Surface.FLAG and s.knob.partition(".")[0] == own and s.name_at
    ]
    return max(found, key=lambda at: at.span.start, default=None)


# --- Python ----------------------------------------------------------------------------------


def _at_call(place: Place, value: Scalar) -> Outcome:
    """The call that leaves the keyword out."""
    at = place.setting.name_at
    if at is not None and not at.path.endswith(".py"):
        return Refused(f"{place.setting.knob} follows from how the program is launched")
    module = place.facts.module(at.path) if at else None
    for call in module.calls if module else ():
        if call.location == at:
            return _into_call(place, value, call)
    return Refused("the call is not found again")


def _into_config_call(place: Place, value: Scalar, *, framework: Framework) -> Outcome:
    """The one call that makes the framework's configuration object."""
    found: dict[Location, Call] = {}
    for path in sorted(place.job.files):
        module = place.facts.modules.get(path)
        for call in module.calls if module else ():
            if matches(call.name, framework.config_calls):
                found[call.location] = call
    if not found:
        return Refused(f"there is no place where {place.setting.knob} can be written")
    if len(found) > 1:
        return Refused(f"{len(found)} calls make the configuration of the job")
    (call,) = found.values()
    if call.open_ended:
        return Refused("the configuration call takes arguments that cannot be seen")
    return _into_call(place, value, call)


def _into_call(place: Place, value: Scalar, call: Call) -> Outcome:
    file = place.file(call.location.path)
    if isinstance(file, Refused):
        return file
    reason = f"{call.name} does not take {place.setting.knob}"
    for framework in _frameworks(place):
        fitting = set(map(id, framework.called(call.name)))
        for row in _rows(place, framework, Surface.KEYWORD, value):
            new = literal(row, value)
            if id(row) not in fitting:
                continue
            if isinstance(new, Unwritable):
                reason = new.why
                continue
            if isinstance(new, Code) and not _imports_torch(call, new):
                return Refused(f"the file does not import torch, which {new.text} needs")
            return _set_keyword(place, file.path, call, row, new)
    return Refused(reason)


def _set_keyword(
    place: Place, path: str, call: Call, row: Spelling, new: edit_python.Literal
) -> Outcome:
    file = place.facts.tree.read(path)
    first, *inner = row.name.split(".")
    if not inner:
        return edit_python.set_keyword(file, call.location.span, first, new, position=row.position)
    given = call.argument(first)
    if len(inner) > 1 or (given is not None and not given.nested):
        return Refused(f"{first} is not a dictionary that can be edited")
    if given is None:
        code = Code(f'{{"{inner[0]}": {edit_python.written(new)}}}')
        return edit_python.set_keyword(file, call.location.span, first, code)
    return edit_python.set_item(file, given.value_at.span, inner[0], new)


def _imports_torch(call: Call, code: Code) -> bool:
    root = code.text.split(".")[0]
    return call.module.imports.get(root) == root


# --- variables -------------------------------------------------------------------------------


def _as_variable(place: Place, value: Scalar) -> Outcome:
    for framework in _frameworks(place):
        for row in _rows(place, framework, Surface.ENV, value):
            return command_settings.set_variable(place, row, value, row.name)
    return Refused(f"no variable sets {place.setting.knob}")
