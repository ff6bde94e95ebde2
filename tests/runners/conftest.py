"""Runners under test. A runner of another kind joins the contract by one entry here."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pitstop.runners.job import Job, Limits, Runner
from pitstop.runners.local_runner import LocalRunner

RUNNERS: dict[str, Callable[[], Runner]] = {"local": LocalRunner}


@pytest.fixture(params=[pytest.param(name, id=name) for name in RUNNERS])
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    yield RUNNERS[request.param]()


@pytest.fixture
def python_job(tmp_path: Path) -> Callable[..., Job]:
    """A job that runs a Python program of its own folder."""

    def make(program: str, name: str = "job", **others: object) -> Job:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        (folder / "train.py").write_text(program, "utf-8")
        limits = others.pop("limits", Limits(seconds=30, grace=1))
        return Job(
            name, ("python3", "train.py"), folder, tmp_path / "scratch", limits=limits, **others
        )

    return make
