"""The action's image, built by a real engine and run as GitHub's runner runs it."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import docker
import pytest
from docker.models.images import Image
from ruamel.yaml import YAML

from demo.forge import Forge
from demo.handles import ForgePull
from tests.bot.optimize.test_loop import SLOW_LOADER
from tests.bot.stages.conftest import outputs
from tests.bot.stages.test_run import SEARCH

ROOT = Path(__file__).parents[2]
BASE = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)[0]
SOCKET = "/var/run/docker.sock:/var/run/docker.sock"
RUNNER = 1001
"""The user that GitHub's hosted machines run jobs as."""

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

TRAIN = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments, HfArgumentParser

def main(dataset):
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B")
    Trainer(model=model, args=args, train_dataset=dataset).train()

main(None)
"""
GOOD = (
    "torchrun --nproc_per_node 8 train.py --output_dir out --bf16 True \\\n  {}--save_steps 500\n"
)
SLOW = "--dataloader_num_workers 0 --dataloader_pin_memory False "


def slower_pull(forge: Forge) -> ForgePull:
    """A pull request that makes a training job slower."""
    repo = forge.create_repo(
        {"train.py": TRAIN, "run.sh": GOOD.format("--dataloader_num_workers 4 ")}
    )
    return repo.open_pull({"run.sh": GOOD.format(SLOW)})


@dataclass
class Job:
    """One job's folders on a runner's disk, and what the runner tells a container about them."""

    folder: Path
    owner: int = RUNNER
    event: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("workspace", "home", "workflow", "file_commands", "runner_temp"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "workflow" / "event.json").write_text(json.dumps(self.event))
        for name in ("set_output_1", "step_summary_1", "set_env_1", "add_path_1", "save_state_1"):
            (self.folder / "file_commands" / name).touch()
        subprocess.run(["chown", "-R", f"{self.owner}:{self.owner}", self.folder], check=True)

    @property
    def mounts(self) -> list[str]:
        """The runner's own, at the places where every Docker action finds them."""
        return [f"{path}:/github/{path.name}" for path in sorted(self.folder.iterdir())]

    def environment(self, forge: Forge, token: str, **inputs: str) -> dict[str, str]:
        """What the runner puts into a Docker action's environment, as far as it matters."""
        return {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": forge.api,
            "GITHUB_GRAPHQL_URL": forge.graphql,
            "GITHUB_SERVER_URL": forge.url,
            "GITHUB_REPOSITORY": "octocat/train",
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": "/github/workflow/event.json",
            "GITHUB_OUTPUT": "/github/file_commands/set_output_1",
            "GITHUB_STEP_SUMMARY": "/github/file_commands/step_summary_1",
            "GITHUB_ENV": "/github/file_commands/set_env_1",
            "GITHUB_PATH": "/github/file_commands/add_path_1",
            "GITHUB_STATE": "/github/file_commands/save_state_1",
            "GITHUB_RUN_ID": "1",
            "GITHUB_WORKSPACE": "/github/workspace",
            "HOME": "/github/home",
            "RUNNER_OS": "Linux",
            "RUNNER_TEMP": "/github/runner_temp",
            "INPUT_GITHUB-TOKEN": token,
        } | {f"INPUT_{name}": value for name, value in inputs.items()}

    def told(self, name: str) -> str:
        """What the action wrote for the runner."""
        return (self.folder / "file_commands" / f"{name}_1").read_text()


@dataclass(frozen=True)
class Ended:
    code: int
    log: str


def run(
    engine: docker.DockerClient,
    image: Image,
    job: Job,
    environment: Mapping[str, str],
    *mounts: str,
) -> Ended:
    """Run the image with nothing but what the runner gives (and the host's network, where the
    forge listens)."""
    container = engine.containers.run(
        image,
        detach=True,
        environment=dict(environment),
        volumes=[*job.mounts, *mounts],
        working_dir="/github/workspace",
        network_mode="host",
    )
    try:
        code = container.wait(timeout=300)["StatusCode"]
        return Ended(code, container.logs().decode())
    finally:
        container.remove(force=True)


def shell(engine: docker.DockerClient, image: Image, command: str) -> str:
    output = engine.containers.run(
        image, ["-c", command], entrypoint="sh", remove=True, network_mode="none"
    )
    return bytes(output).decode()


