"""What a repository may say about its own audits: `.github/pitstop.yml`.

A pull request is judged by the file of its base branch, never by its own; a local run reads the
working tree's. The models here are the documentation too: `docs/configuration.md` and
`schemas/config.schema.json` come from them.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Literal

import pydantic
from pydantic import Field

from pitstop.bot import config_text
from pitstop.bot.audit import AuditRequest
from pitstop.bot.config_text import Problem
from pitstop.rules import engine
from pitstop.rules.finding import Severity, UserError
from pitstop.rules.job import HardwareFacts
from pitstop.rules.tree import RepoTree, UnreadableError

PATHS = (".github/pitstop.yml", ".github/pitstop.yaml")
"""Where the file is looked for, in this order."""

Goal = Literal["balanced", "throughput", "memory"]
SeverityName = Literal["critical", "warning", "info"]
FailOn = Literal["critical", "warning", "info", "never"]
RuleId = typing.Annotated[str, Field(min_length=1, max_length=100)]
Glob = typing.Annotated[str, Field(min_length=1, max_length=300)]
Count = typing.Annotated[int, Field(ge=1, le=100_000)]
Image = typing.Annotated[
    str, Field(pattern=r"^[a-z0-9][A-Za-z0-9._:/@-]*$", min_length=1, max_length=300)
]
Inside = typing.Annotated[str, Field(pattern=r"^[\w.][\w./-]*$", max_length=300)]
Package = Literal["liger-kernel", "bitsandbytes", "torchao"]
Folder = typing.Annotated[str, Field(pattern=r"^/[^\x00-\x1f:]*$", max_length=1000)]
VariableName = typing.Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]
Login = typing.Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}$")]
GpuName = typing.Annotated[str, Field(min_length=1, max_length=60)]


class _Section(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Paths(_Section):
    """Which files take part. Patterns are those of .gitignore."""

    include: tuple[Glob, ...] = Field(default=(), description="Only these; everything when empty.")
    exclude: tuple[Glob, ...] = Field(default=(), description="Not these, even where included.")


class Review(_Section):
    """How a pull request is answered."""

    max_inline: int = Field(
        default=25,
        ge=0,
        le=25,
        description="Inline comments in one review; the rest stand in the summary.",
    )
    filter: Literal["added", "diff_context", "file", "nofilter"] = Field(
        default="added",
        description="Where a finding must lie to be commented on: an added line (or one whose"
        " deciding value the change altered), any line of the diff, any changed file, anywhere.",
    )
    drafts: bool = Field(default=False, description="Review draft pull requests, too.")
    skip_label: str | None = Field(
        default="pitstop:skip",
        max_length=50,
        description="A pull request with this label is left alone.",
    )
    check_run: bool = Field(default=True, description="Publish a check run with annotations.")
    sarif: bool = Field(default=False, description="Write a SARIF file for code scanning.")
    resolve: bool = Field(
        default=True,
        description="Resolve a comment's thread once its finding is gone and nobody replied.",
    )


class OptimizeJob(_Section):
    """A job that `/optimize` may run. Only the default branch's file counts for it."""

    launch: str = Field(min_length=1, max_length=4000, description="The launch command.")
    image: Image | None = Field(
        default=None, description="Image that it runs in, instead of `optimize.image`."
    )
    data: dict[Folder, Folder] = Field(
        default={},
        description="Folders of the runner's machine that the job reads: place in the container"
        " to folder.",
    )
    env: tuple[VariableName, ...] = Field(
        default=(), description="Variables of the runner that the job sees; never secrets."
    )
    network: bool = Field(default=False, description="The job may use the network.")
    gpus: Count | None = Field(default=None, description="GPUs that it gets; all when not set.")
    steps: int | None = Field(
        default=None, ge=1, le=2000, description="Optimizer steps of a timed run."
    )
    deadline: int | None = Field(
        default=None, ge=1, le=1440, description="Minutes for everything together."
    )
    gpu: GpuName | None = Field(default=None, description="GPU model of its runner.")
    gpus_per_node: Count | None = Field(default=None, description="GPUs of its runner.")
    nodes: Count | None = Field(default=None, description="Nodes of its runner.")


class Optimizing(_Section):
    """How `/optimize` runs. Only the default branch's file counts."""

    image: Image | None = Field(
        default=None, description="Image that jobs run in; it must be on the runner's machine."
    )
    dockerfile: Inside | None = Field(
        default=None,
        description="Dockerfile of the default branch that the image is built from, where no image"
        " is named.",
    )
    context: Inside = Field(
        default=".", description="Folder of the default branch that it is built in."
    )
    packages: tuple[Package, ...] = Field(
        default=(),
        description="Packages that changes may need and that are added to the image, as wheels.",
    )
    users: tuple[Login, ...] = Field(
        default=(),
        description="Who may use `/optimize` without the permission to write to the repository.",
    )
    deadline: int = Field(
        default=240, ge=1, le=1440, description="Minutes for everything together."
    )
    memory: float | None = Field(
        default=None, gt=0, le=100_000, description="GiB of host memory that a job may use."
    )


