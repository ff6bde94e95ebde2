"""The action's inputs and the runner's environment as one typed object.

`INPUTS` is the action's interface: a test holds `action.yml` equal to it. Nothing else in
Pitstop reads the environment of a runner.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pitstop.rules.finding import UserError


@dataclass(frozen=True, slots=True)
class Input:
    """One input of the action, as `action.yml` declares it."""

    name: str
    text: str
    default: str = ""

    @property
    def variable(self) -> str:
        """The environment variable in which a runner passes it to a Docker action."""
        return f"INPUT_{self.name.upper()}"


INPUTS = (
    Input(
        "github-token",
        "Token that reads the pull request and posts the review.",
        "${{ github.token }}",
    ),
    Input(
        "mode",
        "What to do: auto (by the event: review, fork's second stage, or the gate of a command),"
        " audit, gate, run, publish or single.",
        "auto",
    ),
    Input(
        "request",
        "In run and publish, the gate job's output `request`.",
    ),
    Input(
        "folder",
        "In run, the folder of the workspace that the pull request's commit was checked out to.",
        "project",
    ),
    Input(
        "runner",
        "In run and single, where the job runs: docker (a container beside this one), or local"
        " (a process of this machine, behind no wall: only for a person's own machine).",
        "docker",
    ),
    Input(
        "fail-on",
        "Fail the job on a new finding of this severity or above: critical, warning, info or"
        " never. Empty: as the configuration of the base branch says.",
    ),
    Input(
        "bundle",
        "What the stage before uploaded: in a workflow_run job of the review, or in publish.",
    ),
    Input(
        "report-folder",
        "Folder in the workspace for the report, the SARIF file and the bundle.",
        "pitstop-report",
    ),
    Input(
        "time-limit",
        "Seconds after which Pitstop stops waiting for GitHub and leaves the review in the job"
        " summary.",
        "600",
    ),
)

OUTPUTS = {
    "findings": "Number of findings that the change brought in.",
    "critical": "Number of critical ones among them.",
    "report": "Path of the JSON report, relative to the workspace.",
    "bundle": "Path of the bundle for the next stage, empty when there is none.",
    "go": "From the gate: true when the run may start.",
    "cancel": "From the gate: true when the run that is on shall end.",
    "request": "From the gate: what the later stages need, as JSON.",
    "context": "From the gate: the commit of the default branch that the image is built from.",
    "number": "From the gate: the pull request's number.",
    "sha": "From the gate: the commit that may be run.",
}
"""The action's outputs, by name."""

_REPOSITORY = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+")
MODES = ("auto", "audit", "gate", "run", "publish", "single")
RUNNERS = ("docker", "local")
_FAIL_ON = ("", "critical", "warning", "info", "never")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything from outside that a run of the action depends on.

    The token stands in no text made from this object; the run stage has none. Addresses have no
    slash at their end. `fail_on` is None when the configuration decides; `time_limit` is in
    seconds.
    """

    token: str = field(repr=False)
    repository: str
    event_name: str
    event_path: Path
    workspace: Path
    api_url: str = "https://api.github.com"
    server_url: str = "https://github.com"
    graphql_url: str = "https://api.github.com/graphql"
    run_id: int | None = None
    report_folder: str = "pitstop-report"
    bundle: Path | None = None
    mode: str = "auto"
    request: str = field(default="", repr=False)
    folder: str = "project"
    runner: str = "docker"
    fail_on: str | None = None
    time_limit: float = 600.0
    output: Path | None = None
    step_summary: Path | None = None

    @property
    def run_url(self) -> str | None:
        """The page of this run, where its artifacts are."""
        if self.run_id is None:
            return None
        return f"{self.server_url}/{self.repository}/actions/runs/{self.run_id}"


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Settings from a runner's environment. Raises UserError that names every bad variable."""
    reader = _Reader(environment)
    api = reader.address("GITHUB_API_URL", "https://api.github.com")
    settings = Settings(
        token="" if reader.mode == "run" else reader.token(),
        repository=reader.matching("GITHUB_REPOSITORY", _REPOSITORY, "like owner/name"),
        event_name=reader.required("GITHUB_EVENT_NAME"),
        event_path=Path(reader.required("GITHUB_EVENT_PATH")),
        workspace=Path(reader.required("GITHUB_WORKSPACE")),
        api_url=api,
        server_url=reader.address("GITHUB_SERVER_URL", "https://github.com"),
        graphql_url=reader.address("GITHUB_GRAPHQL_URL", _graphql_beside(api)),
        run_id=reader.run_id(),
        report_folder=reader.folder("report-folder"),
        bundle=reader.path(_input("bundle").variable),
        mode=reader.mode,
        request=reader.text("request"),
        folder=reader.folder("folder"),
        runner=reader.choice("runner", RUNNERS),
        fail_on=reader.choice("fail-on", _FAIL_ON) or None,
        time_limit=reader.seconds("time-limit"),
        output=reader.path("GITHUB_OUTPUT"),
        step_summary=reader.path("GITHUB_STEP_SUMMARY"),
    )
    if reader.faults:
        raise UserError("; ".join(reader.faults))
    return settings


