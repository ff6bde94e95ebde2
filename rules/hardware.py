"""What is known of the machine that a job runs on."""

from __future__ import annotations

from collections.abc import Mapping

from pitstop.rules.finding import Setting
from pitstop.rules.job import HardwareFacts, LaunchCommand
from pitstop.rules.shell import Script


def hardware_of(
    launch: LaunchCommand | None,
    script: Script | None,
    settings: Mapping[str, tuple[Setting, ...]],
) -> HardwareFacts:
    """GPUs by the launch, its script's headers and its settings."""
    return HardwareFacts()
