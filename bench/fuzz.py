"""`make fuzz`: every reader of other people's text, on texts that nobody would write.

Inputs are the examples of the rules and recipes, cut, joined and changed at random, and texts of
pure chance. For FUZZ_SECONDS each (default 1800) a target must raise nothing but what it
promises to, take no longer than 5 seconds for one text, and the process no more than 1 GB.
Prints the seconds and executions that were really run. What breaks a target is written to the
folder named by --found, to be kept small in tests/data.
"""

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pitstop.bot import bundle as review_bundle
from pitstop.bot import config_text
from pitstop.bot.config import check_config
from pitstop.bot.diff import DiffError, parse_patch
from pitstop.bot.events import command_line, read_event
from pitstop.bot.stages.bundle import read_run_bundle
from pitstop.bot.stages.command import read_command
from pitstop.bot.stages.request import read_request
from pitstop.rules.configs import read_config
from pitstop.rules.engine import all_rules, audit
from pitstop.rules.facts import gather
from pitstop.rules.finding import UserError
from pitstop.rules.launch import parse_command
from pitstop.rules.pysource import read_module
from pitstop.rules.shell import read_script
from pitstop.rules.tree import DictTree, SourceFile, UnreadableError, decode
from pitstop.runners.repair import clean
from pitstop.runners.traces.reader import Trace, TraceError

SLOWEST = 5
"""Seconds for one text."""
MOST_MEMORY = 1_000
"""MB for the process."""

TOKENS = r"""
\ ' " ` $ ${ } ( ) [[ ]] { } << <<- EOF && || ; | & > # ! * ? ~ % = +=
if then fi for do done case esac while function export source . set -u shift eval
- : > | ? & * <<: !!str --- ... %YAML [ ] , null ~ true 1e5 .inf 0x1F
def class lambda async await yield import from as @ := f'{ }' **kw *a : ->
torchrun --nproc_per_node 8 train.py --bf16 True python -m deepspeed accelerate launch
/optimize ``` ~~~ > @octocat --sha only @@ -1,2 +1,3 @@ diff --git
"""
WORDS = (
    *TOKENS.split(),
    *("\n", "\r\n", "\t", " ", "\0", "\ufeff", "\u202e", "\ud800", "é", "中", "😀", "\x1b[31m"),
    *("\x85", "\u2028", "9" * 400, "(" * 200, "[" * 200, "<!-- pitstop:answer 1 -->"),
)


def corpus() -> dict[str, list[str]]:
    """The texts of all rules' examples, by kind of file."""
    found: dict[str, list[str]] = {}
    for info in all_rules():
        for example in (*info.bad, *info.good):
            for name, text in example.files.items():
                found.setdefault(Path(name).suffix, []).append(text)
    return found


def changed(source: random.Random, seeds: list[str]) -> str:
    """A text from the seeds with some changes, or one of words alone."""
    if not seeds or source.random() < 0.1:
        return "".join(
            source.choice(WORDS) + source.choice(("", " ", "\n"))
            for _ in range(source.randrange(60))
        )
    text = source.choice(seeds)
    for _ in range(source.randrange(1, 8)):
        at = source.randrange(len(text) + 1)
        match source.randrange(6):
            case 0:
                text = text[:at] + source.choice(WORDS) + text[at:]
            case 1:
                text = text[:at] + text[at + source.randrange(1, 40) :]
            case 2:
                other = source.choice(seeds)
                start = source.randrange(len(other) + 1)
                text = text[:at] + other[start : start + source.randrange(80)] + text[at:]
            case 3:
                text = (
                    text[:at]
                    + chr(source.choice((0, 9, 10, 13, 34, 39, 92, 0x2028, 0xD800)))
                    + text[at:]
                )
            case 4:
                text = text[:at]
            case _:
                part = text[at : at + source.randrange(1, 30)]
                text = text[:at] + part * source.randrange(2, 20) + text[at:]
    return text[:200_000]


Target = Callable[[str], None]


def nothing_raised(
    *promised: type[Exception],
) -> Callable[[Callable[[str], object]], Target]:
    """A target that may raise what it promises."""

    def made(call: Callable[[str], object]) -> Target:
        def run(text: str) -> None:
            try:
                call(text)
            except promised:
                return

        return run

    return made


def file_of(name: str, text: str) -> SourceFile:
    """A text as a reader gets it."""
    return decode(name, text.encode("utf-8", "surrogatepass"))


