"""From written names to the settings of a job: decoded, ordered by precedence, with provenance."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pitstop.rules.configs import ConfigFile, Entry
from pitstop.rules.finding import Location, Setting, Surface, Unknown, Value
from pitstop.rules.frameworks import Framework
from pitstop.rules.frameworks.spelling import SILENT, Spelling, cast_value, plain_name
from pitstop.rules.job import Word
from pitstop.rules.job_words import FlagUse
from pitstop.rules.versions import Versions


class Rank(enum.IntEnum):
    """Who wins: lower beats higher. `YIELDS` is for places that only fill what is left open."""

    FLAG = 0
    CODE_ENV = 1
    ENV = 2
    CONFIG = 3
    CODE = 4
    PY_DEFAULT = 5
    YIELDS = 6
    DEFAULT = 9


@dataclass(frozen=True, slots=True)
class Written:
    """A name as it is written somewhere, with the rows that it has in a framework.

    `single` marks places of which only the strongest counts (flags, variables, config keys):
    what it says shadows the same name elsewhere even when it says nothing about the knob. Calls
    are not single: each one decides for itself.
    """

    rows: tuple[Spelling, ...]
    name: str
    value: Value
    rank: Rank
    surface: Surface
    raw: str = ""
    value_at: Location | None = None
    name_at: Location | None = None
    note: str | None = None
    condition: str | None = None
    single: bool = True

    def settings(self) -> Iterator[tuple[Rank, Setting]]:
        """The settings that the name decides, each with its rank."""
        seen: set[str] = set()
        for row in self.rows:
            if row.knob is None or row.dead or row.knob in seen:
                continue
            value = row.read(self.value)
            if value is SILENT:
                continue
            seen.add(row.knob)
            setting = Setting(
                row.knob, value, self.surface, self.name, row.framework, self.raw,
                self.value_at, self.name_at, self.note, self.condition,
            )  # fmt: skip
            yield (Rank.YIELDS if row.yields else self.rank), setting


def settle(written: Iterable[Written]) -> dict[str, tuple[Setting, ...]]:
    """Every setting by knob, the winner first. Of two with one rank the earlier given wins."""
    found: dict[str, list[tuple[Rank, Setting]]] = {}
    for one in _unshadowed(tuple(written)):
        for rank, setting in one.settings():
            found.setdefault(setting.knob, []).append((rank, setting))
    return {knob: tuple(_ordered(pairs)) for knob, pairs in found.items()}


def spelled_out(written: Iterable[Written]) -> dict[str, Written]:
    """By knob the strongest place where somebody wrote what is so anyway (`bf16: false`): it
    sets nothing, but it is where a reader looks for the setting."""
    found: dict[str, Written] = {}
    for one in sorted(written, key=lambda w: w.rank):
        if one.single and not one.condition and one.value is False and one.raw:
            for row in one.rows:
                if row.knob is not None and not row.dead and row.read(one.value) is SILENT:
                    found.setdefault(row.knob, one)
    return found


def at_place(default: Setting, place: Written | None) -> Setting:
    """A default shown where it is spelled out, if it has no place of its own."""
    if place is None or default.where is not None or not default.known:
        return default
    return replace(
        default,
        name=place.name,
        raw=place.raw,
        value_at=place.value_at,
        name_at=place.name_at,
        note=place.note,
    )


def _ordered(pairs: list[tuple[Rank, Setting]]) -> Iterator[Setting]:
    """The settings by rank; a word that two frameworks understand alike counts once."""
    seen: set[tuple[Location | None, Location | None, Surface]] = set()
    for _, setting in sorted(pairs, key=lambda pair: pair[0]):
        place = (setting.name_at, setting.value_at, setting.surface)
        if place not in seen or place[:2] == (None, None):
            seen.add(place)
            yield setting


def _unshadowed(written: tuple[Written, ...]) -> Iterator[Written]:
    """Without the places that a stronger one of the same name makes void by saying nothing:
    `bf16=false` on the command line undoes `bf16: true` in the config file."""
    void: dict[str, Rank] = {}
    for one in sorted(written, key=lambda w: w.rank):
        speaks = any(True for _ in one.settings())
        if one.single and not one.condition and not speaks:
            void.setdefault(plain_name(one.name), one.rank)
    spoken = {(plain_name(w.name), w.rank) for w in written if w.single and any(w.settings())}
    for one in written:
        name = plain_name(one.name)
        rank = void.get(name)
        silenced = rank is not None and one.rank > rank and one.single
        if not silenced or (name, rank) in spoken:
            yield one


# --- the command line ------------------------------------------------------------------------


def from_flags(framework: Framework, uses: Iterable[FlagUse]) -> Iterator[Written]:
    """The flags of a command line that a framework knows; the last of equal ones wins."""
    for use in reversed(tuple(uses)):
        rows, negated = _flag_rows(framework, use.name)
        if not rows:
            continue
        value, at = _flag_value(rows[0], use)
        if negated:
            value = False
        yield Written(
            rows, use.spelled, value, Rank.FLAG, Surface.FLAG, raw=at[0], value_at=at[1],
            name_at=use.name_at, note=use.note, condition=use.condition,
        )  # fmt: skip


def _flag_rows(framework: Framework, name: str) -> tuple[tuple[Spelling, ...], bool]:
    """The rows of a flag, and whether it is the `--no_x` form of a boolean one."""
    rows = framework.named(name, Surface.FLAG)
    if rows or not name.startswith("no_"):
        return rows, False
    rows = framework.named(name.removeprefix("no_"), Surface.FLAG)
    negates = bool(rows) and rows[0].type == "bool" and rows[0].flag_style == "hf"
    return (rows if negates else ()), negates


def _flag_value(row: Spelling, use: FlagUse) -> tuple[Value, tuple[str, Location | None]]:
    """The value that a flag takes by its type: a bare boolean flag is true, a word after it that
    is no boolean belongs to something else."""
    if row.type == "list" and use.words:
        span = _span(use.words)
        return use.value, (" ".join(w.text for w in use.words), span)
    first = use.first()
    if row.type == "bool" and use.words and use.words[0].known:
        bare = row.flag_style == "store_true" or not isinstance(cast_value(first, "bool"), bool)
        if bare and use.inline is None and not (row.values and str(first).lower() in row.values):
            return True, ("", None)
    if not use.words:
        return True, ("", None)
    return first, (use.words[0].text, use.words[0].location)


def _span(words: tuple[Word, ...]) -> Location | None:
    """One place for several words, when they stand in one file."""
    first, last = words[0].location, words[-1].location
    if first.path != last.path or last.span.end < first.span.start:
        return first
    return replace(
        first,
        span=replace(first.span, end=last.span.end),
        end_line=last.end_line,
        end_column=last.end_column,
    )


# --- the environment -------------------------------------------------------------------------


def from_env(framework: Framework, env: Mapping[str, Word]) -> Iterator[Written]:
    """The variables in force that a framework knows."""
    for name, word in env.items():
        rows = framework.named(name, Surface.ENV)
        if rows:
            value = word.text if word.known else Unknown(word.why_unknown or "not resolved")
            yield Written(
                rows, name, value, Rank.ENV, Surface.ENV, raw=word.text, value_at=word.location,
                name_at=word.location, note=word.note, condition=word.condition,
            )  # fmt: skip


# --- config files ----------------------------------------------------------------------------


def from_config(framework: Framework, config: ConfigFile) -> Iterator[Written]:
    """The keys of a config file that a framework knows, nested ones by their dotted path."""
    surface = Surface(config.kind)
    for entry in config.entries:
        if entry.document:
            continue
        name = dotted(entry)
        rows = framework.named(name, surface) if name else ()
        if name and rows:
            yield Written(
                rows, name, entry.value, Rank.CONFIG, surface, raw=entry.raw,
                value_at=entry.value_at, name_at=entry.key_at, note=entry.note,
            )  # fmt: skip


def dotted(entry: Entry) -> str | None:
    """An entry's path as a dotted name; None for a member of a sequence."""
    if any(isinstance(part, int) for part in entry.path):
        return None
    return ".".join(str(part) for part in entry.path)


