"""What the run stage hands to publish: `bundle.json`, patches and reports in one folder.

The run stage executes a pull request's code, so its bundle is a stranger's word. Nothing in it
decides where anything is written: repository, pull request and commit come from the gate. What is
shown of it is shown as data; what is applied of it is looked at file by file (`publish`).
"""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pydantic
from pydantic import Field

from pitstop.rules.finding import UserError

NAME = "bundle.json"
PATCHES = "patches"
REPORTS = "reports"
MAX_BYTES = 5_000_000
"""Of bundle.json."""
MAX_PATCH = 1_000_000
"""Bytes of one patch."""
MAX_REPORT = 20_000_000
"""Bytes of one report that is copied into a bundle; larger ones stay behind."""

Word = Annotated[str, Field(max_length=200)]
Sentence = Annotated[str, Field(max_length=2_000)]
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Real = Annotated[float, Field(allow_inf_nan=False, ge=-1e12, le=1e12)]
Curve = Annotated[tuple[Real, ...], Field(max_length=500)]


class _Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)


class Metric(_Model):
    """A row of the table of before and after, ready to be read."""

    metric: Word
    before: Word
    after: Word
    change: Word


class Kept(_Model):
    """A change that is proved. `patch` is its file's name under `patches`, empty when it changes
    nothing but the launch command."""

    id: Id
    title: Word
    why: Sentence = ""
    round: Annotated[int, Field(ge=0, le=99)] = 0
    numerics: Literal["exact", "equivalent", "precision", "semantics"]
    effect: Sentence
    losses: Sentence = ""
    memory: Sentence = ""
    patch: Annotated[str, Field(pattern=r"^([0-9]{4}\.patch)?$")] = ""


class Dropped(_Model):
    """A change that was tried and not kept, and why."""

    id: Id
    title: Word
    outcome: Word
    why: Sentence


class RunBundle(_Model):
    """What one optimization found out. `seconds` is wall time; `losses` are the first steps'
    losses of the job as it was and as it is now, from one seed."""

    version: Literal[1] = 1
    tool: Word
    sha: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    outcome: Literal["kept", "nothing", "failed", "cancelled"]
    verdict: Sentence
    rows: Annotated[tuple[Metric, ...], Field(max_length=20)] = ()
    kept: Annotated[tuple[Kept, ...], Field(max_length=50)] = ()
    dropped: Annotated[tuple[Dropped, ...], Field(max_length=100)] = ()
    not_tried: Annotated[tuple[Dropped, ...], Field(max_length=200)] = ()
    not_verified: Annotated[tuple[Sentence, ...], Field(max_length=50)] = ()
    environment: Annotated[tuple[tuple[Word, Sentence], ...], Field(max_length=30)] = ()
    command: Annotated[str, Field(max_length=4_000)] = ""
    new_command: Annotated[str, Field(max_length=8_000)] = ""
    losses: tuple[Curve, Curve] = ((), ())
    seconds: Real = 0.0
    runs: Annotated[int, Field(ge=0, le=100_000)] = 0
    integrity: Sentence = ""
    quick: bool = False


@dataclass(frozen=True, slots=True)
class ReadBundle:
    """A bundle that was read whole: `patches` by file name."""

    data: RunBundle
    patches: Mapping[str, bytes]


def write_bundle(
    folder: Path, bundle: RunBundle, patches: Mapping[str, bytes], reports: Sequence[Path] = ()
) -> None:
    """Write a bundle into an empty folder; `reports` are files that are copied beside it.

    Raises OSError. A report that is too large, or no plain file, stays behind.
    """
    (folder / PATCHES).mkdir(parents=True, exist_ok=True)
    (folder / REPORTS).mkdir(exist_ok=True)
    for name, data in patches.items():
        (folder / PATCHES / name).write_bytes(data)
    for report in reports:
        if not report.is_symlink() and report.is_file() and report.stat().st_size <= MAX_REPORT:
            (folder / REPORTS / report.name).write_bytes(report.read_bytes())
    (folder / NAME).write_text(bundle.model_dump_json(indent=1) + "\n", "utf-8")


def read_run_bundle(folder: Path) -> ReadBundle:
    """The bundle in a folder. Raises UserError for anything that `write_bundle` would not have
    written."""
    try:
        data = RunBundle.model_validate_json(_bytes(folder / NAME, MAX_BYTES))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or NAME
        raise _refused(f"{where}: {first['msg'].lower()}") from None
    names = [one.patch for one in data.kept if one.patch]
    if len(set(names)) != len(names):
        raise _refused("two changes name one patch")
    patches = {name: _bytes(folder / PATCHES / name, MAX_PATCH) for name in names}
    return ReadBundle(data, patches)


def _bytes(path: Path, most: int) -> bytes:
    """A plain file's bytes; nothing on the way to it inside the bundle may be a link."""
    shown = re.sub(r"[^\w./-]", "?", path.name)
    try:
        for part in (path.parent, path):
            mode = part.lstat().st_mode
            if not (stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and part != path)):
                raise _refused(f"{shown} is no plain file")
        if path.stat().st_size > most:
            raise _refused(f"{shown} is larger than {most} bytes")
        return path.read_bytes()
    except OSError as error:
        raise _refused(f"{shown} cannot be read ({error.strerror})") from None


def _refused(reason: str) -> UserError:
    return UserError(f"The bundle of the run is refused: {reason}.")


def bundle_schema() -> dict[str, object]:
    """The JSON Schema of bundle.json."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **RunBundle.model_json_schema(),
        "title": "Pitstop optimization result",
    }
