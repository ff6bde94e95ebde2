"""The image of a job, with a real engine."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pitstop.bot.config import Package
from pitstop.bot.stages.images import VERSIONS, dockerfile_with, image_for
from pitstop.bot.stages.request import RunEnvironment
from pitstop.rules.finding import UserError
from pitstop.runners.docker_runner import DockerRunner
from pitstop.runners.job import Job, UnavailableError
from tests.bot.stages.test_run import BASE


@pytest.fixture
def runner(tmp_path: Path) -> DockerRunner:
    found = DockerRunner(BASE)
    try:
        found.preflight(Job("probe", ("true",), tmp_path, tmp_path))
    except UnavailableError as error:
        pytest.skip(f"{error}; run `make test` as root")
    return found


@pytest.fixture
def context(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The default branch's checkout, and its commit."""
    folder = tmp_path / "context"
    (folder / "docker").mkdir(parents=True)
    (folder / "docker" / "Dockerfile").write_text(f"FROM {BASE}\nCOPY own.txt /own.txt\n")
    (folder / "docker" / "own.txt").write_text("of the default branch\n")
    who = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()
    yield folder, head
    with contextlib.suppress(Exception):
        import docker

        docker.from_env().images.remove(f"pitstop-job:{head[:20]}", force=True)


def test_a_named_image_is_taken_as_it_is(tmp_path: Path) -> None:
    assert image_for(DockerRunner(), RunEnvironment(image="x:1"), tmp_path, []) == "x:1"


@pytest.mark.docker
def test_an_image_is_built_from_the_default_branch(
    runner: DockerRunner, context: tuple[Path, str], tmp_path: Path
) -> None:
    folder, head = context
    where = RunEnvironment(dockerfile="docker/Dockerfile", context="docker", context_sha=head)
    image = image_for(runner, where, folder, [])
    assert image == f"pitstop-job:{head[:20]}"
    job = Job("cat", ("cat", "/own.txt"), tmp_path / "p", tmp_path / "s", image=image)
    (tmp_path / "p").mkdir()
    assert runner.run(job).text() == "of the default branch\n"


def test_another_commit_builds_nothing(context: tuple[Path, str]) -> None:
    where = RunEnvironment(dockerfile="docker/Dockerfile", context_sha="f" * 40)
    with pytest.raises(UserError, match="output `context`"):
        image_for(DockerRunner(), where, context[0], [])


@pytest.mark.parametrize("dockerfile", ["docker/../../Dockerfile", "Dockerfile"])
def test_nothing_outside_the_context_is_built(context: tuple[Path, str], dockerfile: str) -> None:
    where = RunEnvironment(dockerfile=dockerfile, context="docker", context_sha=context[1])
    with pytest.raises(UserError, match="must lie in"):
        image_for(DockerRunner(), where, context[0], [])


@pytest.mark.docker
def test_packages_that_cannot_be_had_are_told(runner: DockerRunner, tmp_path: Path) -> None:
    notes: list[str] = []
    where = RunEnvironment(image="no/such/image:1", packages=("liger-kernel",))
    assert image_for(runner, where, tmp_path, notes) == "no/such/image:1"
    assert "liger-kernel were not tried" in notes[0]


def test_packages_are_pinned_wheels_alone() -> None:
    text = dockerfile_with("train:1", ("torchao", "liger-kernel"))
    assert text.startswith("FROM train:1\nRUN python3 -m pip install")
    assert "--only-binary=:all:" in text and "--no-deps" in text
    assert "liger-kernel==" in text
    assert set(VERSIONS) == set(Package.__args__)  # type: ignore[attr-defined]
