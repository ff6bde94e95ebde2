"""The run stage: a request and a checkout in, a bundle out; and the wall around the job."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pitstop.bot.action import run
from pitstop.bot.optimize.request import Sizes
from pitstop.bot.settings import read_settings
from pitstop.bot.stages import run as run_module
from pitstop.bot.stages.bundle import read_run_bundle
from pitstop.bot.stages.request import RunEnvironment, RunRequest, read_request
from pitstop.bot.stages.run import gpus_for, request_for
from pitstop.rules.finding import UserError
from pitstop.runners.docker_runner import DockerRunner
from pitstop.runners.local_runner import LocalRunner
from tests.bot.optimize.test_loop import SLOW_LOADER
from tests.bot.reviewing import Time
from tests.bot.stages.conftest import CONFIG, Stage, outputs

ROOT = Path(__file__).parents[3]
BASE = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)[0]
SMALL = Sizes(
    steps=6, kept_seconds=0.0, warm_up=1, pairs=2, more_pairs=0, parity_steps=4, rounds=1,
    candidates=1, run_seconds=60, silence=60, session_seconds=200,
)  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "QUICK", SMALL)


def check_out(stage: Stage, sha: str) -> None:
    """What actions/checkout leaves."""
    project = stage.folder / "workspace" / "project"
    project.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "clone", "-q", stage.repo.record.git.path, project], check=True)
    subprocess.run(["git", "checkout", "-q", sha], cwd=project, check=True)


def run_job(stage: Stage, **inputs: str) -> dict[str, str]:
    """The runner's job: no token anywhere."""
    settings = stage.settings(None, mode="run", request=stage.kept_request, **inputs)
    environment = dataclasses.replace(settings, token="")
    (stage.folder / "output").unlink(missing_ok=True)
    run(environment, clock=Time().clock)
    return outputs(stage.folder / "output")


def asked(stage: Stage, text: str) -> str:
    stage.review()
    assert stage.command(text)["go"] == "true", stage.answer()
    stage.kept_request = stage.outputs["request"]
    check_out(stage, stage.outputs["sha"])
    return stage.outputs["sha"]


@pytest.mark.timeout(240)
def test_from_comment_to_follow_up(stage: Stage) -> None:
    """The whole loop, with a job that trains."""
    program = textwrap.dedent(SLOW_LOADER).lstrip()
    stage.pull.push({"train.py": program})
    sha = asked(stage, f"/optimize --quick only loader-arguments -- {sys.executable} train.py")
    before = {k: v for k, v in stage.repo.references().items() if "pull" not in k}
    found = run_job(stage, runner="local")
    assert found == {"bundle": "pitstop-bundle"}
    folder = stage.folder / "workspace" / "pitstop-bundle"
    bundle = read_run_bundle(folder)
    assert bundle.data.sha == sha
    assert bundle.data.runs > 0
    assert (folder / "reports" / "final_optimization-summary.html").exists()
    git = ["git", "status", "--porcelain"]
    project = stage.folder / "workspace" / "project"
    assert subprocess.run(git, cwd=project, capture_output=True, check=True).stdout == b""
    stage.publish(folder)
    assert bundle.data.verdict.split()[0] in stage.answer()
    after = {k: v for k, v in stage.repo.references().items() if "pull" not in k}
    assert {k: v for k, v in after.items() if not k.endswith("pitstop/pr-1")} == before
    if bundle.data.outcome == "kept":  # speed is not what a test asserts
        tip = stage.repo.tip("pitstop/pr-1")
        assert tip is not None
        assert b"num_workers" in stage.repo.record.git.read(tip, "train.py")
        assert len(stage.follow_ups()) == 1


def test_another_commit_is_refused(stage: Stage) -> None:
    asked(stage, "/optimize")
    project = stage.folder / "workspace" / "project"
    subprocess.run(["git", "checkout", "-q", "main"], cwd=project, check=True)
    with pytest.raises(UserError, match="check out the gate's output"):
        run_job(stage, runner="local")


def test_no_image_ends_in_a_bundle(stage: Stage) -> None:
    stage.repo.commit("main", {".github/pitstop.yml": "jobs: {a: {launch: python train.py}}\n"})
    asked(stage, "/optimize")
    run_job(stage)
    bundle = read_run_bundle(stage.folder / "workspace" / "pitstop-bundle").data
    assert bundle.outcome == "failed"
    assert "optimize.image" in bundle.verdict
    stage.publish(stage.folder / "workspace" / "pitstop-bundle")
    assert "optimize.image" in stage.answer()


def test_the_run_stage_reads_no_token(tmp_path: Path) -> None:
    environment = {
        "INPUT_MODE": "run",
        "INPUT_GITHUB-TOKEN": "ghs_canary",
        "GITHUB_TOKEN": "ghs_canary",
        "GITHUB_REPOSITORY": "octocat/train",
        "GITHUB_EVENT_NAME": "issue_comment",
        "GITHUB_EVENT_PATH": str(tmp_path),
        "GITHUB_WORKSPACE": str(tmp_path),
    }
    assert read_settings(environment).token == ""


def test_secrets_are_not_passed_on_even_when_they_are_listed(tmp_path: Path) -> None:
    names = ("OMP_NUM_THREADS", "HF_TOKEN", "GITHUB_TOKEN", "ACTIONS_RUNTIME_URL", "MY_SECRET", "X")
    request = RunRequest.model_validate_json(
        json.dumps(
            {
                "repository": "o/r", "number": 1, "sha": "a" * 40, "head_ref": "x",
                "head_repository": "o/r", "base_ref": "main", "fork": False, "comment": 1,
                "commenter": "a", "permission": "write", "launch": "python train.py",
                "environment": {"image": "i", "env": names},
            }
        )
    )  # fmt: skip
    environ = dict.fromkeys(names[:-1], "1")
    made = request_for(request, tmp_path, tmp_path / "out", environ)
    assert made.env == (("OMP_NUM_THREADS", "1"),)


