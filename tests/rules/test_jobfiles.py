"""Commands in files that are no scripts: what runs, with which environment, written where."""

from __future__ import annotations

import pytest

from pitstop.rules.job import LaunchCommand, Word
from pitstop.rules.jobfiles import read_jobfile
from pitstop.rules.launch import find_launches
from pitstop.rules.shell import Script
from pitstop.rules.tree import DictTree, UnreadableError


def read(path: str, text: str, files: dict[str, str] | None = None) -> tuple[Script, ...]:
    tree = DictTree({path: text, **(files or {})})
    scripts = read_jobfile(tree.read(path), tree)
    for script in scripts:
        for command in script.commands:
            for word in (*command.words, *command.env.values()):
                check(word, tree)
        for header in script.headers.values():
            check(header, tree)
    return scripts


def check(word: Word, tree: DictTree) -> None:
    """Every exact word stands in the file where it says."""
    text = tree.read(word.location.path).text
    span = word.location.span
    if word.exact:
        assert text[span.start : span.end] == word.text
    for piece in word.pieces:
        check(piece, tree)


def launches(path: str, text: str, files: dict[str, str] | None = None) -> list[LaunchCommand]:
    return [x for script in read(path, text, files) for x in find_launches(script)]


def shown(found: LaunchCommand) -> str:
    return " ".join(("" if w.known else "?") + w.text for w in found.words)


class TestMakefile:
    TEXT = """\
GPUS ?= 8  # per node
LR := 1e-4
ARGS = --lr $(LR) \\
	--bs ${BS}
BS = 4
ARGS += --extra
export NCCL_DEBUG = INFO
ifeq ($(DEBUG),1)
  STEPS = 10
else
  STEPS = 1000
endif
ifndef SEED
SEED = 1
endif

.PHONY: train
train: LOCAL = --local
train: data | out
	@echo torchrun
	-torchrun --nproc_per_node=$(GPUS) train.py \\
	$(ARGS) $(LOCAL) --steps $(STEPS) --seed $(SEED)
one: ; python one.py --home $$HOME --target $@ --n $(shell nproc) --u $(UNSET)

# python comment.py
define BLOCK
	python block.py
endef
"""

    def test_variables_are_put_in_where_they_are_written(self) -> None:
        train, _ = launches("Makefile", self.TEXT)
        assert shown(train) == (
            "torchrun --nproc_per_node=8 train.py --lr 1e-4 --bs 4 --extra --local"
            " --steps ?1000 --seed 1"
        )
        assert train.processes == 8
        lines = {w.text: w.location.line for w in train.args}
        assert (lines["1e-4"], lines["4"], lines["--extra"], lines["--seed"]) == (2, 5, 6, 22)
        assert train.env["NCCL_DEBUG"].text == "INFO"

    def test_what_make_alone_knows_is_unknown(self) -> None:
        _, one = launches("Makefile", self.TEXT)
        values = {one.args[i].text: one.args[i + 1] for i in range(0, len(one.args), 2)}
        assert not any(w.known for w in values.values())
        assert set(values) == {"--home", "--target", "--n", "--u"}

    def test_variables_that_contain_each_other(self) -> None:
        text = "A = $(B) $(B)\nB = $(A) $(A)\nx:\n\tpython a.py $(A)\n"
        (found,) = launches("Makefile", text)
        assert found.entry == "a.py"

    def test_names(self) -> None:
        text = "x:\n\tpython a.py\n"
        assert [
            len(launches(n, text)) for n in ("GNUmakefile", "sub/Makefile", "a.mk", "make.txt")
        ] == [1, 1, 1, 0]

    def test_windows_line_ends(self) -> None:
        (found,) = launches("Makefile", "N = 2\r\nx:\r\n\tpython a.py \\\r\n\t --n $(N)\r\n")
        assert shown(found) == "python a.py --n 2"

    def test_a_script_of_the_repository(self) -> None:
        text = "N = 2\nx:\n\tA=1 bash sub/t.sh $(N)\n"
        (found,) = launches("Makefile", text, {"sub/t.sh": "python t.py $A $1\n"})
        assert shown(found) == "python t.py 1 2"


