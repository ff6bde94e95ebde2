"""A docker engine with the action's image, as `make test` prepares them."""

import os
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.images import Image

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    """A real engine. Without one the test is skipped aloud, except in CI, where it fails."""
    try:
        client = docker.from_env(timeout=300)
        client.ping()
    except docker.errors.DockerException as error:
        reason = f"no docker engine ({error}); run `make test` as root"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    yield client
    client.close()


@pytest.fixture(scope="session")
def image(engine: docker.DockerClient) -> Image:
    """The action's image, built from the Dockerfile as it is."""
    built, _ = engine.images.build(path=str(ROOT), tag="pitstop-action-test", rm=True)
    return built
