from __future__ import annotations

import pytest

from pitstop.rules.facts import gather
from pitstop.rules.hardware import find_gpu, gpus
from pitstop.rules.job import HardwareFacts
from pitstop.rules.tree import DictTree

TRAIN = {"train.py": "import torch\nfor b in x:\n    loss.backward()\n    opt.step()\n"}


def machine(script: str, **more: str) -> HardwareFacts:
    (job,) = gather(DictTree({**TRAIN, "run.sh": script, **more})).jobs
    return job.hardware


def test_the_table_is_sound() -> None:
    for key, gpu in gpus().items():
        assert gpu.memory > 10 * 2**30, key
        assert gpu.bandwidth > 1e11, key
        assert gpu.tflops["fp16"] >= gpu.tflops["fp32"], key
        if gpu.capability and gpu.capability >= (8, 0):
            assert "bf16" in gpu.tflops, key
        found = find_gpu(key)
        assert found is not None
        assert found.gpu == key


@pytest.mark.parametrize(
    ("text", "gpu", "capability"),
    [
        ("a100-80gb", "a100-80gb", (8, 0)), ("NVIDIA-A100-SXM4-40GB", "a100-40gb", (8, 0)),
        ("gpu:h100:8", "h100-80gb", (9, 0)), ("H200", "h200", (9, 0)),
        ("rtx3090", "rtx-3090", (8, 6)),
        ("gpu:a100:4", None, (8, 0)), ("v100", None, (7, 0)), ("l40s", "l40s", (8, 9)),
        ("MI300X", "mi300x", None), ("partition-h100-large", "h100-80gb", (9, 0)),
    ],
)  # fmt: skip
def test_names_of_gpus(text: str, gpu: str | None, capability: tuple[int, int] | None) -> None:
    found = find_gpu(text)
    assert found is not None
    assert (found.gpu, found.capability) == (gpu, capability)


@pytest.mark.parametrize(
    "text", ["gpu:8", "volta", "large", "8 x 80GB", "a1000", "h100|a100-80gb", ""]
)
def test_words_that_name_no_gpu_or_several(text: str) -> None:
    assert find_gpu(text) is None


@pytest.mark.parametrize(
    ("script", "gpu", "count"),
    [
        ("#!/bin/bash\n#SBATCH --gres=gpu:a100-80gb:8\npython train.py\n", "a100-80gb", 8),
        ("#!/bin/bash\n#SBATCH --gpus-per-node=h100:4\nsrun python train.py\n", "h100-80gb", 4),
        ("#!/bin/bash\n#SBATCH --gres=gpu:4\n#SBATCH -C h200\npython train.py\n", "h200", 4),
        ("#!/bin/bash\n#SBATCH --partition=a40\npython train.py\n", "a40", None),
        (
            "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --gpus=h100:16\nsrun python train.py\n",
            "h100-80gb",
            8,
        ),
        ("srun --gres=gpu:l40s:2 python train.py\n", "l40s", 2),
        ("# 8x H100\npython train.py\n", "h100-80gb", 8),
        ("# tested on 4 x NVIDIA A100 80GB\npython train.py\n", "a100-80gb", 4),
        ("# faster than A100\npython train.py\n", None, None),
        ("# 8x A100 80GB or 4x H100\npython train.py\n", None, None),
        ("python train.py\n", None, None),
    ],
)
def test_machines_from_scheduler_lines_and_plain_comments(
    script: str, gpu: str | None, count: int | None
) -> None:
    found = machine(script)
    assert (found.gpu, found.gpus_per_node) == (gpu, count)


def test_of_a_chip_with_several_memories_only_the_capability_is_known() -> None:
    found = machine("#!/bin/bash\n#SBATCH --gres=gpu:a100:8\npython train.py\n")
    assert (found.gpu, found.memory, found.capability, found.gpus_per_node) == (
        None,
        None,
        (8, 0),
        8,
    )


def test_the_evidence_is_told_with_its_place() -> None:
    found = machine("#!/bin/bash\n#SBATCH --gres=gpu:h100:8\npython train.py\n")
    assert found.location is not None
    assert (found.location.path, found.location.line, found.evidence) == (
        "run.sh", 2, "gres=gpu:h100:8",
    )  # fmt: skip


def test_gpus_of_a_container() -> None:
    job = """
apiVersion: batch/v1
kind: Job
spec:
  template:
    spec:
      containers:
        - name: train
          image: pytorch/pytorch
          command: ["python", "train.py"]
          resources: {limits: {nvidia.com/gpu: 4}}
"""
    (found,) = gather(DictTree({**TRAIN, "job.yaml": job})).jobs
    assert found.hardware.gpus_per_node == 4