# --- defaults --------------------------------------------------------------------------------


def default_settings(
    framework: Framework,
    versions: Versions,
    settings: Mapping[str, tuple[Setting, ...]],
    *,
    doubt: Unknown | None = None,
    mentions: Callable[[str], bool] = lambda word: False,
    anchor: Location | None = None,
) -> Iterator[Setting]:
    """What the framework does for each knob that it has an opinion on.

    `doubt` is the Unknown to give instead when more may be written than can be seen, `mentions`
    tells whether a word stands in the program; `anchor` is the call in which the framework's
    arguments are given, where there is one.
    """
    values = {knob: found[0].value for knob, found in settings.items()}
    for knob, alternatives in framework.defaults.items():
        plain = [a for a in alternatives if not a.settings]
        if len(plain) == len(alternatives):
            values.setdefault(knob, framework.default(knob, versions))
    for knob in framework.defaults:
        word = next((w for w in framework.doubts.get(knob, ()) if mentions(w)), None)
        unsure = (
            doubt
            if doubt is not None
            else (Unknown(f"the program speaks of {word}") if word else None)
        )
        value = unsure if unsure is not None else framework.default(knob, versions, values)
        row = next((r for r in framework.rows if r.knob == knob and not r.extra), None)
        yield Setting(
            knob, value, Surface.DEFAULT, row.name if row else "", framework.name, name_at=anchor
        )
