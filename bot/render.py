"""The one place that turns data into documents: jinja2 templates beside this file.

`{{ value }}` of a plain string is escaped as data by itself; only `Markdown`, which the filters
below return, and numbers pass as they are. A name that is missing is an error, not a blank.
"""

from __future__ import annotations

import functools
import typing

from pitstop.bot import markdown
from pitstop.bot.markdown import Markdown

if typing.TYPE_CHECKING:
    import jinja2

CUT = Markdown("\f")
"""Where a document may be cut. Escaped data never holds a form feed."""


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(  # noqa: S701 - Markdown: `finalize` escapes instead
        loader=jinja2.PackageLoader("pitstop.bot"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_as_data,
    )
    environment.globals["cut"] = CUT
    environment.filters.update(
        code=markdown.code,
        tag_text=markdown.tag_text,
        tag_code=markdown.tag_code,
        fenced=markdown.fenced,
        address=markdown.address,
    )
    return environment


def _as_data(value: object) -> object:
    if isinstance(value, Markdown) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str):
        return markdown.prose(value)
    # A missing name raises jinja2's own error as soon as it is shown.
    raise TypeError(f"a template shows {value!s} ({type(value).__name__}), which has no fixed form")


def render(template: str, **values: object) -> Markdown:
    """One document. The marks for cutting are taken out."""
    return Markdown("".join(sections(template, **values)))


def sections(template: str, **values: object) -> tuple[str, ...]:
    """One document in the pieces between which it may be cut; joined they are the whole."""
    text = _environment().get_template(template).render(**values)
    return tuple(piece for piece in text.split(CUT) if piece)
