"""The same snippets given to bash: what our reader says is known must be what bash passes."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitstop.rules.shell import read_script
from pitstop.rules.tree import DictTree

_BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(_BASH is None, reason="bash is not installed")

_SHOW = "show() { [ $# = 0 ] || printf '%s\\0' \"$@\"; printf '\\1'; }\n"


def by_bash(snippet: str) -> list[list[str]]:
    """The arguments of each `show` that bash runs."""
    run = subprocess.run(
        [_BASH or "bash", "--norc", "-c", _SHOW + snippet, "run.sh"],
        capture_output=True,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
        timeout=20,
        check=False,
    )
    calls = run.stdout.decode("utf-8", "surrogateescape").split("\1")[:-1]
    return [call.split("\0")[:-1] for call in calls]


def by_us(snippet: str) -> list[list[str | None]]:
    """The same from the text alone; None for a word that is not known."""
    tree = DictTree({"run.sh": snippet})
    script = read_script(tree.read("run.sh"), tree)
    return [
        [w.text if w.known and w.condition is None else None for w in c.words[1:]]
        for c in script.commands
        if c.words and c.words[0].text == "show"
    ]


SNIPPETS = [
    'show a \'b c\' "d e" f\\ g "h\\"i" \'j\\k\' "l\\m" n\\\no',
    'A="x  y"; show $A "$A" a$A b"$A"c $A$A',
    'A=" x "; EMPTY=; show a$A"b" $A "" \'\' $EMPTY "$EMPTY"',
    'A=(1 "2 3" 4); show "${A[@]}" ${A[@]} "${A[*]}" $A "x${A[@]}y" ${A[1]} ${#A[@]}',
    'A=(); show "${A[@]}" x "a${A[@]}b"',
    'A=(1); A+=(2 3); B=x; B+=y; show "${A[@]}" $B',
    'show ${X:-d e} "${X:-d e}" ${X-"f g"} ${X:+n} ${X:="h"}; show $X ${X:+set} ${X:-no}',
    'X=; show ${X:-a} ${X-b} "${X:+c}" ${X+d}',
    'X=1; Y="${X:-${Z:-2}}"; show $Y ${Z:-${Q:-deep $X}} "${Z:-"in"}"',
    "show $((2 * (3 + 4))) $((7 / 2)) $((-7 / 2)) $((-7 % 3)) $((2 ** 10)) $((1 << 4))",
    "N=4; show $((N * 2)) $(($N + 1)) $((0x10)) $((010)) $(( N*N - -1 ))",
    "F=/a/b.tar.gz; show ${F##*/} ${F%%.*} ${F%.*} ${F#*/} ${F/a/c} ${F//[/]/x} ${F:1:3}",
    "F=AbC; show ${F,,} ${F^^} ${#F}",
    'show $(echo a b) "$(echo a b)" $(seq 3) `echo z` $(basename /a/b.sh .sh) $(dirname /a/b)',
    "X=$(cat <<EOF\nl1 $((1+1))\nl2 'q' \\$X \\\\ \\`\nEOF\n); show \"$X\"",
    'set -- a "b c"; show "$@" $# "$1" ${2:-z} ${3:-z}; shift; show "$@"',
    'f() { show "$@" "$1"; }; f 1 "2 3"',
    "for i in 5; do show $i; done; show $i",
    'D=0; if [ "$D" -eq 1 ]; then X=a; else X=b; fi; show $X',
    "D=q; case $D in a|b) X=1;; q) X=2;; esac; show $X",
    'O="--a 1"; if [ -n "$O" ]; then O="$O --b"; fi; show $O',
    "show $'a\\tb\\'c' $\"d\" a$'b'c",
    "A=1 B=2; show $A$B; export C=3 D='4 5'; show $C \"$D\"",
    "show a#b '#c' # comment\nshow d",
    "show x{y}z {} a=b =c {a",
    "eval 'A=1; show $A'; eval show \"'p q'\" r",
    'A=; show a 2> /dev/null b 2>&1; show c <<< "$A" d',
    "X='$Y'; Y=1; show $X \"$X\"",
    'X="a\\$b\\\\c"; show "$X" "\\a"',
    "unset A; A=1; unset A; show ${A:-gone}",
    "show ~+x '~' \"~\" \\*",
    'A="1 2"; B=($A "$A"); show "${#B[@]}" "${B[@]}"',
    'A=(a b); A=("${A[@]}" c); A=(z "${A[@]}"); show "${A[@]}"',
    "show 中文 \"值 $((1))\" '、'",
    "if true; then show yes; fi; [ a = b ] || show or; [ a = a ] && show and",
    'A=1\nshow "$A\\\n$A" \\\n  $A',
    "show 1 2>/dev/null 3 4>/dev/null; show 5>/dev/null 6",
    'show "${A:-$(echo x y)}" ${A:-`echo z`}',
    "local_() { local A=2; show $A; }; local_",
    'declare -a A=(1 2); typeset B=3; readonly C=4; show "${A[@]}" $B $C',
    'printf -v X "%s" 1; X=2; show $X',
    "show $(expr 32 / 4 / 2) $(echo -n a)",
    'show a"b"\'c\'"$((1))"d"e f"',
    "show \"a\nb\" 'c\nd'",
    "{ show 1; show 2; }; (show 3)",
]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_known_words_are_what_bash_passes(snippet: str) -> None:
    theirs, ours = by_bash(snippet), by_us(snippet)
    assert [len(call) for call in ours] == [len(call) for call in theirs]
    for mine, real in zip(ours, theirs, strict=True):
        assert [m if m is None else r for m, r in zip(mine, real, strict=True)] == mine


@pytest.mark.parametrize("snippet", [s for s in SNIPPETS if "//[/]" not in s])
def test_nothing_here_is_unknown(snippet: str) -> None:
    assert [w for call in by_us(snippet) for w in call if w is None] == []


_PIECES = st.sampled_from(
    [
        "a", "--lr", "1", "b=c", " ", "  ", "\n", ";", "'x y'", '"p q"', '"', "'", "x\\ ", "\\\n",
        "$A", "${A}", '"$A"', "${A:-d e}", '"${A:-f}"', "${U:-g}", "${U:+h}", "${B[@]}",
        '"${B[@]}"', '"${B[*]}"', "$((1 + 2))", "$((A * 2))", "$(echo k l)", " # c", "show", "A=2",
        "A=' m n '", "B=(1 '2 3') ", "B+=(4) ", "A+=5", "\ntrue && ", "值",
    ]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(_PIECES, max_size=14))
def test_any_mixture_agrees_with_bash(pieces: list[str]) -> None:
    """Whenever bash accepts the text, every word that we claim to know is right."""
    snippet = "A=1; B=(x); show start " + "".join(pieces) + '\nshow end $A "${B[@]}"\n'
    check = subprocess.run(
        [_BASH or "bash", "-n", "-c", snippet], capture_output=True, timeout=20, check=False
    )
    if check.returncode:
        by_us(snippet)  # must not fail either
        return
    theirs, ours = by_bash(snippet), by_us(snippet)
    if len(theirs) != len(ours):
        return  # a command failed before `&&`, or a branch that only runs sometimes
    for mine, real in zip(ours, theirs, strict=True):
        if None in mine:
            continue
        assert mine == real, snippet