class TestDockerfile:
    def test_exec_form_entrypoint_and_command_are_one(self) -> None:
        text = (
            "FROM a\nENV NCCL_DEBUG=INFO B='x y'\nENV OLD old style\n"
            'ENTRYPOINT ["torchrun", "--nproc_per_node", "8"]\nCMD ["train.py", "--lr", "1e-4"]\n'
        )
        (found,) = launches("Dockerfile", text)
        assert (found.entry, found.processes) == ("train.py", 8)
        assert {n: w.text for n, w in found.env.items()} == {
            "NCCL_DEBUG": "INFO",
            "B": "x y",
            "OLD": "old style",
        }

    def test_shell_form_and_build_arguments(self) -> None:
        text = (
            "ARG N=4\nFROM a\nENV A=1\n# c\nCMD torchrun --nproc_per_node=$N \\\n # c\n t.py $A\n"
        )
        (found,) = launches("docker/Dockerfile.gpu", text)
        assert shown(found) == "torchrun --nproc_per_node=4 t.py 1"
        assert "N" not in found.env

    def test_bash_c_in_exec_form(self) -> None:
        text = 'FROM a\nCMD ["bash", "-c", "cd /w && python t.py --a 1"]\n'
        (found,) = launches("Dockerfile", text)
        assert shown(found) == "python t.py --a 1"

    def test_run_builds_and_is_no_job(self) -> None:
        text = "FROM a\nRUN python setup.py && torchrun t.py\nRUN <<EOF\nCMD python x.py\nEOF\n"
        assert launches("Dockerfile", text) == []

    def test_each_stage_has_its_own(self) -> None:
        text = (
            "FROM a AS b\nENV A=1\nCMD python a.py\n"
            'FROM c\nCMD python b.py\nCMD ["python", "c.py"]\n'
        )
        first, second = launches("Dockerfile", text)
        assert (first.entry, set(first.env)) == ("a.py", {"A"})
        assert (second.entry, set(second.env)) == ("c.py", set())

    def test_broken_json_is_shell_text(self) -> None:
        assert read("Dockerfile", "FROM a\nCMD [python, a.py]\n") is not None


class TestWorkflow:
    TEXT = """\
on: push
env: {NCCL_DEBUG: INFO}
defaults: {run: {working-directory: sub}}
jobs:
  train:
    env:
      A: "1"
    steps:
      - uses: actions/checkout@v4
      - name: literal
        working-directory: ./other
        env: {B: '${{ matrix.x }}'}
        run: |
          cd deep   # an empty line with blanks follows
          BLANKS
          torchrun --nproc_per_node ${{ matrix.n }} \\
            train.py --lr 1e-4
      - run: >-
          accelerate launch
          --num_processes 2
          t.py --值 1
      - run: "python \\"a.py\\" --z 3"
      - run: 'python b.py --q ''x y'''
      - run: python c.py
          --folded 1
      - shell: python
        run: print(1)
      - shell: bash -e {0}
        run: python d.py
""".replace("BLANKS", "")

    def test_all_styles_of_strings(self) -> None:
        found = launches(".github/workflows/train.yml", self.TEXT, {"other/deep/x": ""})
        assert [shown(x) for x in found] == [
            "torchrun --nproc_per_node ?${{ matrix.n }} train.py --lr 1e-4",
            "accelerate launch --num_processes 2 t.py --值 1",
            "python a.py --z 3",
            "python b.py --q x y",
            "python c.py --folded 1",
            "python d.py",
        ]
        assert [x.cwd for x in found[:2]] == ["other/deep", "sub"]
        assert [w.exact for w in found[0].args] == [True, True]
        assert found[0].args[1].location.line == 17
        assert [w.exact for w in found[2].words] == [True, False, True, True]

    def test_environment_of_all_levels(self) -> None:
        first, second, *_ = launches(".github/workflows/train.yml", self.TEXT)
        assert {n: (w.text, w.known) for n, w in first.env.items()} == {
            "NCCL_DEBUG": ("INFO", True),
            "A": ("1", True),
            "B": ("${{ matrix.x }}", False),
        }
        assert set(second.env) == {"NCCL_DEBUG", "A"}

    def test_windows_line_ends(self) -> None:
        text = (
            "jobs:\r\n  a:\r\n    steps:\r\n      - run: |\r\n"
            "          python a.py \\\r\n            --n 1\r\n"
        )
        (found,) = launches(".github/workflows/a.yml", text)
        assert shown(found) == "python a.py --n 1"

    def test_a_composite_action(self) -> None:
        text = "runs:\n  using: composite\n  steps:\n    - shell: bash\n      run: python a.py\n"
        assert len(launches("x/action.yml", text)) == 1


def test_gitlab() -> None:
    text = """\
variables: {A: "1"}
default:
  before_script: [cd x]
train:
  variables: {B: z}
  script:
    - export Q=1
    - >
      torchrun t.py
      --q $Q
other:
  before_script: []
  script: python u.py
"""
    first, second = launches(".gitlab-ci.yml", text, {"x/t.py": ""})
    assert (shown(first), first.cwd) == ("torchrun t.py --q 1", "x")
    assert {n: w.text for n, w in first.env.items()} == {"A": "1", "B": "z", "Q": "1"}
    assert shown(second) == "python u.py"


