"""What `read_script` makes of a script: commands, words, where they are written."""

from __future__ import annotations

import pytest

from pitstop.rules.shell import Command, Script, read_script
from pitstop.rules.tree import DictTree


def read(text: str, path: str = "run.sh", **files: str) -> Script:
    tree = DictTree({path: text, **{k.replace("__", "/"): v for k, v in files.items()}})
    return read_script(tree.read(path), tree)


def words(command: Command) -> list[str]:
    return [w.text for w in command.words]


def only(text: str, name: str = "python") -> Command:
    """The one command of that name in a script."""
    found = [c for c in read(text).commands if c.words and c.words[0].text == name]
    assert len(found) == 1, found
    return found[0]


def written(text: str, command: Command) -> list[str | None]:
    """What stands in the text where each word says that it is written."""
    return [
        text[w.location.span.start : w.location.span.end] if w.exact else None
        for w in command.words
    ]


class TestWhereWordsAreWritten:
    def test_plain_words_and_quotes_outside(self) -> None:
        text = "python train.py --lr 1e-4 --name \"a b\" --x 'c d'\n"
        command = only(text)
        assert written(text, command) == words(command)
        assert words(command)[5] == "a b"
        assert command.words[5].location.column == 35

    def test_a_variable_leads_to_its_assignment(self) -> None:
        text = "BS=4  # NOTE: 8 runs out of memory\npython train.py --bs $BS\n"
        word = only(text).words[3]
        assert (word.text, word.exact, word.location.line) == ("4", True, 1)
        assert word.note == "NOTE: 8 runs out of memory"

    def test_words_of_a_string_of_flags_lie_inside_the_string(self) -> None:
        text = 'OPTS="--a 1 \\\n  --b two"\npython train.py $OPTS\n'
        command = only(text)
        assert words(command)[2:] == ["--a", "1", "--b", "two"]
        assert written(text, command)[2:] == ["--a", "1", "--b", "two"]
        assert [w.location.line for w in command.words[2:]] == [1, 1, 2, 2]

    def test_elements_of_an_array_lie_inside_the_array(self) -> None:
        text = 'ARGS=(\n  --lr 1e-4\n)\nARGS+=(--wd "0.1")\npython train.py "${ARGS[@]}"\n'
        command = only(text)
        assert words(command)[2:] == ["--lr", "1e-4", "--wd", "0.1"]
        assert written(text, command) == words(command)

    def test_a_default_is_where_it_is_written(self) -> None:
        text = "python train.py --gpus ${GPUS:-8} --x ${X:=a}$X\n"
        command = only(text)
        assert words(command)[3] == "8"
        assert written(text, command)[3] == "8"
        assert words(command)[5] == "aa"

    def test_a_word_of_several_pieces_lists_them(self) -> None:
        text = "LR=1e-4\npython train.py --lr=$LR optim.lr=${LR}\n"
        flag = only(text).words[2]
        assert (flag.text, flag.exact) == ("--lr=1e-4", False)
        parts = flag.partition("=")
        assert parts is not None
        name, value = parts
        assert (name.text, name.location.line) == ("--lr", 2)
        assert (value.text, value.exact, value.location.line) == ("1e-4", True, 1)
        assert text[value.location.span.start : value.location.span.end] == "1e-4"

    def test_partition_of_one_exact_word(self) -> None:
        text = 'python train.py --a="x=y" --b\n'
        command = only(text)
        parts = command.words[2].partition("=")
        assert parts is not None
        assert (parts[0].text, parts[1].text) == ("--a", "x=y")
        span = parts[1].location.span
        assert text[span.start : span.end] == "x=y"
        assert command.words[3].partition("=") is None

    def test_chinese_text_counts_characters(self) -> None:
        text = '# 注意\nexport 名=1\nA="中文 --数据 值"\npython 训练.py $A # 结束\n'
        command = only(text)
        assert words(command) == ["python", "训练.py", "中文", "--数据", "值"]
        assert written(text, command) == words(command)

    def test_bytes_that_are_not_utf8(self) -> None:
        tree = DictTree({"run.sh": b"python a.py --x \xff\xfe --y 2\n"})
        script = read_script(tree.read("run.sh"), tree)
        assert [w.text for w in script.commands[0].words][3:] == ["\udcff\udcfe", "--y", "2"]

    def test_windows_line_ends(self) -> None:
        text = 'A=(\r\n  --a 1\r\n)\r\npython x.py \\\r\n  --b 2 \\\r\n  "${A[@]}"\r\nls\r\n'
        script = read(text)
        assert words(script.commands[0]) == ["python", "x.py", "--b", "2", "--a", "1"]
        assert written(text, script.commands[0]) == words(script.commands[0])
        assert not script.broken_continuations
        assert len(script.commands) == 2

    def test_byte_order_mark(self) -> None:
        text = "\ufeffpython x.py --a 1\n"
        assert written(text, only(text)) == ["python", "x.py", "--a", "1"]

    def test_escaped_json_is_read_but_not_editable(self) -> None:
        command = only('N=8\npython x.py --resource "{\\"actor\\": [1, ${N}]}"\n')
        word = command.words[3]
        assert (word.text, word.exact, word.known) == ('{"actor": [1, 8]}', False, True)


