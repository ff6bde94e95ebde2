"""Why a job failed, by the text that it left: one class, one sentence, the lines that show it.

Text of a job is data of strangers. It is bounded, its colours and secrets are taken out, and it
is only ever quoted.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pitstop.rules.data import load_data
from pitstop.runners.job import Ended, JobResult

if TYPE_CHECKING:
    from pitstop.runners.probing import ProbeRun

MAX_LINES, MAX_LINE = 40, 300

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_SECRETS = re.compile(
    r"hf_\w{8,}|gh[pousr]_\w{8,}|github_pat_\w+|AKIA\w{12,}|Bearer \S+"
    r"|(?i:token|key|password|secret)=\S+"
)
_ROOT_CAUSE = re.compile(
    r"Root Cause \(first observed failure\):\s*\n\s*\[0\]:.*?\n"
    r"(?:.*\n)*?\s*rank\s*:\s*(\d+).*\n\s*exitcode\s*:\s*(-?\d+)"
)
_RANK_LINE = re.compile(r"^\[(?:rank|default)?(\d+)\]:\s?")
_EXCEPTION = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt|Warning|Exit)\w*)(?:: |$)")
_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (\S+)')


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """One failure. `signature` is equal when the same thing failed again; `environment`: the
    machine or the data, not a change, is at fault."""

    kind: str
    sentence: str
    signature: str
    lines: tuple[str, ...] = ()
    rank: int | None = None
    environment: bool = False
    frame: str = ""


@dataclass(frozen=True, slots=True)
class _Class:
    name: str
    says: str
    environment: bool
    patterns: tuple[re.Pattern[str], ...]


@functools.cache
def _classes() -> tuple[tuple[_Class, ...], re.Pattern[str]]:
    data: dict[str, Any] = load_data("pitstop.runners", "error_classes.yaml")
    classes = tuple(
        _Class(
            raw["name"],
            raw["says"],
            bool(raw.get("environment", False)),
            tuple(re.compile(pattern, re.MULTILINE) for pattern in raw["patterns"]),
        )
        for raw in data["classes"]
    )
    return classes, re.compile("|".join(f"(?:{p})" for p in data["secondary"]))


def clean(text: str) -> str:
    """A job's text without terminal codes, control characters and secrets."""
    text = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    text = "".join(c for c in text if c in "\n\t" or (c.isprintable()))
    return _SECRETS.sub("***", text)


def explain(text: str, result: JobResult, run: ProbeRun | None = None) -> ErrorReport:
    """The failure of one run: how it ended, then what it printed.

    A job that the runner ended is explained by that; else the earliest error that the probe
    wrote down, else the last traceback that is not merely the echo of another process's end.
    """
    ended = _ended(result)
    if ended is not None:
        return ended
    lines = clean(text).splitlines()
    cause = _probe_error(run) or _traceback(lines)
    body = "\n".join(cause) if cause else "\n".join(lines[-MAX_LINES:])
    found = _matched(body) or _matched("\n".join(lines[-400:])) or _by_exit(result)
    kind, sentence, environment = found or ("UNKNOWN", _unknown(cause, result), False)
    shown = tuple(line[:MAX_LINE] for line in (cause or lines)[-MAX_LINES:])
    frame = _deepest(cause)
    return ErrorReport(
        kind, sentence, _signature(kind, cause, frame), shown, _rank(text), environment, frame
    )


def _ended(result: JobResult) -> ErrorReport | None:
    words = {
        Ended.DEADLINE: ("DEADLINE", f"the run took longer than allowed ({result.reason})"),
        Ended.SILENT: ("HANG", f"the run hung ({result.reason})"),
        Ended.MEMORY: ("HOST_OOM", f"the run was stopped: {result.reason}"),
        Ended.DISK: ("DISK_FULL", f"the run was stopped: it {result.reason}"),
        Ended.CANCELLED: ("CANCELLED", "the run was cancelled"),
        Ended.FAILED_TO_START: ("NOT_STARTED", f"the run did not start: {result.reason}"),
    }
    if result.ended not in words:
        return None
    kind, sentence = words[result.ended]
    return ErrorReport(kind, sentence, kind, environment=kind != "HOST_OOM")


