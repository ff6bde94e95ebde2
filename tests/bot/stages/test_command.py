"""What may be written after /optimize."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitstop.bot.stages.command import Cancel, Help, Optimize, Status, read_command

SHA = "0123456789abcdef" * 2 + "01234567"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/optimize", Optimize()),
        ("/optimize help", Help()),
        ("/optimize status", Status()),
        ("/optimize cancel", Cancel()),
        ("/optimize --goal memory --steps 30 --rounds=2", Optimize("memory", 30, 2)),
        ("/optimize --job sft --quick", Optimize(job="sft", quick=True)),
        (f"/optimize --sha {SHA.upper()}", Optimize(sha=SHA)),
        ("/optimize only GEN-F01 tf32", Optimize(only=("GEN-F01", "tf32"))),
        ("/optimize disable tf32,autocast-bf16 --quick",
         Optimize(disable=("tf32", "autocast-bf16"), quick=True)),
        ("/optimize --allow GEN-A01 --allow x", Optimize(allow=("GEN-A01", "x"))),
        ("/optimize only a disable b", Optimize(only=("a",), disable=("b",))),
        ("/optimize -- torchrun --nproc_per_node 2 train.py --lr 1e-4",
         Optimize(launch="torchrun --nproc_per_node 2 train.py --lr 1e-4")),
        ("/optimize --quick -- OMP_NUM_THREADS=1 python train.py",
         Optimize(quick=True, launch="OMP_NUM_THREADS=1 python train.py")),
    ],
)  # fmt: skip
def test_commands(line: str, command: object) -> None:
    assert read_command(line) == command


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/optimize --gaol memory", "did you mean '--goal'?"),
        ("/optimize satus", "did you mean 'status'?"),
        ("/optimize status now", "stands alone"),
        ("/optimize --steps", "needs a value"),
        ("/optimize --steps 0", "from 1 to 2000"),
        ("/optimize --steps ٣", "from 1 to 2000"),
        ("/optimize --rounds 9", "from 1 to 5"),
        ("/optimize --goal fast", "one of throughput"),
        ("/optimize --sha abc123", "all 40 hex digits"),
        ("/optimize --sha main", "all 40 hex digits"),
        ("/optimize --job ../../x;y", "no name of a job"),
        ("/optimize --job a --job b", "given twice"),
        ("/optimize only", "at least one id"),
        ("/optimize only $(reboot)", "is no id"),
        ("/optimize 'x", "quote is not closed"),
        ("/optimize -- ", "needs the launch command"),
        ("/optimize -- python train.py | tee log", ""),
        ("/optimize -- python train.py; rm -rf /", ""),
        ("/optimize -- python $(cat x)", ""),
        ("/optimize -- ls", ""),
    ],
)
def test_what_is_not_understood_is_answered_with_help(line: str, words: str) -> None:
    command = read_command(line)
    assert isinstance(command, Help)
    assert command.reason and words in command.reason


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    command = read_command(f"/optimize {text}")
    if isinstance(command, Optimize):
        assert command.sha is None or len(command.sha) == 40
