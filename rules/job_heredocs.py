"""Config files that a script writes before it starts the job, read from the script's text."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import replace

from pitstop.rules.configs import ConfigFile, Entry, read_config
from pitstop.rules.finding import Location
from pitstop.rules.job import Word
from pitstop.rules.shell import Heredoc
from pitstop.rules.sources import CONFIG_SUFFIXES
from pitstop.rules.tree import SourceFile, UnreadableError


def read_heredoc(heredoc: Heredoc, script: SourceFile | None) -> ConfigFile | None:
    """The file that exists once the script has run, with every place in the script: exact where
    the text stands there as it is, else the whole heredoc. None for what is no config file, or
    depends on something that could not be resolved."""
    suffix = heredoc.target.rpartition(".")[2].lower()
    if f".{suffix}" not in CONFIG_SUFFIXES or script is None or not heredoc.known:
        return None
    try:
        config = read_config(SourceFile(f"heredoc.{suffix}", heredoc.text))
    except UnreadableError:
        return None
    places = _Places(heredoc, script)
    entries = tuple(_moved(entry, places) for entry in config.entries)
    return ConfigFile(script.path, config.kind, entries)


class _Places:
    """From offsets in a heredoc's text to places in the script."""

    def __init__(self, heredoc: Heredoc, script: SourceFile) -> None:
        self.whole = heredoc.location
        self.script = script
        self.pieces = heredoc.pieces
        self.starts = list(_starts(heredoc.pieces))

    def find(self, at: Location) -> Location:
        """The same characters in the script."""
        index = bisect.bisect_right(self.starts, at.span.start) - 1
        if not 0 <= index < len(self.pieces):
            return self.whole
        piece, start = self.pieces[index], self.starts[index]
        if not piece.exact or at.span.end - start > len(piece.text):
            return self.whole
        shift = piece.location.span.start - start
        return self.script.location(at.span.start + shift, at.span.end + shift)


def _starts(pieces: Iterable[Word]) -> Iterable[int]:
    at = 0
    for piece in pieces:
        yield at
        at += len(piece.text)


def _moved(entry: Entry, places: _Places) -> Entry:
    return replace(
        entry,
        value_at=places.find(entry.value_at),
        key_at=places.find(entry.key_at) if entry.key_at else None,
        items=tuple(_moved(item, places) for item in entry.items),
    )