def test_image_holds_no_compiler_and_no_build_tools(
    engine: docker.DockerClient, image: Image
) -> None:
    names = "cc gcc g++ clang ld as make cmake rustc cargo setuptools"
    found = shell(engine, image, f"for n in {names}; do command -v $n; done; true")
    assert found == ""
    assert shell(engine, image, "ls /opt/pitstop | grep -ci setuptools || true") == "0\n"


def test_image_adds_little_to_its_base(engine: docker.DockerClient, image: Image) -> None:
    base = engine.images.get("python:3.11-slim")
    assert image.attrs["Size"] - base.attrs["Size"] < 150_000_000


def test_image_says_under_which_licence_it_is(engine: docker.DockerClient, image: Image) -> None:
    assert image.labels["org.opencontainers.image.licenses"] == "GPL-3.0-or-later"
    text = shell(engine, image, "head -n 2 /opt/pitstop/LICENSE")
    assert "GNU GENERAL PUBLIC LICENSE" in text


def test_image_holds_what_the_lock_says(engine: docker.DockerClient, image: Image) -> None:
    listing = "python3 -m pip list --format json --path /opt/pitstop"
    installed = json.loads(shell(engine, image, listing))
    names = {item["name"].lower().replace("_", "-").replace(".", "-") for item in installed}
    lock = (ROOT / "requirements" / "image.txt").read_text()
    pinned = re.findall(r"^([a-z0-9-]+)==[^;\n]*\\$", lock, flags=re.MULTILINE)
    assert set(pinned) <= names
    assert "pitstop" in names


def test_review_as_the_runner_runs_it(
    engine: docker.DockerClient, image: Image, forge: Forge, tmp_path: Path
) -> None:
    pull = slower_pull(forge)
    job = Job(tmp_path / "job", event=pull.event())
    environment = job.environment(forge, forge.token)
    ended = run(engine, image, job, environment)
    assert ended.code == 0, ended.log
    assert [comment["path"] for comment in pull.review_comments()]
    assert len(pull.comments()) == 1
    assert [check["conclusion"] for check in pull.checks()] == ["neutral"]
    assert re.search(r"^findings<<|^findings=", job.told("set_output"), re.MULTILINE)
    assert "Pitstop" in job.told("step_summary")
    assert forge.token not in ended.log
    written = [p for p in (job.folder / "workspace").rglob("*") if p.name == "report.json"]
    assert written
    assert {path.stat().st_uid for path in (job.folder / "workspace").rglob("*")} == {RUNNER}
    again = run(engine, image, job, environment)
    assert again.code == 0, again.log
    assert len(pull.comments()) == 1
    assert len(pull.reviews()) == 1


def test_checkout_of_a_stranger_is_never_imported(
    engine: docker.DockerClient, image: Image, forge: Forge, tmp_path: Path
) -> None:
    """The workspace may hold a pull request's code with modules named like ours and Python's."""
    pull = slower_pull(forge)
    job = Job(tmp_path / "job", event=pull.event())
    trap = "import os; os.write(2, b'TRAPPED'); raise SystemExit(99)\n"
    for name in ("json.py", "pitstop.py", "argparse.py", "sitecustomize.py", "jinja2/__init__.py"):
        (job.folder / "workspace" / name).parent.mkdir(exist_ok=True)
        (job.folder / "workspace" / name).write_text(trap)
    ended = run(engine, image, job, job.environment(forge, forge.token))
    assert (ended.code, "TRAPPED" in ended.log) == (0, False), ended.log


