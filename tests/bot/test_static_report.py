"""The documents of `pitstop audit --report`."""

import json
import re
from pathlib import Path

import pytest

from pitstop.bot.cli import main
from pitstop.bot.language import catalogue
from pitstop.bot.static_report import attention_for, bottleneck
from pitstop.rules.scoring import scorecards

SECTIONS = ["Project", "Scores", "Recommendations", "Recommended configurations", "FlashAttention",
            "DeepSpeed, FSDP", "Unread and unknown", "Reports"]  # fmt: skip

TRAINER = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B")
Trainer(model, TrainingArguments("out", logging_steps=1)).train()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "train.py").write_text(TRAINER)
    (folder / "run.sh").write_text("torchrun --nproc_per_node 8 train.py\n")
    return folder


def heads(text: str) -> list[str]:
    return re.findall(r"^## (?:\d+\. )?(.+)$", text, re.MULTILINE)


def test_reports_lie_beside_the_project(project, capsys):
    assert main(["audit", str(project), "--fail-on", "never", "--report"]) == 0
    folder = project.parent / "job_static_analysis"
    assert sorted(path.name for path in folder.iterdir()) == [
        "static-analysis-report.json",
        "static-analysis-report.md",
        "v0_training-acceleration-audit-report.md",
        "v0_transformers-optimization-report.md",
    ]
    assert str(folder) in capsys.readouterr().err
    assert sorted(path.name for path in project.iterdir()) == ["run.sh", "train.py"]


def test_the_main_report_has_its_sections_in_order(project, tmp_path):
    main(["audit", str(project), "--fail-on", "never", "--report", str(tmp_path / "r")])
    text = (tmp_path / "r" / "static-analysis-report.md").read_text("utf-8")
    assert heads(text) == SECTIONS
    assert "HF-A01" in text  # fp32 compute, with its place, source and patch
    assert "`train.py:4`" in text
    assert "+" in text and "```diff" in text
    assert "<https://huggingface.co/" in text
    assert "depends on the actual hardware" in text
    data = json.loads((tmp_path / "r" / "static-analysis-report.json").read_text("utf-8"))
    assert {one["rule"] for one in data["advice"]} >= {"HF-A01"}
    assert [score["name"] for score in data["scores"]] == ["general", "hf_trainer"]


def test_a_scorecard_shows_every_item(project, tmp_path):
    main(["audit", str(project), "--fail-on", "never", "--report", str(tmp_path / "r")])
    text = (tmp_path / "r" / "v0_transformers-optimization-report.md").read_text("utf-8")
    assert len(re.findall(r"^\| [✓◐✗○?] \| HF", text, re.MULTILINE)) == 88


def test_a_report_in_chinese(project, tmp_path):
    main(["audit", str(project), "--fail-on", "never", "--report", str(tmp_path / "r"),
          "--lang", "zh"])  # fmt: skip
    text = (tmp_path / "r" / "static-analysis-report.md").read_text("utf-8")
    assert not set(heads(text)) & set(SECTIONS) - {"FlashAttention"}
    assert "训练" in text


def test_a_project_without_a_job_has_a_report_too(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    assert main(["audit", str(folder), "--report", str(tmp_path / "r")]) == 0
    text = (tmp_path / "r" / "static-analysis-report.md").read_text("utf-8")
    assert heads(text) == SECTIONS
    assert "No job was found" in text


def test_a_folder_that_cannot_be_made_is_said(project, tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    assert main(["audit", str(project), "--report", str(tmp_path / "taken")]) == 2
    assert "give another folder to --report" in capsys.readouterr().err


def test_names_in_a_project_are_data(tmp_path):
    folder = tmp_path / "a|b<script>"
    folder.mkdir()
    (folder / "train.py").write_text(TRAINER)
    main(["audit", str(folder), "--fail-on", "never", "--report", str(tmp_path / "r")])
    text = (tmp_path / "r" / "static-analysis-report.md").read_text("utf-8")
    assert "<script>" not in re.sub(r"`[^`]*`", "", text)


def test_attention_follows_the_gpu():
    assert attention_for((7, 5)).startswith("SDPA")
    assert attention_for((8, 0)).startswith("FlashAttention 2")
    assert attention_for((9, 0)).startswith("FlashAttention 3")
    assert attention_for(None).startswith("depends on the actual hardware")


def test_without_findings_a_profile_is_needed():
    assert bottleneck(()) == "needs a profile"


def test_every_item_has_a_chinese_name():
    known = catalogue("zh")
    titles = {
        title
        for card in scorecards()
        for category in card.categories
        for title in (category.title, *(item.title for item in category.items))
    }
    proper = re.compile(r"[\w+.-]*[A-Z0-9_.+][\w+.-]*( [0-9])?|torch\.compile|bf16|bitsandbytes")
    plain = {t for t in titles - set(known) if not all(proper.fullmatch(w) for w in t.split())}
    assert not plain
