"""Runners under test. A runner of another kind joins the contract by one entry here."""

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pitstop.runners.docker_runner import DockerRunner
from pitstop.runners.job import Job, Limits, Runner, UnavailableError
from pitstop.runners.local_runner import LocalRunner
from pitstop.runners.probing import ProbeRequest, place_probe, read_probe
from pitstop.runners.slurm_runner import SlurmRunner

ROOT = Path(__file__).parents[2]
BASE = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)[0]

RUNNERS: dict[str, Callable[[], Runner]] = {
    "local": LocalRunner,
    "docker": lambda: DockerRunner(BASE),
    "slurm": SlurmRunner,
}
CLUSTER = Path("/tmp/pitstop-slurm/slurm.conf")
"""Of the Slurm that `make test` starts where it can (.ci/slurm)."""


@pytest.fixture(
    params=[
        pytest.param("local", id="local"),
        pytest.param("docker", id="docker", marks=pytest.mark.docker),
        pytest.param("slurm", id="slurm", marks=pytest.mark.slurm),
    ]
)
def runner(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Runner]:
    """A runner that can run here. Without an engine or a cluster its tests are skipped aloud."""
    if CLUSTER.exists() and "SLURM_CONF" not in os.environ:
        monkeypatch.setenv("SLURM_CONF", str(CLUSTER))
    made = RUNNERS[request.param]()
    if request.param != "local":
        try:
            made.preflight(Job("probe", ("true",), tmp_path, tmp_path))
        except UnavailableError as error:
            pytest.skip(f"{error}; run `make test` as root")
    yield made


@pytest.fixture
def base_image() -> str:
    """The image that the action's own is built from: there wherever docker is."""
    return BASE


@pytest.fixture
def new_runner(runner: Runner) -> Callable[[], Runner]:
    """Another one of the same kind."""
    return RUNNERS[runner.name]


@pytest.fixture
def python_job(tmp_path: Path) -> Callable[..., Job]:
    """A job that runs a Python program of its own folder."""

    def make(program: str, name: str = "job", **others: object) -> Job:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        (folder / "train.py").write_text(program, "utf-8")
        limits = others.pop("limits", Limits(seconds=30, grace=1))
        command = ("python3", "train.py")
        return Job(name, command, folder, tmp_path / "scratch", limits=limits, **others)

    return make


@pytest.fixture
def probed(tmp_path: Path):
    """Runs a program under the probe: its result, what was seen, and the folder of both."""
    folder = tmp_path / "project"
    folder.mkdir()

    def run(program: str, wish: ProbeRequest, command=(sys.executable, "train.py"), **env: str):
        (folder / "train.py").write_text(textwrap.dedent(program).lstrip(), "utf-8")
        scratch = tmp_path / f"s{len(list(tmp_path.iterdir()))}"
        given_env = {**place_probe(scratch / "site", wish, scratch / "out"), **env}
        job = Job("job", command, folder, scratch, env=given_env, limits=Limits(seconds=90))
        result = LocalRunner().run(job)
        return result, read_probe(scratch / "out"), scratch

    return run
