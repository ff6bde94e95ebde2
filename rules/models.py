"""What is known of the model that a job trains."""

from __future__ import annotations

from collections.abc import Mapping

from pitstop.rules.finding import Setting
from pitstop.rules.job import ModelFacts
from pitstop.rules.sources import Sources


def model_of(
    settings: Mapping[str, tuple[Setting, ...]], sources: Sources, folders: tuple[str, ...]
) -> ModelFacts:
    """The model named by the job's settings."""
    return ModelFacts()
