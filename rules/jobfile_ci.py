"""The shell text of GitHub workflows, composite actions and GitLab pipelines."""

from __future__ import annotations

from collections.abc import Iterator

from pitstop.rules.configs import ConfigFile, Path
from pitstop.rules.jobfile_yaml import (
    decoded,
    environment,
    joined_lines,
    mapped,
    scalar_text,
    strings,
)
from pitstop.rules.shell import Script
from pitstop.rules.shell_reader import read_text
from pitstop.rules.shell_values import Scope
from pitstop.rules.tree import RepoTree, SourceFile, normalise

_SHELLS = ("bash", "sh")


def read_workflow(file: SourceFile, config: ConfigFile, tree: RepoTree) -> Iterator[Script]:
    """Each `run:` step with the environment of workflow, job and step."""
    for entry in config.entries:
        if entry.path[-1:] != ("run",) or entry.path[-3:-2] != ("steps",):
            continue
        step: Path = entry.path[:-1]
        job: Path = entry.path[:-3]
        shell = config.get(*step, "shell")
        if shell is not None and not decoded(shell).startswith(_SHELLS):
            continue
        text = scalar_text(file, entry)
        scope = Scope(text, file.path)
        for level in ((), job, step):
            scope.variables.update(environment(file, mapped(config, *level, "env")))
        scope.cwd = _folder(config, step, job)
        yield read_text(text, tree, scope)


def _folder(config: ConfigFile, step: Path, job: Path) -> str:
    for path in (step, (*job, "defaults", "run"), ("defaults", "run")):
        entry = config.get(*path, "working-directory")
        if entry is not None:
            return normalise(decoded(entry)) or ""
    return ""


def read_gitlab(file: SourceFile, config: ConfigFile, tree: RepoTree) -> Iterator[Script]:
    """Each job's `before_script` and `script` as one shell runs them."""
    shared = config.get("before_script") or config.get("default", "before_script")
    for entry in config.entries:
        if entry.path[-1:] != ("script",) or len(entry.path) != 2:
            continue
        job = entry.path[0]
        before = config.get(job, "before_script") or shared
        text = joined_lines(file, (*strings(before), *strings(entry)))
        if text is None:
            continue
        scope = Scope(text, file.path)
        for level in ((), (job,)):
            scope.variables.update(environment(file, mapped(config, *level, "variables")))
        yield read_text(text, tree, scope)
