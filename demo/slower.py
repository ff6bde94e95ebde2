"""The pull request of the demo: an innocent-looking change that makes a training run slower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TITLE = "Settings for the debugging run"
BODY = """\
The loss of the last run jumped after 4k steps. These settings helped me to look into it:

- fp32 instead of bf16, so that it is not the precision
- checkpoints and logs more often
- synchronous kernels, so that tracebacks point at the right line
- ZeRO without overlapping and with timings, and workers off, to rule both out

Works for me, let's keep them.
"""


@dataclass(frozen=True, slots=True)
class Replacement:
    """One edit: a piece of text that stands in the file exactly once, and what replaces it."""

    path: str
    old: str
    new: str


CHANGE = (
    Replacement("configs/sft.yaml", "bf16: true\ntf32: true\n", "bf16: false\ntf32: false\n"),
    Replacement("configs/sft.yaml", "optim: adamw_torch_fused\n", "optim: adamw_torch\n"),
    Replacement("configs/sft.yaml", "num_workers: 8\n", "num_workers: 0\n"),
    Replacement(
        "configs/sft.yaml",
        "dataloader_persistent_workers: true\ndataloader_prefetch_factor: 4\n",
        "",
    ),
    Replacement("configs/sft.yaml", "logging_steps: 10\n", "logging_steps: 1\n"),
    Replacement("configs/sft.yaml", "save_steps: 500\n", "save_steps: 20\n"),
    Replacement("configs/sft.yaml", "flash_attention_2\n", "eager\n"),
    Replacement("configs/zero2.json", '"overlap_comm": true', '"overlap_comm": false'),
    Replacement(
        "configs/zero2.json",
        '  "zero_optimization"',
        '  "wall_clock_breakdown": true,\n  "zero_optimization"',
    ),
    Replacement(
        "scripts/train.sh",
        "export OMP_NUM_THREADS=8\n",
        "export OMP_NUM_THREADS=8\nexport CUDA_LAUNCH_BLOCKING=1\nexport NCCL_P2P_DISABLE=1\n",
    ),
    Replacement("train.py", "torch_dtype=torch.bfloat16", "torch_dtype=torch.float32"),
    Replacement(
        "train.py",
        "    set_seed(arguments.seed)\n",
        "    set_seed(arguments.seed)\n    torch.autograd.set_detect_anomaly(True)\n",
    ),
    Replacement("evaluate.py", "        num_workers=4,\n        pin_memory=True,\n", ""),
)


def project_files(folder: Path) -> dict[str, bytes]:
    """Every file of the project, by its path below the folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def slower_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files that the change touches, as they are after it. Raises ValueError when the
    project no longer holds what an edit replaces."""
    changed: dict[str, bytes] = {}
    for edit in CHANGE:
        text = changed.get(edit.path, files[edit.path]).decode()
        if text.count(edit.old) != 1:
            raise ValueError(f"{edit.path} does not hold exactly one {edit.old!r}")
        changed[edit.path] = text.replace(edit.old, edit.new).encode()
    return changed
