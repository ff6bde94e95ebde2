"""What a batch script of `slurm_runner` starts on the node: the job, as a local process there."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import threading
from pathlib import Path

from pitstop.runners.local_runner import LocalRunner
from pitstop.runners.slurm_runner import Ordered

DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""What Slurm says about the GPUs that it gave."""


def main(arguments: list[str]) -> int:
    """Run the job that a file describes, and write its result beside it."""
    order = Ordered.from_json(Path(arguments[0]).read_text("utf-8"))
    cancel = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: cancel.set())
    given = {name: os.environ[name] for name in DEVICES if name in os.environ}
    job = dataclasses.replace(order.job, env={**given, **order.job.env})
    runner = LocalRunner(order.environ)
    result = runner.run(job, cancel=cancel, on_line=lambda line: print(line, flush=True))
    data = json.dumps(dataclasses.asdict(result), default=str)
    beside = order.result.with_suffix(".new")
    beside.write_text(data, "utf-8")
    beside.replace(order.result)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
