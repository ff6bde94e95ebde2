"""The language of reports: English is the source text, others come from catalogues of messages.

A catalogue is a .po file under `locale/<language>`, which translators and their tools know. What
it lacks stays English. A text with figures may stand there with `{0}`, `{1}` for them.
"""

from __future__ import annotations

import functools
import importlib.resources
import itertools
import re
from collections.abc import Callable, Mapping

Translate = Callable[[str], str]

_FIGURE = re.compile(r"(?<![\w.-])\d+(?:[.,]\d+)*%?")
_ENTRY = re.compile(
    r'^msgid\s+((?:"(?:[^"\\]|\\.)*"\s*)+)^msgstr\s+((?:"(?:[^"\\]|\\.)*"\s*)+)', re.MULTILINE
)
_PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPES = {r"\n": "\n", r"\"": '"', r"\\": "\\", r"\t": "\t"}


def texts(language: str) -> Translate:
    """What turns an English text into one of a language ("en", "zh")."""
    if language == "en":
        return lambda text: text
    found = catalogue(language)
    return lambda text: found.get(text) or _by_figures(text, found) or text


def _by_figures(text: str, found: Mapping[str, str]) -> str:
    """A text whose figures are `{0}`, `{1}` in the catalogue; "" when it is not there."""
    figures = _FIGURE.findall(text)
    if not figures or "{" in text:
        return ""
    numbers = itertools.count()
    said = found.get(_FIGURE.sub(lambda _: f"{{{next(numbers)}}}", text), "")
    return said.format(*figures) if said else ""


@functools.cache
def catalogue(language: str) -> Mapping[str, str]:
    """Every message of a language by its English text. Raises FileNotFoundError for a language
    without a catalogue (our bug: the options name those that exist)."""
    file = importlib.resources.files("pitstop.bot").joinpath("locale", f"{language}.po")
    return read_catalogue(file.read_text("utf-8"))


def read_catalogue(text: str) -> dict[str, str]:
    """The messages of a .po file; those without a translation are left out."""
    found = {}
    for match in _ENTRY.finditer(text):
        source, translated = (_joined(group) for group in match.groups())
        if source and translated:
            found[source] = translated
    return found


def _joined(pieces: str) -> str:
    text = "".join(_PIECE.findall(pieces))
    return re.sub(r"\\[n\"\\t]", lambda match: _ESCAPES[match.group(0)], text)
