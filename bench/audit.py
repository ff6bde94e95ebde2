"""`make bench`: how long an audit takes, on real repositories and on made ones that grow.

The floor is what nobody can do without: `ast.parse` of every Python file, and reading all others
that an audit may look at. TorchFix and flake8 (in an environment of their own) see the same
folder. CPU seconds (user and system, children included) are the measure, since they hold on a
busy machine too; wall seconds stand beside them. Prints Markdown; `--json FILE` keeps the figures.
"""

import argparse
import ast
import contextlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from made import make_repository, make_trace

from pitstop.rules.tree import FolderTree, UnreadableError

ROOT = Path(__file__).resolve().parents[1]
PITSTOP = (sys.executable, "-m", "pitstop.bot")
SIZES = (100, 1_000, 5_000, 20_000)


@dataclass(frozen=True)
class Cost:
    """What a process took: wall and CPU seconds, peak memory in MB."""

    wall: float
    cpu: float
    peak: float


def cost_of(*command: str, cwd: Path | None = None) -> Cost:
    """Run a command to its end; its exit code does not matter."""
    began = time.perf_counter()
    with subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    wall = time.perf_counter() - began
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def best_of(runs: int, *command: str, cwd: Path | None = None) -> Cost:
    """The run with the least CPU seconds: what disturbs only adds."""
    return min((cost_of(*command, cwd=cwd) for _ in range(runs)), key=lambda one: one.cpu)


def floor(folder: Path) -> None:
    """Parse every Python file of a folder, read all others."""
    tree = FolderTree(folder)
    for path in tree.paths:
        try:
            text = tree.read(path).text
        except UnreadableError:
            continue
        if path.endswith(".py"):
            with contextlib.suppress(SyntaxError, ValueError, RecursionError):
                ast.parse(text)


# --- the tables ------------------------------------------------------------------------------


def whole(folders: list[Path], tools: Path, runs: int) -> Iterator[dict[str, object]]:
    """Each repository: floor, audit, and the other tools."""
    for folder in folders:
        low = best_of(runs, sys.executable, __file__, "--floor", str(folder))
        audit = best_of(runs, *PITSTOP, "audit", str(folder), "--format", "json", "--no-cache")
        row: dict[str, object] = {
            "repository": folder.name,
            "python files": sum(1 for _ in folder.rglob("*.py")),
            "floor s": low.cpu,
            "audit s": audit.cpu,
            "of the floor": audit.cpu / low.cpu,
            "audit wall s": audit.wall,
            "peak MB": audit.peak,
        }
        if (tools / "torchfix").exists():
            other = cost_of(str(tools / "torchfix"), str(folder))
            row |= {"TorchFix s": other.cpu, "TorchFix / audit": other.cpu / audit.cpu}
            row["flake8 s"] = cost_of(str(tools / "flake8"), "--select=TOR", str(folder)).cpu
        yield row


def growth(runs: int) -> Iterator[dict[str, object]]:
    """Made repositories of growing size, cold and warm."""
    with tempfile.TemporaryDirectory(prefix="bench-") as made:
        for files in SIZES:
            folder = Path(made) / str(files)
            make_repository(folder, files)
            command = (*PITSTOP, "audit", str(folder), "--format", "json")
            cold = best_of(runs, *command, "--no-cache")
            row: dict[str, object] = {
                "files": files,
                "cpu s": cold.cpu,
                "ms per file": 1e3 * cold.cpu / files,
                "wall s": cold.wall,
                "peak MB": cold.peak,
            }
            cost_of(*command)
            row["warm wall s"] = cost_of(*command).wall
            yield row


def startup(runs: int) -> Iterator[dict[str, object]]:
    """The least that a call costs."""
    with tempfile.TemporaryDirectory(prefix="bench-") as empty:
        for name, command in (
            ("python -c pass", (sys.executable, "-c", "pass")),
            ("pitstop --version", (*PITSTOP, "--version")),
            ("audit of an empty folder", (*PITSTOP, "audit", empty)),
        ):
            found = [cost_of(*command) for _ in range(max(5, runs))]
            yield {
                "call": name,
                "wall ms": 1e3 * min(one.wall for one in found),
                "cpu ms": 1e3 * min(one.cpu for one in found),
                "peak MB": min(one.peak for one in found),
            }


def imports() -> Iterator[dict[str, object]]:
    """The dearest imports of an audit of nothing, cumulative."""
    with tempfile.TemporaryDirectory(prefix="bench-") as empty:
        command = [sys.executable, "-X", "importtime", "-m", "pitstop.bot", "audit", empty]
        told = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    rows = []
    for line in told.splitlines():
        parts = line.removeprefix("import time:").split("|")
        if len(parts) == 3 and parts[1].strip().isdigit():
            rows.append((int(parts[1]) / 1e3, parts[2].strip()))
    for milliseconds, name in sorted(rows, reverse=True)[:12]:
        yield {"import": name, "cumulative ms": milliseconds}


