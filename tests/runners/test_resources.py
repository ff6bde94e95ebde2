"""The machine is described from what can be read; what cannot is left out."""

from pathlib import Path

import pytest

from pitstop.runners.resources import GIB, Gpu, Resources, collect, usable_cores


def test_this_machine_is_described(tmp_path):
    found = collect(tmp_path)
    assert found.usable_cores >= 1
    assert found.memory > 0
    assert found.available <= found.memory
    assert found.disk_free > 0
    assert found.gpus or found.gpus_missing
    assert dict(found.packages)["torch"]


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, 10_000),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
          "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({"sys/fs/cgroup/cpu.max": "broken"}, 10_000),
    ],
)  # fmt: skip
def test_the_control_group_limits_the_cores(tmp_path: Path, files, most):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert 1 <= usable_cores(tmp_path) <= most


def machine(**others) -> Resources:
    given = {"shared_memory": 64 * GIB, "usable_cores": 32, **others}
    return Resources("cpu", 32, memory=1, available=1, disk_free=1, disk_kind="ext4", **given)


def test_what_follows_from_cores_shared_memory_and_power():
    assert next(machine().advice(4))[0] == "7 loader workers for each process"
    assert next(machine(usable_cores=2).advice(2))[0] == "1 loader workers for each process"
    assert any("shm-size" in said for said, _ in machine(shared_memory=2**26).advice(1))
    capped = Gpu("H100", "9.0", 80 * GIB, 0, 350.0, 700.0)
    assert any("clocks" in said for said, _ in machine(gpus=(capped,)).advice(1))
    assert len(list(machine().advice(1))) == 1
