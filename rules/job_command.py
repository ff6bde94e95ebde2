"""What a command line says beyond plain flags: JSON objects, and the first word of a program."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from pitstop.rules.detection import program_in
from pitstop.rules.finding import Surface, Value
from pitstop.rules.frameworks import Framework
from pitstop.rules.job import LaunchCommand
from pitstop.rules.job_settings import Rank, Written
from pitstop.rules.job_words import FlagUse, flag_uses


def from_json_flags(framework: Framework, uses: Iterable[FlagUse]) -> Iterator[Written]:
    """What flags say that take a JSON object (`--speculative-config '{"method": "ngram"}'`), by
    dotted names. The place is the flag's name: what stands inside is not edited."""
    for use in reversed(tuple(uses)):
        text = use.words[0].text.strip() if len(use.words) == 1 and use.words[0].known else ""
        for name, value in _json_leaves(use.name, text):
            rows = framework.named(name, Surface.FLAG)
            if rows:
                yield Written(
                    rows, f"{use.spelled}.{name.partition('.')[2]}", value, Rank.FLAG,
                    Surface.FLAG, raw=json.dumps(value), name_at=use.name_at, note=use.note,
                    condition=use.condition,
                )  # fmt: skip


def _json_leaves(name: str, text: str) -> Iterator[tuple[str, Value]]:
    if not (text.startswith("{") and text.endswith("}")):
        return
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return
    for key, value in found.items():
        if isinstance(value, str | int | float | bool):
            yield f"{name}.{key}", value
        elif isinstance(value, list) and all(isinstance(v, str | int | float) for v in value):
            yield f"{name}.{key}", tuple(value)


def from_first_word(framework: Framework, launch: LaunchCommand | None) -> Iterator[Written]:
    """What the first plain word of one of the framework's own commands sets: `vllm serve MODEL`."""
    command = program_in(framework, launch)
    name = framework.programs[command] if command else ""
    if launch is None or not name:
        return
    plain = flag_uses(launch.args)[1]
    words = plain[1:] if plain and plain[0].text == (command or "").rpartition(" ")[2] else plain
    if words:
        first = words[0]
        yield Written(
            framework.named(name, Surface.FLAG), name, first.text, Rank.FLAG, Surface.FLAG,
            raw=first.text, value_at=first.location, note=first.note, condition=first.condition,
        )  # fmt: skip
