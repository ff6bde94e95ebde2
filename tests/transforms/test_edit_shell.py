# ruff: noqa: E501 (a case is one line)
"""Flags and variables of commands in scripts: exact text, then properties on generated scripts,
judged by bash itself."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pitstop.rules.job import LaunchCommand
from pitstop.rules.launch import find_launches
from pitstop.rules.shell import read_script
from pitstop.rules.tree import DictTree
from pitstop.transforms.edit_env import remove_env, set_env
from pitstop.transforms.edit_shell import Target, remove_flag, set_flag
from pitstop.transforms.patch import Changed, Outcome, Refused, Unchanged, apply_patches
from pitstop.transforms.shell_proof import Commands

Edit = Callable[[Commands, LaunchCommand], Outcome]


def on(text: str, edit: Edit, *, which: int = 0, **others: str) -> tuple[DictTree, Outcome]:
    """An edit of the launch with this number in run.sh."""
    tree = DictTree({"run.sh": text, **others})
    launch = find_launches(read_script(tree.read("run.sh"), tree))[which]
    return tree, edit(Commands(tree, ("run.sh",)), launch)


def after(text: str, edit: Edit, *, which: int = 0, **others: str) -> str:
    tree, outcome = on(text, edit, which=which, **others)
    assert isinstance(outcome, Changed), outcome
    texts, dropped = apply_patches(tree, [outcome.patch])
    assert not dropped
    assert len(texts) == 1
    (changed,) = texts.values()
    return changed


def target(commands: Commands, launch: LaunchCommand) -> Target:
    return Target(commands, launch.location, launch.args, launch.entry_location)


def flag(name: str, value: str | None) -> Edit:
    return lambda c, launch: set_flag(target(c, launch), name, value)


def no_flag(name: str, *, bare: bool = False) -> Edit:
    return lambda c, launch: remove_flag(target(c, launch), name, bare=bare)


def variable(name: str, value: str) -> Edit:
    return lambda c, launch: set_env(c, launch.location, launch.env.get(name), name, value)


def no_variable(name: str) -> Edit:
    return lambda c, launch: remove_env(c, launch.location, launch.env.get(name), name)


SET = {
    "two words": ("python t.py --lr 1 --x 2\n", "python t.py --lr 9 --x 2\n"),
    "one word": ("python t.py --lr=1\n", "python t.py --lr=9\n"),
    "quoted": ('python t.py --lr "1"\n', 'python t.py --lr "9"\n'),
    "dashes for underscores": ("python t.py --l-r 1\n", "python t.py --l-r 9\n"),
    "the last of several decides": ("python t.py --lr 1 --lr 2\n", "python t.py --lr 1 --lr 9\n"),
    "array": ('A=(--lr 1 # one\n)\npython t.py "${A[@]}"\n', 'A=(--lr 9 # one\n)\npython t.py "${A[@]}"\n'),
    "string": ('A="--lr 1 --x 2"\npython t.py $A\n', 'A="--lr 9 --x 2"\npython t.py $A\n'),
    "appended string": ('A="--x 2"\nA+=" --lr 1"\npython t.py $A\n', 'A="--x 2"\nA+=" --lr 9"\npython t.py $A\n'),
    "default of a variable": ("python t.py --lr ${LR:-1}\n", "python t.py --lr ${LR:-9}\n"),
    "default of an argument": ("LR=${1:-1}\npython t.py --lr $LR\n", "LR=${1:-9}\npython t.py --lr $LR\n"),
    "variable used only here": ("LR=1\npython t.py --lr $LR\n", "LR=9\npython t.py --lr $LR\n"),
    "variable that is printed too": ("LR=1\necho lr $LR\npython t.py --lr $LR\n", "LR=9\necho lr $LR\npython t.py --lr $LR\n"),
    "variable used elsewhere": ("LR=1\npython t.py --lr $LR --out o_$LR\n", "LR=1\npython t.py --lr 9 --out o_$LR\n"),
    "exported variable": ("export LR=1\npython t.py --lr $LR\n", "export LR=1\npython t.py --lr 9\n"),
    "inside a condition": ("if [[ $A ]]; then\n  python t.py --lr 1\nfi\n", "if [[ $A ]]; then\n  python t.py --lr 9\nfi\n"),
    "inside a function": ("f() {\n  python t.py --lr 1\n}\nf\n", "f() {\n  python t.py --lr 9\n}\nf\n"),
    "windows line ends": ("python t.py \\\r\n  --lr 1 \\\r\n  --x 2\r\n", "python t.py \\\r\n  --lr 9 \\\r\n  --x 2\r\n"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "want"), SET.values(), ids=SET)
def test_set_existing(text: str, want: str) -> None:
    name = "--l_r" if "l-r" in text else "--lr"
    assert after(text, flag(name, "9")) == want
    assert isinstance(on(want, flag(name, "9"))[1], Unchanged)


def test_value_that_needs_quotes() -> None:
    assert after("python t.py --x 1\n", flag("--x", "a b")) == "python t.py --x 'a b'\n"
    assert after('python t.py --x "1"\n', flag("--x", 'a "b')) == 'python t.py --x "a \\"b"\n'


def test_value_in_a_sourced_file() -> None:
    text = "source env.sh\npython t.py --lr $LR\n"
    assert after(text, flag("--lr", "9"), **{"env.sh": "LR=1\n"}) == "LR=9\n"


INSERT = {
    "one line": ("python t.py --x 2\n", "python t.py --x 2 --n 9\n"),
    "no flags yet": ("python t.py\n", "python t.py --n 9\n"),
    "before a pipe": ("python t.py --x 2 2>&1 | tee log\n", "python t.py --x 2 --n 9 2>&1 | tee log\n"),
    "list of values": ("python t.py --x 1 2 3\n", "python t.py --x 1 2 3 --n 9\n"),
    "continued lines, last": ("python t.py \\\n    --x 2 \\\n    --y 3\n", "python t.py \\\n    --x 2 \\\n    --y 3 \\\n    --n 9\n"),
    "continued lines, more behind": (
        "python t.py \\\n    --x 2  \\\n    2>&1 | tee log\n", "python t.py \\\n    --x 2  \\\n    --n 9  \\\n    2>&1 | tee log\n"),
    "last value from a variable": (
        "python t.py \\\n    --x 2 \\\n    --o $O\n", "python t.py \\\n    --x 2 \\\n    --n 9 \\\n    --o $O\n"),
    "tabs and windows line ends": ("python t.py \\\r\n\t--x 2\r\n", "python t.py \\\r\n\t--x 2 \\\r\n\t--n 9\r\n"),
    "array on one line": ('A=(--x 2)\npython t.py "${A[@]}"\n', 'A=(--x 2 --n 9)\npython t.py "${A[@]}"\n'),
    "array over lines": ('A=(\n  --x 2 # two\n)\npython t.py "${A[@]}"\n', 'A=(\n  --x 2 # two\n  --n 9\n)\npython t.py "${A[@]}"\n'),
    "string": ('A="--x 2"\npython t.py $A\n', 'A="--x 2 --n 9"\npython t.py $A\n'),
    "string over lines": ('A="\n  --x 2\n"\npython t.py $A\n', 'A="\n  --x 2\n  --n 9\n"\npython t.py $A\n'),
    "string over continued lines": ('A="\n  --x 2 \\\n"\npython t.py $A\n', 'A="\n  --x 2 \\\n  --n 9 \\\n"\npython t.py $A\n'),
    "not into a branch": (
        'A=(--x 2)\nif [ $B ]; then A+=(--y 3); fi\npython t.py "${A[@]}"\n',
        'A=(--x 2 --n 9)\nif [ $B ]; then A+=(--y 3); fi\npython t.py "${A[@]}"\n'),
}  # fmt: skip


@pytest.mark.parametrize(("text", "want"), INSERT.values(), ids=INSERT)
def test_insert(text: str, want: str) -> None:
    assert after(text, flag("--n", "9")) == want
    assert isinstance(on(want, flag("--n", "9"))[1], Unchanged)


def test_insert_bare_flag() -> None:
    assert (
        after("python t.py \\\n  --x 2\n", flag("--n", None))
        == "python t.py \\\n  --x 2 \\\n  --n\n"
    )


def test_insert_beside_a_flag() -> None:
    def edit(commands: Commands, launch: LaunchCommand) -> Outcome:
        beside = launch.args[0].location
        return set_flag(target(commands, launch), "--n", "9", beside=beside)

    text = "python t.py \\\n  --x 2 \\\n  --y 3\n"
    assert after(text, edit) == "python t.py \\\n  --x 2 \\\n  --n 9 \\\n  --y 3\n"
    assert after("python t.py --x 2 --y 3\n", edit) == "python t.py --x 2 --y 3 --n 9\n"


def test_launcher_flag_goes_before_the_program() -> None:
    def edit(commands: Commands, launch: LaunchCommand) -> Outcome:
        place = Target(commands, launch.location, launch.launcher_args)
        return set_flag(place, "--nnodes", "1")

    text = "torchrun --nproc_per_node 8 t.py --x 2\n"
    assert after(text, edit) == "torchrun --nproc_per_node 8 --nnodes 1 t.py --x 2\n"


REMOVE = {
    "one line": ("python t.py --n 9 --x 2\n", "python t.py --x 2\n"),
    "last of a line": ("python t.py --x 2 --n=9\n", "python t.py --x 2\n"),
    "every occurrence": ("python t.py --n 1 --x 2 --n 9\n", "python t.py --x 2\n"),
    "continued line": ("python t.py \\\n  --n 9 \\\n  --x 2\n", "python t.py \\\n  --x 2\n"),
    "last continued line": ("python t.py \\\n  --x 2 \\\n  --n 9\n", "python t.py \\\n  --x 2\n"),
    "last continued line with a comment": ("python t.py \\\n  --n 9  # nine\n", "python t.py  # nine\n"),
    "value from a variable": ("python t.py --n ${N} --x 2\n", "python t.py --x 2\n"),
    "line of an array": ('A=(\n  --n 9 # nine\n  --x 2\n)\npython t.py "${A[@]}"\n', 'A=(\n  --x 2\n)\npython t.py "${A[@]}"\n'),
    "line of an array with its end": ('A=(\n  --x 2\n  --n 9)\npython t.py "${A[@]}"\n', 'A=(\n  --x 2)\npython t.py "${A[@]}"\n'),
}  # fmt: skip


@pytest.mark.parametrize(("text", "want"), REMOVE.values(), ids=REMOVE)
def test_remove(text: str, want: str) -> None:
    assert after(text, no_flag("--n")) == want
    assert isinstance(on(want, no_flag("--n"))[1], Unchanged)


def test_remove_bare_flag_before_a_positional() -> None:
    assert after("python t.py --n data\n", no_flag("--n", bare=True)) == "python t.py data\n"


REFUSED = {
    "argument of the script": ("python t.py --n $1\n", flag("--n", "9")),
    "put together": ("A=1\npython t.py --n x$A\n", flag("--n", "9")),
    "computed": ("python t.py --n $(nproc)\n", flag("--n", "9")),
    "variable that is not set here": ("python t.py --n $N\n", flag("--n", "9")),
    "environment from a variable": ("export N=$M\npython t.py\n", variable("N", "9")),
}


@pytest.mark.parametrize(("text", "edit"), REFUSED.values(), ids=REFUSED)
def test_refused(text: str, edit: Edit) -> None:
    assert isinstance(on(text, edit)[1], Refused)


VARIABLE = {
    "prefix": ("N=1 python t.py\n", "N=9 python t.py\n"),
    "export": ("export N=1 # one\npython t.py\n", "export N=9 # one\npython t.py\n"),
    "quoted": ('export N="1"\npython t.py\n', 'export N="9"\npython t.py\n'),
    "assigned, then exported": ("N=1\nexport N\npython t.py\n", "N=9\nexport N\npython t.py\n"),
    "new, behind the last export": ("export A=1\nset -e\npython t.py\n", "export A=1\nexport N=9\nset -e\npython t.py\n"),
    "new, above the command": ("if true; then\n  python t.py\nfi\n", "if true; then\n  export N=9\n  python t.py\nfi\n"),
    "new, as a prefix": ("cd x && python t.py\n", "cd x && N=9 python t.py\n"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "want"), VARIABLE.values(), ids=VARIABLE)
def test_set_variable(text: str, want: str) -> None:
    assert after(text, variable("N", "9")) == want
    assert isinstance(on(want, variable("N", "9"))[1], Unchanged)


NO_VARIABLE = {
    "prefix": ("N=9 A=1 python t.py\n", "A=1 python t.py\n"),
    "line": ("export N=9 # nine\npython t.py\n", "python t.py\n"),
    "one of a line": ("export A=1 N='9 9'\npython t.py\n", "export A=1\npython t.py\n"),
}


@pytest.mark.parametrize(("text", "want"), NO_VARIABLE.values(), ids=NO_VARIABLE)
def test_remove_variable(text: str, want: str) -> None:
    assert after(text, no_variable("N")) == want
    assert isinstance(on(want, no_variable("N"))[1], Unchanged)


# --- generated scripts -----------------------------------------------------------------------

names = st.sampled_from(["lr", "bf16", "max_steps", "out", "stage"])
plain = st.sampled_from(["1", "2e-5", "True", "a/b", "x.json"])


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A launch as people write it: inline, continued, from an array, from a string."""
    given_flags = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    head: list[str] = []
    words: list[str] = []
    for name in given_flags:
        value = draw(plain)
        kind = draw(st.integers(0, 6))
        if kind == 1:
            head.append(f"{name.upper()}={value}")
            value = f"${{{name.upper()}}}"
        elif kind == 2:
            value = f"${{{name.upper()}:-{value}}}"
        elif kind == 3:
            value = f'"{value}"'
        joint = "=" if draw(st.booleans()) and kind != 3 else " "
        words.append(f"--{name}{joint}{value}")
    layout = draw(st.integers(0, 5))
    tail = draw(st.sampled_from(["", "", " 2>&1 | cat", " # done", " || exit 1"]))
    if layout == 0:
        run = f"torchrun t.py {' '.join(words)}{tail}"
    elif layout == 1:
        run = "torchrun t.py \\\n    " + " \\\n    ".join(words) + tail
    elif layout == 2:
        comment = draw(st.sampled_from(["", " # note --lr 5"]))
        head.append("ARGS=(\n" + "".join(f"  {w}{comment}\n" for w in words) + ")")
        run = f'torchrun t.py "${{ARGS[@]}}"{tail}'
    elif layout == 3:
        head.append(f"ARGS=({' '.join(words)})")
        run = f'torchrun t.py "${{ARGS[@]}}"{tail}'
    elif layout == 4:
        run = "torchrun \\\n  t.py " + " \\\n  ".join(words) + " \\\n " + (tail or " --last 1")
    else:
        half = len(words) // 2
        head.append(f'ARGS="{" ".join(w.replace(chr(34), "") for w in words[:half])}"')
        run = f"torchrun t.py $ARGS {' '.join(words[half:])}{tail}"
    wrap = draw(
        st.sampled_from(["{}", "if true; then\n  {}\nfi", "f() {{\n  {}\n}}\nf", "export A=1\n{}"])
    )
    return "#!/bin/bash\nset -e\n" + "".join(f"{h}\n" for h in head) + wrap.format(run) + "\n"


