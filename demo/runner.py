"""A runner of workflow jobs: runs Pitstop's action as a step, with what a runner gives it.

The variables are those of docs.github.com, "Default environment variables". What a job leaves
(outputs, summary, log) lies in the runner's folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from demo.forge import Forge
from demo.handles import ForgeRepo
from demo.shapes import Json

FOREIGN = ("GITHUB_", "INPUT_", "RUNNER_", "ACTIONS_")
"""Beginnings of the variables of this machine's own runner, if it is one."""

LEFT = ("event.json", "output.txt", "summary.md", "action.log")
"""Files that jobs leave in a runner's folder."""


@dataclass(frozen=True, slots=True)
class Step:
    """What came of a step: its exit code (124 after the limit) and outputs."""

    code: int
    outputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Runner:
    """A machine that takes the jobs of one repository."""

    forge: Forge
    repo: ForgeRepo
    folder: Path

    @property
    def workspace(self) -> Path:
        """Where jobs work."""
        return self.folder / "workspace"

    def clear(self) -> None:
        """Remove what earlier jobs left in the folder, and nothing else."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("workspace", "temp"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for name in LEFT:
            (self.folder / name).unlink(missing_ok=True)

    def check_out(self, commit: str, path: str = "") -> None:
        """What actions/checkout leaves, without credentials."""
        token, target = self.forge.token, self.workspace / path
        address = self.repo.clone_url.replace("http://", f"http://x-access-token:{token}@")
        environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
        for words, where in (
            (["clone", "-q", address, str(target)], None),
            (["checkout", "-q", commit], target),
            (["remote", "remove", "origin"], target),
        ):
            subprocess.run(["git", *words], check=True, cwd=where, env=environment)

    def act(
        self,
        event_name: str,
        event: Json,
        inputs: Mapping[str, str] | None = None,
        *,
        limit: float,
        about: Mapping[str, str] | None = None,
    ) -> Step:
        """Run the action for an event, at most `limit` seconds. `about` are the variables that
        only this kind of event has. What it prints goes to `action.log`."""
        event_file, output = self.folder / "event.json", self.folder / "output.txt"
        event_file.write_text(json.dumps(event), encoding="utf-8")
        output.unlink(missing_ok=True)
        self.workspace.mkdir(parents=True, exist_ok=True)
        (self.folder / "temp").mkdir(exist_ok=True)
        given = {"github-token": self.forge.token, **(inputs or {})}
        environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith(FOREIGN)},
            **self._variables(event_name),
            **{f"INPUT_{name.upper()}": text for name, text in given.items()},
            **(about or {}),
        }
        code = self._process(environment, limit)
        return Step(code, dict(_outputs(output)))

    def _process(self, environment: Mapping[str, str], limit: float) -> int:
        with (self.folder / "action.log").open("a", encoding="utf-8") as log:
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "pitstop.bot", "action"],
                    cwd=self.workspace,
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=limit,
                )
            except subprocess.TimeoutExpired:
                log.write(f"\nstopped after {limit} seconds\n")
                return 124
        return done.returncode

    def _variables(self, event_name: str) -> dict[str, str]:
        forge, folder = self.forge, self.folder
        return {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": forge.api,
            "GITHUB_EVENT_NAME": event_name,
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_GRAPHQL_URL": forge.graphql,
            "GITHUB_OUTPUT": str(folder / "output.txt"),
            "GITHUB_REPOSITORY": self.repo.name,
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_RUN_ID": "1",
            "GITHUB_SERVER_URL": forge.url,
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "GITHUB_WORKFLOW": "Pitstop",
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(folder / "temp"),
        }


def _outputs(file: Path) -> Iterator[tuple[str, str]]:
    """What a step wrote for GITHUB_OUTPUT: `name=value`, or lines between two delimiters."""
    lines = iter(file.read_text("utf-8").splitlines() if file.exists() else ())
    for line in lines:
        name, several, mark = line.partition("<<")
        if several:
            yield name, "\n".join(iter(lambda: next(lines, mark), mark))  # noqa: B023
        else:
            name, _, value = line.partition("=")
            yield name, value
