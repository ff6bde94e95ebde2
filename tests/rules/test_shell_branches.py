"""Conditions, loops and functions: every way is read, and what differs is said."""

from __future__ import annotations

import pytest

from pitstop.rules.job import Word
from pitstop.rules.shell import Command, Script, read_script
from pitstop.rules.tree import DictTree


def read(text: str) -> Script:
    tree = DictTree({"run.sh": text})
    return read_script(tree.read("run.sh"), tree)


def python(text: str) -> Command:
    """The one python command of a script."""
    found = [c for c in read(text).commands if c.words and c.words[0].text == "python"]
    assert len(found) == 1, found
    return found[0]


def shown(words: tuple[Word, ...]) -> list[str]:
    """Words with `?` before unknown ones and their condition behind."""
    return [
        ("" if w.known else "?") + w.text + (f" if {w.condition}" if w.condition else "")
        for w in words
    ]


class TestCommands:
    def test_both_branches_with_their_condition(self) -> None:
        text = 'if [ "$MODE" = async ]; then\n python a.py\nelse\n python b.py\nfi\n'
        assert [(c.words[1].text, c.condition) for c in read(text).commands] == [
            ("a.py", '[ "$MODE" = async ]'),
            ("b.py", '! ([ "$MODE" = async ])'),
        ]

    def test_elif_and_nesting(self) -> None:
        text = (
            "if [[ $A == 1 ]]; then python a.py\nelif [[ $A == 2 ]]; then\n"
            "  if [ -f x ]; then python b.py; fi\nelse python c.py; fi\n"
        )
        assert [c.condition for c in read(text).commands] == [
            "[[ $A == 1 ]]",
            "[[ $A == 2 ]] && [ -f x ]",
            "! ([[ $A == 1 ]] || [[ $A == 2 ]])",
        ]

    def test_case_arms(self) -> None:
        text = 'case "$P" in\n a|b) python a.py ;;\n *) python c.py ;;\nesac\n'
        assert [c.condition for c in read(text).commands] == ['"$P" is a|b', '"$P" is *']

    def test_short_circuits(self) -> None:
        text = '[ -n "$X" ] && python a.py || python b.py\ncd x && python c.py\n'
        conditions = [c.condition for c in read(text).commands if c.words[0].text == "python"]
        assert conditions == ['[ -n "$X" ]', '! ([ -n "$X" ])', None]


class TestVariables:
    def test_a_value_that_differs_is_unknown_and_says_why(self) -> None:
        text = 'if [ "$X" = 1 ]; then B=1; else B=2; fi\npython x.py --b $B\n'
        word = python(text).words[3]
        assert not word.known
        assert "'1' or '2'" in (word.why_unknown or "")

    def test_the_same_value_on_both_ways_is_known_but_has_two_places(self) -> None:
        text = 'if [ "$X" = 1 ]; then B=4; else B=4; fi\npython x.py --b $B\n'
        word = python(text).words[3]
        assert (word.text, word.known, word.exact) == ("4", True, False)

    def test_flags_keep_their_condition(self) -> None:
        text = 'OPTS="--a 1"\nif [ "$F" ]; then OPTS="$OPTS --flash"; fi\npython x.py $OPTS\n'
        assert shown(python(text).words[2:]) == ["--a", "1", '--flash if [ "$F" ]']

    def test_array_elements_keep_their_condition(self) -> None:
        text = 'A=(--a 1)\nif [ "$F" ]; then A+=(--b); else A+=(--c); fi\npython x.py "${A[@]}"\n'
        assert shown(python(text).words[2:]) == [
            "--a",
            "1",
            '--b if [ "$F" ]',
            '--c if ! ([ "$F" ])',
        ]

    def test_an_array_written_anew_in_a_branch(self) -> None:
        text = 'A=(--a)\nif [ "$F" ]; then A=(--b); fi\npython x.py "${A[@]}"\n'
        assert shown(python(text).words[2:]) == ['--b if [ "$F" ]', '--a if ! ([ "$F" ])']

    def test_an_export_of_one_branch(self) -> None:
        env = python("if [ $D ]; then export NCCL_DEBUG=INFO; fi\npython x.py\n").env
        assert (env["NCCL_DEBUG"].text, env["NCCL_DEBUG"].condition) == ("INFO", "[ $D ]")

    @pytest.mark.parametrize(
        "idiom",
        [
            'Z=$1\nif [ -z "$Z" ]; then Z=3; fi',
            'Z=$1\nif [ "$Z" == "" ]; then\n  Z=3\nfi',
            'if [[ -z "${Z:-}" ]]; then Z=3; fi',
            'Z=$1\n[ -z "$Z" ] && Z=3',
            '[ -n "$Z" ] || Z=3',
            'if [ -n "$Z" ]; then echo given; else Z=3; fi',
            ": ${Z:=3}",
            'Z="${1:-3}"',
        ],
    )
    def test_ways_to_write_a_default(self, idiom: str) -> None:
        word = python(f"{idiom}\npython x.py --z $Z\n").words[3]
        assert (word.text, word.known, word.exact) == ("3", True, True)

    def test_a_default_does_not_replace_what_is_set(self) -> None:
        text = 'Z=2\nif [ -z "$Z" ]; then Z=3; fi\npython x.py --z $Z\n'
        assert shown(python(text).words[3:]) == ["2"]

    def test_a_branch_that_leaves_does_not_count(self) -> None:
        text = (
            "if [ \"$M\" = a ]; then B=4\nelse\n  echo 'usage: ...'; exit 1\nfi\npython x.py $B\n"
        )
        assert shown(python(text).words[2:]) == ["4"]