def pull() -> Iterator[dict[str, object]]:
    """A pull request of five files in a repository of 5,000, reviewed on a GitHub of our own."""
    sys.path.insert(0, str(ROOT))
    from demo.forge import Forge
    from demo.run_demo import review
    from demo.runner import Runner

    with tempfile.TemporaryDirectory(prefix="bench-") as made:
        folder = Path(made)
        make_repository(folder / "files", 5_000)
        files = {
            path.relative_to(folder / "files").as_posix(): path.read_text()
            for path in (folder / "files").rglob("*")
            if path.is_file()
        }
        with Forge(folder / "git") as forge:
            repo = forge.create_repo(files)
            changed = {
                path: text.replace("num_workers=4", "num_workers=0").replace("bf16: true\n", "")
                for path, text in sorted(files.items())
                if "num_workers=4" in text or "bf16: true" in text
            }
            opened = repo.open_pull(dict(list(changed.items())[:5]))
            calls = len(forge.log)
            runner = Runner(forge, repo, folder / "runner")
            runner.clear()
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            code = review(runner, opened, 300).code
            wall = time.perf_counter() - began
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            asked = [one for one in list(forge.log)[calls:] if ".git/" not in one.request.path]
            yield {
                "exit code": code,
                "wall s, checkout included": wall,
                "cpu s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                "peak MB": after.ru_maxrss / 1024,
                "GitHub calls": len(asked),
                "comments": len(opened.review_comments()),
            }


def traces(size: int, tools: Path) -> Iterator[dict[str, object]]:
    """A made profiler trace of so many MB, read event by event; and by others as a whole."""
    with tempfile.TemporaryDirectory(prefix="bench-") as made:
        file = Path(made) / "trace.json"
        make_trace(file, size)
        readers = [
            ("Pitstop, every event", sys.executable, READ_EVENTS),
            ("json.load", sys.executable, "import json, sys; json.load(open(sys.argv[1]))"),
        ]
        if has(tools, "hta"):
            readers.append(("HolisticTraceAnalysis", str(tools / "python"), READ_WITH_HTA))
        for name, python, code in readers:
            cost = cost_of(python, "-c", code, str(file))
            yield {"reader": name, "MB/s": size / cost.cpu, "cpu s": cost.cpu, "peak MB": cost.peak}


def has(tools: Path, module: str) -> bool:
    """Whether the tools' Python has a module."""
    if not (tools / "python").exists():
        return False
    return subprocess.run([tools / "python", "-c", f"import {module}"], capture_output=True,
                          check=False).returncode == 0  # fmt: skip


READ_EVENTS = """
import sys
from pathlib import Path
from pitstop.runners.traces.reader import Trace
sum(1 for _ in Trace(Path(sys.argv[1])).events())
"""
READ_WITH_HTA = """
import sys
from hta.common.trace import parse_trace_file
parse_trace_file(sys.argv[1])
"""


def codemods(runs: int) -> Iterator[dict[str, object]]:
    """One rewrite (`fused=True` for the optimizer) of 500 files, one of 16 with a place for it, by
    our recipe and by a codemod as libcst's own documentation shows them."""
    with tempfile.TemporaryDirectory(prefix="bench-") as made:
        make_repository(Path(made), 625, optimizer="torch.optim.AdamW(model.parameters(), lr=1e-4)")
        for name in ("recipe", "codemod"):
            command = (sys.executable, str(ROOT / "bench" / "rewrite.py"), name, made)
            cost = best_of(runs, *command)
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            files, changed = map(int, told.split())
            yield {"by": name, "files": files, "changed": changed, "cpu s": cost.cpu,
                   "files/s": files / cost.cpu, "peak MB": cost.peak}  # fmt: skip


def tools_of(folder: Path) -> Path:
    """TorchFix, flake8 and HolisticTraceAnalysis in an environment of their own: they are compared
    with, and no part of Pitstop. What cannot be installed is left out, with a word."""
    programs = folder / "bin"
    if not (programs / "torchfix").exists():
        venv.create(folder, with_pip=True)
        for names in (("torchfix==0.7.0", "flake8==7.5.0"), ("HolisticTraceAnalysis==0.5.0",)):
            command = [programs / "python", "-m", "pip", "install", "--quiet", *names]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                print(f"not installed, so not compared with: {' '.join(names)}", file=sys.stderr)
    return programs


def show(title: str, rows: Iterator[dict[str, object]], kept: dict[str, object]) -> None:
    """Print a table as its rows come."""
    print(f"\n## {title}\n")
    found = []
    for row in rows:
        if not found:
            print("| " + " | ".join(row) + " |\n|" + " --- |" * len(row))
        found.append(row)
        cells = [f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()]
        print("| " + " | ".join(cells) + " |", flush=True)
    kept[title] = found


def main() -> int:
    """Every table, or those named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("repositories", nargs="*", type=Path, help="checkouts to audit as a whole")
    parser.add_argument("--only", default="", help="tables, by the first words of their titles")
    parser.add_argument("--tools", type=Path, default=ROOT / ".bench", help="an environment")
    parser.add_argument("--alone", action="store_true", help="without the other tools")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--trace", type=int, default=200, help="MB of the made trace")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--floor", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.floor:
        floor(chosen.floor)
        return 0
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()},"
        f" load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}"
    )
    tools = Path("/nowhere") if chosen.alone else tools_of(chosen.tools)
    tables: list[tuple[str, Callable[[], Iterator[dict[str, object]]]]] = [
        ("whole repositories", lambda: whole(chosen.repositories, tools, chosen.runs)),
        ("growth", lambda: growth(chosen.runs)),
        ("start-up", lambda: startup(chosen.runs)),
        ("imports", imports),
        ("pull request", pull),
        ("traces", lambda: traces(chosen.trace, tools)),
        ("rewriting", lambda: codemods(chosen.runs)),
    ]
    kept: dict[str, object] = {}
    for title, rows in tables:
        if chosen.only in title and (title != "whole repositories" or chosen.repositories):
            show(title, rows(), kept)
    if chosen.json:
        chosen.json.write_text(json.dumps(kept, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
