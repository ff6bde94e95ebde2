"""Words and counts by which a job is described on the command line. What makes a job of them
(`typed_job`) is loaded only when there is one: each call of `pitstop` reads this."""

from __future__ import annotations

import argparse
import re

METHODS = ("full", "lora", "qlora", "dora", "freeze")
PRECISIONS = ("bf16", "fp16", "fp32", "pure-bf16")
SHARDINGS = ("none", "zero1", "zero2", "zero3", "fsdp", "fsdp-grad-op")
_COUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kmbt]?)", re.IGNORECASE)
_SCALES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


def parameter_count(text: str) -> int:
    """`7B`, `1.5b`, `350M` or a plain number. Raises ArgumentTypeError."""
    found = _COUNT.fullmatch(text.strip())
    if not found or not text.isascii():
        raise argparse.ArgumentTypeError(f"{text!r} is no parameter count; write 7B or 350M")
    return round(float(found[1]) * _SCALES[found[2].lower()])
