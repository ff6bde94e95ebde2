"""The command that a person types: one plain command, or a sentence that says why not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitstop.rules.finding import UserError
from pitstop.rules.launch import MAX_TYPED, parse_command


def test_a_plain_command_with_variables() -> None:
    text = "  NCCL_DEBUG=WARN B='x y' torchrun --nproc_per_node 8 train.py --lr 1e-4 --名 值"
    found = parse_command(text)
    assert (found.launchers, found.entry, found.processes) == (("torchrun",), "train.py", 8)
    assert {n: w.text for n, w in found.env.items()} == {"NCCL_DEBUG": "WARN", "B": "x y"}
    assert [w.text for w in found.args] == ["--lr", "1e-4", "--名", "值"]
    assert not any(w.exact for w in found.words), "nothing typed may be edited in a file"
    for word in found.words:
        assert text[word.location.span.start : word.location.span.end] == word.text


def test_lines_may_be_continued() -> None:
    found = parse_command("torchrun \\\n  --nproc_per_node 2 \\\n  train.py\n")
    assert found.entry == "train.py"


def test_quotes_and_json() -> None:
    found = parse_command("python t.py --x '{\"a\": [1, 2]}' --y a\\ b")
    assert [w.text for w in found.args] == ["--x", '{"a": [1, 2]}', "--y", "a b"]


def test_a_script_by_its_name() -> None:
    found = parse_command("bash scripts/train.sh --x 1")
    assert (found.launchers, found.entry) == (("bash",), "scripts/train.sh")
    assert [w.text for w in found.args] == ["--x", "1"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("torchrun t.py | tee log", "pipe"),
        ("! python t.py", "pipe or `!`"),
        ("cd x && python t.py", "more than one command"),
        ("python a.py; python b.py", "more than one command"),
        ("python a.py\npython b.py", "more than one command"),
        ("python a.py &", "more than one command"),
        ("python a.py > log", "redirection"),
        ("python a.py 2>&1", "redirection"),
        ("python a.py < x", "redirection"),
        ("python a.py <<< x", "redirection"),
        ("python $(which x)", "command substitution"),
        ("python `which x`", "command substitution"),
        ("python <(ls)", "process substitution"),
        ("python $HOME/t.py", "variable"),
        ('python "${X:-a}"', "variable"),
        ("A=$B python t.py", "variable"),
        ("(python a.py)", "compound"),
        ("{ python a.py; }", "compound"),
        ("if true; then python a.py; fi", "compound"),
        ("for x in 1; do python a.py; done", "compound"),
        ("f() { python a.py; }", "function"),
        ('python "a.py', "cannot be read"),
        ("python 'a.py", "cannot be read"),
        ("python ${", "cannot be read"),
        ("python $(", "cannot be read"),
        ("case x in", "cannot be read"),
        ("[[ a ]]", "cannot be read"),
        ("time python a.py", "cannot be read"),
        ("A=(1 2) python a.py", "cannot be read"),
        ("A=1", "starts nothing"),
        ("ls -l", "starts no training program"),
        ("pip install torch", "starts no training program"),
        ("bash -c 'rm -rf /'", "starts no training program"),
        ("python -c 1", "starts no training program"),
        ("\x00", "starts no training program"),
        ("python t.py " + "x" * MAX_TYPED, "longer than"),
    ],
)
def test_anything_else_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason.replace("(", "\\(")) as caught:
        parse_command(text)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")


_ALPHABET = "abAZ09 \t\n\r;|&<>()[]{}$`'\"\\#!*?~=+-/.%^,:@\x00\x1b值"


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=_ALPHABET, max_size=40))
def test_no_text_does_worse_than_a_refusal(text: str) -> None:
    for prefix in ("", "python t.py ", "A="):
        try:
            parse_command(prefix + text)
        except UserError as error:
            assert str(error)
