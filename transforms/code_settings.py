"""Settings in Python code: keywords, defaults of options and fields, statements, os.environ."""

from __future__ import annotations

from pitstop.rules.finding import Scalar, Span, Surface
from pitstop.rules.frameworks.spelling import Spelling, Unwritable
from pitstop.rules.pysource import Option
from pitstop.rules.tree import SourceFile, UnreadableError
from pitstop.transforms import command_settings, edit_python, python_text
from pitstop.transforms.patch import Outcome, Refused
from pitstop.transforms.place import Place
from pitstop.transforms.spelled import env_text, literal

SURFACES = (Surface.KEYWORD, Surface.PY_DEFAULT, Surface.STATEMENT)


def set_literal(place: Place, row: Spelling, value: Scalar) -> Outcome:
    """Another value where the deciding expression stands."""
    setting, file = place.setting, place.file()
    if isinstance(file, Refused):
        return file
    option = _option(place)
    if option is not None and option.value_at is None:
        return _without_default(place, file, option, row, value)
    if setting.value_at is None:
        return Refused(f"the default of {setting.name} is not written out")
    new = _literal(place, row, value)
    if isinstance(new, Unwritable):
        return Refused(new.why)
    span = setting.value_at.span
    if setting.surface is Surface.KEYWORD and setting.name_at is not None:
        return edit_python.replace_for_use(file, setting.name_at.span, span, new)
    return edit_python.replace_value(file, span, new)


def _option(place: Place) -> Option | None:
    """The option of the program whose default the setting is."""
    if place.setting.surface is not Surface.PY_DEFAULT or place.setting.name_at is None:
        return None
    module = place.facts.modules.get(place.setting.name_at.path)
    options = module.options if module else ()
    return next((o for o in options if o.name_at == place.setting.name_at), None)


def _without_default(
    place: Place, file: SourceFile, option: Option, row: Spelling, value: Scalar
) -> Outcome:
    """A switch is given on the command line; another option gets a default."""
    if option.action == "store_true" and value is True:
        return command_settings.add_switch(place, option.flags[-1])
    new = literal(row, value)
    if isinstance(new, Unwritable) or option.action not in ("", "store"):
        return Refused(f"the default of {option.name} is not written out")
    return edit_python.set_keyword(file, option.location.span, "default", new)


def _literal(place: Place, row: Spelling, value: Scalar) -> edit_python.Literal | Unwritable:
    if place.setting.surface is Surface.ENV:
        return env_text(row, value, place.setting.raw.strip("'\""))
    return literal(row, value, place.setting.raw)


def remove_keyword(place: Place) -> Outcome:
    """The keyword goes from its call."""
    file = place.file()
    if isinstance(file, Refused):
        return file
    call = _call(file, place)
    if call is None:
        return Refused(f"{place.setting.name} is not a keyword of a call")
    return edit_python.remove_keyword(file, call, place.setting.name)


def respell_keyword(place: Place, old: Spelling, new: Spelling, value: Scalar) -> Outcome:
    """Another keyword for the knob, in place of the old one."""
    file = place.file()
    if isinstance(file, Refused):
        return file
    parent, _, name = new.name.rpartition(".")
    call, text = _call(file, place), literal(new, value, place.setting.raw)
    if isinstance(text, Unwritable) or call is None or parent or "." in old.name:
        return Refused(f"{place.setting.name} is not a keyword of a call")
    return edit_python.rename_keyword(file, call, place.setting.name, name, text)


def remove_statement(place: Place) -> Outcome:
    """The statement goes, where its block has others."""
    file, at = place.file(), place.setting.name_at
    if isinstance(file, Refused) or at is None:
        return file if isinstance(file, Refused) else Refused("the statement is not found again")
    return edit_python.remove_statement(file, at.span)


def _call(file: SourceFile, place: Place) -> Span | None:
    """The innermost call around the keyword."""
    at = place.setting.name_at
    if at is None:
        return None
    try:
        call = python_text.call_around(file, python_text.parse(file), at.span)
    except UnreadableError:
        return None
    return python_text.span(file, call) if call else None
