"""Change or remove a setting where it is written, whatever the surface."""

from __future__ import annotations

from collections.abc import Iterator

from pitstop.rules.finding import Scalar, Surface, Value
from pitstop.rules.frameworks import Framework, frameworks
from pitstop.rules.frameworks.spelling import Spelling, Unwritable
from pitstop.rules.written_names import speakers
from pitstop.transforms import code_settings, command_settings, config_settings
from pitstop.transforms.patch import Outcome, Refused
from pitstop.transforms.place import Place
from pitstop.transforms.spelled import cased, negated, row_of, writers


def rewrite(place: Place, value: Scalar) -> Outcome:
    """Give the written setting another value, by another name where its own cannot say it."""
    setting = place.setting
    row = row_of(setting)
    if row is None and setting.surface is Surface.STATEMENT:
        return Refused(f"{setting.name} is a call, not a value")
    if row is None:
        return Refused(f"how {setting.name} is written is not known")
    if negated(setting, row):
        return erase(place) if value is True else Refused(f"{setting.name} cannot say {value}")
    written = row.written(value)
    if isinstance(written, Unwritable):
        return _by_another_name(place, row, value)
    if setting.surface in config_settings.SURFACES:
        return config_settings.set_value(place, cased(row, written, setting.raw))
    if setting.surface is Surface.FLAG:
        return command_settings.set_flag(place, row, value)
    if setting.surface is Surface.ENV and not place.path.endswith(".py"):
        return command_settings.set_variable(place, row, value, setting.name, setting.raw)
    if setting.surface in (*code_settings.SURFACES, Surface.ENV):
        return code_settings.set_literal(place, row, value)
    return Refused(f"a setting in a {setting.surface} is not edited")


def erase(place: Place) -> Outcome:
    """Remove the written setting, so that the framework's default holds."""
    surface = place.setting.surface
    if surface in config_settings.SURFACES:
        return config_settings.remove(place)
    if surface is Surface.FLAG:
        return command_settings.remove_flag(place)
    if surface is Surface.ENV and not place.path.endswith(".py"):
        return command_settings.remove_variable(place)
    if surface is Surface.KEYWORD:
        return code_settings.remove_keyword(place)
    if surface in (Surface.STATEMENT, Surface.ENV):
        return code_settings.remove_statement(place)
    return Refused(f"a setting in a {surface} is not removed")


def _by_another_name(place: Place, row: Spelling, value: Scalar) -> Outcome:
    """`fp16: true` to bf16: the row that can say it takes the place of the one that cannot."""
    setting = place.setting
    for other in _writers(place):
        if other.name != row.name and not isinstance(other.written(value), Unwritable):
            return _respell(place, row, other, value)
    if _left_to_itself(place) == value:
        config = setting.surface in config_settings.SURFACES
        return config_settings.silence(place, row) if config else erase(place)
    return Refused(f"{setting.name} cannot say {value}, and no other name here can")


def _left_to_itself(place: Place) -> Value:
    """The knob's value when the setting says nothing: what decides next."""
    setting, versions = place.setting, place.facts.versions
    others = [s for s in place.job.settings.get(setting.knob, ()) if s != setting]
    if others:
        return others[0].value
    return frameworks()[setting.framework].default(setting.knob, versions)


def _writers(place: Place) -> Iterator[Spelling]:
    """The rows that write the knob on the same surface in the job's versions, those of the
    job's own dialect first."""
    own = frameworks()[place.setting.framework]
    dialects: list[Framework] = [f for f in speakers(place.job) if f.extends == own.name]
    for framework in (*dialects, own):
        yield from writers(
            framework, place.setting.knob, place.setting.surface, place.facts.versions
        )


def _respell(place: Place, old: Spelling, new: Spelling, value: Scalar) -> Outcome:
    surface = place.setting.surface
    if surface in config_settings.SURFACES:
        return config_settings.respell(place, old, new, value)
    if surface is Surface.FLAG:
        return command_settings.respell_flag(place, new, value)
    if surface is Surface.KEYWORD:
        return code_settings.respell_keyword(place, old, new, value)
    return Refused(f"{place.setting.name} cannot be renamed in a {surface}")