def test_pull_request_from_a_fork_in_two_stages(
    engine: docker.DockerClient, image: Image, forge: Forge, tmp_path: Path
) -> None:
    """The first container may only read and leaves a bundle; the second posts it."""
    repo = forge.create_repo({"train.py": TRAIN, "run.sh": GOOD.format("")})
    fork = forge.fork(repo, "eve")
    pull = repo.open_pull({"run.sh": GOOD.format(SLOW)}, source=fork, author="eve")
    first = Job(tmp_path / "first", event=pull.event())
    ended = run(engine, image, first, first.environment(forge, forge.read_token()))
    assert ended.code == 0, ended.log
    assert (pull.comments(), pull.reviews(), pull.checks()) == ([], [], [])
    assert "dataloader" in first.told("step_summary")
    assert re.search(r"^::(warning|error|notice) ", ended.log, re.MULTILINE)
    event = {
        "action": "completed",
        "repository": {"full_name": repo.name},
        "workflow_run": {
            "id": 5,
            "event": "pull_request",
            "head_sha": pull.head,
            "head_branch": "change",
            "head_repository": {"owner": {"login": "eve"}},
            "pull_requests": [],
        },
    }
    second = Job(tmp_path / "second", event=event)
    report = first.folder / "workspace" / "pitstop-report"
    shutil.copytree(report, second.folder / "workspace" / "pitstop-bundle")
    environment = second.environment(forge, forge.token, BUNDLE="pitstop-bundle")
    ended = run(engine, image, second, environment | {"GITHUB_EVENT_NAME": "workflow_run"})
    assert ended.code == 0, ended.log
    assert (len(pull.comments()), len(pull.reviews()), len(pull.checks())) == (1, 1, 1)


def test_root_stays_root_only_where_root_owns_the_workspace(
    engine: docker.DockerClient, image: Image, forge: Forge, tmp_path: Path
) -> None:
    pull = slower_pull(forge)
    job = Job(tmp_path / "job", owner=0, event=pull.event())
    ended = run(engine, image, job, job.environment(forge, forge.token))
    assert ended.code == 0, ended.log
    assert {path.stat().st_uid for path in (job.folder / "workspace").rglob("*")} == {0}


def test_missing_token_is_one_sentence_and_exit_code_2(
    engine: docker.DockerClient, image: Image, forge: Forge, tmp_path: Path
) -> None:
    job = Job(tmp_path / "job")
    ended = run(engine, image, job, job.environment(forge, ""))
    assert ended.code == 2
    assert "give the input `github-token`" in ended.log
    assert ended.log.count("\n") == 2  # on standard error, and as an annotation of the job


def test_pull_request_that_is_not_there_is_one_sentence_and_exit_code_2(
    engine: docker.DockerClient, image: Image, forge: Forge, tmp_path: Path
) -> None:
    pull = slower_pull(forge)
    event = dict(pull.event())
    event["number"] = 404
    event["pull_request"] = dict(event["pull_request"]) | {"number": 404}
    job = Job(tmp_path / "job", event=event)
    ended = run(engine, image, job, job.environment(forge, forge.token))
    assert ended.code == 2, ended.log
    assert "404" in ended.log
    assert "Traceback" not in ended.log


UPLOAD = """\
name: upload-artifact
description: Stands in for the real one, which needs GitHub's own storage.
inputs:
  name: {description: n, required: true}
  path: {description: p, required: true}
  if-no-files-found: {description: i}
  retention-days: {description: r}
runs:
  using: composite
  steps:
    - run: ls "$FOLDER"
      shell: bash
      env:
        FOLDER: ${{ inputs.path }}
"""


