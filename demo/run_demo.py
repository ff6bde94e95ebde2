"""Shows Pitstop at work on a machine without network or GPU.

Starts the forge, creates a repository from examples/train-project, opens a pull request that makes
its training slower, runs Pitstop's action for that event as a runner would, and prints the review.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # started by its path, not as a module
    sys.path.insert(0, str(ROOT))

from demo.forge import Forge  # noqa: E402
from demo.handles import ForgePull  # noqa: E402
from demo.runner import Runner, Step  # noqa: E402
from demo.slower import BODY, TITLE, project_files, slower_files  # noqa: E402
from demo.stored import pages_of, store  # noqa: E402
from demo.terminal import Terminal  # noqa: E402

PROJECT = ROOT / "examples" / "train-project"
REPOSITORY = "acme/llm-train"
TIME_LIMIT = 50


def main(arguments: Sequence[str] | None = None) -> int:
    """The demo. Returns 0 when the review appeared."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the forge running afterwards")
    parser.add_argument("--port", type=int, default=0, help="port of the forge (default: any)")
    parser.add_argument("--folder", type=Path, default=ROOT / ".demo", help="where files go")
    options = parser.parse_args(arguments)
    terminal = Terminal(sys.stdout)
    shutil.rmtree(options.folder / "git", ignore_errors=True)
    with Forge(options.folder / "git", port=options.port) as forge:
        pull = open_pull(forge, terminal)
        runner = Runner(forge, pull.repo, options.folder)
        runner.clear()
        started = time.monotonic()
        code = review(runner, pull, TIME_LIMIT).code
        terminal.step(f"Pitstop ended with exit code {code}", time.monotonic() - started)
        appeared = bool(pull.review_comments() and pull.comments())
        if appeared:
            terminal.review(pull.comments(), pull.review_comments(), pull.checks())
        else:
            terminal.failure((options.folder / "action.log").read_text(encoding="utf-8"))
        where_to_look(runner, pull, terminal, keep=options.keep)
        if options.keep:
            wait(terminal)
    return 0 if appeared and code == 0 else 1


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


def review(runner: Runner, pull: ForgePull, limit: float) -> Step:
    """Run the action for a new pull request, as a runner does."""
    runner.check_out(pull.head)
    about = {
        "GITHUB_ACTOR": "mona",
        "GITHUB_BASE_REF": "main",
        "GITHUB_HEAD_REF": "debug-run",
        "GITHUB_JOB": "review",
        "GITHUB_REF": f"refs/pull/{pull.number}/merge",
        "GITHUB_SHA": pull.head,
    }
    return runner.act("pull_request", pull.event("opened"), limit=limit, about=about)


def where_to_look(runner: Runner, pull: ForgePull, terminal: Terminal, *, keep: bool) -> None:
    """Name the places where the review can be seen, and store its pages for afterwards."""
    forge, folder = runner.forge, runner.folder
    store(forge.url, pages_of(f"/{pull.repo.name}/pull/{pull.number}", "pull-request"), folder)
    terminal.heading("Where to look")
    if keep:
        terminal.place("The pull request", pull.url)
    for title, path in (
        ("Pages", folder / "pull-request.html"),
        ("What the action printed", folder / "action.log"),
        ("Job summary", folder / "summary.md"),
        ("Checkout with the report", folder / "workspace" / "pitstop-report"),
    ):
        if path.exists():
            terminal.place(title, path)
    if not keep:
        terminal.line("Run `make demo ARGS=--keep` to walk about in it with a browser.")
    terminal.line(f"{len(forge.log)} requests were made of the forge.")


def wait(terminal: Terminal) -> None:
    """Serve until interrupted."""
    terminal.line("The forge keeps running; Ctrl-C ends it.")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        terminal.line("")


if __name__ == "__main__":
    sys.exit(main())
