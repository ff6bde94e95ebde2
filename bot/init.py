"""`pitstop init`: the workflow files and the configuration of a repository that begins.

Reads the repository as the audit does, and writes only files that are not there. The workflow
files are those of `examples/workflows/`, which travel in the package.
"""

from __future__ import annotations

import argparse
import importlib.resources
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pitstop.bot.config import PATHS, find_config
from pitstop.rules.facts import gather
from pitstop.rules.finding import UserError
from pitstop.rules.job import TrainingJob
from pitstop.rules.launch import parse_command
from pitstop.rules.tree import FolderTree

REVIEW = ("review.yml", "fork-review.yml")
OPTIMIZE = ("optimize.yml",)
ACTION = "OWNER/pitstop@0000000000000000000000000000000000000000"
"""What stands in the examples where an action must be named."""

MAX_JOBS = 20
_PINNED = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+@[0-9a-f]{40}")
_SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch")


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job for `/optimize`: its name, its launch command from the root, where it was found."""

    name: str
    launch: str
    path: str


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to write, its path relative to the root."""

    path: str
    text: str


def run(options: argparse.Namespace) -> int:
    """Write what is missing and say what to do next. Raises UserError for a folder that is not
    a repository's root, or where a file cannot be written."""
    root = _root(options.path)
    tree = FolderTree(root)
    jobs = found_jobs(gather(tree).jobs)
    files = list(workflow_files(options.action, optimize=options.optimize))
    config = find_config(tree)
    if config is None:
        files.insert(0, NewFile(PATHS[0], config_text(jobs)))
    else:
        print(f"kept     {config}")
    wrote = [file.path for file in files if _write(root, file)]
    print("\n" + "\n".join(_next_steps(options, jobs, wrote, config)))
    return 0


def _root(folder: Path) -> Path:
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give the root of a repository.")
    folder = folder.resolve()
    if not (folder / ".git").exists():
        outer = next((p for p in folder.parents if (p / ".git").exists()), None)
        if outer is not None:
            raise UserError(
                f"{folder} lies inside the repository {outer}; workflows work only in its root:"
                f" run `pitstop init {shlex.quote(str(outer))}`."
            )
    return folder


def found_jobs(jobs: Iterable[TrainingJob]) -> tuple[FoundJob, ...]:
    """Training jobs that one plain command starts from the root, each command once."""
    found: dict[str, FoundJob] = {}
    names: set[str] = set()
    for job in jobs:
        launch = _launch(job)
        if job.purpose != "train" or launch is None or launch in found:
            continue
        path = job.location.path if job.location else ""
        found[launch] = FoundJob(_name(path, names), launch, path)
    return tuple(found.values())


def _launch(job: TrainingJob) -> str | None:
    """The command that starts the job from the root; None when none is certain."""
    path = job.location.path if job.location else ""
    if job.launch is None:
        command = ["python", job.entry] if job.entry and job.entry.endswith(".py") else []
    elif path.endswith(_SCRIPTS):
        command = ["bash", path]
    elif job.launch.cwd or not all(word.known for word in job.launch.words):
        return None
    else:
        command = [word.text for word in job.launch.words]
    text = shlex.join(command)
    try:
        parse_command(text)
    except UserError:
        return None
    return text if text.isprintable() else None