class TestValues:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("python x.py $UNSET\n", "not set"),
            ("python x.py $1\n", "argument 1"),
            ('python x.py "$@"\n', "arguments"),
            ("python x.py $(date)\n", "output of a command"),
            ("python x.py `hostname`\n", "output of a command"),
            ("python x.py $((X + 1))\n", "arithmetic"),
            ("python x.py {1..8}\n", "brace expansion"),
            ("python x.py ${!NAME}\n", "indirect"),
            ("python x.py $RANDOM$$\n", "RANDOM"),
            ("python x.py ${MODEL:?give a model}\n", "not set"),
            ("python x.py <path to data>\n", "fill in"),
            ("python x.py '<your data>'\n", "fill in"),
            ("python x.py ${{ matrix.gpus }}\n", "template"),
            ("python x.py <(ls)\n", "output of a command"),
            ("read X\npython x.py $X\n", "set by read"),
            ("A[1]=x\npython x.py ${A[1]}\n", "element"),
        ],
    )
    def test_what_cannot_be_known_says_why(self, text: str, reason: str) -> None:
        word = only(text).words[2]
        assert not word.known
        assert reason in (word.why_unknown or "")

    def test_an_unknown_part_leaves_the_known_name(self) -> None:
        parts = only("python x.py --out=$OUT/run\n").words[2].partition("=")
        assert parts is not None
        assert (parts[0].text, parts[0].known) == ("--out", True)
        assert (parts[1].text, parts[1].known) == ("$OUT/run", False)

    def test_idioms_for_the_script_folder(self) -> None:
        text = (
            'DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\n'
            "HERE=$(dirname $0)\nROOT=`realpath $DIR/../..`\n"
            "python $DIR/train.py $HERE/a $ROOT/b\n"
        )
        script = read(text, path="examples/x/run.sh")
        assert words(script.commands[-1])[1:] == ["examples/x/train.py", "examples/x/a", "./b"]

    def test_counting_the_visible_gpus(self) -> None:
        text = (
            "export CUDA_VISIBLE_DEVICES=0,1,2,3\n"
            "N=$(echo $CUDA_VISIBLE_DEVICES | tr ',' '\\n' | wc -l)\n"
            "torchrun --nproc_per_node $N x.py\n"
        )
        assert words(only(text, "torchrun"))[2] == "4"

    def test_associative_arrays_are_unknown(self) -> None:
        command = only('declare -A M=([a]=1 [b]=2)\npython x.py ${M[a]} "${M[@]}"\n')
        assert not any(w.known for w in command.words[2:])


class TestEnvironment:
    def test_exports_prefixes_and_plain_variables(self) -> None:
        text = (
            "export NCCL_DEBUG=INFO OMP=4\nPLAIN=1\nA=2\nexport A\nunset OMP\n"
            "CUDA_VISIBLE_DEVICES=0,1 python x.py\n"
        )
        command = only(text)
        assert {n: w.text for n, w in command.env.items()} == {
            "NCCL_DEBUG": "INFO",
            "A": "2",
            "CUDA_VISIBLE_DEVICES": "0,1",
        }
        where = command.env["NCCL_DEBUG"].location.span
        assert text[where.start : where.end] == "INFO"
        assert set(read(text).env) == {"NCCL_DEBUG", "A"}

    def test_a_later_export_wins_and_an_earlier_command_keeps_its_own(self) -> None:
        script = read("export A=1\npython x.py\nexport A=2\npython y.py\n")
        assert [c.env["A"].text for c in script.commands] == ["1", "2"]

    def test_set_a_exports_everything(self) -> None:
        assert "B" in only("set -a\nB=1\nset +a\nC=2\npython x.py\n").env

    def test_subshells_and_pipes_do_not_leak(self) -> None:
        command = only("(export A=1)\nexport B=1 | cat\npython x.py\n")
        assert not command.env

    def test_declare_x_and_export_n(self) -> None:
        assert set(only("declare -x A=1\nexport B=2\nexport -n B\npython x.py\n").env) == {"A"}


