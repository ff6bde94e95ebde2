"""The command line: parse, call, exit code; no logic.

Exit codes: 0 done, 1 findings at or over --fail-on, 2 something for the user to put right,
3 a bug of ours, 130 interrupted. Heavy imports stand inside the commands, so that
`pitstop --version` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pitstop.rules.finding import UserError

FORMATS = ("text", "md", "json", "sarif")

OK, USAGE, BUG, INTERRUPTED = 0, 2, 3, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8
    words, launch = _parted(sys.argv[1:] if argv is None else list(argv))
    options = parser().parse_args(words)
    options.launch_words = launch
    try:
        code = int(options.command(options))
        sys.stdout.flush()
        return code
    except UserError as error:
        print(f"pitstop: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("pitstop: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough (`| head`); nothing may be flushed to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        return _bug(error, debug=getattr(options, "debug", False))


def _parted(words: list[str]) -> tuple[list[str], list[str]]:
    """Our own words, and behind `--` those of a launch command, which are none of ours."""
    if words[:1] != ["optimize"] or "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _bug(error: Exception, *, debug: bool) -> int:
    import traceback

    if debug:
        traceback.print_exception(error)
    what = " ".join(f"{type(error).__name__}: {error}".split())
    print(
        f"pitstop: internal error: {what}\nThis is a bug in Pitstop, not in your repository;"
        " please report it with what the same command prints with --debug.",
        file=sys.stderr,
    )
    return BUG


class _Version(argparse.Action):
    """Looks the version up when it is asked for: every other call is spared the look."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"pitstop {version('pitstop')}")
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """Every command and option; `docs/commands.md` is held to it by a test."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks of bugs"
    )
    root = argparse.ArgumentParser(
        "pitstop", description="Finds what makes GPU training jobs slow or large.", parents=[common]
    )
    root.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = root.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_audit(commands.add_parser("audit", parents=[common], help="judge a repository"))
    _add_fix(commands.add_parser("fix", parents=[common], help="apply fixes to a repository"))
    _add_estimate(
        commands.add_parser("estimate", parents=[common], help="say where a job's memory goes")
    )
    _add_compare(
        commands.add_parser("compare", parents=[common], help="compare the jobs of two revisions")
    )
    _add_optimize(
        commands.add_parser("optimize", parents=[common], help="measure, change and prove a job")
    )
    _add_doctor(commands.add_parser("doctor", parents=[common], help="judge a script of Relax"))
    _add_init(commands.add_parser("init", parents=[common], help="set up a repository"))
    _add_rules(commands.add_parser("rules", parents=[common], help="list rules, or explain one"))
    _add_config(commands.add_parser("config", help="check a configuration"), common)
    action = commands.add_parser("action", parents=[common], help="run as a GitHub Action")
    action.description = "What the GitHub Action runs; everything comes from the environment."
    action.set_defaults(command=_action)
    return root


def _add_audit(audit: argparse.ArgumentParser) -> None:
    audit.description = "Reads a repository, runs nothing of it, and says what its jobs waste."
    audit.set_defaults(command=_audit)
    add = audit.add_argument
    add("path", type=Path, metavar="PATH", help="folder of the repository")
    add("--base", metavar="REV", help="show only what the change since REV brought in")
    add("--launch", metavar="CMD", help="audit the job that this command starts")
    add("--format", choices=FORMATS, default="text", help="of the report")
    add("--output", type=Path, metavar="FILE", help="write the report there")
    add("--select", action="append", default=[], metavar="ID,...", help="only these rules")
    add("--ignore", action="append", default=[], metavar="ID,...", help="not these rules")
    add(
        "--report",
        type=Path,
        nargs="?",
        const=True,
        metavar="DIR",
        help="also write reports with scores there; without DIR, in <project>_static_analysis"
        " beside the project",
    )
    add("--lang", choices=("en", "zh"), default="en", help="of the reports of --report")
    add("--fail-on", choices=("critical", "warning", "info", "never"), help="exit with 1 on these")
    add("--goal", choices=("balanced", "throughput", "memory"), help="what advice is for")
    add("--fix", choices=("safe",), help="apply the fixes that change no numbers")
    add("--gpu", metavar="NAME", help="GPU model, where the jobs do not say: H100, A100-80")
    add("--gpus-per-node", type=_count, metavar="N", help="GPUs in each node")
    add("--nodes", type=_count, metavar="N", help="number of nodes")
    add("--config", type=Path, metavar="FILE", help="instead of .github/pitstop.yml")
    add("--no-cache", action="store_true", help="read everything again, keep nothing")


def _add_fix(fix: argparse.ArgumentParser) -> None:
    fix.description = (
        "Applies the fixes of findings, and recipes that are selected by name. Everything or"
        " nothing is written; of two fixes that overlap, the first."
    )
    fix.set_defaults(command=_fix)
    add = fix.add_argument
    add("path", type=Path, metavar="PATH", help="folder of the repository")
    add(
        "--select",
        action="append",
        default=[],
        metavar="ID,...",
        help="only these rules, recipes and rows of plans",
    )
    add("--ignore", action="append", default=[], metavar="ID,...", help="not these rules")
    add("--unsafe", action="store_true", help="also what changes numbers or needs a measured run")
    add("--diff", action="store_true", help="print the change, write nothing")
    add("--launch", metavar="CMD", help="only the job that this command starts")
    add("--goal", choices=("balanced", "throughput", "memory"), help="what fixes are for")
    add("--gpu", metavar="NAME", help="GPU model, where the jobs do not say: H100, A100-80")
    add("--gpus-per-node", type=_count, metavar="N", help="GPUs in each node")
    add("--nodes", type=_count, metavar="N", help="number of nodes")
    add("--config", type=Path, metavar="FILE", help="instead of .github/pitstop.yml")


def _add_estimate(estimate: argparse.ArgumentParser) -> None:
    from pitstop.bot import typed_options

    estimate.description = (
        "Says where the memory of each training job goes, whether it fits, and what would."
    )
    estimate.set_defaults(command=_estimate)
    add = estimate.add_argument
    add("path", type=Path, nargs="?", metavar="PATH", help="folder of the repository (here)")
    add("--launch", metavar="CMD", help="only the job that this command starts")
    add("--gpu", metavar="NAME", help="GPU model: H100, A100-80GB")
    add("--gpus", type=_count, metavar="N", help="GPUs in all, where the job does not say")
    add("--gpus-per-node", type=_count, metavar="N", help="GPUs in each node")
    add("--micro-batch", type=_count, metavar="N", help="samples per GPU and forward pass")
    add("--sequence", type=_count, metavar="N", help="tokens of the longest sample")
    add("--sweep", action="store_true", help="tabulate micro batch by sequence")
    add("--format", choices=("text", "json"), default="text", help="of the output")
    add = estimate.add_argument_group("a model instead of a repository").add_argument
    add("--model", metavar="NAME", help="a model's name, or the path of its config.json")
    add("--params", type=typed_options.parameter_count, metavar="7B", help="its parameter count")
    add("--method", choices=typed_options.METHODS, default="full", help="what is trained")
    add("--rank", type=_count, default=8, metavar="N", help="of LoRA")
    add("--precision", choices=typed_options.PRECISIONS, default="bf16", help="of the run")
    add("--optimizer", default="adamw", metavar="NAME", help="its optimizer")
    add("--sharding", choices=typed_options.SHARDINGS, default="none", help="of training state")
    add("--offload", action="store_true", help="optimizer state on the host")
    add("--accumulation", type=_count, default=1, metavar="N", help="micro batches per step")
    add("--checkpointing", action="store_true", help="activations are recomputed")
    add("--eager", action="store_true", help="attention that keeps its scores")
    add("--fused-loss", action="store_true", help="Liger's kernels and loss")


def _add_compare(compare: argparse.ArgumentParser) -> None:
    compare.description = (
        "Says which settings of which job differ between two revisions, and what that does to"
        " predicted memory and to the tokens of a step."
    )
    compare.set_defaults(command=_compare)
    add = compare.add_argument
    add("before", metavar="REV1", help="the revision before")
    add("after", nargs="?", metavar="REV2", help="the revision after (the folder as it is)")
    add("--path", type=Path, default=Path(), metavar="PATH", help="folder of the repository (here)")
    add("--gpu", metavar="NAME", help="GPU model, where the jobs do not say")
    add("--gpus-per-node", type=_count, metavar="N", help="GPUs in each node")
    add("--format", choices=("text", "json"), default="text", help="of the output")


def _add_optimize(optimize: argparse.ArgumentParser) -> None:
    optimize.description = (
        "Runs a training job in a copy of its project, changes one thing at a time, and keeps what"
        " is measurably faster or leaner and trains the same. The project itself is only read."
    )
    optimize.usage = "pitstop optimize PATH [options] -- LAUNCH COMMAND"
    optimize.set_defaults(command=_optimize)
    add = optimize.add_argument
    add("path", type=Path, metavar="PATH", help="folder of the project")
    add("--goal", choices=("throughput", "memory", "balanced"), default="throughput", help="for")
    add("--out", type=Path, metavar="DIR", help="work folder (PATH_optimized, beside it)")
    add("--quick", action="store_true", help="one round, few runs: verdicts are only likely")
    add("--steps", type=_count, metavar="N", help="optimizer steps of a timed run, at least")
    add("--rounds", type=_count, metavar="N", help="rounds at most (5)")
    add("--deadline", type=_count, metavar="MIN", help="minutes for everything (240)")
    add("--only", action="append", default=[], metavar="ID,...", help="try only these changes")
    add("--disable", action="append", default=[], metavar="ID,...", help="do not try these")
    add("--allow", action="append", default=[], metavar="ID,...", help="may change the training")
    runners = ("local", "docker", "slurm")
    add("--runner", choices=runners, default="local", help="where the job runs")
    add("--sbatch", action="append", default=[], metavar="OPTION", help="more words for sbatch")
    add("--image", metavar="NAME", help="container image of the job")
    add("--gpus", type=_gpus, metavar="N|all", help="GPUs for its container")
    add("--mount", action="append", default=[], metavar="DIR[:TARGET]", help="read-only data")
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="variable of the job")
    add("--network", action="store_true", help="its container may use the network")
    add("--memory", type=float, metavar="GIB", help="host memory that the job may take")
    add("--copy-limit", type=float, default=10.0, metavar="GIB", help="most to copy (10)")
    add("--link-data", action="store_true", help="link files over 1 MiB instead of copying")


def _add_doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.description = (
        "Reads a launch script of Relax, runs nothing, and says what costs time and memory."
    )
    doctor.set_defaults(command=_doctor)
    add = doctor.add_argument
    add("script", type=Path, metavar="SCRIPT", help="launch script, or a folder of them")
    add("--gpu", metavar="NAME", help="GPU model (H20 with 96 GB is assumed)")
    add("--lang", choices=("en", "zh"), default="en", help="language of the report")
    add("--format", choices=("text", "md", "json"), default="text", help="of the report")
    severities = ("critical", "warning", "info", "never")
    add("--fail-on", choices=severities, default="never", help="exit with 1 on these")


def _add_init(init: argparse.ArgumentParser) -> None:
    init.description = (
        "Writes workflow files and a configuration with the jobs it finds, says what to do next,"
        " and never overwrites a file."
    )
    init.set_defaults(command=_init)
    add = init.add_argument
    add("path", type=Path, nargs="?", default=Path(), metavar="PATH", help="the root (here)")
    add("--optimize", action="store_true", help="also the workflow that answers `/optimize`")
    add("--action", metavar="OWNER/NAME@COMMIT", help="the release that the workflows shall use")


def _gpus(text: str) -> int:
    return -1 if text == "all" else _count(text)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 100000")
    return int(text)


def _add_rules(rules: argparse.ArgumentParser) -> None:
    rules.description = "Lists all rules, or explains one with its reasons, examples and sources."
    rules.set_defaults(command=_rules)
    rules.add_argument("rule", nargs="?", metavar="ID", help="a rule's id or name")
    rules.add_argument("--format", choices=FORMATS[:3], default="text", help="of the output")


def _add_config(config: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    commands = config.add_subparsers(title="commands", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check", parents=[common], help="say whether the configuration is valid"
    )
    check.description = "Says whether the configuration is valid, or the line of every fault."
    check.set_defaults(command=_config_check)
    check.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="instead of .github/pitstop.yml"
    )


def _audit(options: argparse.Namespace) -> int:
    from pitstop.bot import local

    return local.audit(options)


def _fix(options: argparse.Namespace) -> int:
    from pitstop.bot import fix

    return fix.run(options)


def _estimate(options: argparse.Namespace) -> int:
    from pitstop.bot import estimate

    return estimate.run(options)


def _compare(options: argparse.Namespace) -> int:
    from pitstop.bot import compare

    return compare.run(options)


def _doctor(options: argparse.Namespace) -> int:
    from pitstop.bot import doctor

    return doctor.run(options)


def _optimize(options: argparse.Namespace) -> int:
    from pitstop.bot.optimize import command

    return command.run(options)


def _init(options: argparse.Namespace) -> int:
    from pitstop.bot import init

    return init.run(options)


def _rules(options: argparse.Namespace) -> int:
    from pitstop.bot import rule_pages

    rule_pages.show(options.rule, options.format, sys.stdout)
    return OK


def _config_check(options: argparse.Namespace) -> int:
    from pitstop.bot import local

    print(local.explain_config(options.file))
    return OK


def _action(options: argparse.Namespace) -> int:
    from pitstop.bot import action

    return action.main(dict(os.environ))
