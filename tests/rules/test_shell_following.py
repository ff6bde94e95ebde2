"""Scripts that read or start other scripts, and text that is handed to another shell."""

from __future__ import annotations

from pitstop.rules.job import Word
from pitstop.rules.shell import Script, read_script
from pitstop.rules.tree import DictTree


def read(files: dict[str, str], path: str = "run.sh") -> Script:
    tree = DictTree(files)
    return read_script(tree.read(path), tree)


def shown(words: tuple[Word, ...]) -> str:
    return " ".join(("" if w.known else "?") + w.text for w in words)


def launched(script: Script) -> list[str]:
    """Commands that are no shell plumbing."""
    return [shown(c.words) for c in script.commands if c.words[0].text in ("python", "torchrun")]


class TestSource:
    def test_variables_come_and_go(self) -> None:
        files = {
            "run.sh": "NAME=x\nsource scripts/common.sh\n. ./scripts/args.sh\npython $OUT $ARGS\n",
            "scripts/common.sh": "OUT=$NAME.py\n",
            "scripts/args.sh": 'ARGS="--lr 1"\n',
        }
        script = read(files)
        assert launched(script) == ["python x.py --lr 1"]
        assert script.followed == ("scripts/args.sh", "scripts/common.sh")
        place = script.commands[0].words[2].location
        assert (place.path, place.line, place.column) == ("scripts/args.sh", 1, 7)

    def test_relative_to_the_script_and_by_its_idioms(self) -> None:
        files = {
            "a/b/run.sh": 'D=$(dirname "$0")\nsource $D/../env.sh\nsource env2.sh\npython $E $F\n',
            "a/env.sh": "E=e.py\n",
            "a/b/env2.sh": "F=1\n",
        }
        assert launched(read(files, "a/b/run.sh")) == ["python e.py 1"]

    def test_an_unknown_folder_before_a_unique_name(self) -> None:
        files = {"run.sh": 'source "${CONF_DIR}/models/m.sh"\npython $M\n', "x/models/m.sh": "M=1"}
        assert launched(read(files)) == ["python 1"]

    def test_what_is_not_there_is_reported_with_its_line(self) -> None:
        script = read({"run.sh": "ls\nsource conf/missing.sh\nsource ~/.bashrc\npython a.py\n"})
        (unread,) = script.unread
        assert (unread.path, unread.line) == ("run.sh", 2)
        assert "conf/missing.sh" in unread.reason

    def test_a_function_of_a_sourced_file(self) -> None:
        files = {"run.sh": ". lib.sh\ngo 4\n", "lib.sh": "go() { python x.py $1; }\n"}
        assert launched(read(files)) == ["python x.py 4"]


class TestChildScripts:
    def test_arguments_and_environment_are_handed_down(self) -> None:
        files = {
            "run.sh": "export A=1\nB=2\nC=3 bash sub/train.sh --lr 1e-4\n",
            "sub/train.sh": 'python x.py $A ${B:-none} $C "$2" "$@"\n',
        }
        script = read(files)
        assert launched(script) == ["python x.py 1 none 3 1e-4 --lr 1e-4"]
        assert script.commands[-1].path == "sub/train.sh"
        value = script.commands[-1].words[5]
        assert (value.location.path, value.location.line) == ("run.sh", 3)

    def test_ways_to_start_a_script(self) -> None:
        child = {"t.sh": "python x.py\n"}
        for command in (
            "bash t.sh",
            "sh -x ./t.sh",
            "./t.sh",
            "nohup bash t.sh > log 2>&1 &",
            "exec bash -e t.sh",
            "env A=1 bash t.sh",
            "time ./t.sh",
            "srun -N 2 --mpi=pmix bash t.sh",
            "sbatch --nodes=2 t.sh",
            "docker run --gpus all -v /a:/b image bash t.sh",
            "if true; then bash t.sh; fi",
            'bash -c "bash t.sh"',
            "eval bash t.sh",
        ):
            assert launched(read({"run.sh": command + "\n", **child})) == ["python x.py"], command

    def test_outer_words_are_kept(self) -> None:
        script = read({"run.sh": "srun -N 2 bash t.sh\n", "t.sh": "python x.py\n"})
        assert shown(script.commands[-1].outer) == "srun -N 2"

    def test_env_assigns(self) -> None:
        script = read({"run.sh": "env A=1 bash t.sh\n", "t.sh": "python x.py $A\n"})
        assert launched(script) == ["python x.py 1"]
        assert script.commands[-1].words[2].exact

    def test_cycles_end(self) -> None:
        files = {
            "run.sh": "source run.sh\nbash b.sh\npython a.py\n",
            "b.sh": "bash run.sh\nbash b.sh\n. ./run.sh\npython b.py\n",
        }
        assert launched(read(files)) == ["python b.py", "python a.py"]

    def test_a_script_outside_the_tree_is_not_followed(self) -> None:
        script = read({"run.sh": "bash ../other/train.sh\nbash /opt/train.sh\npython a.py\n"})
        assert launched(script) == ["python a.py"]
        assert script.followed == ()

    def test_two_runs_of_one_script_differ(self) -> None:
        files = {
            "run.sh": "bash t.sh 1\nbash t.sh 2 --more\n",
            "t.sh": 'python x.py --n "$@" --z\n',
        }
        (command,) = [c for c in read(files).commands if c.words[0].text == "python"]
        assert shown(command.words) == "python x.py --n ?1 ?--z ?--z"


