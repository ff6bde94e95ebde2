"""Whatever a person points Pitstop at: one clear sentence or a report, and the right exit code."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from pitstop.bot.cli import main

TRAIN = """\
import torch
from transformers import Trainer, TrainingArguments

def main(model, dataset):
    args = TrainingArguments(output_dir="out", bf16=True)
    Trainer(model=model, args=args, train_dataset=dataset).train()
"""
RUN = "torchrun --nproc_per_node 8 train.py --output_dir out\n"

BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
)


def project(root: Path, **files: str | bytes) -> Path:
    """A small training repository with some more files ("__" in a name is a slash)."""
    for name, data in {"train.py": TRAIN, "run.sh": RUN, **files}.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return root


def pitstop(
    *words: str | Path, user: int | None = None, **environment: str
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a real run."""
    command = [sys.executable, "-m", "pitstop.bot", *map(str, words)]
    if user is not None and os.getuid() == 0:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


class Refused(Protocol):
    def __call__(self, *words: str | Path) -> str: ...


@pytest.fixture
def sentence(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command that must be refused, and returns its one sentence."""

    def run(*words: str | Path) -> str:
        assert main(list(map(str, words))) == 2
        captured = capsys.readouterr()
        out = [line for line in captured.out.splitlines() if not line.startswith("::error ")]
        assert out == []
        assert captured.err.startswith("pitstop: ")
        assert captured.err.count("\n") == 1
        return captured.err.removeprefix("pitstop: ").removesuffix("\n")

    return run


def unread(folder: Path, capsys: pytest.CaptureFixture[str]) -> Mapping[str, str]:
    """Path to reason of everything that a good run could not read."""
    assert main(["audit", str(folder), "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    report = json.loads(captured.out)
    assert report["jobs"], "the rest of the repository is still read"
    return {item["path"]: item["reason"] for item in report.get("unread", ())}


def test_no_such_path(tmp_path: Path, sentence: Refused) -> None:
    missing = tmp_path / "nowhere"
    assert sentence("audit", missing) == (
        f"{missing}: no such file or folder; give the path of a repository."
    )


def test_a_file_instead_of_a_folder(tmp_path: Path, sentence: Refused) -> None:
    file = project(tmp_path) / "run.sh"
    assert sentence("audit", file) == f"{file} is a file; give the folder of the repository."


def test_not_a_git_repository_with_base(tmp_path: Path, sentence: Refused) -> None:
    project(tmp_path)
    assert sentence("audit", tmp_path, "--base", "main") == (
        f"{tmp_path} is not in a git repository; --base compares with a git revision,"
        " so leave it out or run in a clone."
    )


def test_unknown_revision(tmp_path: Path, sentence: Refused) -> None:
    subprocess.run(["git", "init", "-q", project(tmp_path)], check=True)
    assert "no such revision" in sentence("audit", tmp_path, "--base", "nosuch")


@pytest.mark.parametrize(
    ("name", "data", "launch"),
    [
        ("broken.yaml", "model_name_or_path: [\n", "llamafactory-cli train broken.yaml\n"),
        ("tabs.yaml", "stage:\n\t- sft\n", "llamafactory-cli train tabs.yaml\n"),
        ("ds.json", '{"zero_optimization": {,', RUN[:-1] + " --deepspeed ds.json\n"),
        ("broken.py", "import torch\ndef (:\n", "torchrun broken.py\n"),
        ("deep.yaml", "a: " + "[" * 3000 + "]" * 3000, "llamafactory-cli train deep.yaml\n"),
        ("deep.json", '{"a": ' * 3000 + "1" + "}" * 3000, RUN[:-1] + " --deepspeed deep.json\n"),
        ("bomb.yaml", BOMB, "llamafactory-cli train bomb.yaml\n"),
        ("broken.sh", "torchrun train.py )\n", "bash broken.sh\n"),
    ],
    ids=lambda value: value if len(value) < 12 else "",
)
def test_file_that_cannot_be_read_is_reported_and_the_rest_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: str, launch: str
) -> None:
    reasons = unread(project(tmp_path, **{name: data, "other.sh": launch}), capsys)
    assert name in reasons
    assert "\n" not in reasons[name]


def test_a_file_of_50_mb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch = "llamafactory-cli train big.yaml\n"
    folder = project(tmp_path, **{"big.yaml": b"a: 1\n" * 10_000_000, "other.sh": launch})
    assert unread(folder, capsys)["big.yaml"] == "larger than 2 MB"


def test_binary_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = project(tmp_path, **{"noise.py": bytes(range(256)) * 50, "weights.bin": b"\0" * 99})
    assert unread(folder, capsys)["noise.py"] == "binary"


def test_symbolic_link_loops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = project(tmp_path)
    (folder / "loop").symlink_to(".")
    (folder / "a.sh").symlink_to("b.sh")
    (folder / "b.sh").symlink_to("a.sh")
    unread(folder, capsys)


def test_symbolic_link_out_of_the_tree_is_not_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret.sh").write_text("torchrun secret.py --token abc\n")
    folder = project(tmp_path / "repository")
    (folder / "link.sh").symlink_to("../secret.sh")
    assert main(["audit", str(folder), "--format", "json"]) == 0
    assert "secret.py" not in capsys.readouterr().out


def test_unreadable_file_and_folder(tmp_path: Path) -> None:
    folder = project(tmp_path, locked__x="y", **{"secret.sh": RUN})
    for path, mode in ((folder / "secret.sh", 0), (folder / "locked", 0)):
        path.chmod(mode)
    for parent in (folder, *folder.parents):
        if parent.is_relative_to("/tmp") and parent != Path("/tmp"):
            parent.chmod(0o755)
    code, out, error = pitstop("audit", folder, "--format", "json", user=65534)
    (folder / "locked").chmod(0o755)
    assert (code, error) == (0, "")
    reasons = {item["path"]: item["reason"] for item in json.loads(out)["unread"]}
    assert reasons["secret.sh"] == "not readable: Permission denied"
    assert reasons["locked/"] == "folder not readable: Permission denied"


def test_file_names_that_are_not_utf_8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = project(tmp_path)
    (Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.sh"))).write_text(RUN)
    unread(folder, capsys)
    assert main(["audit", str(folder)]) == 0


def test_invalid_configuration(tmp_path: Path, sentence: Refused) -> None:
    project(tmp_path, **{".github/pitstop.yml": "goal: balanced\ngaol: memory\n"})
    assert sentence("audit", tmp_path) == (
        ".github/pitstop.yml:2: unknown key 'gaol'; did you mean 'goal'?"
    )


def test_configuration_that_is_not_there(tmp_path: Path, sentence: Refused) -> None:
    project(tmp_path)
    config = tmp_path / "no.yml"
    assert sentence("audit", tmp_path, "--config", config) == (
        f"{config}: No such file or directory; give the path of a configuration."
    )


def test_output_that_cannot_be_written(tmp_path: Path, sentence: Refused) -> None:
    project(tmp_path)
    target = tmp_path / "no" / "report.txt"
    assert sentence("audit", tmp_path, "--output", target) == (
        f"{target}: cannot be written (No such file or directory); give another --output."
    )


@pytest.mark.parametrize(
    "command",
    ["a; b", "python train.py | tee log", "$(curl x) train.py", "'", "", "echo hello"],
)
def test_launch_command_that_is_not_one_plain_command(
    tmp_path: Path, command: str, sentence: Refused
) -> None:
    assert sentence("audit", project(tmp_path), "--launch", command)


def test_unknown_rule(tmp_path: Path, sentence: Refused) -> None:
    said = sentence("audit", project(tmp_path), "--select", "eager-atention")
    assert "did you mean 'eager-attention'?" in said


@pytest.mark.parametrize(
    "words",
    [
        ["audit"],
        ["audit", ".", "--format", "xml"],
        ["audit", ".", "--fail-on", "always"],
        ["audit", ".", "--nodes", "0"],
        ["audit", ".", "--nodes", "two"],
        ["audit", ".", "--fix", "all"],
        ["rules", "a", "b"],
        ["config"],
        ["dance"],
        [],
    ],
)
def test_wrong_usage_is_exit_code_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: pitstop")


def test_action_without_a_token(
    tmp_path: Path, sentence: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "GITHUB_REPOSITORY": "octo/train",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_WORKSPACE": str(tmp_path),
        "GITHUB_TOKEN": "",
        "INPUT_GITHUB-TOKEN": "",
    }.items():
        monkeypatch.setenv(name, value)
    assert "give the input `github-token`" in sentence("action")


def test_action_outside_of_github(sentence: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("GITHUB_"):
            monkeypatch.delenv(name)
    assert "GITHUB_EVENT_PATH is not set" in sentence("action")


def test_empty_folder_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("No findings")


def test_read_only_folder_is_fine(tmp_path: Path) -> None:
    folder = project(tmp_path)
    for parent in (folder, *folder.parents):
        if parent.is_relative_to("/tmp") and parent != Path("/tmp"):
            parent.chmod(0o755)
    folder.chmod(0o555)
    code, _, error = pitstop("audit", folder, user=65534)
    folder.chmod(0o755)
    assert (code, error) == (0, "")


def test_git_is_not_needed_without_base(tmp_path: Path) -> None:
    python = shutil.which(sys.executable)
    assert python is not None
    code, _, error = pitstop("audit", project(tmp_path), PATH=str(tmp_path))
    assert (code, error) == (0, "")