def _name(path: str, taken: set[str]) -> str:
    """A short name that no other job has: the file's, with its folder's where that is needed."""
    parts = PurePosixPath(path).with_suffix("").parts or ("job",)
    words = [re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-") for part in parts]
    words = [word for word in words if word] or ["job"]
    choices = ["-".join(words[-count:])[:60] for count in range(1, len(words) + 1)]
    choices += [f"{choices[-1]}-{number}" for number in range(2, len(taken) + 3)]
    name = next(choice for choice in choices if choice not in taken)
    taken.add(name)
    return name


def config_text(jobs: tuple[FoundJob, ...]) -> str:
    """A commented configuration with the jobs. Everything else is shown as a comment."""
    return f"{_HEAD}{''.join(_job_lines(jobs[:MAX_JOBS]))}{_TAIL}"


def _job_lines(jobs: tuple[FoundJob, ...]) -> Iterator[str]:
    if not jobs:
        yield "# No job was found that one command starts; describe yours like this:\n"
        yield '# jobs:\n#   train:\n#     launch: "torchrun --nproc_per_node 8 train.py"\n'
        return
    yield "jobs:\n"
    for job in jobs:
        place = f" # found in {job.path}" if job.path.isprintable() else ""
        yield f"  {job.name}:{place}\n    launch: {json.dumps(job.launch, ensure_ascii=False)}\n"


_HEAD = """\
# Pitstop's configuration. Every key may be left out; lines that begin with # show others.
# Pull requests are judged by the file of their base branch, `/optimize` goes by that of the
# default branch. `pitstop config check` says whether the file is valid.

# gpu: H100                 # the GPU, where the jobs do not name it
# gpus_per_node: 8
# goal: throughput          # or memory, balanced: what advice is for
# fail_on: critical         # the check fails on a new critical finding
# ignore: [nccl-debug-log]  # rules that do not fit here

# What `/optimize` may run: a name, and the command that you would type in the root.
"""

_TAIL = """
# More that a job may say (places in its container: folders of the runner's machine):
#     image: train:cuda12
#     data: {/data: /srv/data}
#     env: [OMP_NUM_THREADS]
#     network: false
#     gpus: 1
#     steps: 25
#     deadline: 120

# optimize:
#   image: train:latest     # what jobs run in; it must be on the runner's machine
#   dockerfile: Dockerfile  # or: what it is built from, on the default branch
#   context: .
#   packages: [liger-kernel]  # added to the image, for changes that need them
#   deadline: 240           # minutes for everything together
#   memory: 64              # GiB of host memory that a job may use
#   users: []               # who may use `/optimize` without the permission to write

# Changes to the training itself (another batch, packing, LoRA) that `/optimize` may try.
# allow: []
"""


def workflow_files(action: str | None, *, optimize: bool) -> Iterator[NewFile]:
    """The workflows, with the action that is to be trusted written in, if it is given. Raises
    UserError for one that is not pinned to a commit."""
    if action is not None and not _PINNED.fullmatch(action):
        raise UserError(
            f"--action {action!r} is not OWNER/NAME@COMMIT; give all 40 digits of the commit."
        )
    folder = importlib.resources.files("pitstop.workflows")
    for name in (*REVIEW, *(OPTIMIZE if optimize else ())):
        text = folder.joinpath(name).read_text("utf-8")
        yield NewFile(f".github/workflows/pitstop-{name}", text.replace(ACTION, action or ACTION))


def _write(root: Path, file: NewFile) -> bool:
    """Write a file that is not there, never through a link that leads out of the root."""
    path = root / file.path
    if not path.parent.resolve().is_relative_to(root):
        raise UserError(f"{path.parent} leads out of {root}; make it a folder.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(path, flags, 0o666), "w", encoding="utf-8") as stream:  # noqa: PTH123
            stream.write(file.text)
    except FileExistsError:
        print(f"kept     {file.path}")
        return False
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}).") from error
    print(f"written  {file.path}")
    return True


def _next_steps(
    options: argparse.Namespace,
    jobs: tuple[FoundJob, ...],
    wrote: list[str],
    config: str | None,
) -> Iterator[str]:
    yield "Next:"
    steps = []
    if options.action is None and any(path.startswith(".github/workflows/") for path in wrote):
        steps.append(
            "In the workflow files, put the owner and the commit of the Pitstop release that you"
            " trust where OWNER and the zeros stand."
        )
    shown = min(len(jobs), MAX_JOBS)
    if config is None:
        more = f" of {len(jobs)}" if len(jobs) > shown else ""
        count = f"{shown}{more} job{'s' if len(jobs) != 1 else ''}"
        steps.append(f"Read {PATHS[0]}: it holds {count} found here; keep those worth measuring.")
    if options.optimize:
        steps.append(
            "Set up a GPU runner with the labels self-hosted, linux and gpu, and name the image of"
            " the jobs in the configuration (docs/gpu-runner.md)."
        )
    else:
        steps.append("For `/optimize` on pull requests, run this again with --optimize.")
    steps.append("Commit the files to the default branch; then open a pull request.")
    for number, step in enumerate(steps, 1):
        yield f"  {number}. {step}"
