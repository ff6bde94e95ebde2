"""What only containers promise: no network, no capability, read-only data, nothing left."""

import os
import threading
import time
from pathlib import Path

import docker
import pytest

from pitstop.runners.docker_runner import LABEL, DockerRunner, Place, own_container, translated
from pitstop.runners.job import Ended, Job, Limits, Mount, UnavailableError

ID = "0123456789abcdef" * 4


@pytest.fixture
def engine(tmp_path):
    try:
        client = docker.from_env(timeout=60)
        client.ping()
    except docker.errors.DockerException as error:
        pytest.skip(f"no docker engine ({error}); run `make test` as root")
    yield client
    client.close()


@pytest.fixture
def containers(engine, base_image):
    return DockerRunner(base_image)


WALL = """
import os, socket, sys
found = []
for name in ("/var/run/docker.sock", "/run/docker.sock"):
    if os.path.exists(name):
        found.append(name)
caps = [line.split()[1] for line in open("/proc/self/status") if line.startswith("Cap")]
found += [cap for cap in caps if int(cap, 16)]
try:
    socket.create_connection(("169.254.169.254", 80), 1)
    found.append("metadata")
except OSError:
    pass
interfaces = [name for _, name in socket.if_nameindex() if name != "lo"]
tunnels = ("tunl", "sit", "gre", "ip6", "erspan")
found += [name for name in interfaces if not name.startswith(tunnels)]
pids = [name for name in os.listdir("/proc") if name.isdigit()]
if len(pids) > 5:
    found.append(f"{len(pids)} processes")
try:
    open("/data/set.bin", "wb")
    found.append("data are writable")
except OSError:
    pass
print("found", found)
print(open("/data/set.bin").read())
"""


@pytest.mark.docker
def test_nothing_of_the_host_is_within_reach(containers, python_job, tmp_path):
    (tmp_path / "set.bin").write_text("data")
    mounts = (Mount(tmp_path / "set.bin", "/data/set.bin"),)
    result = containers.run(python_job(WALL, mounts=mounts))
    assert result.text() == "found []\ndata\n"


@pytest.mark.docker
def test_paths_of_the_job_are_those_inside(containers, python_job, tmp_path):
    scratch, project = tmp_path / "scratch", tmp_path / "project"
    env = {"PYTHONPATH": f"{scratch}/site:{project}", "OTHER": f"{scratch}-not"}
    program = "import os; print(os.environ['PYTHONPATH'], os.environ['OTHER'])"
    said = containers.run(python_job(program, env=env)).text()
    assert said == f"/job/scratch/site:/job/project {scratch}-not\n"


@pytest.mark.docker
def test_what_a_job_writes_is_ours(containers, python_job, tmp_path):
    assert containers.run(python_job("open('out.txt', 'w').write('x')")).ok
    assert (tmp_path / "project" / "out.txt").stat().st_uid == os.getuid()


@pytest.mark.docker
def test_no_container_is_left_whatever_happens(containers, engine, python_job):
    cancel = threading.Event()
    cancel.set()
    containers.run(python_job("1 / 0"))
    containers.run(python_job("import time; time.sleep(60)", limits=Limits(grace=0)), cancel=cancel)
    with pytest.raises(UnavailableError):
        containers.preflight(python_job("", gpus=-1))
    assert engine.containers.list(all=True, filters={"label": f"{LABEL}=job"}) == []


@pytest.mark.docker
def test_what_a_killed_run_left_is_reaped_when_its_time_is_over(containers, engine, base_image):
    def left(until: float) -> str:
        labels = {LABEL: "old", f"{LABEL}.until": str(int(until))}
        return engine.containers.create(base_image, ["true"], labels=labels).id

    old, young = left(time.time() - 5), left(time.time() + 600)
    try:
        assert containers.reap() >= 1
        kept = {c.id for c in engine.containers.list(all=True, filters={"label": f"{LABEL}=old"})}
        assert young in kept
        assert old not in kept
    finally:
        engine.api.remove_container(young, force=True)


@pytest.mark.docker
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"image": "no/such:image"}, "no/such:image is not on this machine"),
        ({"gpus": -1}, "container toolkit"),
        ({"mounts": (Mount(Path("/no/data"), "/d"),)}, "/no/data"),
    ],
)
def test_what_is_missing_is_said_before_anything_starts(containers, python_job, change, sentence):
    with pytest.raises(UnavailableError, match=sentence):
        containers.preflight(python_job("", **change))


@pytest.mark.docker
def test_too_much_memory_is_told_as_such(containers, python_job):
    limits = Limits(seconds=30, grace=0, memory=100 * 2**20)
    result = containers.run(python_job("x = bytearray(400 * 2**20)", limits=limits))
    assert result.ended is Ended.MEMORY


def test_without_a_daemon_it_says_how_to_get_one(monkeypatch, python_job):
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(UnavailableError, match="docker daemon"):
        DockerRunner("x").preflight(python_job(""))


def test_a_job_without_an_image_is_refused():
    with pytest.raises(UnavailableError, match="--image"):
        DockerRunner()._image_of(Job("j", ("x",), None, None))


PLACES = (Place("/github/workspace", "/home/r/work/repo"), Place("/github", "/home/r/github"))


@pytest.mark.parametrize(
    ("ours", "host"),
    [
        ("/github/workspace/a/b", "/home/r/work/repo/a/b"),
        ("/github/workspace", "/home/r/work/repo"),
        ("/github/home/x", "/home/r/github/home/x"),
    ],
)
def test_paths_are_the_hosts(ours, host, tmp_path):
    assert translated(Path(ours), PLACES) == host
    assert translated(Path(ours), ()) == ours


def test_a_path_that_the_host_does_not_share_is_refused():
    with pytest.raises(UnavailableError, match="/elsewhere"):
        translated(Path("/elsewhere/x"), PLACES)


MOUNTINFO = f"600 590 8:1 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw - ext4 d rw\n"
INNER = f"612 590 0:57 / /var/lib/docker/containers/{ID}/mounts/shm rw - tmpfs shm rw\n"
"""One that a daemon on this machine runs."""


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, (None, True)),
        ({".dockerenv": "", "proc/self/mountinfo": INNER}, (None, False)),
        ({".dockerenv": "", "proc/self/mountinfo": INNER, "etc/hostname": "a"}, ("a", False)),
        ({".dockerenv": "", "proc/self/mountinfo": MOUNTINFO}, (ID, True)),
        ({".dockerenv": "", "proc/self/cgroup": f"12:cpu:/docker/{ID}\n"}, (ID, True)),
        ({".dockerenv": "", "etc/hostname": "abc\n"}, ("abc", False)),
        ({".dockerenv": ""}, (None, False)),
    ],
)
def test_the_container_that_we_are_in(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert own_container(tmp_path) == expected