class Config(_Section):
    """Pitstop's configuration of one repository. Every key may be left out."""

    gpu: GpuName | None = Field(
        default=None,
        description="GPU model that the jobs run on, where they do not say it: H100, A100-80.",
    )
    gpus_per_node: Count | None = Field(default=None, description="GPUs in each node.")
    nodes: Count | None = Field(default=None, description="Number of nodes.")
    goal: Goal = Field(default="balanced", description="What advice is for, where it must choose.")
    select: tuple[RuleId, ...] = Field(
        default=(), description="Only these rules (name, id or its beginning)."
    )
    ignore: tuple[RuleId, ...] = Field(
        default=(), description="Not these rules (name, id or its beginning)."
    )
    severity: dict[RuleId, SeverityName] = Field(
        default={}, description="Another severity for rules (name, id or its beginning)."
    )
    fail_on: FailOn = Field(
        default="never", description="The check fails on a new finding of this severity or above."
    )
    paths: Paths = Field(default=Paths(), description="Which files take part.")
    language: Literal["en", "zh"] = Field(
        default="en",
        description="Language of reports. Accepted now, used by a later version.",
    )
    review: Review = Field(default=Review(), description="How a pull request is answered.")
    jobs: dict[str, OptimizeJob] = Field(
        default={},
        description="Jobs for `/optimize`, by name.",
    )
    optimize: Optimizing = Field(default=Optimizing(), description="How `/optimize` runs.")
    allow: tuple[RuleId, ...] = Field(
        default=(), description="Changes to the training itself that `/optimize` may try."
    )
    multinode: bool = Field(
        default=False, description="`/optimize` may use an existing multi-node allocation."
    )

    def request(self) -> AuditRequest:
        """The audit that this configuration asks for, on no particular tree."""
        severities = {rule: Severity[name.upper()] for rule, name in self.severity.items()}
        return AuditRequest(
            hardware=self._hardware(),
            select=self.select,
            ignore=self.ignore,
            goal=self.goal,
            severities=severities,
            include=self.paths.include,
            exclude=self.paths.exclude,
        )

    def _hardware(self) -> HardwareFacts | None:
        if self.gpu is None and self.gpus_per_node is None and self.nodes is None:
            return None
        return HardwareFacts(
            gpu=self.gpu,
            gpus_per_node=self.gpus_per_node,
            nodes=self.nodes,
            evidence="Pitstop's configuration",
        )


def find_config(tree: RepoTree) -> str | None:
    """The path of the repository's configuration, None when it has none."""
    present = set(tree.paths)
    return next((path for path in PATHS if path in present), None)


def read_config(tree: RepoTree) -> Config:
    """The repository's configuration, or the defaults. Raises UserError as `load_config` does."""
    path = find_config(tree)
    if path is None:
        return Config()
    try:
        return load_config(tree.read(path).text, path)
    except UnreadableError as error:
        raise UserError(f"{path}: {error}; mend or remove the file.") from error


def load_config(text: str, where: str) -> Config:
    """The configuration in a text. Raises UserError with file, line and cure of the first fault."""
    config, problems = check_config(text)
    if config is None:
        first, more = problems[0], len(problems) - 1
        rest = f" ({more} more: run `pitstop config check`)" if more else ""
        raise UserError(f"{where}:{first.line}: {first.text}{rest}")
    return config


def check_config(text: str) -> tuple[Config | None, tuple[Problem, ...]]:
    """The configuration, or every problem of its text in order of lines; never both."""
    document = config_text.read(text)
    if document.problems:
        return None, document.problems
    try:
        config = Config.model_validate(document.data)
    except pydantic.ValidationError as error:
        problems = {_problem(fault, document) for fault in error.errors()}
        return None, tuple(sorted(problems))
    unknown = tuple(_unknown_rules(config, document))
    return (None, unknown) if unknown else (config, ())


def _unknown_rules(config: Config, document: config_text.Document) -> Iterator[Problem]:
    infos = engine.all_rules()
    names = [name for info in infos for name in (info.id, info.name)]
    words: list[tuple[config_text.Path, str]] = [
        (("select", i), word) for i, word in enumerate(config.select)
    ]
    words += [(("ignore", i), word) for i, word in enumerate(config.ignore)]
    words += [(("severity", word), word) for word in config.severity]
    for path, word in words:
        if not any(engine.means(word, info) for info in infos):
            hint = config_text.did_you_mean(word, names)
            yield Problem(document.line(path), f"{path[0]}: {word!r} means no rule; {hint}")


def _problem(fault: typing.Any, document: config_text.Document) -> Problem:
    path = tuple(part for part in fault["loc"] if part != "[key]")
    line = document.line(path)
    name = ".".join(str(part) for part in path) or "the file"
    if fault["type"] == "extra_forbidden":
        hint = config_text.did_you_mean(str(path[-1]), _keys_at(path[:-1]))
        return Problem(line, f"unknown key {name!r}; {hint}")
    if fault["type"] == "literal_error":
        allowed = fault["ctx"]["expected"].replace("'", "")
        return Problem(line, f"{name}: {fault['input']!r} is not one of {allowed}")
    message = fault["msg"][:1].lower() + fault["msg"][1:]
    return Problem(line, f"{name}: {message}")


def _keys_at(path: tuple[int | str, ...]) -> tuple[str, ...]:
    """The keys that the section at a path may have."""
    model: type[pydantic.BaseModel] = Config
    for part in path:
        if model is Config and path[0] == "jobs":
            return tuple(OptimizeJob.model_fields)
        annotation = model.model_fields[str(part)].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel)):
            return ()
        model = annotation
    return tuple(model.model_fields)


def config_schema() -> dict[str, typing.Any]:
    """The JSON Schema of the file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Config.model_json_schema(),
        "title": "Pitstop configuration",
    }
