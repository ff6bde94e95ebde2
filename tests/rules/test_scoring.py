"""Scorecards: every shipped one is sound, and marks and points follow the rules that they state."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitstop.rules.engine import all_rules, audit
from pitstop.rules.facts import gather
from pitstop.rules.finding import Setting, Surface, Unknown
from pitstop.rules.job import FrameworkUse, HardwareFacts, ModelFacts, TrainingJob
from pitstop.rules.knobs import knobs
from pitstop.rules.row_reader import RowError
from pitstop.rules.scoring import (
    WORTH,
    Mark,
    Score,
    read_scorecard,
    scorecards,
    scores,
)
from pitstop.rules.tree import DictTree

MOST = {
    "general": 63,
    "flow_factory": 49,
    "hf_trainer": 69,
    "llamafactory": 58,
    "sglang": 54,
    "swift": 60,
    "videox_fun": 61,
    "vllm": 52,
}

SFT = """\
model_name_or_path: Qwen/Qwen2.5-7B-Instruct
stage: sft
do_train: true
finetuning_type: lora
lora_target: all
dataset: mine
template: qwen
cutoff_len: 2048
output_dir: out
"""


def judged(files: dict[str, str]) -> dict[str, Score]:
    project = gather(DictTree(files))
    return {one.name: one for one in scores(project.jobs, audit(project).findings)}


def marks(score: Score) -> dict[str, Mark]:
    return {one.id: one.mark for category in score.categories for one in category.marks}


@pytest.mark.parametrize("card", scorecards(), ids=lambda card: card.name)
def test_a_shipped_scorecard_is_sound(card):
    items = [item for category in card.categories for item in category.items]
    rules = {info.id for info in all_rules()}
    assert card.most == MOST[card.name]
    assert len({item.id for item in items}) == len(items)
    assert {r for item in items for r in (*item.unused_by, *item.clean_of)} <= rules
    assert all(item.used or not item.option or item.needed for item in items)


def test_settings_of_a_job_are_marked_where_they_stand():
    files = {"sft.yaml": SFT + "bf16: true\nflash_attn: sdpa\ndataloader_num_workers: 4\n"}
    score = judged(files)["llamafactory"]
    found = {one.id: one for category in score.categories for one in category.marks}
    assert found["LF-B01"].mark is Mark.USED
    assert [(at.path, at.line) for at in found["LF-B01"].places] == [("sft.yaml", 10)]
    assert found["LF-B01"].read == "bf16: true"
    assert found["LF-F01"].mark is Mark.PARTIAL
    assert found["LF-H07"].mark is Mark.USED
    assert found["LF-A01"].mark is Mark.USED
    assert found["LF-H02"].mark is Mark.NOT_APPLICABLE  # nothing is packed
    assert found["LF-I01"].mark is Mark.UNKNOWN  # no knob tells


def test_a_finding_says_unused():
    score = judged({"sft.yaml": SFT})["llamafactory"]
    assert marks(score)["LF-B01"] is Mark.UNUSED
    assert judged({"sft.yaml": SFT + "bf16: true\n"})["llamafactory"].points > score.points


def test_alternatives_of_what_is_used_are_not_open():
    files = {"sft.yaml": SFT + "bf16: true\noptim: adamw_torch_fused\n"}
    found = marks(judged(files)["llamafactory"])
    assert found["LF-E06"] is Mark.USED
    assert {found[f"LF-E0{n}"] for n in range(1, 6)} == {Mark.NOT_APPLICABLE}


def test_jobs_that_differ_make_an_item_partial():
    files = {
        "a.yaml": SFT + "bf16: true\ndataloader_num_workers: 4\n",
        "b.yaml": SFT + "bf16: true\ndataloader_num_workers: 0\n",
    }
    score = judged(files)["llamafactory"]
    assert score.jobs == 2
    assert marks(score)["LF-H07"] is Mark.PARTIAL
    assert marks(score)["LF-B01"] is Mark.USED


def test_what_a_framework_has_no_setting_for_is_unknown():
    loop = """\
import torch

model = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(100):
    model(torch.ones(1, 2).cuda()).sum().backward()
    optimizer.step()
"""
    found = marks(judged({"train.py": loop})["general"])
    assert found["GEN-D05"] is Mark.UNKNOWN


def test_an_engine_is_judged_where_it_serves():
    serve = "vllm serve Qwen/Qwen2.5-7B-Instruct --enforce-eager --max-model-len 8192\n"
    score = judged({"serve.sh": serve})["vllm"]
    found = marks(score)
    assert found["VL-A02"] is Mark.UNUSED
    assert found["VL-B02"] is Mark.USED
    assert found["VL-D05"] is not Mark.UNUSED
    assert "vllm" not in judged({"sft.yaml": SFT})


def test_a_project_without_jobs_has_no_points():
    score = judged({"README.md": "nothing here"})["general"]
    assert (score.jobs, score.points, score.most) == (0, 0.0, 0)
    assert set(marks(score).values()) == {Mark.NOT_APPLICABLE}


@pytest.mark.parametrize("extra", ["", "bf16: true\n", "deepspeed: ds.json\n", "flash_attn: fa2\n"])
def test_points_never_pass_the_maximum(extra):
    for score in judged({"sft.yaml": SFT + extra, "ds.json": "{}"}).values():
        assert 0 <= score.points <= score.most
        for category in score.categories:
            counted = [one for one in category.marks if one.mark in WORTH]
            assert (category.points is None) == (not counted)
            assert category.points is None or 0 <= category.points <= category.most


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ("{id: X-1, title: one, usde: []}", "unknown word 'usde'"),
        ("{id: X-1, title: one, used: [{precision.compuet: {is: bf16}}]}", "precision.compute"),
        ("{id: X-1, title: one, used: [{precision.compute: {is: bf61}}]}", "bf61"),
    ],
)
def test_a_faulty_scorecard_is_refused(item, says):
    text = f"""\
scorecard: x
title: X
file: x
categories:
  - key: A
    title: One
    max: 1
    items:
      - {item}
"""
    with pytest.raises(RowError, match=says):
        read_scorecard("x.yaml", text)


VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=True),
    st.text(max_size=8),
    st.none(),
    st.just(Unknown("not resolved")),
)
COUNTS = st.none() | st.integers(-1, 2**50)


@given(
    st.dictionaries(st.sampled_from(sorted(knobs())), VALUES, max_size=30),
    st.lists(st.sampled_from([card.name for card in scorecards()]), max_size=3),
    st.sampled_from(["train", "serve"]),
    COUNTS,
    COUNTS,
    st.sampled_from([None, "llm", "vlm", "video", "other", "?"]),
)
def test_any_settings_have_a_score(values, names, purpose, memory, parameters, kind):
    settings = {
        knob: (Setting(knob, value, Surface.FLAG, knob, "hf_trainer"),)
        for knob, value in values.items()
    }
    job = TrainingJob(
        "job",
        "job",
        purpose,
        tuple(FrameworkUse(name) for name in names),
        settings,
        model=ModelFacts(kind=kind, parameters=parameters),
        hardware=HardwareFacts(memory=memory, gpus_per_node=8),
    )
    for score in scores([job], []):
        assert 0 <= score.points <= score.most


def test_a_score_rounds_to_a_tenth():
    score = judged({"sft.yaml": SFT})["general"]
    assert replace(score).points == round(score.points, 1)
