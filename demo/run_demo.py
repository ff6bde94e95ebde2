"""Shows Pitstop at work on a machine without network or GPU.

Starts the forge, creates a repository from examples/train-project, opens a pull request that makes
its training slower, runs Pitstop's action for that event as a runner would, and prints the review.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # started by its path, not as a module
    sys.path.insert(0, str(ROOT))

from demo.forge import Forge  # noqa: E402
from demo.handles import ForgePull, ForgeRepo  # noqa: E402
from demo.slower import BODY, TITLE, project_files, slower_files  # noqa: E402
from demo.terminal import Terminal  # noqa: E402

PROJECT = ROOT / "examples" / "train-project"
REPOSITORY = "acme/llm-train"
TIME_LIMIT = 50
PAGES = {"pull-request.html": "", "files.html": "/files", "checks.html": "/checks"}


def main(arguments: Sequence[str] | None = None) -> int:
    """The demo. Returns 0 when the review appeared."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the forge running afterwards")
    parser.add_argument("--port", type=int, default=0, help="port of the forge (default: any)")
    parser.add_argument("--folder", type=Path, default=ROOT / ".demo", help="where files go")
    options = parser.parse_args(arguments)
    terminal = Terminal(sys.stdout)
    clear(options.folder)
    with Forge(options.folder / "git", port=options.port) as forge:
        pull = open_pull(forge, terminal)
        started = time.monotonic()
        code = run_action(forge, pull, options.folder)
        terminal.step(f"Pitstop ended with exit code {code}", time.monotonic() - started)
        appeared = bool(pull.review_comments() and pull.comments())
        if appeared:
            terminal.review(pull.comments(), pull.review_comments(), pull.checks())
        else:
            terminal.failure((options.folder / "action.log").read_text(encoding="utf-8"))
        where_to_look(forge, pull, options.folder, terminal, keep=options.keep)
        if options.keep:
            wait(terminal)
    return 0 if appeared and code == 0 else 1


def clear(folder: Path) -> None:
    """Remove what an earlier demo left in the folder, and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("git", "workspace", "temp"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in ("action.log", "event.json", "output.txt", "summary.md", *PAGES):
        (folder / name).unlink(missing_ok=True)


def open_pull(forge: Forge, terminal: Terminal) -> ForgePull:
    """The repository with its pull request."""
    files = project_files(PROJECT)
    repo = forge.create_repo(files, REPOSITORY)
    terminal.step(f"A GitHub of our own on {forge.url}, with {REPOSITORY} ({len(files)} files)")
    pull = repo.open_pull(
        slower_files(files), branch="debug-run", title=TITLE, body=BODY, author="mona"
    )
    changed = ", ".join(file.path for file in pull.comparison().files)
    terminal.step(f"Pull request #{pull.number}: {TITLE} (changes {changed})")
    return pull


def run_action(forge: Forge, pull: ForgePull, folder: Path) -> int:
    """Run the action as a runner does: environment, event file, checkout. Returns its exit
    code; what it prints goes to `action.log`."""
    workspace = folder / "workspace"
    check_out(pull.repo, forge.token, pull.head, workspace)
    event = folder / "event.json"
    event.write_text(json.dumps(pull.event("opened")), encoding="utf-8")
    with (folder / "action.log").open("w", encoding="utf-8") as log:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pitstop.bot", "action"],
                cwd=workspace,
                env=runner_environment(forge, pull, event, workspace, folder),
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=TIME_LIMIT,
            )
        except subprocess.TimeoutExpired:
            log.write(f"\nstopped after {TIME_LIMIT} seconds\n")
            return 124
    return done.returncode


def check_out(repo: ForgeRepo, token: str, commit: str, folder: Path) -> None:
    """What actions/checkout leaves in the workspace."""
    address = repo.clone_url.replace("http://", f"http://x-access-token:{token}@")
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
    for command in (["clone", "-q", address, str(folder)], ["checkout", "-q", commit]):
        where = folder if command[0] == "checkout" else None
        subprocess.run(["git", *command], check=True, cwd=where, env=environment)


def runner_environment(
    forge: Forge, pull: ForgePull, event: Path, workspace: Path, folder: Path
) -> dict[str, str]:
    """The variables that a runner sets for a pull_request event (docs.github.com, "Default
    environment variables"), without those of this machine's own runner, if it is one."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GITHUB_", "INPUT_", "RUNNER_", "ACTIONS_"))
    }
    (folder / "temp").mkdir(exist_ok=True)
    return own | {
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_ACTOR": "mona",
        "GITHUB_API_URL": forge.api,
        "GITHUB_BASE_REF": "main",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_GRAPHQL_URL": forge.graphql,
        "GITHUB_HEAD_REF": "debug-run",
        "GITHUB_JOB": "review",
        "GITHUB_OUTPUT": str(folder / "output.txt"),
        "GITHUB_REF": f"refs/pull/{pull.number}/merge",
        "GITHUB_REPOSITORY": pull.repo.name,
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_RUN_ID": "1",
        "GITHUB_SERVER_URL": forge.url,
        "GITHUB_SHA": pull.head,
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_WORKFLOW": "Pitstop",
        "GITHUB_WORKSPACE": str(workspace),
        "INPUT_GITHUB-TOKEN": forge.token,
        "RUNNER_TEMP": str(folder / "temp"),
    }


def where_to_look(
    forge: Forge, pull: ForgePull, folder: Path, terminal: Terminal, *, keep: bool
) -> None:
    """Name the places where the review can be seen, and store its pages for afterwards."""
    for name, view in PAGES.items():
        (folder / name).write_text(local_links(fetch(pull.url + view), pull), encoding="utf-8")
    terminal.heading("Where to look")
    if keep:
        terminal.place("The pull request", pull.url)
    terminal.place("Pages", folder / "pull-request.html")
    for title, path in (
        ("What the action printed", folder / "action.log"),
        ("Job summary", folder / "summary.md"),
        ("Checkout with the report", folder / "workspace" / "pitstop-report"),
    ):
        if path.exists():
            terminal.place(title, path)
    if not keep:
        terminal.line("Run `make demo ARGS=--keep` to walk about in it with a browser.")
    terminal.line(f"{len(forge.log)} requests were made of the forge.")


def fetch(url: str) -> str:
    """A page of the forge."""
    request = urllib.request.Request(url, headers={"Accept": "text/html", "User-Agent": "demo"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def local_links(page: str, pull: ForgePull) -> str:
    """The page with its tabs leading to the stored files."""
    home = re.escape(f"/{pull.repo.name}/pull/{pull.number}")
    names = {view: name for name, view in PAGES.items()}

    def stored(match: re.Match[str]) -> str:
        return f'href="{names[match[1] or ""]}{match[2] or ""}"'

    return re.sub(rf'href="{home}(/files|/checks)?(#[\w-]+)?"', stored, page)


def wait(terminal: Terminal) -> Any:
    """Serve until interrupted."""
    terminal.line("The forge keeps running; Ctrl-C ends it.")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        terminal.line("")


if __name__ == "__main__":
    sys.exit(main())
