"""The whole loop on small jobs, with a real runner and real PyTorch on the CPU."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from pitstop.bot import cli
from pitstop.bot.optimize import reports
from pitstop.bot.optimize.loop import optimize
from pitstop.bot.optimize.request import OptimizeRequest, Sizes
from pitstop.bot.optimize.workfolder import checksums_of
from pitstop.runners.job import Limits
from pitstop.runners.local_runner import LocalRunner

pytestmark = pytest.mark.timeout(240)

SMALL = Sizes(
    steps=6, kept_seconds=0.0, warm_up=1, pairs=2, more_pairs=0, parity_steps=4, rounds=1,
    candidates=1, run_seconds=60, silence=60, session_seconds=200,
)  # fmt: skip

SLOW_LOADER = """
    import time
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset


    class Decoded(Dataset):
        def __len__(self):
            return 400

        def __getitem__(self, index):
            time.sleep(0.004)
            return torch.full((8,), index / 400), index % 4


    def main():
        torch.manual_seed(0)
        model = nn.Linear(8, 4)
        loader = DataLoader(Decoded(), batch_size=8, shuffle=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(2):
            for inputs, labels in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(inputs), labels)
                loss.backward()
                optimizer.step()
            torch.save(model.state_dict(), "checkpoint.pt")


    if __name__ == "__main__":
        main()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "data").mkdir(parents=True)
    (root / "data" / "set.bin").write_bytes(bytes(1000))
    (root / "train.py").write_text(textwrap.dedent(SLOW_LOADER).lstrip())
    return root


def request(project: Path, **others: object) -> OptimizeRequest:
    command = others.pop("command", f"{sys.executable} train.py")
    return OptimizeRequest(project, command, **{"sizes": SMALL, **others})


def report(project: Path) -> str:
    folder = project.parent / "project_optimized" / "reports"
    return (folder / "final_optimization-summary.md").read_text("utf-8")


def test_a_slow_loader_gets_workers_and_the_proof(project):
    before = checksums_of(project)
    session = optimize(request(project, only=("loader-arguments",)), LocalRunner())
    (tried,) = session.tried
    assert tried.id == "loader-arguments"
    assert "Of workers 1:" in tried.why  # the number was searched, by one short run of each
    assert tried.comparison["parity"]["ok"]
    assert checksums_of(project) == before
    facts = json.loads((session.work.reports / "state.json").read_text())["facts"]
    assert facts["integrity"] == {"checked": True, "changed": []}
    runs = [json.loads((session.work.runs / name).read_text()) for name in tried.comparison["runs"]]
    assert [run["arm"] for run in runs] == ["v0", "v1-c1", "v0", "v1-c1"]
    assert all(run["kind"] == "timed" and len(run["step_seconds"]) >= 6 for run in runs)
    assert not (session.work.project / "checkpoint.pt").exists()
    page = (session.work.reports / "final_optimization-summary.html").read_text()
    assert "<svg" in page
    assert "src=" not in page
    text = report(project)
    assert "loader-arguments" in text
    assert "unchanged: every file has the checksum" in text
    if tried.outcome == "kept":  # it is, wherever time.sleep sleeps; speed is not what we assert
        (patch,) = sorted((session.work.reports / "patches").glob("*.patch"))
        subprocess.run(["git", "init", "-q", project], check=True)
        subprocess.run(["git", "apply", "--check", patch], cwd=project, check=True)
        assert "num_workers" in (session.work.project / "train.py").read_text()


def test_a_job_that_fails_is_told_with_the_reason(project):
    text = (project / "train.py").read_text()
    (project / "train.py").write_text(f"import not_there\n{text}")
    session = optimize(request(project), LocalRunner())
    assert session.tried == []
    text = report(project)
    assert r"the package not\_there is not installed where the job runs" in text
    assert "Nothing was measured" in text


def test_a_command_that_trains_nothing_is_told(project):
    optimize(request(project, command="ls -l"), LocalRunner())
    assert "Nothing was measured" in report(project)


def test_a_job_with_too_few_steps_is_told(project):
    text = (project / "train.py").read_text().replace("return 400", "return 16")
    (project / "train.py").write_text(text)
    optimize(request(project), LocalRunner())
    assert "optimizer steps" in report(project)


def test_a_job_that_deletes_its_data_leaves_the_original(project):
    text = (project / "train.py").read_text()
    (project / "train.py").write_text(
        text.replace(
            "    torch.manual_seed(0)",
            "    import shutil; shutil.rmtree('data')\n    torch.manual_seed(0)",
        )
    )
    before = checksums_of(project)
    session = optimize(request(project, only=("nothing",)), LocalRunner())
    assert checksums_of(project) == before
    assert (session.work.project / "data" / "set.bin").read_bytes() == bytes(1000)
    assert session.track is not None
    assert session.track.mended == {"data/set.bin"}


def test_a_job_that_never_trains_is_held(project):
    text = (project / "train.py").read_text()
    (project / "train.py").write_text(text.replace("time.sleep(0.004)", "time.sleep(600)"))
    sizes = Sizes(run_seconds=2, failures=1, rounds=1, silence=60)
    optimize(request(project, sizes=sizes, limits=Limits(grace=0.2)), LocalRunner())
    assert "took longer than allowed" in report(project)


def test_cancelled_while_it_runs_it_writes_what_is_known(project):
    cancel = threading.Event()
    told: list[str] = []

    def say(text: str) -> None:
        told.append(text)
        if "timed" in text:
            cancel.set()

    session = optimize(request(project), LocalRunner(), cancel=cancel, say=say)
    assert session.record.facts["stopped"] == "cancelled"
    assert "stopped early: cancelled" in report(project)


def test_a_summary_that_cannot_be_written_is_said(project, monkeypatch, capsys):
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(reports, "write_text", full)
    assert cli.main(["optimize", str(project), "--quick", "--", "python absent.py"]) == 2
    said = capsys.readouterr()
    assert "report:" not in said.out
    assert "absent.py" in said.out
    assert "No space left on device" in said.err


PROGRAM = """
import sys
from pathlib import Path
from pitstop.bot.optimize.loop import optimize
from pitstop.bot.optimize.request import OptimizeRequest, Sizes
from pitstop.runners.local_runner import LocalRunner
sizes = Sizes(steps=6, kept_seconds=0.0, warm_up=1, pairs=2, more_pairs=0, parity_steps=4, rounds=1)
request = OptimizeRequest(Path(sys.argv[1]), sys.executable + " train.py", sizes=sizes)
optimize(request, LocalRunner(), say=lambda text: print(text, flush=True))
"""


@pytest.mark.parametrize("state", ["copy", "audit", "v0: prime", "v1-c1: prime", "v0: timed"])
def test_killed_in_any_state_the_original_is_whole_and_there_is_a_report(project, state):
    before = checksums_of(project)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, project], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(state):
            break
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert checksums_of(project) == before
    assert "has not finished" in report(project)
    again = optimize(request(project, only=("nothing",)), LocalRunner())
    assert (again.work.reports / "earlier-1" / "final_optimization-summary.md").exists()
    assert strays(project) == []


def strays(project: Path) -> list[int]:
    """Processes that still run in the copy."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if str(project.parent) in str((folder / "cwd").readlink()):
                found.append(int(folder.name))
        except OSError:
            continue
    return found
