"""The workflows that people copy: they fit the action, and keep the wall between its stages."""

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from pitstop.bot.settings import INPUTS, MODES, OUTPUTS
from pitstop.bot.stages.run import CONTEXT

FOLDER = Path(__file__).parents[2] / "examples" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))


def read(name: str) -> Any:
    return YAML(typ="safe").load(FOLDER / name)


def steps(job: Any) -> list[Any]:
    return list(job.get("steps", ()))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
class TestEach:
    def test_rights_are_given_to_jobs_alone(self, path: Path) -> None:
        workflow = read(path.name)
        assert workflow["permissions"] == {}
        assert all("permissions" in job for job in workflow["jobs"].values())

    def test_every_job_has_a_time_limit(self, path: Path) -> None:
        for job in read(path.name)["jobs"].values():
            assert "uses" in job or job["timeout-minutes"] <= 300

    def test_actions_are_pinned(self, path: Path) -> None:
        used = re.findall(r"uses: (\S+)", path.read_text())
        assert used
        assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one) for one in used)

    def test_inputs_are_those_of_the_action(self, path: Path) -> None:
        known = {one.name for one in INPUTS}
        for job in read(path.name)["jobs"].values():
            for step in steps(job):
                if step.get("uses", "").startswith("OWNER/"):
                    given = step.get("with", {})
                    assert set(given) <= known
                    assert given.get("mode", "auto") in MODES

    def test_outputs_are_those_of_the_action(self, path: Path) -> None:
        for name in re.findall(r"outputs\.(\w+)", path.read_text()):
            assert name in OUTPUTS

    def test_nothing_from_outside_reaches_a_shell(self, path: Path) -> None:
        for job in read(path.name)["jobs"].values():
            assert all("${{" not in step.get("run", "") for step in steps(job))


def test_the_run_stage_has_nothing_to_lose() -> None:
    job = read("optimize.yml")["jobs"]["run"]
    assert job["permissions"] == {"contents": "read"}
    assert "secrets." not in (FOLDER / "optimize.yml").read_text()
    checkout, context, run, _ = steps(job)
    assert checkout["with"]["persist-credentials"] is False
    assert context["with"]["persist-credentials"] is False
    assert context["with"]["ref"] == "${{ needs.gate.outputs.context }}"
    assert context["with"]["path"] == CONTEXT
    assert checkout["with"]["ref"] == "${{ needs.gate.outputs.sha }}"
    assert checkout["with"]["path"] == next(i.default for i in INPUTS if i.name == "folder")
    assert run["with"]["github-token"] == ""
    assert run["with"]["mode"] == "run"


def test_stages_with_a_token_check_out_nothing() -> None:
    jobs = read("optimize.yml")["jobs"]
    for name in ("gate", "publish", "close"):
        assert not any("checkout" in step.get("uses", "") for step in steps(jobs[name]))
        assert jobs[name]["runs-on"] == "ubuntu-latest"
    assert jobs["publish"]["permissions"] == {"contents": "write", "pull-requests": "write"}


@pytest.mark.parametrize("name", ["optimize.yml", "optimize-single.yml"])
def test_a_command_to_cancel_takes_the_place_of_the_run(name: str) -> None:
    jobs = read(name)["jobs"]
    running = jobs["run" if "run" in jobs else "optimize"]["concurrency"]
    assert running["cancel-in-progress"] is False
    assert jobs["cancel"]["concurrency"] == {**running, "cancel-in-progress": True}
    assert jobs["cancel"]["permissions"] == {}
    answering = jobs["cancel"]["needs"]
    assert "concurrency" not in jobs[answering]


def test_the_caller_grants_what_the_called_jobs_need() -> None:
    rank = {"none": 0, "read": 1, "write": 2}
    granted = read("optimize-call.yml")["jobs"]["optimize"]["permissions"]
    for job in read("optimize.yml")["jobs"].values():
        for scope, level in job["permissions"].items():
            assert rank[granted.get(scope, "none")] >= rank[level]
