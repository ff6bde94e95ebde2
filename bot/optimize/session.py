"""Everything that one optimization knows so far, and how each of its states went."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pitstop.bot.optimize.arms import Arm, CancelledError, DeadlineError, Track
from pitstop.bot.optimize.compare import Comparer
from pitstop.bot.optimize.proposals import Reading
from pitstop.bot.optimize.record import Record, State
from pitstop.bot.optimize.request import OptimizeRequest
from pitstop.bot.optimize.workfolder import Copied, WorkFolder
from pitstop.rules.finding import UserError
from pitstop.runners.job import Runner, RunnerError

if TYPE_CHECKING:
    from pitstop.runners.diagnosis import Diagnosis

Say = Callable[[str], None]


@dataclass(slots=True)
class Tried:
    """One change that was tried: what came of it, as plain data for the record."""

    id: str
    title: str
    why: str
    numerics: str
    round: int
    outcome: str  # kept, not faster, within noise, other training, failed, refused
    reason: str = ""
    commit: str = ""
    diff: str = ""
    comparison: dict[str, Any] = field(default_factory=dict)
    repairs: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Session:
    """Everything that one optimization knows so far."""

    request: OptimizeRequest
    runner: Runner
    work: WorkFolder
    record: Record
    cancel: threading.Event
    say: Say
    deadline: float
    copied: Copied | None = None
    track: Track | None = None
    comparer: Comparer | None = None
    start: Arm | None = None
    best: Arm | None = None
    reading: Reading | None = None
    diagnosis: Diagnosis | None = None
    tried: list[Tried] = field(default_factory=list)

    def doing(self, state: State) -> Doing:
        """A state of the loop, as a context that records how it went."""
        return Doing(self, state)


class Doing:
    """Records a state. What a person caused, or the runner, ends the state and is told; a stop
    or a bug goes on upwards."""

    def __init__(self, session: Session, state: State) -> None:
        self._session = session
        self._state = state
        self.failed = False

    def __enter__(self) -> Doing:
        self._session.say(f"{self._state}")
        self._step = self._session.record.begin(self._state)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> bool:
        if error is None:
            self._session.record.end(self._step)
            return False
        self.failed = True
        self._session.record.end(self._step, "failed", sentence(error))
        return isinstance(error, UserError | RunnerError | ValueError | OSError)


def sentence(error: BaseException) -> str:
    """What went wrong, for people."""
    match error:
        case CancelledError():
            return "cancelled"
        case DeadlineError():
            return "the time allowed was used up"
        case UserError() | RunnerError() | ValueError():
            return str(error)
    return f"{type(error).__name__}: {error}"