def shown(text: str) -> list[list[str]]:
    """What bash passes to torchrun, one list a start, the variable N first."""
    stub = 'torchrun() { printf "%s\\0" "${N-}" "$@"; printf "\\1"; }\n'
    done = subprocess.run(["bash", "-c", stub + text], capture_output=True, check=True, env={})
    return [part.split("\0")[:-1] for part in done.stdout.decode().split("\1")[:-1]]


def flags(words: list[str]) -> dict[str, str]:
    """What argparse would make of the words: the last of a name wins."""
    found: dict[str, str] = {}
    for index, word in enumerate(words):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            found[name] = value if equals else words[index + 1]
    return found


quick = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


@quick
@given(programs(), st.data(), st.sampled_from(["7", "False", "q/w", "a b"]))
def test_only_the_intended_flag_differs(text: str, data: st.DataObject, value: str) -> None:
    (before,) = shown(text)
    name = data.draw(st.sampled_from(sorted(flags(before))))
    outcome = on(text, flag(name, value))[1]
    if isinstance(outcome, Refused):
        assert " " in value, outcome  # a string that is split cannot hold a blank
        return
    changed = after(text, flag(name, value))
    (now,) = shown(changed)
    assert flags(now) == {**flags(before), name: value}
    assert len(now) == len(before)
    assert isinstance(on(changed, flag(name, value))[1], Unchanged)


