"""The files that a job leaves for its artifacts: report, SARIF, and the bundle for stage two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pitstop.bot import bundle, report_markdown, sarif
from pitstop.bot.posting import Audited, Delivery
from pitstop.bot.settings import Settings

REPORT, READABLE, SARIF = "report.json", "report.md", "pitstop.sarif"


@dataclass(frozen=True, slots=True)
class Written:
    """Paths relative to the workspace, "" for what was not written, and why not."""

    report: str = ""
    bundle: str = ""
    remarks: tuple[str, ...] = ()


def write_files(
    settings: Settings, audited: Audited, delivery: Delivery, *, with_sarif: bool
) -> Written:
    """Write the report's files into the workspace. A folder that is not ours to write is a
    remark, not an error: the review does not depend on it."""
    files = _files(audited, delivery, with_sarif=with_sarif)
    folder = settings.workspace / settings.report_folder
    try:
        _write(folder, settings.workspace, files)
    except OSError as error:
        reason = error.strerror or "it lies outside the workspace"
        return Written(remarks=(f"{folder}: no report was written ({reason}).",))
    name = settings.report_folder
    return Written(
        report=f"{name}/{REPORT}",
        bundle=f"{name}/{bundle.NAME}" if bundle.NAME in files else "",
    )


def _files(audited: Audited, delivery: Delivery, *, with_sarif: bool) -> Mapping[str, str]:
    report = audited.report
    files = {REPORT: report.to_json(), READABLE: report_markdown.full_report(report)}
    if with_sarif:
        files[SARIF] = sarif.to_sarif(report)
    if delivery.forbidden:
        files[bundle.NAME] = bundle.write_bundle(audited.number, audited.sha, report)
    return files


def _write(folder: Path, workspace: Path, files: Mapping[str, str]) -> None:
    """The workspace may hold a stranger's checkout, whose links must not lead us elsewhere."""
    inside = folder.resolve().is_relative_to(workspace.resolve())
    if not inside or folder.is_symlink():
        raise OSError
    folder.mkdir(parents=True, exist_ok=True)
    for name in (REPORT, READABLE, SARIF, bundle.NAME):
        (folder / name).unlink(missing_ok=True)
    for name, text in files.items():
        with (folder / name).open("x", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
