"""`pitstop doctor`: two sections in their order, counts, one top action, in two languages."""

import json
import re
import string
from pathlib import Path

import pytest

from pitstop.bot.cli import main
from pitstop.bot.language import catalogue, read_catalogue, texts
from pitstop.rules.relax.rule import relax_rules

SCRIPT = """#!/bin/bash
set -ex
MODEL_ARGS=(
   --num-layers 36
   --hidden-size 2560
   --ffn-hidden-size 9728
   --num-attention-heads 32
   --num-query-groups 8
   --kv-channels 128
   --vocab-size 151936
   --swiglu
)
ALL_ARGS=(
   --resource '{"actor": [1, 8], "rollout": [1, 8]}'
   --colocate
   --num-rollout 200
   --rollout-batch-size 32
   --n-samples-per-prompt 8
   --rollout-max-response-len 4096
   --global-batch-size 256
   --balance-data
   --tensor-model-parallel-size 2
   --use-dynamic-batch-size
   --max-tokens-per-gpu 20480
   --use-kl-loss
   --kl-loss-coef 0.00
   --context-parallel-size 2
)
if [ -n "${MORE:-}" ]; then
   ALL_ARGS+=( --debug-rollout-only )
fi
ray job submit -- python3 -m relax.entrypoints.train "${MODEL_ARGS[@]}" "${ALL_ARGS[@]}"
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "scripts" / "run-qwen3-4B-8xgpu.sh"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    return path


def test_the_report_has_its_parts_in_order(script, capsys):
    assert main(["doctor", str(script)]) == 0
    said = capsys.readouterr().out
    parts = [
        "# run-qwen3-4B-8xgpu.sh",
        "Context: run-qwen3-4B" if "Context: run-" in said else "Context: qwen3-4B",
        "8 GPUs (1 x 8) · colocate · TP2/PP1/CP2/EP1/ETP2 · answers up to 4096 · H20 96 GB",
        "## Performance findings",
        "[INFO] R-P14 - A reference model runs for a term that counts nothing",
        "Setting: --use-kl-loss, --kl-loss-coef 0.00 (run-qwen3-4B-8xgpu.sh:25)",
        "Fix: remove --use-kl-loss",
        "## Memory findings",
        "[WARN] R-M05",
        "## Start-up failures",
        "[CRITICAL] V-05",
        "## Summary",
        "CRITICAL 1, WARN",
        "First: V-05",
    ]
    places = [said.find(part) for part in parts]
    assert -1 not in places, dict(zip(parts, places, strict=True))
    assert places == sorted(places)


def test_json_holds_the_same(script, capsys):
    assert main(["doctor", str(script), "--format", "json", "--gpu", "H100"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["summary"]["critical"] == 1
    assert found["summary"]["top"] == "V-05"
    assert "(assumed)" not in found["context"]
    assert all({"rule", "line", "setting", "cost", "fix"} <= set(f) for f in found["findings"])


def test_chinese(script, capsys):
    assert main(["doctor", str(script), "--lang", "zh"]) == 0
    said = capsys.readouterr().out
    assert "## 性能问题" in said
    assert "参考模型只为系数为零的 KL 项运行" in said
    assert "## Performance" not in said
    assert re.search(r"代价: .*[\u4e00-\u9fff]", said)


def test_the_exit_code_follows_the_threshold(script):
    assert main(["doctor", str(script), "--fail-on", "critical"]) == 1
    assert main(["doctor", str(script.parent), "--fail-on", "never"]) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["/no/such.sh"], "no such file"),
        (["EMPTY"], "no launch of Relax"),
        (["SCRIPT", "--gpu", "H99"], "is not known"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(script, tmp_path, capsys, arguments, sentence):
    (tmp_path / "empty.sh").write_text("echo nothing\n")
    names = {"EMPTY": str(tmp_path / "empty.sh"), "SCRIPT": str(script)}
    assert main(["doctor", *(names.get(a, a) for a in arguments)]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_a_suppressed_finding_is_left_out(script, capsys):
    text = script.read_text().replace(
        "   --use-kl-loss", "   # pitstop: ignore[R-P14] the curve is watched\n   --use-kl-loss"
    )
    script.write_text(text)
    main(["doctor", str(script)])
    assert "R-P14" not in capsys.readouterr().out


def test_the_script_is_only_read(script):
    before = (script.read_bytes(), script.stat().st_mtime_ns)
    main(["doctor", str(script)])
    assert (script.read_bytes(), script.stat().st_mtime_ns) == before


@pytest.mark.parametrize("rule", relax_rules(), ids=lambda rule: rule.info.id)
def test_every_sentence_of_a_rule_has_a_chinese_text(rule):
    known = catalogue("zh")
    sections = rule.info.sections
    for text in (rule.info.title, sections.why, sections.leave_when, rule.info.cost):
        assert not text or text in known or text in ("{what}", "{gib} GiB")
    assert rule.fix in known or rule.fix == "{advice}" or rule.fix.startswith("--")


def test_the_english_of_the_catalogue_holds_no_chinese():
    assert all(not re.search("[\u4e00-\u9fff]", text) for text in catalogue("zh"))


def test_figures_are_carried_over():
    say = texts("zh")
    assert say("rollout has 2 of 8 GPUs") == "rollout 占 8 张 GPU 中的 2 张"
    assert (
        say("the name says 8 GPUs, the roles add up to 16") == "文件名写 8 张 GPU，各角色合计 16 张"
    )
    assert say("never 1 of 2") == "never 1 of 2"
    assert say("{0} of 1") == "{0} of 1"


def test_a_braced_text_keeps_its_names():
    names = string.Formatter().parse
    for english, chinese in catalogue("zh").items():
        wanted = {name for _, name, _, _ in names(english) if name}
        assert {name for _, name, _, _ in names(chinese) if name} == wanted


def test_catalogues_are_read_as_their_format_says():
    assert read_catalogue('msgid "a"\nmsgstr "b"\n') == {"a": "b"}
    assert read_catalogue('msgid ""\n"a"\n" b"\nmsgstr "c\\n\\"d\\""\n') == {"a b": 'c\n"d"'}
    assert read_catalogue('msgid "a"\nmsgstr ""\n') == {}
    assert texts("en")("Cost") == "Cost"
    assert texts("zh")("never translated") == "never translated"
