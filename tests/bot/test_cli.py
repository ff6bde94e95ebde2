"""The command line as people use it, on a small training repository."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pitstop.bot import cli
from pitstop.bot.cli import main
from pitstop.bot.report import Report

TRAIN = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

def main(dataset):
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B")
    Trainer(model=model, args=args, train_dataset=dataset).train()

main(None)
"""
RUN = """\
torchrun --nproc_per_node 8 train.py --output_dir out --bf16 True \\
  --dataloader_num_workers 4 --save_steps 500{}
"""
SLOW = " \\\n  --dataloader_pin_memory False"


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A committed good state, and a working tree that makes the job slower."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "run.sh").write_text(RUN.format(""))
    (tmp_path / "old.sh").write_text(RUN.format(SLOW))
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "Begin")
    (tmp_path / "run.sh").write_text(RUN.format(SLOW))
    return tmp_path


def audited(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Report:
    assert main(["audit", *map(str, words), "--format", "json"]) == 0
    return Report.from_json(capsys.readouterr().out)


def places(report: Report) -> set[tuple[str, str, int]]:
    return {
        (f.finding.rule, f.finding.primary.path, f.finding.primary.line) for f in report.findings
    }


PINNED = "GEN-F03"


def test_every_finding_of_the_working_tree(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = places(audited(capsys, repository))
    assert {(PINNED, "run.sh", 3), (PINNED, "old.sh", 3)} <= found


def test_base_shows_only_what_the_change_brought_in(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = audited(capsys, repository, "--base", "main")
    assert places(report) == {(PINNED, "run.sh", 3)}
    assert report.base is not None
    assert main(["audit", str(repository), "--base", "main"]) == 0
    assert re.search(r" · \d+ older not shown · ", capsys.readouterr().out)


def test_a_renamed_file_brings_nothing_in(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git(repository, "checkout", "-q", "run.sh")
    git(repository, "mv", "old.sh", "new.sh")
    assert audited(capsys, repository, "--base", "main").findings == ()


def test_moved_lines_bring_nothing_in(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(repository, "checkout", "-q", "run.sh")
    text = (repository / "old.sh").read_text()
    (repository / "old.sh").write_text("# a comment\n\n" + text)
    assert audited(capsys, repository, "--base", "main").findings == ()


def test_a_second_copy_of_an_old_line_is_new(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git(repository, "checkout", "-q", "run.sh")
    text = (repository / "old.sh").read_text()
    (repository / "old.sh").write_text(text + text)
    report = audited(capsys, repository, "--base", "main", "--select", PINNED)
    assert places(report) == {(PINNED, "old.sh", 6)}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0),
        (["--fail-on", "warning"], 1),
        (["--fail-on", "critical"], 0),
        (["--fail-on", "never"], 0),
    ],
)
def test_exit_code_follows_fail_on(
    repository: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int
) -> None:
    assert main(["audit", str(repository), "--select", PINNED, *options]) == code


def test_configuration_of_the_working_tree_holds(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / ".github").mkdir()
    config = repository / ".github" / "pitstop.yml"
    config.write_text(f"fail_on: critical\nselect: [{PINNED}]\nseverity: {{{PINNED}: critical}}\n")
    assert main(["audit", str(repository)]) == 1
    capsys.readouterr()
    config.write_text("paths:\n  exclude: [old.sh]\n")
    assert (PINNED, "old.sh", 3) not in places(audited(capsys, repository))
    other = repository / "other.yml"
    other.write_text(f"ignore: [{PINNED}]\n")
    assert not [p for p in places(audited(capsys, repository, "--config", other)) if p[0] == PINNED]


def test_options_win_over_the_configuration(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = repository / "c.yml"
    config.write_text("select: [GEN-D01]\nfail_on: warning\ngpu: A100-80\n")
    words = ("--config", config, "--select", PINNED, "--fail-on", "never", "--gpu", "H100")
    report = audited(capsys, repository, *words)
    assert {rule for rule, _, _ in places(report)} == {PINNED}
    assert {job.hardware.gpu for job in report.jobs} == {"H100"}


def test_select_and_ignore_take_lists_and_may_be_repeated(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--select", f"GEN-D01, {PINNED}", "--select", "GEN-E07", "--ignore", PINNED)
    assert places(audited(capsys, repository, *words)) == set()


def test_a_launch_command_names_the_job(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = audited(
        capsys, repository, "--launch", "torchrun --nproc_per_node 2 train.py --output_dir o"
    )
    assert [job.launch.processes for job in report.jobs if job.launch] == [2]


def test_safe_fix_is_applied_once(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["audit", str(repository), "--base", "main", "--fix", "safe", "--fail-on", "info"]
    assert main(words) == 0, "what was fixed no longer counts"
    captured = capsys.readouterr()
    assert "-  --dataloader_pin_memory False" in captured.out
    assert captured.err == "pitstop: applied 1 of 1 safe fixes\n"
    assert "--dataloader_pin_memory False" not in (repository / "run.sh").read_text()
    assert "--dataloader_pin_memory False" in (repository / "old.sh").read_text()
    assert main(words) == 0
    assert "applied 0 of 0" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["text", "md", "json", "sarif"])
def test_output_file_holds_what_would_be_printed(
    repository: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    target = repository.parent / f"{repository.name}.report"
    words = ["audit", str(repository), "--format", form]
    assert main([*words, "--output", str(target)]) == 0
    assert capsys.readouterr().out == ""
    assert main(words) == 0
    timing = r'\d+\.\d+ s|"seconds": [\d.e-]+'
    printed, written = capsys.readouterr().out, target.read_text()
    assert re.sub(timing, "", printed) == re.sub(timing, "", written)
    target.unlink()


def test_sarif_is_a_log_with_results(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(repository), "--format", "sarif"]) == 0
    log = json.loads(capsys.readouterr().out)
    assert log["version"] == "2.1.0"
    assert PINNED in {result["ruleId"] for result in log["runs"][0]["results"]}


def test_text_shows_line_cause_cost_and_change(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(repository), "--base", "main"]) == 0
    out = capsys.readouterr().out
    lines = [line.rstrip() for line in out.splitlines()]
    head = lines.index(next(line for line in lines if line.startswith(f"{repository}/run.sh:3:")))
    assert f"  warning  {PINNED} " in lines[head]
    assert lines[head + 1].startswith("     3 │ --dataloader_pin_memory")
    assert re.fullmatch(r"       │ +\^─*", lines[head + 2])
    for label in ("decides", "jobs", "cost", "leave", "fix"):
        assert any(line.startswith(f"  {label} ") for line in lines[head:]), label
    assert "    -  --dataloader_pin_memory False" in lines
    assert "\x1b" not in out


def test_hostile_text_cannot_steer_the_terminal(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = RUN.format(SLOW + " --run_name $'\\e' --note '\x1b]0;owned\x07\u202e'")
    (repository / "run.sh").write_text(text)
    for form in ("text", "md"):
        assert main(["audit", str(repository), "--format", form]) == 0
        out = capsys.readouterr().out
        assert not set(out) & {"\x1b", "\x07", "\u202e"}


def on_a_terminal(*words: str | Path, **environment: str) -> str:
    """What a real terminal gets."""
    main_end, other_end = pty.openpty()
    variables = {
        k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CI", "GITHUB_ACTIONS")
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "pitstop.bot", *map(str, words)],
        stdout=other_end,
        stderr=other_end,
        env=variables | {"TERM": "xterm-256color", "COLUMNS": "90"} | environment,
    )
    os.close(other_end)
    out = b""
    while True:
        try:
            data = os.read(main_end, 65536)
        except OSError:
            break
        if not data:
            break
        out += data
    assert process.wait(timeout=60) == 0
    os.close(main_end)
    return out.decode()


def test_a_terminal_gets_colours_links_and_progress(repository: Path) -> None:
    out = on_a_terminal("audit", repository)
    assert "\x1b[33m" in out
    assert f"file://{repository}/run.sh" in out
    assert "reading" in out


def test_no_color_is_obeyed(repository: Path) -> None:
    out = on_a_terminal("audit", repository, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", out.partition("run.sh:3")[2])


def test_an_ascii_terminal_does_not_break_it(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pitstop.bot", "audit", repository],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()


def test_a_reader_that_goes_away_is_no_error(repository: Path) -> None:
    command = f"{sys.executable} -m pitstop.bot rules --format json | head -c 10"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_interruption_is_exit_code_130() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "pitstop.bot", "rules", "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A background job of a shell, as this may be, ignores the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    # More than a pipe holds: it has begun to write, and cannot end before somebody reads on.
    select.select([process.stdout], [], [])
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "pitstop: interrupted\n"), len(out)


def test_a_bug_of_ours_is_exit_code_3(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> int:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(cli, "_rules", broken)
    assert main(["rules"]) == 3
    captured = capsys.readouterr()
    assert captured.err.startswith(
        "pitstop: internal error: RuntimeError: two lines\nThis is a bug"
    )
    assert "Traceback" not in captured.err
    assert main(["--debug", "rules"]) == main(["rules", "--debug"]) == 3
    assert capsys.readouterr().err.count("Traceback") == 2


def test_version_needs_no_heavy_module() -> None:
    code = """
import sys
from pitstop.bot.cli import main
try:
    main(["--version"])
except SystemExit:
    pass
heavy = {"pydantic", "rich", "github", "libcst", "jinja2", "tree_sitter", "ruamel", "bashlex"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1] == "[]"


def test_rules_lists_and_explains(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    listing = capsys.readouterr().out
    assert PINNED in listing
    for form in ("text", "md", "json"):
        assert main(["rules", PINNED.lower(), "--format", form]) == 0
        assert "What it finds" in capsys.readouterr().out or form == "json"
    assert main(["rules", "pageable-batches"]) == 0


def test_unknown_rule_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "pagable-batches"]) == 2
    assert "did you mean 'pageable-batches'?" in capsys.readouterr().err


def test_config_check_says_what_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["config", "check"]) == 0
    assert capsys.readouterr().out == "no .github/pitstop.yml here: the defaults hold\n"
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github" / "pitstop.yaml").write_text("goal: memory\n")
    assert main(["config", "check"]) == 0
    assert capsys.readouterr().out == ".github/pitstop.yaml: valid\n"


def test_config_check_names_every_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.yml").write_text("gaol: memory\nnodes: 0\n")
    assert main(["config", "check", str(tmp_path / "c.yml")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"pitstop: {tmp_path}/c.yml:1: unknown key 'gaol'; did you mean 'goal'?"
    assert second.startswith(f"{tmp_path}/c.yml:2: nodes: ")