@pytest.mark.parametrize(
    ("stated", "handed_out", "given"),
    [(None, True, -1), (None, False, None), (2, True, 2), (2, False, 2)],
)
def test_a_job_gets_all_gpus_unless_told_otherwise(
    stated: int | None, handed_out: bool, given: int | None
) -> None:
    class Daemon(DockerRunner):
        def has_gpus(self) -> bool:
            return handed_out

    environment = RunEnvironment(gpus=stated)
    request = RunRequest(
        repository="o/r", number=1, sha="a" * 40, head_ref="x", head_repository="o/r",
        base_ref="main", fork=False, comment=1, commenter="a", permission="write",
        launch="python train.py", environment=environment,
    )  # fmt: skip
    assert gpus_for(Daemon("train:latest"), request) == given
    assert gpus_for(LocalRunner(), request) == stated


SEARCH = """
import glob, os, socket, urllib.request

found = set()

def look(where, data):
    for name in ("env", "file", "git", "event", "temp"):
        if ("canary-" + name).encode() in data:
            found.add(f"{where} has canary-{name}")

look("environment", repr(dict(os.environ)).encode())
for path in glob.glob("/proc/[0-9]*/environ"):
    try:
        look("/proc", open(path, "rb").read())
    except OSError:
        pass
for root in [os.environ.get("ONLY_BELOW", "/")]:
    for folder, folders, files in os.walk(root):
        skipped = ("/proc", "/sys", "/usr", "/dev")
        folders[:] = [f for f in folders if os.path.join(folder, f) not in skipped]
        for name in files:
            try:
                path = os.path.join(folder, name)
                if os.path.getsize(path) < 100_000:
                    look("files", open(path, "rb").read())
            except OSError:
                pass
for path in ("/var/run/docker.sock", "/run/docker.sock"):
    if os.path.exists(path):
        found.add("a docker socket")
if len(glob.glob("/proc/[0-9]*")) > 40:
    found.add("processes of the host")
for name in ("eth0", "docker0", "ens3"):
    if os.path.exists("/sys/class/net/" + name):
        found.add("a network")
try:
    urllib.request.urlopen("http://169.254.169.254/", timeout=1)
    found.add("the metadata address")
except OSError:
    pass
print("FOUND:", "; ".join(sorted(found)) or "nothing")
raise SystemExit(3)

import torch

for batch in loader:
    loss = model(batch)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.docker
@pytest.mark.timeout(200)
@pytest.mark.parametrize("network", [False, True])
def test_the_job_finds_none_of_the_canaries(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, network: bool
) -> None:
    """A job that looks everywhere, behind the wall; without the wall it finds what was planted.
    With the network it sees that, and on a cloud's machine the metadata address (docs)."""
    from pitstop.runners.docker_runner import DockerRunner
    from pitstop.runners.job import Job, UnavailableError

    try:
        DockerRunner(BASE).preflight(Job("probe", ("true",), tmp_path, tmp_path))
    except UnavailableError as error:
        pytest.skip(f"{error}; run `make test` as root")
    config = CONFIG.replace("train:latest", BASE).replace("data: {/data: /srv/data}", "data: {}")
    config = config.replace("python train.py --steps 100", "python3 train.py")
    config = config.replace("[OMP_NUM_THREADS]", "[OMP_NUM_THREADS, HF_TOKEN]")
    config += "    network: true\n" if network else ""
    stage.repo.commit("main", {".github/pitstop.yml": config})
    stage.pull.push({"train.py": SEARCH})
    asked(stage, "/optimize --quick")
    workspace = stage.folder / "workspace"
    monkeypatch.setenv("HF_TOKEN", "canary-env")
    monkeypatch.setenv("GITHUB_TOKEN", "canary-env")
    (stage.folder / "secret.txt").write_text("canary-file")
    (workspace / "beside.txt").write_text("canary-temp")
    (stage.folder / "event.json").write_text("canary-event")
    git = ["git", "config", "http.extraheader", "canary-git"]
    subprocess.run(git, cwd=workspace / "project", check=True)

    control = subprocess.run(
        [sys.executable, "-c", SEARCH],
        cwd=workspace / "project",
        env={**os.environ, "ONLY_BELOW": str(stage.folder)},
        capture_output=True,
        check=False,
    ).stdout.decode()
    for planted in ("canary-env", "canary-file", "canary-temp", "canary-event", "canary-git"):
        assert planted in control

    run_job(stage)
    state = json.loads((workspace / "pitstop-work" / "reports" / "state.json").read_text())
    (found,) = re.findall(r"^FOUND: (.*)$", state["facts"]["baseline_log"], re.MULTILINE)
    if network:
        assert set(found.split("; ")) - {"the metadata address"} == {"a network"}
    else:
        assert found == "nothing"
    bundle = read_run_bundle(workspace / "pitstop-bundle").data
    assert bundle.outcome == "failed"
    files = (path for path in (workspace / "pitstop-bundle").rglob("*") if path.is_file())
    everything = b"".join(path.read_bytes() for path in files)
    assert b"canary-env" not in everything.replace(b'canary-env" in', b"")


def test_requests_are_read_back(stage: Stage) -> None:
    stage.review()
    text = stage.command()["request"]
    assert read_request(text).to_json() == text
    assert os.environ.get("INPUT_REQUEST") is None