@quick
@given(programs(), st.sampled_from(["7", "q/w"]))
def test_insert_and_remove_restores_the_script(text: str, value: str) -> None:
    (before,) = shown(text)
    changed = after(text, flag("--new", value))
    (now,) = shown(changed)
    assert flags(now) == {**flags(before), "--new": value}
    assert len(now) == len(before) + 2 - any("=" in w and "new" in w for w in now)
    assert isinstance(on(changed, flag("--new", value))[1], Unchanged)
    assert after(changed, no_flag("--new")) == text


@quick
@given(programs(), st.data())
def test_order_of_edits_does_not_matter(text: str, data: st.DataObject) -> None:
    found = sorted(flags(shown(text)[0]))
    assume(len(found) > 1)
    first, second = data.draw(st.lists(st.sampled_from(found), min_size=2, max_size=2, unique=True))
    one = after(after(text, flag(first, "7")), flag(second, "8"))
    two = after(after(text, flag(second, "8")), flag(first, "7"))
    assert one == two


@quick
@given(programs())
def test_variable_set_and_removed_restores_the_script(text: str) -> None:
    (before,) = shown(text)
    changed = after(text, variable("N", "9"))
    (now,) = shown(changed)
    assert now == ["9", *before[1:]]
    assert isinstance(on(changed, variable("N", "9"))[1], Unchanged)
    assert after(changed, no_variable("N")) == text
