"""The machine that a person names on the command line."""

from __future__ import annotations

import argparse
import dataclasses

from pitstop.rules.finding import UserError
from pitstop.rules.hardware import find_gpu, gpus
from pitstop.rules.job import HardwareFacts


def stated_hardware(options: argparse.Namespace) -> HardwareFacts | None:
    """What --gpu and --gpus-per-node say. Raises UserError for a name of none or several."""
    if options.gpu is None and options.gpus_per_node is None:
        return None
    named = HardwareFacts()
    if options.gpu is not None:
        found = find_gpu(options.gpu)
        if found is None or found.gpu is None:
            known = ", ".join(gpus())
            raise UserError(f"--gpu {options.gpu!r} names no one GPU; known are {known}.")
        named = found
    return dataclasses.replace(
        named, gpus_per_node=options.gpus_per_node, evidence="the command line"
    )