class TestStructure:
    def test_every_place_a_command_can_stand(self) -> None:
        text = """
        (cd sub && python a.py)
        { python b.py; } 2>&1 | tee log
        nohup python c.py > log 2>&1 &
        exec python d.py
        time python e.py
        ! python f.py
        if python g.py; then python h.py; fi
        while python i.py; do python j.py; done
        for x in 1 2; do python k.py; done
        for ((i = 0; i < 3; i++)); do python l.py; done
        case $X in a) python m.py ;; *) python n.py ;; esac
        X=$(python o.py) || python p.py
        f() { python q.py; }
        python r.py <<< "text" > out
        > log python s.py
        until false; do python t.py; done
        python u.py; python v.py & python w.py
        done < <(python bad.py)
        """
        text = text.replace("        done < <(python bad.py)\n", "")
        found = {w for c in read(text).commands for w in words(c) if w.endswith(".py")}
        assert sorted(found) == [f"{letter}.py" for letter in "abcdefghijklmnopqrstuvw"]

    def test_process_substitutions(self) -> None:
        script = read("while read x; do :; done < <(python a.py)\ncat <(python b.py)\n")
        assert {words(c)[1] for c in script.commands if words(c)[0] == "python"} == {
            "a.py",
            "b.py",
        }

    def test_redirections_are_no_words(self) -> None:
        command = only("python x.py --a 1 2>&1 >> log --b 2 &>/dev/null\n")
        assert words(command) == ["python", "x.py", "--a", "1", "--b", "2"]

    def test_folders(self) -> None:
        tree = {"examples__a__run.sh": "", "sub__x": "", "sub__deep__y": ""}
        text = "cd sub\npython a.py\n(cd deep; python b.py)\npython c.py\ncd ..\npython d.py\n"
        script = read(text, **tree)
        assert [c.cwd for c in script.commands] == ["sub", "sub/deep", "sub", ""]

    def test_folder_of_the_script(self) -> None:
        text = 'cd "$(dirname "$0")"\npython a.py\ncd ../..\npython b.py\n'
        script = read(text, path="examples/x/run.sh")
        assert [c.cwd for c in script.commands if c.words[0].text == "python"] == ["examples/x", ""]

    def test_notes_beside_and_above_array_elements(self) -> None:
        text = """ARGS=(
  --a 1  # because of the driver
  --b 2
  # NOTE: 8 is too much
  --c 3
  --d 4

  --e 5
  # speed
  --f 6
)
python x.py "${ARGS[@]}"
"""
        notes = {w.text: w.note for w in only(text).words if w.text.startswith("--")}
        assert notes == {
            "--a": "because of the driver",
            "--b": None,
            "--c": "NOTE: 8 is too much",
            "--d": "NOTE: 8 is too much",
            "--e": None,
            "--f": None,
        }

    def test_note_above_a_command(self) -> None:
        command = only("# NOTE: needed on this cluster\npython x.py --a 1\n")
        assert command.words[2].note == "NOTE: needed on this cluster"


class TestHeredocs:
    def test_a_generated_configuration(self) -> None:
        text = (
            "BS=${1:-4}\ncat > ds_config.json <<EOF\n"
            '{"train_micro_batch_size_per_gpu": $BS, "n": $((2 * 3)), "p": "\\$5"}\nEOF\nls\n'
        )
        script = read(text)
        (heredoc,) = script.heredocs
        assert heredoc.target == "ds_config.json"
        expected = '{"train_micro_batch_size_per_gpu": 4, "n": 6, "p": "$5"}\n'
        assert heredoc.text == expected
        assert heredoc.known
        assert heredoc.location.line == 3
        assert "".join(p.text for p in heredoc.pieces) == expected
        assert [words(c) for c in script.commands] == [["cat"], ["ls"]]

    def test_a_quoted_delimiter_expands_nothing(self) -> None:
        text = 'cat <<\'EOF\' > a.json\n{"a": "$X"}\nEOF\n'
        (heredoc,) = read(text).heredocs
        assert heredoc.text == '{"a": "$X"}\n'
        span = heredoc.location.span
        assert text[span.start : span.end] == heredoc.text

    def test_unresolved_parts_are_unknown(self) -> None:
        (heredoc,) = read('tee a.json <<EOF\n{"a": $SECRET}\nEOF\n').heredocs
        assert not heredoc.known

    def test_echo_into_a_file(self) -> None:
        (heredoc,) = read("echo '{\"zero\": 3}' > ds.json\n").heredocs
        assert (heredoc.target, heredoc.text) == ("ds.json", '{"zero": 3}')

    def test_heredocs_do_not_hide_what_follows(self) -> None:
        text = (
            "cat <<A > x && python a.py\n$( ` ' \"\nA\n"
            "cat <<B; cat <<-C | python b.py\nif\nB\n\tdone\n\tC\n"
            'X=$(cat <<D\n)"\nD\n)\npython c.py\n'
        )
        found = [words(c)[1] for c in read(text).commands if words(c)[0] == "python"]
        assert found == ["a.py", "b.py", "c.py"]


class TestHeaders:
    def test_sbatch_lines(self) -> None:
        text = (
            "#!/bin/bash\n#SBATCH --job-name=x -N 4\n#SBATCH --gres gpu:8 # eight\n"
            "#SBATCH -n32 --exclusive\n\n# text\n#SBATCH --time='1:00'\n"
            "srun torchrun --nnodes $SLURM_NNODES x.py\n#SBATCH --nodes=9\n"
        )
        script = read(text)
        assert {n: w.text for n, w in script.headers.items()} == {
            "job-name": "x",
            "nodes": "4",
            "gres": "gpu:8",
            "ntasks": "32",
            "exclusive": "",
            "time": "1:00",
        }
        nodes = only(text, "srun").words[3]
        assert (nodes.text, nodes.location) == ("4", script.headers["nodes"].location)
        span = nodes.location.span
        assert text[span.start : span.end] == "4"