class TestKubernetes:
    TEXT = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      template:
        spec:
          containers:
            - name: pytorch
              image: x
              env:
                - name: NCCL_DEBUG
                  value: INFO
                - name: SECRET
                  valueFrom: {}
              command: ["torchrun", "--nproc_per_node=8"]
              args:
                - train.py
                - --lr
                - 1e-4
                - "--bs"
                - "4"
              resources:
                limits:
                  nvidia.com/gpu: 8
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
spec:
  tasks:
    - replicas: 2
      template:
        spec:
          containers:
            - image: y
              command: [bash, -c]
              args:
                - |
                  set -e
                  torchrun --nnodes 2 t.py
"""

    def test_containers(self) -> None:
        first, second = launches("job.yaml", self.TEXT)
        assert shown(first) == "torchrun --nproc_per_node=8 train.py --lr 1e-4 --bs 4"
        assert {n: w.text for n, w in first.env.items()} == {"NCCL_DEBUG": "INFO"}
        assert all(w.exact for w in first.words)
        assert (shown(second), second.nodes) == ("torchrun --nnodes 2 t.py", 2)

    def test_requests(self) -> None:
        first, second = read("job.yaml", self.TEXT)
        assert {n: w.text for n, w in first.headers.items()} == {"gpus": "8", "replicas": "4"}
        assert {n: w.text for n, w in second.headers.items()} == {"replicas": "2"}

    def test_a_ray_job(self) -> None:
        text = "apiVersion: ray.io/v1\nkind: RayJob\nspec:\n  entrypoint: python t.py --a 1\n"
        (found,) = launches("ray.yaml", text)
        assert shown(found) == "python t.py --a 1"


def test_compose() -> None:
    text = """\
services:
  a:
    image: x
    command: python a.py --n 1
    environment: {A: 1}
  b:
    build: .
    entrypoint: [torchrun]
    command: ["b.py"]
"""
    assert [shown(x) for x in launches("docker-compose.yml", text)] == [
        "python a.py --n 1",
        "torchrun b.py",
    ]


def test_skypilot() -> None:
    text = """\
resources:
  accelerators: A100:8
num_nodes: 2
envs:
  MODEL: q
setup: pip install x
run: |
  torchrun --nnodes=$SKYPILOT_NUM_NODES --nproc_per_node=$SKYPILOT_NUM_GPUS_PER_NODE \\
    --node_rank=$SKYPILOT_NODE_RANK train.py --model $MODEL
"""
    (found,) = launches("task.yaml", text)
    assert (found.processes, found.nodes) == (8, 2)
    assert [w.text for w in found.args] == ["--model", "q"]
    (script,) = read("task.yaml", text)
    assert {n: w.text for n, w in script.headers.items()} == {
        "nodes": "2",
        "accelerators": "A100:8",
    }


def test_slurm_scripts() -> None:
    (found,) = launches("a.slurm", "#!/bin/bash\n#SBATCH -N 2\nsrun python t.py\n")
    assert found.nodes == 2


class TestOtherFiles:
    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("config.yaml", "run: x\nlr: 1\n"),
            ("config.yaml", "model: a\nscript: b\n"),
            ("a.json", '{"run": "python a.py"}'),
            ("README.md", "run: python a.py"),
            ("a.yaml", "apiVersion: v1\nkind: Service\nargs: 1\n"),
            (".github/workflows/a.yml", "jobs: 3\nrun: x\n"),
            (".github/workflows/a.yml", "jobs: {a: {steps: [{run: }, {run: []}]}}\n"),
            ("Dockerfile", ""),
            ("Makefile", ""),
        ],
    )
    def test_nothing_is_found(self, path: str, text: str) -> None:
        assert [c for s in read(path, text) for c in s.commands] == []

    @pytest.mark.parametrize(
        "text",
        ["run: [\n", "run: &a\n  b: *c\n", "\trun: x\n", "run: " + "[" * 5_000 + "]" * 5_000],
    )
    def test_broken_yaml_is_unreadable(self, text: str) -> None:
        with pytest.raises(UnreadableError):
            read(".github/workflows/a.yml", text)

    def test_templates_are_unreadable_not_a_crash(self) -> None:
        text = "apiVersion: v1\nkind: Job\nspec:\n  {{- if .x }}\n  command: a\n"
        with pytest.raises(UnreadableError):
            read("templates/job.yaml", text)

    def test_hostile_makefiles_and_dockerfiles_end(self) -> None:
        doubling = "".join(f"A{i} = $(A{i + 1}) $(A{i + 1})\n" for i in range(60))
        read("Makefile", doubling + "A60 = x\nx:\n\tpython $(A0)\n")
        read("Makefile", "x:\n" + "\tpython a.py $(\n" * 3_000 + "\\\n" * 1_000)
        read("Makefile", "ifeq\n" * 5_000 + "endif\n" * 9_000 + "define\n" * 9)
        read("Dockerfile", "CMD [" + "[" * 50_000)
        read("Dockerfile", "FROM a\nCMD x \\\n" * 20_000)
        read("Dockerfile", "ENV " + "A=1 " * 20_000 + "\nCMD python x.py")
