"""The image that a job runs in: named, or built from the default branch; packages added.

A build has the network and runs what its Dockerfile says. So both the Dockerfile and its context
come from the default branch, at the commit that the gate saw, and never from a pull request; the
step that adds packages has no files at all.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from pitstop.bot.stages.request import RunEnvironment
from pitstop.rules.finding import UserError
from pitstop.runners.job import UnavailableError

if TYPE_CHECKING:
    from pitstop.runners.docker_runner import DockerRunner

VERSIONS = {"liger-kernel": "0.8.5", "bitsandbytes": "0.50.2", "torchao": "0.18.0"}
"""Packages that changes of ours may need, each at the version that they were written for. Only
wheels are taken, without what they depend on: an image's torch stays what it is."""


def image_for(
    runner: DockerRunner, environment: RunEnvironment, context: Path, notes: list[str]
) -> str:
    """The image's name, ready to be run. What could not be added is told in `notes`.

    Raises UserError when no image is named, or the context is another commit than the gate's;
    UnavailableError when it cannot be built.
    """
    image = environment.image or _built(runner, environment, context)
    if not environment.packages:
        return image
    recipe = dockerfile_with(image, environment.packages)
    tag = f"pitstop-job:{_digest(recipe)}"
    try:
        if not runner.has(tag):
            runner.build(tag, recipe)
    except UnavailableError as error:
        names = ", ".join(environment.packages)
        notes.append(f"Changes that need {names} were not tried: {error}.")
        return image
    return tag


def _built(runner: DockerRunner, environment: RunEnvironment, context: Path) -> str:
    from pitstop.bot.stages.run import checked_out

    if environment.dockerfile is None or environment.context_sha is None:
        raise UserError(
            "no image is named for the job: set `optimize.image` (or `image` of the job, or"
            " `optimize.dockerfile`) in `.github/pitstop.yml` on the default branch"
        )
    if checked_out(context) != environment.context_sha:
        raise UserError(
            f"the folder `{context.name}` is not at {environment.context_sha[:12]}: check out the"
            " gate's output `context` to it"
        )
    tag = f"pitstop-job:{environment.context_sha[:20]}"
    folder = (context / environment.context).resolve()
    file = (context / environment.dockerfile).resolve()
    if not folder.is_relative_to(context.resolve()) or not file.is_relative_to(folder):
        raise UserError("`optimize.dockerfile` must lie in `optimize.context`")
    if not runner.has(tag):
        runner.build(tag, file.relative_to(folder).as_posix(), folder)
    return tag


def dockerfile_with(image: str, packages: tuple[str, ...]) -> str:
    """A Dockerfile that adds packages to an image, and needs no files."""
    pins = " ".join(f"{name}=={VERSIONS[name]}" for name in sorted(packages))
    pip = "python3 -m pip install --no-cache-dir --no-deps --only-binary=:all:"
    return f"FROM {image}\nRUN {pip} {pins}\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]
