"""What the machine has: CPU, memory, GPUs, disk and software, each part or the reason why not.

Nothing raises: a part that cannot be read is left out. No host names, users, serial numbers or
command lines are collected.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import math
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GIB = 2**30
PACKAGES = (
    *("torch", "transformers", "accelerate", "deepspeed", "flash-attn", "liger-kernel", "triton"),
    *("bitsandbytes", "peft", "trl", "lightning", "xformers", "torchao", "vllm", "sglang"),
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as NVML shows it. Memory is bytes, power watts."""

    name: str
    capability: str
    memory: int
    used: int
    power_limit: float | None = None
    power_default: float | None = None
    driver: str = ""


@dataclass(frozen=True, slots=True)
class Resources:
    """The machine. `usable_cores` is what affinity and the control group leave; bytes for
    memory, shared memory and disk. `gpus_missing` says why there are none."""

    cpu: str
    cores: int
    usable_cores: int
    memory: int
    available: int
    shared_memory: int | None
    disk_free: int
    disk_kind: str
    gpus: tuple[Gpu, ...] = ()
    gpus_missing: str = ""
    system: str = ""
    python: str = ""
    packages: tuple[tuple[str, str], ...] = ()

    def advice(self, ranks: int) -> Iterator[tuple[str, str]]:
        """What follows for a job of so many processes here: (decision, why)."""
        workers = max(1, min(8, (self.usable_cores - ranks) // max(1, ranks)))
        yield (
            f"{workers} loader workers for each process",
            (f"{self.usable_cores} usable cores for {ranks} processes"),
        )
        if self.shared_memory is not None and self.shared_memory < 8 * GIB:
            yield (
                "more shared memory (--shm-size), or the file_system sharing strategy",
                (f"it has {self.shared_memory / GIB:.1f} GiB, and workers hand batches over in it"),
            )
        for gpu in self.gpus:
            if gpu.power_limit and gpu.power_default and gpu.power_limit < 0.95 * gpu.power_default:
                yield (
                    "expect lower clocks",
                    (f"{gpu.name} is capped at {gpu.power_limit:.0f} of {gpu.power_default:.0f} W"),
                )


def collect(folder: Path) -> Resources:
    """What this machine has, with the disk that holds a folder."""
    import psutil

    memory = psutil.virtual_memory()
    gpus, why = _gpus()
    return Resources(
        cpu=_cpu_model(),
        cores=psutil.cpu_count(logical=False) or os.cpu_count() or 1,
        usable_cores=usable_cores(Path("/")),
        memory=memory.total,
        available=min(memory.available, _group_memory(Path("/")) or memory.available),
        shared_memory=_size_of("/dev/shm"),  # noqa: S108 - its size is what is asked
        disk_free=shutil.disk_usage(folder).free,
        disk_kind=_disk_kind(folder),
        gpus=gpus,
        gpus_missing=why,
        system=f"{platform.system()} {platform.release()}",
        python=sys.version.split()[0],
        packages=tuple(_packages()),
    )


def usable_cores(root: Path) -> int:
    """Cores that may be used: affinity, and the quota of the control group (v2, v1)."""
    count = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
    with contextlib.suppress(OSError, ValueError):
        quota, period = (root / "sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            count = min(count, int(quota) / int(period))
    with contextlib.suppress(OSError, ValueError):
        folder = root / "sys/fs/cgroup/cpu"
        limit = int((folder / "cpu.cfs_quota_us").read_text())
        if limit > 0:
            count = min(count, limit / int((folder / "cpu.cfs_period_us").read_text()))
    return max(1, math.ceil(count))


def _group_memory(root: Path) -> int | None:
    """What the control group still allows, in bytes; None without a limit."""
    for limit, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "")):
        with contextlib.suppress(OSError, ValueError):
            most = int((root / "sys/fs/cgroup" / limit).read_text())
            now = int((root / "sys/fs/cgroup" / used).read_text()) if used else 0
            if most < 2**60:
                return most - now
    return None


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _size_of(path: str) -> int | None:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(path).total
    return None


def _disk_kind(folder: Path) -> str:
    """The file system that holds a folder; "remote" where it is one of a network."""
    import psutil

    best, kind = "", ""
    path = str(folder.resolve())
    for part in psutil.disk_partitions(all=True):
        inside = path == part.mountpoint or path.startswith(part.mountpoint.rstrip("/") + "/")
        if inside and len(part.mountpoint) >= len(best):
            best, kind = part.mountpoint, part.fstype
    remote = kind.startswith(("nfs", "ceph", "fuse", "lustre", "gpfs", "beegfs", "9p", "virtiofs"))
    return f"{kind} (remote)" if remote else kind


def _gpus() -> tuple[tuple[Gpu, ...], str]:
    """Every NVIDIA GPU, or the reason why none is seen."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception as error:
        return (), f"no NVIDIA driver answers ({type(error).__name__})"
    found = []
    try:
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        for index in range(pynvml.nvmlDeviceGetCount()):
            found.append(_gpu(pynvml, pynvml.nvmlDeviceGetHandleByIndex(index), driver))
    except Exception as error:
        return tuple(found), f"NVML: {type(error).__name__}"
    finally:
        with contextlib.suppress(Exception):
            pynvml.nvmlShutdown()
    return tuple(found), "" if found else "the driver shows no GPU"


def _gpu(nvml: object, handle: object, driver: str) -> Gpu:
    def ask(name: str) -> object:
        with contextlib.suppress(Exception):
            return getattr(nvml, name)(handle)
        return None

    memory, capability = ask("nvmlDeviceGetMemoryInfo"), ask("nvmlDeviceGetCudaComputeCapability")
    limits = [
        ask("nvmlDeviceGetEnforcedPowerLimit"),
        ask("nvmlDeviceGetPowerManagementDefaultLimit"),
    ]
    watts = [value / 1000 if isinstance(value, int) else None for value in limits]
    return Gpu(
        name=_text(ask("nvmlDeviceGetName")),
        capability=".".join(map(str, capability)) if isinstance(capability, tuple | list) else "",
        memory=getattr(memory, "total", 0),
        used=getattr(memory, "used", 0),
        power_limit=watts[0],
        power_default=watts[1],
        driver=driver,
    )


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _packages() -> Iterator[tuple[str, str]]:
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield name, importlib.metadata.version(name)
