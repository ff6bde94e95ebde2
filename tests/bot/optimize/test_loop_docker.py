"""The loop with its jobs in containers: the same proof, behind the wall."""

import re
import sysconfig
from pathlib import Path

import pytest

from pitstop.bot.optimize.loop import optimize
from pitstop.bot.optimize.request import OptimizeRequest, Sizes
from pitstop.bot.optimize.workfolder import checksums_of
from pitstop.runners.docker_runner import DockerRunner
from pitstop.runners.job import Job, Mount, UnavailableError

ROOT = Path(__file__).parents[3]
BASE = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)[0]
SMALL = Sizes(
    steps=5, kept_seconds=0.0, warm_up=1, pairs=2, more_pairs=0, parity_steps=3, rounds=1,
    candidates=1, run_seconds=90, silence=90,
)  # fmt: skip

TRAIN = """
import os, shutil, socket
import torch
from torch import nn

try:
    shutil.rmtree("/data")
except OSError:
    pass
try:
    socket.create_connection(("1.1.1.1", 53), 0.5)
    raise SystemExit("the network is there")
except OSError:
    pass
torch.manual_seed(0)
model = nn.Linear(32, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.load("/data/set.pt")
for step in range(60):
    loss = model(data[step % 4]).square().mean()
    loss.backward()
    optimizer.step()
    for parameter in model.parameters():
        parameter.grad.zero_()
    print(step, loss.item())
"""


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_a_job_in_containers_is_measured_and_its_data_stay(tmp_path):
    import torch

    runner = DockerRunner(BASE)
    try:
        runner.preflight(Job("probe", ("true",), tmp_path, tmp_path))
    except UnavailableError as error:
        pytest.skip(f"{error}; run `make test` as root")
    project, data = tmp_path / "project", tmp_path / "data"
    project.mkdir()
    data.mkdir()
    (project / "train.py").write_text(TRAIN)
    torch.save(torch.randn(4, 16, 32), data / "set.pt")
    packages = Path(sysconfig.get_paths()["purelib"])
    request = OptimizeRequest(
        project,
        "python3 train.py",
        sizes=SMALL,
        image=BASE,
        mounts=(Mount(packages, "/deps"), Mount(data, "/data")),
        env=(("PYTHONPATH", "/deps"),),
    )
    before = checksums_of(project) | {"data": str((data / "set.pt").stat().st_size)}
    session = optimize(request, runner)
    assert session.record.facts.get("steps"), session.record.facts.get("baseline_log")
    assert [one.outcome for one in session.tried] != []
    assert all(one.outcome not in ("failed", "other training") for one in session.tried)
    after = checksums_of(project) | {"data": str((data / "set.pt").stat().st_size)}
    assert after == before
