"""A pull request on the forge, with commands on it and jobs that answer them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from demo.forge import Forge
from demo.handles import ForgePull, ForgeRepo
from pitstop.bot.action import run
from pitstop.bot.settings import Settings
from pitstop.bot.stages.bundle import Kept, Metric, RunBundle, write_bundle
from tests.bot.reviewing import Time, settings_for

CONFIG = """\
optimize:
  image: train:latest
  users: [visitor]
jobs:
  sft:
    launch: python train.py --steps 100
    data: {/data: /srv/data}
    env: [OMP_NUM_THREADS]
"""
TRAIN = "import torch\n\nfor batch in loader:\n    step(batch)\n"
FASTER = TRAIN.replace("import torch\n", "import torch\n\ntorch.backends.cudnn.benchmark = True\n")


@dataclass
class Stage:
    """One pull request, and what was done about it."""

    forge: Forge
    pull: ForgePull
    folder: Path
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def repo(self) -> ForgeRepo:
        return self.pull.repo

    def settings(self, event: Mapping[str, Any] | None = None, **inputs: str) -> Settings:
        name = "issue_comment" if event and "comment" in event else "pull_request"
        return settings_for(self.forge, self.pull, self.folder, event=event, name=name, **inputs)

    def review(self) -> None:
        """The automatic review, and two minutes in which people read it."""
        run(self.settings(), clock=Time().clock)
        self.forge.pass_time(120)

    def command(
        self, text: str = "/optimize", login: str = "octocat", **inputs: str
    ) -> dict[str, str]:
        """A comment, and the gate's job about it; its outputs."""
        event = self.pull.comment(text, login)
        return self.job(event, **inputs)

    def job(self, event: Mapping[str, Any] | None, **inputs: str) -> dict[str, str]:
        (self.folder / "output").unlink(missing_ok=True)
        self.code = run(self.settings(event, **inputs), clock=Time().clock)
        self.outputs = outputs(self.folder / "output")
        return self.outputs

    def publish(self, bundle: Path | None = None) -> dict[str, str]:
        return self.job(
            None,
            mode="publish",
            request=self.request,
            bundle=str(bundle or self.folder / "bundle"),
        )

    @property
    def request(self) -> str:
        return self.outputs.get("request") or self.kept_request

    kept_request: str = ""

    def answer(self) -> str:
        """What we said last to a command."""
        said = [c["body"] for c in self.pull.comments() if "pitstop:answer" in c["body"]]
        return said[-1] if said else ""

    def answers(self) -> int:
        return sum("pitstop:answer" in c["body"] for c in self.pull.comments())

    def follow_ups(self) -> list[Any]:
        return [
            (issue, pull)
            for issue, pull in self.repo.record.pulls()
            if pull.head_ref.startswith("pitstop/")
        ]


def outputs(file: Path) -> dict[str, str]:
    """A runner's reading of GITHUB_OUTPUT."""
    found: dict[str, str] = {}
    lines = iter(file.read_text().splitlines() if file.exists() else ())
    for line in lines:
        name, _, delimiter = line.partition("<<")
        value = []
        for inner in lines:
            if inner == delimiter:
                break
            value.append(inner)
        found[name] = "\n".join(value)
    return found


@pytest.fixture
def stage(forge: Forge, tmp_path: Path) -> Stage:
    repo = forge.create_repo(
        {".github/pitstop.yml": CONFIG, "train.py": TRAIN, "run.sh": "python train.py\n"}
    )
    repo.give_role("mona", "write")
    pull = repo.open_pull({"train.py": TRAIN + "save()\n"}, author="mona", branch="change")
    return Stage(forge, pull, tmp_path)


def patch_of(repo: ForgeRepo, sha: str, files: Mapping[str, str]) -> bytes:
    """A patch on top of a commit, as the run stage would make it."""
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory() as folder:

        def git(*args: str) -> bytes:
            who = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
            return subprocess.run(
                ["git", *who, *args], cwd=folder, check=True, capture_output=True
            ).stdout

        git("clone", "-q", str(repo.record.git.path), ".")
        git("checkout", "-q", sha)
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", "change")
        return git("format-patch", "--stdout", "-1")


def kept(change: str = "cudnn-benchmark", patch: str = "0001.patch", **more: Any) -> Kept:
    given = {
        "id": change,
        "title": "Let cuDNN choose",
        "round": 1,
        "numerics": "equivalent",
        "effect": "1.30x (95 % interval 1.21 to 1.39)",
        "losses": "as before",
        "patch": patch,
    }
    return Kept(**{**given, **more})


def write(stage: Stage, patches: Mapping[str, bytes], *changes: Kept, **more: Any) -> Path:
    """A bundle of the run, as it would lie in the artifact."""
    folder = stage.folder / "bundle"
    sha = json.loads(stage.request)["sha"]
    given: dict[str, Any] = {
        "tool": "pitstop test",
        "sha": sha,
        "outcome": "kept" if changes else "nothing",
        "verdict": "1.30x faster (95 % interval 1.21 to 1.39) with 1 change.",
        "rows": (Metric(metric="step time", before="13 ms", after="10 ms", change="+30 %"),),
        "kept": changes,
        "losses": ((2.0, 1.5, 1.2), (2.0, 1.5, 1.25)),
        "command": "python train.py --steps 100",
    }
    write_bundle(folder, RunBundle(**{**given, **more}), patches)
    return folder
