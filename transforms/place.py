"""A setting of a job together with what is needed to edit it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pitstop.rules.finding import Setting
from pitstop.rules.job import TrainingJob
from pitstop.rules.tree import SourceFile, UnreadableError
from pitstop.transforms.patch import Refused

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts


@dataclass(frozen=True, slots=True)
class Place:
    """The setting, the job that has it and the repository."""

    job: TrainingJob
    setting: Setting
    facts: ProjectFacts

    @property
    def path(self) -> str:
        """The file in which the setting is written."""
        where = self.setting.value_at or self.setting.name_at
        return where.path if where else ""

    def file(self, path: str | None = None) -> SourceFile | Refused:
        """That file's text, or another's."""
        wanted = self.path if path is None else path
        try:
            return self.facts.tree.read(wanted)
        except UnreadableError as error:
            return Refused(f"{wanted or 'the place'} cannot be edited: {error}")