class TestTextAsShell:
    def test_bash_c(self) -> None:
        text = "B=4\nbash -c \"cd sub && torchrun x.py --b $B\"\nsh -lc 'python y.py $1' - 7\n"
        script = read({"run.sh": text, "sub/x.py": ""})
        assert launched(script) == ["torchrun x.py --b 4", "python y.py 7"]
        command = next(c for c in script.commands if c.words[0].text == "torchrun")
        assert command.cwd == "sub"
        for word in command.words:
            span = word.location.span
            assert word.exact and text[span.start : span.end] == word.text

    def test_eval_keeps_conditions_and_places(self) -> None:
        text = (
            'CMD="torchrun --nproc_per_node 8 x.py"\n'
            'if [ "$F" ]; then CMD="$CMD --flash"; fi\necho $CMD\neval $CMD\n'
        )
        commands = read({"run.sh": text}).commands
        command = next(c for c in commands if c.words[0].text == "torchrun")
        assert shown(command.words) == "torchrun --nproc_per_node 8 x.py --flash"
        assert command.words[-1].condition == '[ "$F" ]'
        assert command.words[2].location.line == 1

    def test_a_command_in_an_array_or_a_variable(self) -> None:
        text = 'CMD=(python x.py --a "b c")\n"${CMD[@]}"\nRUN="python y.py"\n$RUN --z\n'
        assert launched(read({"run.sh": text})) == ["python x.py --a b c", "python y.py --z"]

    def test_remote_shells(self) -> None:
        text = "pdsh -w a,b 'cd /w; torchrun x.py'\nssh -p 22 host \"python y.py\"\n"
        script = read({"run.sh": text})
        assert launched(script) == ["torchrun x.py", "python y.py"]
        assert [shown(c.outer) for c in script.commands if len(c.words) == 2] == [
            "pdsh -w a,b",
            "ssh -p 22 host",
        ]

    def test_heredocs_that_are_scripts(self) -> None:
        text = (
            "N=2\nsbatch <<EOF\n#!/bin/bash\n#SBATCH --nodes=4\n"
            "srun torchrun --nnodes \\$SLURM_NNODES --x $N x.py\nEOF\n"
            "bash -s <<'EOF'\npython y.py\nEOF\n"
        )
        script = read({"run.sh": text})
        inner = [shown(c.words) for c in script.commands if c.words[0].text in ("srun", "python")]
        assert inner == ["srun torchrun --nnodes 4 --x 2 x.py", "python y.py"]
        assert script.headers["nodes"].text == "4"

    def test_sbatch_wrap(self) -> None:
        text = 'sbatch -N 2 --wrap="python x.py --a 1"\nsbatch --wrap "python y.py"\n'
        assert launched(read({"run.sh": text})) == ["python x.py --a 1", "python y.py"]

    def test_an_unknown_value_stays_unknown_in_the_inner_shell(self) -> None:
        text = 'if [ $Q ]; then B=1; else B=2; fi\nbash -c "python x.py --b $B"\n'
        assert launched(read({"run.sh": text})) == ["python x.py --b ?2"]
