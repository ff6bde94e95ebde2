"""Scripts made to hang, crash or exhaust a reader. Each must end, with its limit reported."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitstop.rules.job import Word
from pitstop.rules.launch import find_launches
from pitstop.rules.shell import Script, read_script
from pitstop.rules.tree import DictTree, SourceFile


def read(text: str) -> Script:
    tree = DictTree({"run.sh": "", "a.sh": ""})
    script = read_script(SourceFile("run.sh", text), tree)
    find_launches(script)
    return script


def doubling(assignment: str, last: str) -> str:
    return "".join(assignment.format(i=i, j=i + 1) for i in range(60)) + last


HOSTILE = {
    "open parentheses": "(" * 100_000,
    "open substitutions": "$(" * 20_000,
    "open expansions": "${" * 20_000,
    "open quotes and substitutions": '"$(' * 20_000,
    "backticks": "`" * 20_000,
    "single quotes": "'" * 99_999,
    "braces": "{ " * 50_000,
    "arithmetic": "echo $((1+" + "(" * 20_000 + "))",
    "open arithmetic": "echo $((" * 2_000,
    "nested if": "if true; then " * 3_000 + "x\n" + "fi\n" * 3_000,
    "open if": "if true; then " * 20_000,
    "open case": "case x in a) " * 20_000,
    "open functions": "f() { " * 20_000,
    "nested loops": "for i in 1 2; do " * 3_000 + "x;" + "done;" * 3_000,
    "nested defaults": "echo " + "${a:-" * 5_000 + "}" * 5_000,
    "heredocs without end": "cat <<A\n" * 20_000,
    "heredoc operators": "<<" * 50_000,
    "nested substitutions": "python " + "$(echo " * 400 + "x" + ")" * 400,
    "long list": "a && " * 20_000 + "b",
    "long pipeline": "a | " * 20_000 + "b",
    "negations": "! " * 20_000 + "b",
    "one line of a million words": "x " * 1_000_000,
    "two megabytes of commands": "python a.py --x 1\n" * 110_000,
    "two megabytes of string": 'echo "' + "x" * 2_000_000,
    "huge array": "A=(" + "--a 1\n" * 300_000 + ')\npython x.py "${A[@]}"',
    "doubling strings": "A0=xx\n" + doubling("A{j}=$A{i}$A{i}\n", "python $A60"),
    "doubling arrays": "A0=(x y)\n"
    + doubling('A{j}=("${{A{i}[@]}}" "${{A{i}[@]}}")\n', 'python "${A60[@]}"'),
    "doubling functions": doubling("f{i}() {{ f{j}; f{j}; }}\n", "f60() { x; }\nf0"),
    "recursive function": "f() { f; f; }\nf",
    "eval of itself": 'X=\'eval "$X"\'\neval "$X"',
    "nested eval": "eval " * 3_000 + "ls",
    "nested shells": "bash -c " * 3_000 + "ls",
    "sourcing itself": "source run.sh\nbash run.sh\n. ./run.sh",
    "long value used often": 'X="' + "a " * 15_000 + '"\n' + "python $X\n" * 300,
    "slow patterns": "X=" + "a" * 1_900 + "\n" + "echo ${X%*a*b*c}\n" * 2_000,
    "long sequence": "python $(seq 1 1000)\n" * 500,
    "many exports": "".join(f"export A{i}=1\npython x\n" for i in range(1_500)),
    "many branches": "".join(f"if [ $a ]; then X{i}=1; fi\n" for i in range(4_000)),
    "template braces": "${{" * 20_000,
    "placeholders": "<your " * 20_000,
    "control characters": "".join(map(chr, range(1, 256))) * 400,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_it_ends(name: str) -> None:
    read(HOSTILE[name])


def test_a_limit_is_reported() -> None:
    assert any("read in part" in u.reason for u in read("python a.py\n" * 6_000).unread)
    assert any("too many words" in u.reason for u in read("python" + " x" * 20_000).unread)
    deep = "if true; then " * 100 + "x\n" + "fi\n" * 100
    assert any("nested too deeply" in u.reason for u in read(deep).unread)


def test_what_stands_before_the_limit_is_kept() -> None:
    script = read("python first.py\n" + "ls\n" * 6_000)
    assert script.commands[0].words[1].text == "first.py"


def test_a_variable_that_grows_without_end_is_unknown() -> None:
    text = "A0=" + "x" * 64 + "\n" + doubling("A{j}=$A{i}$A{i}\n", "python $A60")
    word = read(text).commands[-1].words[1]
    assert word.why_unknown == "grows too long"


_FRAGMENTS = st.sampled_from(
    [
        *"(){}[]<>|&;$#!*?~^%+-=,:@ \t\n\r\\\"'`",
        "$(", "${", "$((", "))", "<<EOF", "EOF\n", "<<-'X'", "if ", "then ", "else ", "fi\n",
        "for ", "while ", "do ", "done\n", "case ", "in ", "esac\n", "function f ", "f() ",
        "[[ ", "]] ", "[ ", "] ", "source ", "bash ", "-c ", "run.sh", "eval ", "export ",
        "declare -A ", "unset ", "A=", "A+=(", "$A", "${A[@]}", "${A:-", "$1", '"$@"', "&&",
        "||", ";;", "python ", "torchrun ", "--nproc_per_node ", "8 ", "srun ", "-N ", "值",
        "\u00a0", "\udcff", "\ufeff", "#SBATCH -N 2\n", "shift", "set -- ", "cd ", "${{", "}}",
        "<path to x>", "\\\n", "\\ \n", "# note: because\n",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(_FRAGMENTS, max_size=60))
def test_any_text_is_read_and_exact_words_are_where_they_say(pieces: list[str]) -> None:
    text = "".join(pieces)
    tree = DictTree({"run.sh": text.encode("utf-8", "surrogateescape")})
    file = SourceFile("run.sh", text)
    script = read_script(file, tree)
    find_launches(script)
    for command in script.commands:
        for word in (*command.words, *command.outer, *command.env.values()):
            check(word, file)


def check(word: Word, file: SourceFile) -> None:
    span = word.location.span
    assert 0 <= span.start <= span.end <= len(file.text)
    if word.exact and not (file.text.startswith("\ufeff") and span.start == 0):
        assert file.text[span.start : span.end] == word.text
    for piece in word.pieces:
        check(piece, file)