class TestDecided:
    def test_a_switch_in_the_script_decides(self) -> None:
        text = "D=0\nif [[ $D -eq 1 ]]; then B=1; else B=8; fi\npython x.py --b $B\n"
        assert shown(python(text).words[3:]) == ["8"]

    def test_the_other_branch_is_still_read(self) -> None:
        text = "D=0\nif [ $D = 1 ]; then python a.py; else python b.py; fi\n"
        assert [c.words[1].text for c in read(text).commands] == ["a.py", "b.py"]

    def test_a_switch_that_can_be_given_from_outside_does_not(self) -> None:
        text = "D=${D:-0}\nif [ $D = 1 ]; then B=1; else B=8; fi\npython x.py --b $B\n"
        assert not python(text).words[3].known

    def test_case_on_a_known_value(self) -> None:
        text = "M=b\ncase $M in a) B=1 ;; b) B=2 ;; *) B=3 ;; esac\npython x.py $B\n"
        assert shown(python(text).words[2:]) == ["2"]

    def test_combinations(self) -> None:
        text = 'A=1\nif [ $A = 1 ] && ! [ "$A" = "" ]; then B=1; else B=2; fi\npython x.py $B\n'
        assert shown(python(text).words[2:]) == ["1"]


class TestLoops:
    def test_a_variable_that_takes_several_values(self) -> None:
        text = "for lr in 1e-4 1e-5; do python x.py --lr $lr; done\n"
        word = python(text).words[3]
        assert not word.known
        assert "2 values" in (word.why_unknown or "")

    def test_a_loop_over_one_value(self) -> None:
        assert shown(python("for i in 7; do python x.py $i; done\n").words[2:]) == ["7"]

    def test_a_counter_is_unknown_inside_and_after(self) -> None:
        text = "i=0\nwhile true; do python x.py $i; i=$((i + 1)); done\n"
        assert not python(text).words[2].known

    def test_an_array_filled_in_a_loop_has_an_unknown_tail(self) -> None:
        text = 'A=(--a)\nfor x in 1 2; do A+=(--b); done\npython x.py "${A[@]}"\n'
        found = python(text).words[2:]
        assert found[0].known and found[0].condition is None
        assert any(not w.known for w in found[1:])

    def test_options_read_in_a_loop_keep_their_defaults(self) -> None:
        text = (
            "GPUS=8\nwhile [[ $# -gt 0 ]]; do\n  case $1 in\n"
            '    --gpus) GPUS="$2"; shift 2 ;;\n    *) shift ;;\n  esac\ndone\n'
            "python x.py --gpus $GPUS\n"
        )
        assert shown(python(text).words[3:]) == ["8"]


class TestFunctions:
    def test_a_call_gives_the_arguments(self) -> None:
        text = 'train() { python x.py --lr $1 "${@:2}"; }\nLR=3\ntrain 1e-4\n'
        assert shown(python(text).words[2:4]) == ["--lr", "1e-4"]

    def test_two_calls_that_differ(self) -> None:
        text = "train() { python x.py --a 1 --lr $1; }\ntrain 1e-4\ntrain 1e-5\n"
        assert shown(python(text).words[2:]) == ["--a", "1", "--lr", "?1e-4"]

    def test_a_function_that_nothing_calls(self) -> None:
        text = "train() {\n  python x.py --lr $1\n}\n"
        assert shown(python(text).words[2:]) == ["--lr", "?$1"]

    def test_a_function_sets_variables_for_the_rest(self) -> None:
        assert shown(python("f() { B=4; }\nf\npython x.py $B\n").words[2:]) == ["4"]

    def test_a_function_uses_what_is_set_when_it_is_called(self) -> None:
        text = "B=1\nfunction f { python x.py $B; }\nB=2\nf\n"
        assert shown(python(text).words[2:]) == ["2"]
