"""OmegaConf interpolation: `${a.b}` replaced by the value it points to, inside one file.

https://omegaconf.readthedocs.io/en/latest/usage.html#variable-interpolation
`${oc.select:a.b,4}` gives what is there, or else the default. Other resolvers (`${oc.env:HOME}`)
depend on the machine and give Unknown, as does what is not there.
"""

from __future__ import annotations

import dataclasses
import re

from pitstop.rules.configs import ConfigFile, Entry, Path
from pitstop.rules.finding import Scalar, Unknown, Value
from pitstop.rules.yaml_words import plain_value

_REFERENCE = re.compile(r"(?<!\\)\$\{([^${}]*)\}")
_SELECT = re.compile(r"oc\.select:([^,]*)(?:,([^,\[\]\'\"]*))?$")
_OPENING = re.compile(r"(?<!\\)\$\{")
_KEY = re.compile(r"\.*(?:[\w/-]+|\[[\w/-]+\])(?:\.[\w/-]+|\[[\w/-]+\])*$")
_MAX_HOPS = 20
_MAX_TEXT = 20_000


def interpolated(config: ConfigFile) -> ConfigFile:
    """The configuration with references resolved; values that hold one that cannot be
    resolved, or a template (`{{ }}`), are Unknown."""
    if not any(_dynamic(e) for e in config.entries):
        return config
    resolver = _Resolver(config)
    entries = tuple(resolver.entry(e) if _dynamic(e) else e for e in config.entries)
    return dataclasses.replace(config, entries=entries, _index={})


def _dynamic(entry: Entry) -> bool:
    return "${" in entry.raw or "{{" in entry.raw or "{%" in entry.raw


class _Resolver:
    """Resolves each leaf once, so that references to references cannot multiply."""

    def __init__(self, config: ConfigFile) -> None:
        self.config = config
        self._known: dict[tuple[int, Path], Value] = {}

    def entry(self, entry: Entry) -> Entry:
        """The entry, and its items, with what they point to."""
        items = tuple(dataclasses.replace(i, value=self._value(i, 0)) for i in entry.items)
        return dataclasses.replace(entry, items=items, value=self._value(entry, 0))

    def _value(self, entry: Entry, hops: int) -> Value:
        place = (entry.document, entry.path)
        if place not in self._known:
            self._known[place] = Unknown("an interpolation that leads back to itself")
            self._known[place] = self._fresh(entry, hops)
        return self._known[place]

    def _fresh(self, entry: Entry, hops: int) -> Value:
        if entry.items:
            return _joined([self._value(item, hops + 1) for item in entry.items])
        if not isinstance(entry.value, str):
            return entry.value
        if any(mark in entry.value for mark in ("{{", "{%", "<%")):
            return Unknown("a template")
        if "${" not in entry.value:
            return entry.value
        if hops > _MAX_HOPS:
            return Unknown("an interpolation through too many others")
        whole = _REFERENCE.fullmatch(entry.value)
        if whole:
            return self._target(entry, whole.group(1), hops)
        return self._text(entry, entry.value, hops)

    def _text(self, entry: Entry, text: str, hops: int) -> Value:
        parts: list[str] = []
        at = 0
        if _OPENING.search(_REFERENCE.sub("", text)):
            return Unknown(f"the interpolation {text!r}")  # one inside another
        for match in _REFERENCE.finditer(text):
            value = self._target(entry, match.group(1), hops)
            if isinstance(value, (Unknown, tuple)):
                return value if isinstance(value, Unknown) else Unknown("a list inside a text")
            parts += (text[at : match.start()], _as_text(value))
            at = match.end()
        joined = "".join([*parts, text[at:]])
        return joined if len(joined) <= _MAX_TEXT else Unknown("a very long text")

    def _target(self, entry: Entry, reference: str, hops: int) -> Value:
        unknown = Unknown(f"the interpolation ${{{reference}}}")
        selection = _SELECT.match(reference)
        path = _path((selection.group(1) if selection else reference).strip(), entry.path)
        if path is None:
            return unknown
        found = self.config.get(*path, document=entry.document)
        if found is not None:
            return self._value(found, hops + 1)
        if selection is None or self.config.has(*path, document=entry.document):
            return unknown
        return plain_value((selection.group(2) or "").strip())


def _path(reference: str, base: Path) -> Path | None:
    """`a.b[0]` from the top; `.x` beside the value, `..x` one level up."""
    if not _KEY.match(reference):
        return None
    words = reference.lstrip(".")
    dots = len(reference) - len(words)
    if dots > len(base):
        return None
    parts = [p for p in re.split(r"[.\[\]]", words) if p]
    start = base[: len(base) - dots] if dots else ()
    return (*start, *(int(p) if p.isdecimal() else p for p in parts))


def _joined(items: list[Value]) -> Value:
    values: list[Scalar] = []
    for item in items:
        if isinstance(item, (Unknown, tuple)):
            return item if isinstance(item, Unknown) else Unknown("nested lists")
        values.append(item)
    return tuple(values)


def _as_text(value: Scalar) -> str:
    return "" if value is None else str(value)
