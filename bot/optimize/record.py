"""What an optimization did so far, on disk after every step: a killed one still tells it."""

from __future__ import annotations

import contextlib
import enum
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

VERSION = 1


class State(enum.StrEnum):
    """The ten steps, in order (some are done several times)."""

    INTAKE = "intake"
    AUDIT = "audit"
    COPY = "copy"
    BASELINE = "baseline"
    DIAGNOSE = "diagnose"
    APPLY = "apply"
    VERIFY = "verify"
    DECIDE = "decide"
    REPORT = "report"
    CHECK = "check"


@dataclass(slots=True)
class Step:
    """One doing of a state: `result` is "done", "failed", "skipped" or "running"."""

    state: str
    number: int
    started: float
    seconds: float = 0.0
    attempts: int = 1
    result: str = "running"
    reason: str = ""


@dataclass(slots=True)
class Record:
    """The steps of one optimization, and facts about it, written to `path` at every change.

    `on_save` is told after each write (the report is rendered anew there). A disk that is full or
    read-only does not stop the run: `unwritten` holds the reason.
    """

    path: Path
    facts: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    finished: bool = False
    unwritten: str = ""
    on_save: Callable[[], None] | None = None

    def begin(self, state: State) -> Step:
        """A state starts."""
        number = 1 + sum(step.state == state for step in self.steps)
        step = Step(state.value, number, time.time())
        self.steps.append(step)
        self.save()
        return step

    def end(self, step: Step, result: str = "done", reason: str = "") -> None:
        """A state is over."""
        step.result, step.reason = result, reason
        step.seconds = time.time() - step.started
        self.save()

    def note(self, **facts: Any) -> None:
        """Remember facts (plain data) under their names."""
        self.facts.update(facts)
        self.save()

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        """States that were not done, each with the reason."""
        return tuple((s.state, s.reason) for s in self.steps if s.result in ("failed", "skipped"))

    def save(self) -> None:
        """Write the record, whole or not at all."""
        data = {
            "version": VERSION,
            "finished": self.finished,
            "facts": self.facts,
            "steps": [asdict(step) for step in self.steps],
        }
        try:
            write_json(self.path, data)
            self.unwritten = ""
        except OSError as error:
            self.unwritten = f"{self.path}: {error.strerror}"
        if self.on_save is not None:
            self.on_save()


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write JSON so that a reader sees the old file or the new one. Raises OSError."""
    write_text(path, json.dumps(data, indent=1, ensure_ascii=False, default=str) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text so that a reader sees the old file or the new one. Raises OSError."""
    beside = path.with_name(f".{path.name}.new")
    try:
        with beside.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
