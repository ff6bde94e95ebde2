"""The repository as a fresh clone, and a docker engine with the action's image."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.images import Image

ROOT = Path(__file__).parents[2]


def files_of_git() -> Iterator[Path]:
    """What a clone would hold, with files that are not committed yet."""
    run = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in run.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            yield Path(name)


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy without what is built here, so that building leaves nothing in the real one."""
    folder = tmp_path_factory.mktemp("source")
    for path in files_of_git():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, folder / path)
    return folder


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    """A real engine. Without one the test is skipped aloud (in CI that is a failure)."""
    try:
        client = docker.from_env(timeout=300)
        client.ping()
    except docker.errors.DockerException as error:
        pytest.skip(f"no docker engine ({error}); run `make test` as root")
    yield client
    client.close()


@pytest.fixture(scope="session")
def image(engine: docker.DockerClient, source: Path) -> Image:
    """The action's image, built from the Dockerfile as it is."""
    built, _ = engine.images.build(path=str(source), tag="pitstop-action-test", rm=True)
    return built
