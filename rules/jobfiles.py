"""Files that are no shell scripts but hold commands: Makefiles, Dockerfiles, CI pipelines,
Slurm scripts, Kubernetes objects, SkyPilot tasks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from pitstop.rules.shell import Script, read_script
from pitstop.rules.tree import RepoTree, SourceFile

_COMMAND_KEY = re.compile(r"^[ \t-]*(?:run|script|command|args|entrypoint)[ \t]*:", re.MULTILINE)
_WORKFLOW_FOLDERS = (".github/workflows/", ".gitea/workflows/", ".forgejo/workflows/")
_SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch")
_TASK_KEYS = frozenset({"resources", "setup", "num_nodes", "envs", "workdir", "file_mounts"})


def read_jobfile(file: SourceFile, tree: RepoTree) -> tuple[Script, ...]:
    """The scripts that a file holds, one for each shell that it starts; none for other files.

    Words are located in the file; what YAML or make rewrites is not `exact`. Raises
    UnreadableError("line 3: ...") for YAML that no loader takes.
    """
    name = PurePosixPath(file.path).name.lower()
    if name.endswith(_SCRIPTS):
        return (read_script(file, tree),)
    if name in ("makefile", "gnumakefile") or name.endswith((".mk", ".make")):
        from pitstop.rules.jobfile_make import read_makefile

        return _started(read_makefile(file, tree))
    if name.startswith(("dockerfile", "containerfile")) or name.endswith(".dockerfile"):
        from pitstop.rules.jobfile_docker import read_dockerfile

        return _started(read_dockerfile(file, tree))
    if name.endswith((".yml", ".yaml")) and _COMMAND_KEY.search(file.text):
        return _started(_read_yaml(file, tree))
    return ()


def _started(scripts: Iterator[Script]) -> tuple[Script, ...]:
    """The scripts that do anything or could not be read."""
    return tuple(s for s in scripts if s.commands or s.unread or s.heredocs)


def _read_yaml(file: SourceFile, tree: RepoTree) -> Iterator[Script]:
    """Which of the formats a YAML file is, its path and its keys say."""
    from pitstop.rules.configs_yaml import read_yaml
    from pitstop.rules.jobfile_ci import read_gitlab, read_workflow
    from pitstop.rules.jobfile_cluster import read_compose, read_kubernetes, read_skypilot

    config = read_yaml(file)
    name = PurePosixPath(file.path).name
    top = set(config.keys())
    action = name in ("action.yml", "action.yaml") and "runs" in top
    readers: Callable[..., Iterator[Script]] | None = None
    if file.path.startswith(_WORKFLOW_FOLDERS) or action:
        readers = read_workflow
    elif name.endswith((".gitlab-ci.yml", ".gitlab-ci.yaml")):
        readers = read_gitlab
    elif {"apiVersion", "kind"} <= top:
        readers = read_kubernetes
    elif "services" in top:
        readers = read_compose
    elif "run" in top and top & _TASK_KEYS:
        readers = read_skypilot
    if readers is not None:
        yield from readers(file, config, tree)
