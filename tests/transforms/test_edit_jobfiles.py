# ruff: noqa: E501 (a case is one line)
"""Flags and variables of commands in Makefiles, Dockerfiles, pipelines and cluster files."""

from __future__ import annotations

import pytest

from pitstop.rules.jobfiles import read_jobfile
from pitstop.rules.launch import find_launches
from pitstop.rules.tree import DictTree
from pitstop.transforms.edit_env import remove_env, set_env
from pitstop.transforms.edit_shell import Target, remove_flag, set_flag
from pitstop.transforms.patch import Changed, Outcome, Refused, Unchanged, apply_edits
from pitstop.transforms.shell_proof import Commands

WORKFLOW = ".github/workflows/train.yml"
HEAD = "on: push\njobs:\n  t:\n    runs-on: gpu\n"
POD = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: t}\nspec:\n  template:\n    spec:\n      containers:\n      - name: t\n        image: i\n"

FILES = {
    "makefile": ("Makefile", "train:\n\t@NCCL_DEBUG=INFO torchrun t.py --lr 1 \\\n\t\t--x 2\n"),
    "dockerfile, list": ("Dockerfile", 'FROM i\nENV NCCL_DEBUG=INFO A=1\nCMD ["torchrun", "t.py", "--lr", "1", "--x", "2"]\n'),
    "dockerfile, shell": ("Dockerfile", "FROM i\nENV NCCL_DEBUG INFO\nENTRYPOINT torchrun t.py --lr 1 --x 2\n"),
    "workflow": (WORKFLOW, f"{HEAD}    env:\n      NCCL_DEBUG: INFO\n      A: 1\n    steps:\n      - run: |\n          torchrun t.py \\\n            --lr 1 \\\n            --x 2\n"),
    "slurm": ("job.slurm", "#!/bin/bash\n#SBATCH -N 1\nexport NCCL_DEBUG=INFO\nsrun torchrun t.py --lr 1 --x 2\n"),
    "kubernetes": ("job.yaml", f'{POD}        command: ["torchrun"]\n        args:\n        - t.py\n        - --lr\n        - "1"\n        - --x=2\n        env:\n        - name: NCCL_DEBUG\n          value: INFO\n        - name: A\n          value: b\n'),
    "skypilot": ("sky.yaml", "resources:\n  accelerators: A100:8\nenvs:\n  NCCL_DEBUG: INFO\n  A: b\nrun: |\n  torchrun t.py --lr 1 --x 2\n"),
}  # fmt: skip

ADDED = {
    "makefile": "--x 2 \\\n\t\t--n 9\n",
    "dockerfile, list": '"--x", "2", "--n", "9"]',
    "dockerfile, shell": "--x 2 --n 9\n",
    "workflow": "--x 2 \\\n            --n 9\n",
    "slurm": "--x 2 --n 9\n",
    "kubernetes": '- --x=2\n        - --n\n        - "9"\n',
    "skypilot": "--x 2 --n 9\n",
}

GONE = {
    "makefile": "\t@torchrun t.py",
    "dockerfile, list": "ENV A=1\nCMD",
    "dockerfile, shell": "FROM i\nENTRYPOINT",
    "workflow": "    env:\n      A: 1\n",
    "slurm": "-N 1\nsrun",
    "kubernetes": "        env:\n        - name: A\n",
    "skypilot": "envs:\n  A: b\n",
}


def edit(path: str, text: str, name: str, value: str | None) -> Outcome:
    """Set (None: remove) a flag, or a variable when the name has no dashes."""
    tree = DictTree({path: text})
    scripts = read_jobfile(tree.read(path), tree)
    launch = next(one for script in scripts for one in find_launches(script))
    commands = Commands(tree, (path,))
    if name.startswith("--"):
        target = Target(commands, launch.location, launch.args, launch.entry_location)
        return remove_flag(target, name) if value is None else set_flag(target, name, value)
    now = launch.env.get(name)
    if value is None:
        return remove_env(commands, launch.location, now, name)
    return set_env(commands, launch.location, now, name, value)


def after(path: str, text: str, name: str, value: str | None) -> str:
    outcome = edit(path, text, name, value)
    assert isinstance(outcome, Changed), outcome
    changed = apply_edits(DictTree({path: text}).read(path), outcome.patch.edits)
    assert isinstance(edit(path, changed, name, value), Unchanged)
    return changed


@pytest.mark.parametrize("kind", FILES)
def test_flag_is_set(kind: str) -> None:
    path, text = FILES[kind]
    lr = next(old for old in ("--lr 1", '"--lr", "1"', '--lr\n        - "1"') if old in text)
    assert after(path, text, "--lr", "9") == text.replace(lr, lr.replace("1", "9"))


@pytest.mark.parametrize("kind", FILES)
def test_flag_is_added_and_removed(kind: str) -> None:
    path, text = FILES[kind]
    changed = after(path, text, "--n", "9")
    assert ADDED[kind] in changed
    assert after(path, changed, "--n", None) == text


@pytest.mark.parametrize("kind", FILES)
def test_variable_is_set(kind: str) -> None:
    path, text = FILES[kind]
    assert after(path, text, "NCCL_DEBUG", "WARN") == text.replace("INFO", "WARN")


@pytest.mark.parametrize("kind", FILES)
def test_variable_is_removed(kind: str) -> None:
    path, text = FILES[kind]
    assert GONE[kind] in after(path, text, "NCCL_DEBUG", None)


def test_only_variable_of_a_mapping_stays() -> None:
    path, text = FILES["skypilot"]
    assert isinstance(edit(path, text.replace("  A: b\n", ""), "NCCL_DEBUG", None), Refused)