def targets(folder: Path) -> Iterator[tuple[str, str, Target]]:
    """Name, kind of seeds, and what is run on each text."""
    tree = DictTree({})
    promises = nothing_raised(UserError, UnreadableError)

    def whole(name: str) -> Callable[[str], object]:
        return lambda text: audit(gather(DictTree({name: file_of(name, text).text})))

    def bundle(text: str) -> None:
        (folder / "bundle.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        review_bundle.read_bundle(folder)

    def run_bundle(text: str) -> None:
        (folder / "bundle.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        read_run_bundle(folder)

    def trace(text: str) -> None:
        file = folder / "trace.json"
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        for _ in Trace(file).events():
            pass

    def event(text: str) -> None:
        command_line(text)
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return
        for name in ("pull_request", "issue_comment", "workflow_run"):
            read_event(name, data)

    yield "shell", ".sh", promises(lambda t: read_script(file_of("a.sh", t), tree))
    yield "python", ".py", promises(lambda t: read_module(file_of("a.py", t)))
    yield "yaml", ".yaml", promises(lambda t: read_config(file_of("a.yaml", t)))
    yield "json", ".json", promises(lambda t: read_config(file_of("a.json", t)))
    yield "toml", ".toml", promises(lambda t: read_config(file_of("a.toml", t)))
    yield "audit of a script", ".sh", promises(whole("run.sh"))
    yield "audit of a program", ".py", promises(whole("train.py"))
    yield "audit of a config", ".yaml", promises(whole("sft.yaml"))
    yield "typed command", ".sh", promises(parse_command)
    yield "comment", "", promises(lambda t: read_command(f"/optimize {t}"))
    yield "event", ".json", promises(event)
    yield "configuration", ".yaml", promises(check_config)
    yield "configuration text", ".yaml", promises(config_text.read)
    yield "request", ".json", promises(read_request)
    yield "bundle of a review", ".json", promises(bundle)
    yield "bundle of a run", ".json", promises(run_bundle)
    yield "patch", "", nothing_raised(DiffError)(parse_patch)
    yield "trace", ".json", nothing_raised(TraceError)(trace)
    yield "log", "", promises(clean)


def too_slow(number: int, frame: object) -> None:
    raise TimeoutError(f"took longer than {SLOWEST} s")


def fuzz(
    name: str, run: Target, seeds: list[str], until: float, seed: int, kept: Path
) -> list[int]:
    """Run one target until a time; how many texts, and how many were too much for it."""
    source = random.Random(f"{seed} {name}")
    count = found = 0
    while time.monotonic() < until and found < 5:
        text = changed(source, seeds)
        signal.alarm(SLOWEST)
        try:
            run(text)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            signal.alarm(0)
            found += 1
            kept.mkdir(exist_ok=True)
            file = kept / f"{name.replace(' ', '-')}-{found}.txt"
            file.write_bytes(text.encode("utf-8", "surrogatepass"))
            told = f"{type(error).__name__}: {str(error)[:150]}"
            print(f"    {name}: {told} ({file})", file=sys.stderr)
        signal.alarm(0)
        count += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if peak > MOST_MEMORY:
        print(f"    {name}: the process grew to {peak:.0f} MB", file=sys.stderr)
        found += 1
    return count, found


def main() -> int:
    """A line for each target; 1 when something was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="targets whose names hold this")
    parser.add_argument("--seed", type=int, default=time.time_ns())
    parser.add_argument("--found", type=Path, default=Path(".fuzz"))
    chosen = parser.parse_args()
    seconds = float(os.environ.get("FUZZ_SECONDS", "1800"))
    signal.signal(signal.SIGALRM, too_slow)
    seeds = corpus()
    worst = 0
    print(f"seed {chosen.seed}, {seconds:g} s each\n")
    print("| target | seconds | texts | found |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        for name, kind, run in targets(Path(folder)):
            if chosen.only not in name:
                continue
            began = time.monotonic()
            until = began + seconds
            count, found = fuzz(name, run, seeds.get(kind, []), until, chosen.seed, chosen.found)
            worst = max(worst, found)
            took = f"{time.monotonic() - began:.0f}"
            print(f"| {name} | {took} | {count} | {found or 'nothing'} |", flush=True)
    return 1 if worst else 0


if __name__ == "__main__":
    raise SystemExit(main())