def _input(name: str) -> Input:
    return next(known for known in INPUTS if known.name == name)


def _graphql_beside(api: str) -> str:
    """github.com: /graphql; GitHub Enterprise Server: /api/graphql beside /api/v3."""
    return f"{api.removesuffix('/v3')}/graphql"


class _Reader:
    """Takes variables out of an environment and collects what is wrong with them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.faults: list[str] = []
        self.mode = self.choice("mode", MODES)

    def _get(self, variable: str) -> str:
        return self._environment.get(variable, "").strip()

    def _option(self, name: str) -> tuple[str, str]:
        """Variable and text of an input. A default that is an expression is the runner's."""
        known = _input(name)
        default = "" if known.default.startswith("${{") else known.default
        return known.variable, self._get(known.variable) or default

    def required(self, variable: str) -> str:
        value = self._get(variable)
        if not value:
            self.faults.append(f"{variable} is not set; run inside a GitHub Actions job")
        return value

    def text(self, name: str) -> str:
        return self._option(name)[1]

    def token(self) -> str:
        variable, value = self._option("github-token")
        value = value or self._get("GITHUB_TOKEN")
        if not value:
            self.faults.append(
                f"{variable} and GITHUB_TOKEN are not set; give the input `github-token`"
            )
        elif not value.isascii() or not value.isprintable() or " " in value:
            self.faults.append(f"{variable} is not a token (it holds spaces or odd characters)")
        return value

    def matching(self, variable: str, form: re.Pattern[str], words: str) -> str:
        value = self.required(variable)
        if value and not form.fullmatch(value):
            self.faults.append(f"{variable} is {value!r}, which is not {words}")
        return value

    def address(self, variable: str, default: str) -> str:
        value = (self._get(variable) or default).rstrip("/")
        try:
            parts = urlsplit(value)
            good = parts.scheme in ("http", "https") and bool(parts.hostname)
            good = good and parts.port != 0 and not (parts.username or parts.query)
        except ValueError:
            good = False
        if not good:
            self.faults.append(f"{variable} is {value!r}, which is not an http address")
        return value

    def path(self, variable: str) -> Path | None:
        value = self._get(variable)
        return Path(value) if value else None

    def folder(self, name: str) -> str:
        variable, value = self._option(name)
        parts = Path(value).parts
        if Path(value).is_absolute() or ".." in parts or not parts:
            self.faults.append(f"{variable} is {value!r}, which is not a folder in the workspace")
        return value

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        variable, value = self._option(name)
        if value not in allowed:
            words = ", ".join(word for word in allowed if word)
            self.faults.append(f"{variable} is {value!r}, which is not one of {words}")
        return value

    def seconds(self, name: str) -> float:
        variable, value = self._option(name)
        if not (value.isascii() and value.isdigit() and 1 <= int(value) <= 86_400):
            self.faults.append(f"{variable} is {value!r}, which is not 1 to 86400 seconds")
            return 600.0
        return float(value)

    def run_id(self) -> int | None:
        value = self._get("GITHUB_RUN_ID")
        return int(value) if value.isascii() and value.isdigit() else None
