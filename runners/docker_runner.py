"""Runs a job in a container of its own: the wall between other people's code and everything else.

The container is a sibling of whatever we run in, started through the daemon's socket, which it
does not get itself. It has no network unless asked for, no capability, no new privilege, a limit
on memory, processes and shared memory, read-only data, and two folders that it may write: the
working copy and its scratch.

When we run in a container ourselves (a Docker action), paths that we see are not those of the
host. The daemon only knows the host's, so ours are translated by looking at our own mounts.
"""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import re
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pitstop.runners.job import Ended, Job, JobResult, OnLine, RunnerError, UnavailableError
from pitstop.runners.output import CappedLog, finish

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container

LABEL = "pitstop.job"
PAUSE = 0.2
PROJECT, SCRATCH = "/job/project", "/job/scratch"

SMALLEST_SHARED = 64 * 2**20
_GIVEN_FILES = (["/etc/hostname"], ["/etc/hosts"], ["/etc/resolv.conf"])
"""Where docker mounts files of its own into a container."""
_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of ours and where the host has it."""

    ours: str
    host: str


class DockerRunner:
    """A container for each job, of the image that the job names or of `image`.

    `user` is the user and group of the process; by default ours, so that what it writes can be
    read and removed again.
    """

    name = "docker"

    def __init__(self, image: str | None = None, user: str | None = None) -> None:
        self._image = image
        self._user = user or f"{os.getuid()}:{os.getgid()}"
        self._client: docker.DockerClient | None = None
        self._places: tuple[Place, ...] | None = None

    def preflight(self, job: Job) -> None:
        """Raises UnavailableError: no daemon, no image, no GPU runtime, or a folder of ours that
        the host cannot see."""
        import docker

        client = self._connected()
        image = self._image_of(job)
        try:
            client.images.get(image)
        except docker.errors.ImageNotFound:
            raise UnavailableError(
                f"the image {image} is not on this machine: pull or build it first"
            ) from None
        except docker.errors.DockerException as error:
            raise UnavailableError(f"the docker daemon refuses: {_said(error)}") from error
        for mount in job.mounts:
            if not mount.source.exists():
                raise UnavailableError(f"{mount.source} is to be mounted and is not there")
        for folder in (job.folder, job.scratch):
            self._on_host(folder)
        if job.gpus is not None:
            self._check_gpus()

    def has_gpus(self) -> bool:
        """Whether the daemon hands out GPUs (the NVIDIA container toolkit's runtime). Raises
        UnavailableError."""
        return "nvidia" in self._about().get("Runtimes", {})

    def _about(self) -> Mapping[str, Any]:
        try:
            about: Mapping[str, Any] = self._connected().info()
        except Exception as error:
            raise UnavailableError(f"the docker daemon refuses: {_said(error)}") from error
        return about

    def _check_gpus(self) -> None:
        """Raises UnavailableError where neither the toolkit nor CDI is there."""
        about = self._about()
        known = {*about.get("Runtimes", {}), *(about.get("CDISpecDirs") or ())}
        if not any("nvidia" in str(name) or "cdi" in str(name) for name in known):
            raise UnavailableError(
                "docker cannot hand out GPUs here: install the NVIDIA container toolkit on the host"
                " and run `nvidia-ctk runtime configure --runtime=docker`"
            )

    def run(
        self, job: Job, *, cancel: threading.Event | None = None, on_line: OnLine | None = None
    ) -> JobResult:
        """See `Runner.run`. Raises RunnerError when the daemon fails."""
        import docker

        job.scratch.mkdir(parents=True, exist_ok=True)
        log = CappedLog(job.scratch / f"{job.name}.log", job.limits.output, on_line)
        started = time.monotonic()
        container: Container | None = None
        try:
            container = self._created(job)
            # Attached before the start: the daemon's log follower may end early, and a log file
            # of its own would fill the host's disk with what a job prints.
            output = container.attach(stdout=True, stderr=True, stream=True)
            container.start()
            return self._watched(container, job, log, output, started, cancel)
        except (docker.errors.DockerException, OSError) as error:
            raise RunnerError(f"docker: {_said(error)}") from error
        finally:
            if container is not None:
                with contextlib.suppress(docker.errors.DockerException, OSError):
                    container.remove(force=True, v=True)
            log.close()

    def _created(self, job: Job) -> Container:
        import docker

        limits = job.limits
        shared = max(limits.shared_memory or 2**30, SMALLEST_SHARED)
        requests = None
        if job.gpus is not None:
            requests = [docker.types.DeviceRequest(count=job.gpus, capabilities=[["gpu"]])]
        ulimits = [docker.types.Ulimit(name="core", soft=0, hard=0)]
        if limits.open_files is not None:
            ulimits.append(
                docker.types.Ulimit(name="nofile", soft=limits.open_files, hard=limits.open_files)
            )
        if limits.disk is not None:
            ulimits.append(docker.types.Ulimit(name="fsize", soft=limits.disk, hard=limits.disk))
        return self._connected().containers.create(
            self._image_of(job),
            [self._inside(word, job) for word in job.command],
            name=f"pitstop-{job.name.replace('_', '-')}-{secrets.token_hex(4)}",
            working_dir=posixpath.join(PROJECT, job.cwd),
            environment=self._environment(job),
            entrypoint=[],
            user=self._user,
            labels={LABEL: job.name, f"{LABEL}.until": str(int(time.time() + limits.seconds + 60))},
            mounts=list(self._mounts(job)),
            tmpfs={"/tmp": "rw,exec,nosuid,nodev,size=4g"},  # noqa: S108 - inside the container
            network_mode="bridge" if job.network else "none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            ipc_mode="private",
            pids_limit=limits.processes,
            mem_limit=limits.memory,
            memswap_limit=limits.memory,
            shm_size=shared,
            ulimits=ulimits,
            device_requests=requests,
            log_config=docker.types.LogConfig(type="none"),
            init=True,
            stdin_open=False,
            detach=True,
        )

    def _mounts(self, job: Job) -> Iterator[Any]:
        import docker

        def bind(target: str, source: Path, *, read_only: bool) -> Any:
            return docker.types.Mount(
                target, self._on_host(source), type="bind", read_only=read_only
            )

        yield bind(PROJECT, job.folder, read_only=False)
        yield bind(SCRATCH, job.scratch, read_only=False)
        for mount in job.mounts:
            yield bind(mount.target, mount.source, read_only=True)

    def _environment(self, job: Job) -> dict[str, str]:
        """Only what the job names; paths of its folders become those inside."""
        base = {"HOME": SCRATCH, "TMPDIR": "/tmp", "LANG": "C.UTF-8"}  # noqa: S108
        return {**base, **{name: self._inside(value, job) for name, value in job.env.items()}}

    def _inside(self, text: str, job: Job) -> str:
        """A text in which paths of the job's folders are those that the container has."""
        for folder, target in ((job.scratch, SCRATCH), (job.folder, PROJECT)):
            text = re.sub(rf"{re.escape(str(folder))}(?=[/:]|$)", target, text)
        return text

    def _watched(
        self,
        container: Container,
        job: Job,
        log: CappedLog,
        output: Iterator[bytes],
        started: float,
        cancel: threading.Event | None,
    ) -> JobResult:
        reader = threading.Thread(target=_take, args=(output, log), daemon=True)
        reader.start()
        ended, state = self._until_end(container, job, log, started, cancel)
        finish(reader, log)
        code = int(state.get("ExitCode", -1))
        if state.get("OOMKilled"):
            ended = Ended.MEMORY
        reason = _why(ended, job)
        if state.get("Error"):
            reason = " ".join(str(state["Error"]).split())[:200]
        return JobResult(
            ended,
            128 - code if 128 < code < 192 else code,  # as a shell says that a signal ended it
            time.monotonic() - started,
            log.path,
            log.dropped,
            None,
            reason,
        )

    def _until_end(
        self,
        container: Container,
        job: Job,
        log: CappedLog,
        started: float,
        cancel: threading.Event | None,
    ) -> tuple[Ended, Mapping[str, Any]]:
        limits = job.limits
        before = _size(job) if limits.disk is not None else 0
        next_disk = 0.0
        while True:
            container.reload()
            state = container.attrs["State"]
            if not state.get("Running") and state.get("Status") != "created":
                return Ended.EXITED, state
            now = time.monotonic()
            ended = None
            if cancel is not None and cancel.is_set():
                ended = Ended.CANCELLED
            elif now - started > limits.seconds:
                ended = Ended.DEADLINE
            elif limits.silence and now - max(started, log.last) > limits.silence:
                ended = Ended.SILENT
            elif limits.disk is not None and now >= next_disk:
                if _size(job) - before > limits.disk:
                    ended = Ended.DISK
                next_disk = now + max(0.5, 20 * (time.monotonic() - now))
            if ended is not None:
                container.stop(timeout=max(0, round(limits.grace)))
                container.reload()
                return ended, container.attrs["State"]
            if cancel is not None:
                cancel.wait(PAUSE)
            else:
                time.sleep(PAUSE)

    def build(self, tag: str, dockerfile: str, context: Path | None = None) -> None:
        """Build an image: from a Dockerfile's text alone, or of that name in a context folder.

        Builds have the network, so no folder of the job's project belongs into one. Raises
        UnavailableError with the last words of a build that fails.
        """
        import docker

        options: dict[str, Any] = {"path": str(context), "dockerfile": dockerfile}
        if context is None:
            options = {"fileobj": io.BytesIO(dockerfile.encode())}
        try:
            self._connected().images.build(tag=tag, rm=True, forcerm=True, **options)
        except (docker.errors.DockerException, TypeError) as error:
            raise UnavailableError(f"the image cannot be built: {_said(error)}") from error

    def has(self, tag: str) -> bool:
        """Whether the daemon has an image. Raises UnavailableError."""
        import docker

        try:
            self._connected().images.get(tag)
        except docker.errors.ImageNotFound:
            return False
        except docker.errors.DockerException as error:
            raise UnavailableError(f"the docker daemon refuses: {_said(error)}") from error
        return True

    def reap(self) -> int:
        """Remove containers of jobs that are past their time, left by a run that was killed."""
        gone = 0
        for container in self._connected().containers.list(all=True, filters={"label": LABEL}):
            until = container.labels.get(f"{LABEL}.until", "0")
            if until.isdigit() and int(until) < time.time():
                with contextlib.suppress(Exception):
                    container.remove(force=True, v=True)
                    gone += 1
        return gone

    # --- what the daemon knows ------------------------------------------------------------------

    def _connected(self) -> docker.DockerClient:
        import docker

        if self._client is None:
            try:
                client = docker.from_env(timeout=60)
                client.ping()
            except (docker.errors.DockerException, OSError) as error:
                raise UnavailableError(
                    "no docker daemon answers: start it, or mount /var/run/docker.sock into the"
                    f" container that runs Pitstop ({_said(error)})"
                ) from error
            self._client = client
        return self._client

    def _image_of(self, job: Job) -> str:
        image = job.image or self._image
        if not image:
            raise UnavailableError("no image is named: give --image, or `image:` of the job")
        return image

    def _on_host(self, path: Path) -> str:
        """The host's name of a path of ours."""
        if self._places is None:
            self._places = self._own_mounts()
        return translated(path.resolve(), self._places)

    def _own_mounts(self) -> tuple[Place, ...]:
        """The mounts of the container that we run in; none when we run on the host itself."""
        import docker

        me, sure = own_container(Path("/"))
        if me is None:
            return ()
        try:
            about = self._connected().api.inspect_container(me)
        except docker.errors.NotFound as error:
            if not sure:  # a machine that was made from an image has its traces, too
                return ()
            raise UnavailableError(
                "Pitstop runs in a container of another docker daemon than the one it talks to"
            ) from error
        except docker.errors.DockerException as error:
            raise UnavailableError(f"the docker daemon refuses: {_said(error)}") from error
        return tuple(
            Place(mount["Destination"], mount["Source"])
            for mount in about.get("Mounts", ())
            if mount.get("Source") and mount.get("Destination")
        )


def translated(path: Path, places: tuple[Place, ...]) -> str:
    """A path of ours as the host names it. Raises UnavailableError when it lies in no mount."""
    if not places:
        return str(path)
    inside = PurePosixPath(path)
    fitting = [place for place in places if inside.is_relative_to(place.ours)]
    if not fitting:
        raise UnavailableError(
            f"{path} lies in no folder that the host shares: mount one there, or give --out"
        )
    place = max(fitting, key=lambda one: len(PurePosixPath(one.ours).parts))
    return str(PurePosixPath(place.host) / inside.relative_to(place.ours))


def own_container(root: Path) -> tuple[str | None, bool]:
    """The id of the container that we run in (None: in none), and whether that is sure.

    cgroup v1 names it; under v2 the files that docker mounts into a container do
    (`/proc/self/mountinfo` shows `.../containers/ID/hostname` at /etc/hostname; where a daemon
    of its own runs, the containers of that one are mounted elsewhere). The host's name is a
    guess: it is the id's beginning unless somebody chose another.
    """
    if not (root / ".dockerenv").exists():
        return None, True
    for name in ("proc/self/mountinfo", "proc/self/cgroup"):
        with contextlib.suppress(OSError):
            for line in (root / name).read_text("utf-8", "replace").splitlines():
                match = _CONTAINER_ID.search(line)
                ours = name.endswith("cgroup") or line.split()[4:5] in _GIVEN_FILES
                if match and ours and ("/containers/" in line or "docker" in line):
                    return match.group(0), True
    with contextlib.suppress(OSError):
        return (root / "etc/hostname").read_text("utf-8").strip() or None, False
    return None, False


def _take(output: Iterator[bytes], log: CappedLog) -> None:
    with contextlib.suppress(Exception):
        for chunk in output:
            log.write(chunk)


def _size(job: Job) -> int:
    from pitstop.runners.local_runner import size_of

    return sum(size_of(folder) for folder in {job.folder, job.scratch})


def _why(ended: Ended, job: Job) -> str:
    from pitstop.runners.local_runner import why

    return why(ended, job.limits)


def _said(error: BaseException) -> str:
    """The daemon's own sentence, on one line."""
    text = getattr(error, "explanation", None) or str(error)
    return " ".join(str(text).split())[:300]
