"""`pitstop compare` and the predicted effects in a review."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pitstop.bot.cli import main
from pitstop.bot.diff import Diff, FileDiff, Hunk
from pitstop.bot.effects import effects
from pitstop.bot.posting import Audited
from pitstop.bot.pulls import Posted
from pitstop.bot.report import Report, ReportedFinding
from pitstop.bot.review import Policy
from pitstop.bot.views import Links
from pitstop.rules.facts import gather
from pitstop.rules.finding import Location, Span
from pitstop.rules.job import HardwareFacts, TrainingJob
from pitstop.rules.tree import DictTree
from pitstop.transforms.patch import Unchanged
from tests.bot.reviewing import finding

GIB = 2**30
CONFIG = """\
model_name_or_path: Qwen/Qwen2.5-7B
stage: sft
do_train: true
finetuning_type: lora
template: qwen
cutoff_len: {length}
per_device_train_batch_size: {batch}
gradient_accumulation_steps: 4
bf16: true
flash_attn: {attention}
disable_gradient_checkpointing: {recompute_off}
"""
PLAIN = {"length": 2048, "batch": 2, "attention": "sdpa", "recompute_off": "false"}


def config(**changes: Any) -> str:
    return CONFIG.format(**{**PLAIN, **changes})


def jobs(text: str, gpu: str | None = "a100-80gb") -> tuple[TrainingJob, ...]:
    hardware = HardwareFacts(gpu=gpu) if gpu else None
    return gather(DictTree({"train.yaml": text}), hardware=hardware).jobs


def test_what_stops_fitting_is_said() -> None:
    (effect,) = effects(jobs(config()), jobs(config(length=8192, recompute_off="true")))
    assert effect.before.memory.high < 79 * GIB < effect.after.memory.low
    assert any(words.startswith("no longer fits in 79.1 GiB") for words in effect.consequences)
    assert effect.after.tokens_per_step.high == 4 * effect.before.tokens_per_step.high


def test_and_what_fits_again() -> None:
    (effect,) = effects(jobs(config(length=8192, recompute_off="true")), jobs(config()))
    assert any("fits in 79.1 GiB now" in words for words in effect.consequences)


def test_a_slower_bound_is_said() -> None:
    (effect,) = effects(jobs(config(recompute_off="true")), jobs(config()))
    assert any("% longer" in words for words in effect.consequences)
    assert effect.after.memory.high < effect.before.memory.high


def test_a_setting_without_weight_has_no_effect() -> None:
    assert effects(jobs(config()), jobs(config() + "logging_steps: 1\n")) == ()


def test_without_a_gpu_nothing_is_said_of_fitting_or_speed() -> None:
    (effect,) = effects(jobs(config(), None), jobs(config(length=4096), None))
    assert effect.before.capacity is None
    assert all("fit" not in words and "time" not in words for words in effect.consequences)


def test_jobs_of_one_side_only_have_no_effect() -> None:
    assert effects((), jobs(config())) == ()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", tmp_path, *identity, *words], check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for message, text in (("one", config()), ("two", config(attention="disabled", batch=4))):
        (tmp_path / "train.yaml").write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", message)
    return tmp_path


def compared(capsys: Any, *words: str | Path) -> dict[str, Any]:
    assert main(["compare", *map(str, words), "--format", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["comparison"]
    return found


def test_knobs_that_differ_come_with_their_lines(repository: Path, capsys: Any) -> None:
    found = compared(capsys, "HEAD~1", "HEAD", "--path", repository)
    knobs = {k["knob"]: k for change in found["changes"] for k in change["knobs"]}
    assert set(knobs) == {"attention.backend", "batch.micro"}
    assert (knobs["batch.micro"]["before"], knobs["batch.micro"]["after"]) == ("2", "4")
    assert knobs["batch.micro"]["where"]["line"] == 7
    (effect,) = found["effects"]
    assert effect["after"]["memory"]["high"] > effect["before"]["memory"]["high"]


def test_one_revision_is_compared_with_the_folder(repository: Path, capsys: Any) -> None:
    (repository / "train.yaml").write_text(config(attention="disabled", batch=1))
    found = compared(capsys, "HEAD", "--path", repository)
    (change,) = found["changes"]
    assert [knob["after"] for knob in change["knobs"]] == ["1"]


def test_text_names_jobs_knobs_and_consequences(repository: Path, capsys: Any) -> None:
    words = ["compare", "HEAD~1", "HEAD", "--path", str(repository), "--gpu", "rtx-4090"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "attention.backend" in text
    assert "GiB per GPU; 16,384 -> 32,768 tokens per step" in text
    assert "no longer fits in 23.5 GiB" in text


def test_equal_revisions_differ_in_nothing(repository: Path, capsys: Any) -> None:
    assert main(["compare", "HEAD", "HEAD", "--path", str(repository)]) == 0
    assert capsys.readouterr().out == "No job is set differently.\n"


@pytest.mark.parametrize(("revision", "message"), [("nowhere", "no such revision")])
def test_an_unknown_revision_is_one_sentence(
    repository: Path, revision: str, message: str, capsys: Any
) -> None:
    assert main(["compare", revision, "--path", str(repository)]) == 2
    assert message in capsys.readouterr().err


def test_a_review_tells_the_predicted_effect() -> None:
    before, after = jobs(config()), jobs(config(length=8192, recompute_off="true"))
    at = Location("train.yaml", Span(0, 1), 6, 1, 6, 2)
    one = ReportedFinding(finding(at), Unchanged())
    report = Report("0", after, (one,), jobs_before=before)
    diff = Diff({"train.yaml": FileDiff("train.yaml", hunks=(Hunk(range(1, 9)),))})
    audit = Audited(1, report, diff, DictTree({}), Links("https://github.com", "o/r", "a" * 40))
    text = audit.summary(audit.review(Posted(), Policy()), ()).within(60_000)
    (row,) = [line for line in text.splitlines() if "no longer fits" in line]
    assert row.startswith("| LLaMA-Factory: train.yaml | ")
    assert "| 16,384 | 65,536 |" in row