def act(
    forge: Forge, pull: ForgePull, source: Path, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run the shipped workflow under nektos/act in a checkout of the pull request."""
    workspace = folder / "checkout"
    subprocess.run(["git", "clone", "-q", f"{forge.url}/octocat/train.git", workspace], check=True)
    workflows = workspace / ".github" / "workflows"
    workflows.mkdir(parents=True)
    shutil.copy(ROOT / "examples" / "workflows" / "review.yml", workflows)
    (folder / "event.json").write_text(json.dumps(pull.event()))
    (folder / "upload").mkdir()
    (folder / "upload" / "action.yml").write_text(UPLOAD)
    workflow = YAML(typ="safe").load(workflows / "review.yml")
    pitstop, upload = (step["uses"] for step in workflow["jobs"]["review"]["steps"])
    program = str(Path(sys.executable).with_name("act"))
    command = [program, "pull_request", "--pull=false", "--rm", "--no-cache-server"]
    command += ["--container-daemon-socket", "-", "-P", "ubuntu-latest=python:3.11-slim"]
    command += ["--local-repository", f"{forge.url}/{pitstop}={source}"]
    command += ["--local-repository", f"{forge.url}/{upload}={folder / 'upload'}"]
    command += ["-s", f"GITHUB_TOKEN={forge.token}", "-e", str(folder / "event.json")]
    for name, value in {
        "GITHUB_API_URL": forge.api,
        "GITHUB_GRAPHQL_URL": forge.graphql,
        "GITHUB_SERVER_URL": forge.url,
        "GITHUB_REPOSITORY": "octocat/train",
    }.items():
        command += ["--env", f"{name}={value}"]
    environment = os.environ | {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        command,
        cwd=workspace,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def posted(pull: ForgePull) -> list[object]:
    """What people see of a review, without ids, times and the addresses of one run."""
    texts = [comment["body"] for comment in pull.comments()]
    places = [(c["path"], c["line"], c["body"]) for c in pull.review_comments()]
    checks = [(c["name"], c["conclusion"], len(c["annotations"])) for c in pull.checks()]
    return [*texts, *places, *checks]


def neutral(text: str, forge: Forge, pull: ForgePull) -> str:
    """Without what differs from one run of a runner to the next."""
    for word in (forge.url, pull.head, pull.head[:7]):
        text = text.replace(word, "…")
    return re.sub(r"/actions/runs/\d+", "", text)


def test_act_on_the_shipped_workflow_posts_the_same_review(
    engine: docker.DockerClient, image: Image, source: Path, tmp_path: Path
) -> None:
    seen = []
    for runner in ("container", "act"):
        with Forge() as forge:
            pull = slower_pull(forge)
            if runner == "container":
                job = Job(tmp_path / "job", event=pull.event())
                ended = run(engine, image, job, job.environment(forge, forge.token))
                assert ended.code == 0, ended.log
            else:
                done = act(forge, pull, source, tmp_path)
                assert done.returncode == 0, done.stdout + done.stderr
            seen.append(neutral(json.dumps(posted(pull)), forge, pull))
    assert seen[0] == seen[1]
    assert "dataloader" in seen[0]


def run_request(pull: ForgePull, **environment: object) -> str:
    """What the gate would hand to the run stage."""
    return json.dumps(
        {
            "repository": "octocat/train", "number": 1, "sha": pull.head, "head_ref": "change",
            "head_repository": "octocat/train", "base_ref": "main", "fork": False, "comment": 1,
            "commenter": "octocat", "permission": "admin", "launch": "python3 train.py",
            "quick": True,
            "environment": {"image": BASE, **environment},
        }
    )  # fmt: skip


def checked_out(folder: Path, pull: ForgePull) -> Job:
    """A runner's folders with the pull request's commit in them."""
    job = Job(folder)
    project = job.folder / "workspace" / "project"
    subprocess.run(["git", "clone", "-q", pull.repo.record.git.path, project], check=True)
    subprocess.run(["git", "checkout", "-q", pull.head], cwd=project, check=True)
    (job.folder / "runner_temp" / "secret").write_text("canary-temp")
    subprocess.run(["chown", "-R", f"{RUNNER}:{RUNNER}", job.folder], check=True)
    return job


def jobs_left(engine: docker.DockerClient, job: Job) -> list[str]:
    """The training containers that work in a runner's folders (other tests have theirs)."""
    found = engine.containers.list(all=True, filters={"label": "pitstop.job"}, ignore_removed=True)
    ours = f"{job.folder}/"
    return [c.name for c in found if any(m["Source"].startswith(ours) for m in c.attrs["Mounts"])]


def test_the_run_stage_starts_the_job_beside_itself(
    engine: docker.DockerClient, image: Image, forge: Forge, tmp_path: Path
) -> None:
    """In the real image, as the runner's user: the job gets a container of its own, finds the
    project in it, and nothing of the action's."""
    pull = forge.create_repo({"README": "x"}).open_pull({"train.py": SEARCH})
    job = checked_out(tmp_path / "job", pull)
    request = run_request(pull, env=["HF_TOKEN", "INPUT_REQUEST"])
    environment = job.environment(forge, "canary-env", MODE="run", REQUEST=request)
    ended = run(engine, image, job, {**environment, "HF_TOKEN": "canary-env"}, SOCKET)
    assert ended.code == 0, ended.log
    workspace = job.folder / "workspace"
    state = json.loads((workspace / "pitstop-work/reports/state.json").read_text())
    assert "FOUND: nothing" in state["facts"]["baseline_log"], ended.log
    bundle = workspace / "pitstop-bundle" / "bundle.json"
    assert bundle.stat().st_uid == RUNNER
    assert json.loads(bundle.read_text())["sha"] == pull.head
    assert "pitstop-bundle" in job.told("set_output")
    assert jobs_left(engine, job) == []


ENDLESS = """\
import time
for batch in range(10**6):
    print(batch, flush=True)
    time.sleep(0.1)

import torch

for batch in loader:
    model(batch).backward()
    optimizer.step()
"""


def test_a_cancelled_run_leaves_a_bundle_and_no_container(
    engine: docker.DockerClient, image: Image, forge: Forge, tmp_path: Path
) -> None:
    """GitHub sends SIGINT, 7.5 s later SIGTERM, and kills after 2.5 s more."""
    pull = forge.create_repo({"README": "x"}).open_pull({"train.py": ENDLESS})
    job = checked_out(tmp_path / "job", pull)
    environment = job.environment(forge, "t", MODE="run", REQUEST=run_request(pull))
    container = engine.containers.run(
        image,
        detach=True,
        environment=environment,
        volumes=[*job.mounts, SOCKET],
        working_dir="/github/workspace",
        network_mode="host",
    )
    try:
        for _ in range(300):
            if jobs_left(engine, job):
                break
            time.sleep(0.1)
        time.sleep(1)
        container.kill("SIGINT")
        code = container.wait(timeout=10)["StatusCode"]
        assert code == 0, container.logs().decode()
    finally:
        container.remove(force=True)
    assert jobs_left(engine, job) == []
    bundle = json.loads((job.folder / "workspace/pitstop-bundle/bundle.json").read_text())
    assert bundle["outcome"] == "cancelled"


CONFIG = """\
optimize: {{image: "{base}"}}
jobs:
  small:
    launch: PYTHONPATH=/packages python3 train.py
    data: {{/packages: {packages}}}
"""


def test_the_whole_loop_as_three_jobs(
    engine: docker.DockerClient, image: Image, forge: Forge, tmp_path: Path
) -> None:
    """Review, gate, run and publish, each a container of the real image as a workflow starts it,
    with a job that trains in a container of its own."""
    packages = sysconfig.get_paths()["purelib"]
    config = CONFIG.format(base=BASE, packages=packages)
    repo = forge.create_repo({".github/pitstop.yml": config, "README": "x"})
    pull = repo.open_pull({"train.py": textwrap.dedent(SLOW_LOADER).lstrip()})
    before = {name: sha for name, sha in repo.references().items() if "/pull/" not in name}

    def stage(name: str, event: Mapping[str, object], *mounts: str, **more: str) -> Job:
        job = Job(tmp_path / name, event=event)
        if name == "run":
            shutil.rmtree(job.folder)
            job = checked_out(tmp_path / name, pull)
        if name == "publish":
            bundle = tmp_path / "run" / "workspace" / "pitstop-bundle"
            shutil.copytree(bundle, job.folder / "workspace" / "pitstop-bundle")
            subprocess.run(["chown", "-R", f"{RUNNER}:{RUNNER}", job.folder], check=True)
        token = "" if name == "run" else forge.token
        event_name = "issue_comment" if "comment" in event else "pull_request"
        environment = {**job.environment(forge, token, **more), "GITHUB_EVENT_NAME": event_name}
        ended = run(engine, image, job, environment, *mounts)
        assert ended.code == 0, f"{name}: {ended.log}"
        return job

    stage("review", pull.event())
    forge.pass_time(120)
    event = pull.comment("/optimize --quick --rounds 1 only loader-arguments")
    told = outputs(stage("gate", event, MODE="gate").folder / "file_commands" / "set_output_1")
    assert (told["go"], told["sha"]) == ("true", pull.head)
    stage("run", event, SOCKET, MODE="run", REQUEST=told["request"])
    stage("publish", event, MODE="publish", REQUEST=told["request"], BUNDLE="pitstop-bundle")
    after = {name: sha for name, sha in repo.references().items() if "/pull/" not in name}
    ours = after.pop("refs/heads/pitstop/pr-1", None)
    assert after == before
    (answer,) = [c["body"] for c in pull.comments() if "pitstop:answer" in c["body"]]
    assert "no GPU" in answer and "runs and" in answer
    if ours is not None:  # speed is not what a test asserts
        assert b"num_workers" in repo.record.git.read(ours, "train.py")
        assert [i.title for i, p in repo.record.pulls() if p.head_ref == "pitstop/pr-1"]
