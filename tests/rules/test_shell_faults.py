"""Shapes on which other readers of shell fail, each a small script of our own.

bashlex: arrays (idank/bashlex#24, #84, #89), `$(cd a && pwd)` (#83), `[[ ]]` and `case` (#96,
#91); tree-sitter-bash: `$(( ))` inside a heredoc (tree-sitter/tree-sitter-bash#325); and
continuations that end early, which the shell itself accepts in silence.
"""

from __future__ import annotations

import json

import pytest

from pitstop.rules.shell import Script, read_script
from pitstop.rules.tree import DictTree


def read(text: str) -> Script:
    tree = DictTree({"run.sh": text})
    return read_script(tree.read("run.sh"), tree)


def words(script: Script, name: str) -> list[list[str]]:
    return [[w.text for w in c.words] for c in script.commands if c.words[0].text == name]


def test_flags_in_arrays_are_read() -> None:
    text = (
        "MODEL_ARGS=(\n    --num-layers 32 # deep\n    # --hidden-size 1024\n"
        '    --hidden-size "4096"\n)\nexport -a LOG_ARGS=(--log-interval 1)\n'
        'torchrun pretrain.py "${MODEL_ARGS[@]}" ${LOG_ARGS[@]} "${EMPTY[@]}"\n'
    )
    expected = "torchrun pretrain.py --num-layers 32 --hidden-size 4096 --log-interval 1"
    (found,) = words(read(text), "torchrun")
    assert " ".join(found[:8]) == expected


def test_command_substitution_with_cd() -> None:
    text = "ROOT=$(cd a && pwd)\nROOT2=`cd a; pwd`\npython x.py $ROOT $ROOT2\n"
    assert words(read(text), "python") == [["python", "x.py", "a", "a"]]


def test_double_brackets_and_case() -> None:
    text = (
        'if [[ "$A" == b* && -f "$C" || $D =~ ^(x|y)$ ]]; then python a.py; else python b.py; fi\n'
        'case "${M}" in\n  (x) python c.py ;;\n  "y z" | w*) python d.py ;;&\n'
        "  *) python e.py\nesac\n"
    )
    script = read(text)
    assert [w[1] for w in words(script, "python")] == ["a.py", "b.py", "c.py", "d.py", "e.py"]
    assert all(c.condition for c in script.commands)
    assert not script.unread


def test_arithmetic_inside_a_generated_configuration() -> None:
    text = (
        "B=4\ncat > ds_config.json <<EOF\n"
        '{"train_batch_size": $((B * 8)), "sub": {"x": "$(echo a)", "y": ${B}}}\nEOF\n'
    )
    (heredoc,) = read(text).heredocs
    assert json.loads(heredoc.text) == {"train_batch_size": 32, "sub": {"x": "a", "y": 4}}


@pytest.mark.parametrize(
    ("text", "broken", "left"),
    [
        ("python x.py \\\n  --a 1 \\\n  # --b 2 \\\n  --c 3\n", "# --b 2 \\", ["--a", "1"]),
        ("python x.py \\\n  --a 1 \\\n\n  --c 3\n", "\\", ["--a", "1"]),
        ("python x.py \\\n  --a 1 \\\n   \t\n  --c 3\n", "\\", ["--a", "1"]),
        ("python x.py --a 1 \\ \n  --c 3\n", "\\ ", ["--a", "1", " "]),
        ("python x.py --a 1 \\  \t\n  --c 3\n", "\\ ", ["--a", "1", " "]),
        ("python x.py --a 1\\ \n  --c 3\n", "\\ ", ["--a", "1 "]),
        ("python x.py \\\r\n  # no\r\n  --c 3\r\n", "# no", []),
    ],
)
def test_continuations_that_end_early(text: str, broken: str, left: list[str]) -> None:
    script = read(text)
    (place,) = script.broken_continuations
    assert text[place.span.start : place.span.end] == broken
    assert words(script, "python") == [["python", "x.py", *left]]


@pytest.mark.parametrize(
    "text",
    [
        "python x.py \\\n  --a 1 \\\n  --b 2\n",
        "python x.py --a 1 \\\n",
        "python x.py --a 1 \\\n\n\nls\n",
        "python x.py --a 1 \\\n# the end\n",
        "python x.py --a 1 \\\n  # --b 2\n\npython y.py\n",
        "A=(\n --a 1 \\\n # --b 2 \\\n --c 3\n)\n",
        "# python x.py \\\n#  --a 1 \\\n\n# --b\n",
        "cat > f <<EOF\npython x.py \\ \n --b\nEOF\n",
        "echo 'python x.py \\ \n --b'\n",
        'echo "a \\ \n b"\n',
        "mkdir a\\ b && ls\n",
        "python x.py \\\n\nNAME=1 python y.py\n",
    ],
)
def test_continuations_that_lose_nothing(text: str) -> None:
    assert read(text).broken_continuations == ()


def test_a_backslash_at_the_end_of_the_file() -> None:
    for end in ("\\", "\\\n", "\\\n\n", " \\\n  \n"):
        script = read(f"python x.py --a 1 {end}")
        assert words(script, "python") == [["python", "x.py", "--a", "1"]]
        assert not script.unread


def test_a_heredoc_that_starts_with_an_expansion() -> None:
    (heredoc,) = read("X=1\ncat > f <<EOF\n$X${X}\nEOF\n").heredocs
    assert heredoc.text == "11\n"


def test_here_strings_and_what_follows() -> None:
    script = read('grep a <<< "$X" y\npython x.py\n')
    assert words(script, "python") == [["python", "x.py"]]


def test_a_broken_part_does_not_hide_the_rest() -> None:
    text = "if [ 1 ]; then\n  python a.py --x 1\n\nfor\npython b.py --y 2\n"
    script = read(text)
    assert words(script, "python") == [
        ["python", "a.py", "--x", "1"],
        ["python", "b.py", "--y", "2"],
    ]
    assert script.unread


def test_an_unterminated_quote_is_reported() -> None:
    script = read('python a.py --x 1\npython b.py "open\npython c.py\n')
    assert words(script, "python")[0] == ["python", "a.py", "--x", "1"]
    assert any("never ends" in u.reason and u.line == 2 for u in script.unread)
