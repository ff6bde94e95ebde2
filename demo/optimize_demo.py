"""Shows `/optimize` at work: from a pull request to a follow-up with measured commits.

Starts the forge, opens a pull request that makes a small training job wait for its data, has it
reviewed, comments `/optimize --quick` and runs the three stages that answer, each as a runner
would: gate and publish with a token, the run without. The job really trains, on this machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # started by its path, not as a module
    sys.path.insert(0, str(ROOT))

from demo.forge import Forge  # noqa: E402
from demo.handles import ForgePull, ForgeRepo  # noqa: E402
from demo.run_demo import review, wait  # noqa: E402
from demo.runner import Runner, Step  # noqa: E402
from demo.slower import project_files  # noqa: E402
from demo.stored import pages_of, store  # noqa: E402
from demo.terminal import Terminal  # noqa: E402

PROJECT = ROOT / "examples" / "optimize" / "slow-storage"
REPOSITORY = "acme/image-train"
CONFIG = """\
# The job runs as a process here; a runner for other people's code needs `optimize.image`.
jobs:
  train:
    launch: python train.py
    deadline: 4
"""
SLOW = "DataLoader(Images(), batch_size=32, shuffle=True)"
FAST = """DataLoader(
        Images(), batch_size=32, shuffle=True, num_workers=2, persistent_workers=True
    )"""
TITLE = "Load the images in the main process"
BODY = """\
The debugger does not stop in worker processes, so I took them out. I see no difference.
"""
COMMAND = "/optimize --quick"
READING = 120
"""Seconds between the review and the comment, by the forge's clock: a person reads first."""

LIMIT = 270
"""Seconds for the run stage; the whole has five minutes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The demo. Returns 0 when the command was answered with a result."""
    parser = argparse.ArgumentParser(prog="make demo-optimize", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the forge running afterwards")
    parser.add_argument("--port", type=int, default=0, help="port of the forge (default: any)")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".demo" / "optimize", help="where files go"
    )
    parser.add_argument("--command", default=COMMAND, help="the comment")
    options = parser.parse_args(arguments)
    terminal = Terminal(sys.stdout)
    began = time.monotonic()
    shutil.rmtree(options.folder / "git", ignore_errors=True)
    with Forge(options.folder / "git", port=options.port) as forge:
        pull = open_pull(forge, terminal)
        runner = Runner(forge, pull.repo, options.folder)
        runner.clear()
        for page in options.folder.glob("*.html"):
            page.unlink()
        answered = show(runner, pull, options.command, terminal)
        if not answered:
            terminal.failure((options.folder / "action.log").read_text(encoding="utf-8"))
        where_to_look(runner, pull, terminal)
        terminal.step("From the pull request to the end", time.monotonic() - began)
        if options.keep:
            terminal.place("The pull request", pull.url)
            wait(terminal)
    return 0 if answered else 1


def open_pull(forge: Forge, terminal: Terminal) -> ForgePull:
    """The repository with its pull request. Raises ValueError when the example has changed."""
    slow = (PROJECT / "train.py").read_text(encoding="utf-8")
    if slow.count(SLOW) != 1:
        raise ValueError(f"{PROJECT}/train.py does not hold exactly one {SLOW!r}")
    files = {
        **project_files(PROJECT),
        "train.py": slow.replace(SLOW, FAST).encode(),
        ".github/pitstop.yml": CONFIG.encode(),
    }
    repo = forge.create_repo(files, REPOSITORY)
    repo.give_role("mona", "write")
    terminal.step(f"A GitHub of our own on {forge.url}, with {REPOSITORY}")
    pull = repo.open_pull(
        {"train.py": slow.encode()}, branch="debug-run", title=TITLE, body=BODY, author="mona"
    )
    terminal.step(f"Pull request #{pull.number}: {TITLE}")
    return pull


def show(runner: Runner, pull: ForgePull, command: str, terminal: Terminal) -> bool:
    """Review, comment, and the three stages; whether the answer holds a result."""
    with told(terminal, "The review is posted"):
        review(runner, pull, 50)
    terminal.review((), pull.review_comments(), ())
    runner.forge.pass_time(READING)
    terminal.heading(f"mona comments: {command}")
    event = pull.comment(command, "mona")
    with told(terminal, "gate: may this person have this commit run?"):
        gate = runner.act("issue_comment", event, {"mode": "gate"}, limit=60)
    if gate.outputs.get("go") != "true":
        return False
    with told(terminal, "run: measure, change one thing at a time, prove (no token)"):
        run = on_the_machine(runner, event, gate)
    bundle = runner.workspace / run.outputs.get("bundle", "pitstop-bundle")
    inputs = {"mode": "publish", "request": gate.outputs["request"], "bundle": str(bundle)}
    with told(terminal, "publish: look at the bundle, push, open the pull request"):
        published = runner.act("issue_comment", event, inputs, limit=60)
    answers = [said for said in pull.comments() if "pitstop:answer" in said["body"]]
    for found in [*answers[-1:], *(follow_up.json() for follow_up in follow_ups(pull.repo))]:
        terminal.heading(f"{found['user']['login']}: {found.get('title', 'the answer')}")
        terminal.markdown(found["body"])
    return bool(answers) and run.code == published.code == 0


def on_the_machine(runner: Runner, event: dict[str, object], gate: Step) -> Step:
    """The job of the GPU runner: a checkout of the commit that the gate fixed, and no token.
    `local` trusts the job as much as this machine's user does: it is this repository's example."""
    shutil.rmtree(runner.workspace)
    runner.check_out(gate.outputs["sha"], "project")
    inputs = {
        "mode": "run",
        "request": gate.outputs["request"],
        "runner": "local",
        "github-token": "",
    }
    # `python` in the launch command means the one that runs this demo.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    return runner.act("issue_comment", event, inputs, limit=LIMIT, about={"PATH": path})


def follow_ups(repo: ForgeRepo) -> list[ForgePull]:
    """Pull requests from Pitstop's branches."""
    return [
        ForgePull(repo, issue)
        for issue, pull in repo.record.pulls()
        if pull.head_ref.startswith("pitstop/")
    ]


@contextmanager
def told(terminal: Terminal, what: str) -> Iterator[None]:
    """Say what was done, and how long it took."""
    started = time.monotonic()
    yield
    terminal.step(what, time.monotonic() - started)


def where_to_look(runner: Runner, pull: ForgePull, terminal: Terminal) -> None:
    """Store the pages of both pull requests, and name them."""
    home = f"/{pull.repo.name}/pull/"
    pages = pages_of(f"{home}{pull.number}", "pull-request")
    for follow_up in follow_ups(pull.repo):
        pages |= pages_of(f"{home}{follow_up.number}", "follow-up")
        terminal.heading(f"Commits on {follow_up.json()['head']['ref']}")
        for sha in follow_up.comparison().commits:
            message = pull.repo.record.git.commit_info(sha).message
            terminal.line("  " + message.replace("\n", "\n  "))
    store(runner.forge.url, pages, runner.folder)
    terminal.heading("Where to look")
    for title, name in (
        ("The pull request", "pull-request.html"),
        ("The follow-up", "follow-up.html"),
        ("Reports of the run", "workspace/pitstop-bundle/reports"),
        ("What the stages printed", "action.log"),
    ):
        if (runner.folder / name).exists() and (name in pages.values() or "/" in name):
            terminal.place(title, runner.folder / name)
    terminal.place("What the stages printed", runner.folder / "action.log")


if __name__ == "__main__":
    sys.exit(main())
