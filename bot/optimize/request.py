"""What a person asks of an optimization, and the sizes and limits that it keeps to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pitstop.runners.job import Limits, Mount

Goal = Literal["balanced", "throughput", "memory"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is run and measured. Everything is data, so that a test can make it small.

    `steps` are kept optimizer steps of a timed run, `warm_up` those dropped before them
    (`compiled_warm_up` where something is compiled), `pairs` the runs of before and after that
    are compared, `more_pairs` those added once to what is inconclusive. Runs of short steps are
    made longer, to `kept_seconds` or `most_steps`. Seconds are wall time: `run_seconds` for one
    run (or `run_factor` times the baseline's), `session_seconds` for everything.
    """

    steps: int = 25
    most_steps: int = 500
    kept_seconds: float = 5.0
    warm_up: int = 3
    compiled_warm_up: int = 10
    pairs: int = 3
    more_pairs: int = 2
    parity_steps: int = 20
    rounds: int = 5
    candidates: int = 4
    failures: int = 3
    repairs: int = 3
    repairs_in_round: int = 5
    run_seconds: float = 600.0
    run_factor: float = 4.0
    session_seconds: float = 4 * 3600.0
    small_gain: float = 0.05
    idle_rounds: int = 2
    silence: float = 900.0

    @property
    def work_seconds(self) -> float:
        """Seconds for runs: a tenth of everything, five minutes at most, is for the reports."""
        return self.session_seconds - min(300.0, self.session_seconds / 10)

    @property
    def most_pairs(self) -> int:
        """Pairs of one comparison, the added ones among them."""
        return self.pairs + self.more_pairs


QUICK = Sizes(pairs=2, more_pairs=0, rounds=1, candidates=2, kept_seconds=2.0, parity_steps=10)
"""For a first look: verdicts are at most "likely"."""


@dataclass(frozen=True, slots=True)
class OptimizeRequest:
    """One optimization, whoever asked for it.

    `command` is one plain command as a person types it in the project's root. `only` and
    `disable` name rules, recipes or plan rows; `allow` those that change the training itself.
    `copy_limit` is bytes. `may_use_nodes`: a command that starts several nodes is run as it is.
    """

    project: Path
    command: str
    goal: Goal = "throughput"
    out: Path | None = None
    only: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    sizes: Sizes = Sizes()
    quick: bool = False
    copy_limit: int = 10 * 2**30
    link_data: bool = False
    limits: Limits = field(default_factory=Limits)
    mounts: tuple[Mount, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    image: str | None = None
    network: bool = False
    gpus: int | None = None
    may_use_nodes: bool = False
    language: str = "en"
