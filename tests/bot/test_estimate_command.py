"""`pitstop estimate` as people use it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from pitstop.bot.cli import main

GIB = 2**30
TRAIN = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

def main(dataset):
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype="bfloat16")
    Trainer(model=model, args=args, train_dataset=dataset).train()

main(None)
"""
RUN = "torchrun --nproc_per_node 8 train.py --output_dir out --bf16 True --deepspeed ds.json\n"
ZERO2 = '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}\n'


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "run.sh").write_text(RUN)
    (tmp_path / "ds.json").write_text(ZERO2)
    return tmp_path


def estimated(capsys: pytest.CaptureFixture[str], *words: str | Path) -> dict[str, Any]:
    assert main(["estimate", *map(str, words), "--format", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["estimates"]
    assert len(found) == 1
    return found[0]


SEVEN = ("--model", "Qwen/Qwen2.5-7B", "--sequence", "2048", "--micro-batch", "1")


def test_a_repositorys_job_has_a_table(repository: Path, capsys: Any) -> None:
    one = estimated(capsys, repository, "--gpu", "a100-80gb", "--sequence", "2048")
    parts = {part["name"]: part["size"]["high"] for part in one["parts"]}
    assert parts["weights"] == 2 * one["parameters"]
    assert parts["optimizer state"] == pytest.approx(8 * one["parameters"] / 8)
    assert one["verdict"] == "does not fit"
    assert one["gpus"] == 8
    assert any("activation checkpointing" in c["changes"] for c in one["choices"])


def test_choices_fit_and_the_fastest_come_first(repository: Path, capsys: Any) -> None:
    one = estimated(capsys, repository, "--gpu", "a100-80gb", "--sequence", "2048")
    assert all(c["memory"]["high"] <= one["capacity"] for c in one["choices"])
    paces = [c["tokens_per_second"] for c in one["choices"]]
    assert all(later <= 1.01 * earlier for earlier, later in itertools.pairwise(paces))


def test_what_is_unknown_is_a_range_and_named(repository: Path, capsys: Any) -> None:
    one = estimated(capsys, repository)
    assert one["total"]["high"] > 1.5 * one["total"]["low"]
    assert one["verdict"] == "unknown"
    assert {"the GPU (--gpu)", "the longest sequence (--sequence)"} <= set(one["missing"])


def test_full_training_of_7b_needs_what_is_known_of_it(capsys: Any) -> None:
    one = estimated(capsys, *SEVEN, "--gpu", "h100", "--checkpointing")
    assert one["verdict"] == "does not fit"
    assert one["total"]["low"] > 16 * 7e9
    assert any(line.startswith("QLoRA") and line.endswith(": fits") for line in one["advice"])


def test_qlora_of_7b_fits_a_small_card(capsys: Any) -> None:
    one = estimated(capsys, *SEVEN, "--gpu", "rtx-4090", "--method", "qlora", "--checkpointing")
    assert one["verdict"] == "fits"
    assert one["total"]["high"] < 14 * GIB


def test_a_parameter_count_alone_gives_a_range(capsys: Any) -> None:
    one = estimated(capsys, "--params", "7B", "--sequence", "2048", "--micro-batch", "1")
    assert one["parameters"] == 7_000_000_000
    assert one["total"]["low"] < one["total"]["high"]
    assert "the model's config.json" in one["missing"]


def test_a_config_file_names_the_model(tmp_path: Path, capsys: Any) -> None:
    config = {
        "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 8,
        "num_attention_heads": 8, "intermediate_size": 2816, "vocab_size": 32000,
        "hidden_act": "silu", "tie_word_embeddings": False,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    one = estimated(capsys, "--model", tmp_path, "--sequence", "1024", "--micro-batch", "2")
    assert one["parameters"] == 168_313_856


def test_a_sweep_grows_with_both_sides(capsys: Any) -> None:
    one = estimated(capsys, *SEVEN, "--sweep")
    cells = {(c["micro_batch"], c["sequence"]): c["memory"]["high"] for c in one["sweep"]}
    assert cells[1, 512] <= cells[2, 512] < cells[2, 8192] < cells[32, 32768]


def test_text_says_where_the_bytes_go(capsys: Any) -> None:
    assert main(["estimate", *SEVEN, "--gpu", "h100", "--sweep"]) == 0
    text = capsys.readouterr().out
    for words in ("optimizer state", "does not fit in 79.1 GiB", "micro batch", "taken as given"):
        assert words in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "nobody/knows-this"], "add --params 7B"),
        (["--model", "Qwen2.5-7B", "--gpu", "abacus"], "names no one GPU"),
        (["--model", "Qwen2.5-7B", "--gpu", "a100"], "names no one GPU"),
        (["--model", "Qwen2.5-7B", "--optimizer", "hope"], "not known; known are"),
        ([".", "--model", "Qwen2.5-7B"], "not both"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], message: str, capsys: Any) -> None:
    assert main(["estimate", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_folder_without_jobs_says_how_to_name_one(tmp_path: Path, capsys: Any) -> None:
    assert main(["estimate", str(tmp_path)]) == 2
    assert "--launch" in capsys.readouterr().err


def test_a_job_that_cannot_be_sized_says_why(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "run.sh").write_text("torchrun train.py\n")
    (tmp_path / "train.py").write_text(
        "import torch\n\ndef fit(model, loss):\n    loss.backward()\n"
        "    torch.optim.AdamW(model.parameters()).step()\n"
    )
    assert estimated(capsys, tmp_path)["reasons"] == ["the model is not known: give --model"]