def _matched(text: str) -> tuple[str, str, bool] | None:
    """The first class of the table that the text shows."""
    for one in _classes()[0]:
        for pattern in one.patterns:
            match = pattern.search(text)
            if match:
                groups = [group or "" for group in match.groups()] or [""]
                said = one.says
                for index, group in enumerate(groups):
                    said = said.replace(f"{{{index}}}", group[:120])
                return one.name, said.replace("{0}", "").rstrip(": "), one.environment
    return None


def _by_exit(result: JobResult) -> tuple[str, str, bool] | None:
    code = result.exit_code
    if code in (-9, 137):
        return "HOST_OOM", "the process was killed, most likely for its memory", False
    if code in (-11, -6, -4, 139, 134):
        return "CRASH", "the process crashed", False
    return None


def _unknown(cause: list[str], result: JobResult) -> str:
    said = [line.strip() for line in cause if line.strip()]
    last = next(
        (line for line in reversed(said) if _EXCEPTION.match(line)), said[-1] if said else ""
    )
    if last:
        return last[:200]
    return f"the job ended with exit code {result.exit_code}"


def _probe_error(run: ProbeRun | None) -> list[str]:
    """The error of the rank that failed first, as the probe wrote it down."""
    if run is None:
        return []
    errors = [rank.error for rank in run.ranks if rank.error is not None]
    secondary = _classes()[1]
    first = [error for error in errors if not secondary.search(f"{error.type}: {error.message}")]
    for error in sorted(first, key=lambda error: error.at):
        return clean(error.text).splitlines()
    return []


def _traceback(lines: list[str]) -> list[str]:
    """The last traceback that is not the echo of another failure, with what led to it left out."""
    plain = [_RANK_LINE.sub("", line) for line in lines]
    starts = [i for i, line in enumerate(plain) if "Traceback (most recent call last)" in line]
    secondary = _classes()[1]
    for start in reversed(starts):
        end = _end_of(plain, start)
        block = plain[start:end]
        if not secondary.search("\n".join(block[-3:])):
            return block
    return []


def _end_of(lines: list[str], start: int) -> int:
    for index in range(start + 1, min(len(lines), start + 400)):
        if _EXCEPTION.match(lines[index].strip()) and not lines[index].startswith("  "):
            end = index + 1
            while end < min(len(lines), index + 12) and _goes_on(lines[end]):
                end += 1
            return end
    return min(len(lines), start + 400)


def _goes_on(line: str) -> bool:
    """Whether a line still belongs to an exception's message."""
    return bool(line.strip()) and "Traceback (most recent call last)" not in line


def _rank(text: str) -> int | None:
    match = _ROOT_CAUSE.search(text)
    return int(match.group(1)) if match else None


def _deepest(block: Iterable[str]) -> str:
    """The innermost frame that is not of an installed package, as `file:function`."""
    found = ""
    for line in block:
        match = _FRAME.match(line)
        if match and "site-packages" not in match.group(1) and "/lib/python" not in match.group(1):
            found = f"{match.group(1).rsplit('/', 1)[-1]}:{match.group(3)}"
    return found


def _signature(kind: str, block: list[str], frame: str) -> str:
    message = next((line for line in reversed(block) if _EXCEPTION.match(line.strip())), "")
    message = re.sub(r"0x[0-9a-fA-F]+", "H", message)
    message = re.sub(r"'[^']*/[^']*'|\"[^\"]*/[^\"]*\"", "P", message)
    message = re.sub(r"\d+(?:\.\d+)?", "N", message)
    return " ".join((kind, message.strip()[:200], frame)).strip()
