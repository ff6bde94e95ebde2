"""What the gate hands to the later stages: everything that decides, as one line of JSON.

It reaches them as an output of the gate's job, which the pull request cannot touch. Everything
in it comes from the comment, from GitHub's API and from the configuration on the default branch.
"""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic
from pydantic import Field

from pitstop.rules.finding import UserError

MAX_BYTES = 60_000
"""Of a request as JSON; GitHub takes at most 1 MB for the outputs of a job."""

Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Repository = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,39}/[A-Za-z0-9._-]{1,100}$")]
Login = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}(\[bot\])?$")]
Ref = Annotated[str, Field(min_length=1, max_length=255)]
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Ids = Annotated[tuple[Id, ...], Field(max_length=50)]
Package = Literal["liger-kernel", "bitsandbytes", "torchao"]
Number = Annotated[int, Field(ge=1)]


class _Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)


class RunEnvironment(_Model):
    """Where the job runs, by the default branch's configuration alone.

    The image is `image`, or is built from `dockerfile` in the folder `context` of the default
    branch, which stood at `context_sha`; `packages` are added to it. `data` maps places in
    the container to folders of the host, read-only. `env` names variables of the runner that the
    job may see. `memory` in bytes.
    """

    image: Annotated[str, Field(max_length=300)] | None = None
    dockerfile: Annotated[str, Field(max_length=300)] | None = None
    context: Annotated[str, Field(max_length=300)] = "."
    context_sha: Sha | None = None
    packages: Annotated[tuple[Package, ...], Field(max_length=9)] = ()
    network: bool = False
    data: dict[str, str] = {}
    env: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    gpus: int | None = None
    memory: int | None = None
    multinode: bool = False


class RunRequest(_Model):
    """One optimization that a person who may has asked for. `deadline` in seconds."""

    version: Literal[1] = 1
    repository: Repository
    number: Number
    sha: Sha
    head_ref: Ref
    head_repository: Repository
    base_ref: Ref
    fork: bool
    comment: Number
    commenter: Login
    permission: Literal["admin", "write", "listed"]
    launch: Annotated[str, Field(min_length=1, max_length=4000)]
    job: Annotated[str, Field(max_length=100)] | None = None
    goal: Literal["balanced", "throughput", "memory"] = "throughput"
    steps: Annotated[int, Field(ge=1, le=2000)] | None = None
    rounds: Annotated[int, Field(ge=1, le=5)] | None = None
    quick: bool = False
    only: Ids = ()
    disable: Ids = ()
    allow: Ids = ()
    deadline: Annotated[int, Field(ge=60, le=86_400)] = 4 * 3600
    language: Literal["en", "zh"] = "en"
    environment: RunEnvironment = RunEnvironment()

    def to_json(self) -> str:
        """One line."""
        return self.model_dump_json()


def read_request(text: str) -> RunRequest:
    """The request in a gate's output. Raises UserError for anything that the gate would not have
    written."""
    if not text.strip():
        raise UserError(
            "INPUT_REQUEST is empty; give the input `request` the gate job's output `request`."
        )
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise UserError(f"INPUT_REQUEST is larger than {MAX_BYTES} bytes, so it is refused.")
    try:
        return RunRequest.model_validate_json(text)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the text"
        raise UserError(
            f"INPUT_REQUEST is refused: {where}: {first['msg'].lower()}."
            " Use the gate and the later stages of one version."
        ) from None


def request_schema() -> dict[str, object]:
    """The JSON Schema of a request."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **RunRequest.model_json_schema(),
        "title": "Pitstop optimization request",
    }
