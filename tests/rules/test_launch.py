"""Which commands are launches, of what, with which counts and kind of multi-node start."""

from __future__ import annotations

import pytest

from pitstop.rules.job import LaunchCommand, MultiNode
from pitstop.rules.launch import find_launches
from pitstop.rules.shell import read_script
from pitstop.rules.tree import DictTree


def launches(text: str, **files: str) -> tuple[LaunchCommand, ...]:
    tree = DictTree({"run.sh": text, **{k.replace("__", "."): v for k, v in files.items()}})
    return find_launches(read_script(tree.read("run.sh"), tree))


def launch(text: str) -> LaunchCommand:
    (found,) = launches(text)
    return found


def texts(words: object) -> list[str]:
    return [w.text for w in words]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "launchers", "entry", "args"),
    [
        ("torchrun --nproc_per_node 8 train.py --lr 1", ("torchrun",), "train.py", ["--lr", "1"]),
        ("torchrun --nproc-per-node=8 --standalone t.py a", ("torchrun",), "t.py", ["a"]),
        ("python -m torch.distributed.run --nnodes 1 t.py", ("torchrun",), "t.py", []),
        (
            "python3 -u -m torch.distributed.launch --use_env --nproc_per_node=2 t.py -x",
            ("torch.distributed.launch",),
            "t.py",
            ["-x"],
        ),
        (
            "accelerate launch --config_file a.yaml --multi_gpu --num_processes 8 t.py --a",
            ("accelerate",),
            "t.py",
            ["--a"],
        ),
        ("accelerate-launch --mixed_precision bf16 t.py", ("accelerate",), "t.py", []),
        ("python -m accelerate.commands.launch t.py", ("accelerate",), "t.py", []),
        ("deepspeed --num_gpus 4 t.py --deepspeed c.json", ("deepspeed",), "t.py", None),
        ("mpirun -np 8 -x A=1 --mca btl tcp python t.py", ("mpirun", "python"), "t.py", []),
        ("mpiexec -n 2 -env A 1 -env B=2 python t.py", ("mpirun", "python"), "t.py", []),
        ("srun -N 2 --mpi pmix -l torchrun t.py", ("srun", "torchrun"), "t.py", []),
        ("pdsh -w a,b 'torchrun t.py --x'", ("pdsh", "torchrun"), "t.py", ["--x"]),
        ("ray job submit --address x -- python3 t.py --a", ("ray", "python"), "t.py", ["--a"]),
        ("python t.py", ("python",), "t.py", []),
        ("/opt/conda/bin/python3.11 -u -X dev -W ignore t.py a", ("python",), "t.py", ["a"]),
        ("./scripts/train.py --a", ("python",), "./scripts/train.py", ["--a"]),
        ("python -m pdb -c continue t.py", ("python",), "t.py", []),
        ("python -m debugpy --listen 5678 --wait-for-client t.py", ("python",), "t.py", []),
        ("$PYTHON t.py", ("python",), "t.py", []),
        ("$PREFIX torchrun t.py", ("torchrun",), "t.py", []),
        ("python $(which torchrun) --nproc_per_node 2 t.py", ("torchrun",), "t.py", []),
        ("uv run --with x torchrun t.py", ("torchrun",), "t.py", []),
        ("poetry run python t.py", ("python",), "t.py", []),
        ("conda run -n env --no-capture-output python t.py", ("python",), "t.py", []),
        ("numactl --cpunodebind=0 -m 0 python t.py", ("python",), "t.py", []),
        ("nsys profile -t cuda,nvtx -f true -o x python t.py", ("python",), "t.py", []),
        ("timeout -k 5 10m nice -n 5 python t.py", ("python",), "t.py", []),
        ("docker run --rm --gpus all -v a:b image:1 torchrun t.py", ("torchrun",), "t.py", []),
        ("singularity exec --nv -B /a image.sif python t.py", ("python",), "t.py", []),
        ("apptainer run --nv image.sif python t.py", ("python",), "t.py", []),
        ("sudo -E env A=1 nohup python t.py", ("python",), "t.py", []),
        ("srun bash -c 'cd x; python t.py'", ("srun", "python"), "t.py", []),
        ("torchrun $ARGS t.py --a", ("torchrun",), "t.py", ["--a"]),
        ("torchrun --nnodes $N --node_rank $R t.py $@", ("torchrun",), "t.py", ["$@"]),
        ("torchrun --some_new_switch t.py", ("torchrun",), "t.py", []),
    ],
)
def test_launchers_are_told_from_the_program(
    text: str, launchers: tuple[str, ...], entry: str, args: list[str] | None
) -> None:
    found = launch(text)
    assert (found.launchers, found.entry) == (launchers, entry)
    if args is not None:
        assert texts(found.args) == args
    assert not found.module


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("torchrun --nproc_per_node 8 -m pkg.train --a", "pkg.train"),
        ("python -m pkg.train --a", "pkg.train"),
        ("accelerate launch --module pkg.train --a", "pkg.train"),
        ("deepspeed --module pkg.train --a", "pkg.train"),
        ("srun python -u -m verl.trainer.main_ppo --a", "verl.trainer.main_ppo"),
    ],
)
def test_modules(text: str, entry: str) -> None:
    found = launch(text)
    assert (found.entry, found.module, texts(found.args)) == (entry, True, ["--a"])


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("llamafactory-cli train c.yaml", "llamafactory-cli"),
        ("lmf train c.yaml", "llamafactory-cli"),
        ("swift sft --model x", "swift"),
        ("megatron pt --model x", "megatron"),
        ("uv run llamafactory-cli train c.yaml", "llamafactory-cli"),
    ],
)
def test_programs_that_launch_by_themselves(text: str, program: str) -> None:
    found = launch(text)
    assert found.launchers == (program,)
    assert texts(found.args)[0] in ("train", "sft", "pt")


@pytest.mark.parametrize(
    "text",
    [
        "python -c 'import torch'",
        "python -",
        "python - <<EOF\nx\nEOF",
        "python",
        "python --version",
        "python -m pip install x",
        "python3 -m venv .venv",
        "python setup.py install",
        "pip install torchrun",
        "echo torchrun t.py",
        "accelerate config",
        "swift build",
        "which python",
        "kubectl apply -f train.py.yaml",
        "srun hostname",
        "ray start --head",
        "docker pull image",
        "bash",
        "cat train.py",
    ],
)
def test_what_is_no_launch(text: str) -> None:
    assert launches(text) == ()


SINGLE, A, B = MultiNode.SINGLE, MultiNode.A, MultiNode.B


@pytest.mark.parametrize(
    ("text", "processes", "nodes", "kind"),
    [
        ("torchrun t.py", None, None, SINGLE),
        ("torchrun --nproc_per_node=8 t.py", 8, None, SINGLE),
        ("torchrun --standalone --nproc-per-node 4 t.py", 4, 1, SINGLE),
        ("torchrun --nnodes=2 --nproc_per_node 8 --node_rank 0 t.py", 8, 2, B),
        ("torchrun --nnodes 1:4 --rdzv_backend c10d --rdzv_endpoint h:1 t.py", None, 4, B),
        ("torchrun --nnodes 1 t.py", None, 1, SINGLE),
        ("torchrun --nnodes $WORLD --node_rank $RANK t.py", None, None, B),
        ("torchrun --nnodes ${WORLD:-1} --nproc_per_node ${G:-8} t.py", 8, 1, SINGLE),
        ("PET_NNODES=2 PET_NPROC_PER_NODE=4 torchrun t.py", 4, 2, B),
        ("export CUDA_VISIBLE_DEVICES=0,1,2\ntorchrun --nproc_per_node gpu t.py", 3, None, SINGLE),
        ("torchrun --nproc_per_node auto t.py", None, None, SINGLE),
        ("N=$((2 * 4))\ntorchrun --nproc_per_node $N t.py", 8, None, SINGLE),
        ("python -m torch.distributed.launch --nproc_per_node=8 --nnodes 2 t.py", 8, 2, B),
        ("accelerate launch --num_processes 16 --num_machines 2 t.py", 8, 2, B),
        ("accelerate launch --num_processes 8 t.py", 8, None, SINGLE),
        ("accelerate launch --config_file c.yaml --num_processes 8 t.py", None, None, SINGLE),
        (
            "accelerate launch --num_machines 2 --num_processes 16 --use_deepspeed"
            " --deepspeed_hostfile h t.py",
            8,
            2,
            A,
        ),
        (
            "accelerate launch --num_machines 2 --num_processes 16 --use_deepspeed"
            " --deepspeed_hostfile h --deepspeed_multinode_launcher standard t.py",
            8,
            2,
            B,
        ),
        ("deepspeed --num_gpus=8 t.py", 8, None, SINGLE),
        ("deepspeed --num_nodes 2 --num_gpus 8 t.py", 8, 2, A),
        ("deepspeed --hostfile h t.py", None, None, A),
        ("deepspeed --hostfile h --num_nodes 1 t.py", None, 1, SINGLE),
        ("deepspeed --include localhost:0,1,2 t.py", 3, 1, SINGLE),
        ("deepspeed -i worker-0:0,1@worker-1:0,1 t.py", 2, 2, A),
        ("deepspeed --hostfile h --no_ssh --node_rank 0 t.py", None, None, B),
        ("CUDA_VISIBLE_DEVICES=0,1 deepspeed t.py", 2, None, SINGLE),
        ("mpirun -np 8 python t.py", 8, None, SINGLE),
        ("mpirun -np 16 -H a:8,b:8 python t.py", 8, 2, A),
        ("mpirun --hostfile h -np 16 -npernode 8 python t.py", 8, 2, A),
        ("mpirun --hostfile h -np 16 python t.py", None, None, A),
        ("mpirun -np 16 --map-by ppr:4:node -host a,b,c,d python t.py", 4, 4, A),
        ("srun -N 4 --ntasks-per-node=8 python t.py", 8, 4, A),
        ("srun -N4 -n32 python t.py", 8, 4, A),
        ("srun --nodes=1 python t.py", None, 1, SINGLE),
        ("srun python t.py", None, None, SINGLE),
        ("srun -N 2 torchrun --nnodes 2 --nproc_per_node 8 t.py", 8, 2, A),
        ("pdsh -w node[1-4] 'torchrun --nnodes 4 --nproc_per_node 8 t.py'", 8, 4, A),
        ("pdsh -w a,b 'python t.py'", None, 2, A),
        ("ray job submit -- python t.py", None, None, A),
        ("NNODES=2 NPROC_PER_NODE=8 llamafactory-cli train c.yaml", 8, 2, B),
        ("CUDA_VISIBLE_DEVICES=0,1 llamafactory-cli train c.yaml", 2, None, SINGLE),
        ("NPROC_PER_NODE=4 swift sft --model x", 4, None, SINGLE),
        ("NNODES=$N NPROC_PER_NODE=4 megatron sft --model x", 4, None, B),
        ("MASTER_IP=x NUM_MACHINES=2 ff-train c.yaml --num_processes 16", 8, 2, B),
        ("python t.py", None, None, SINGLE),
        ("#SBATCH -N 2\n#SBATCH --ntasks-per-node 8\nsrun python t.py", 8, 2, A),
        ("#SBATCH -N 2\nsrun torchrun --nnodes $SLURM_NNODES t.py", None, 2, A),
        ("#SBATCH -N 2\ntorchrun --nnodes $SLURM_NNODES t.py", None, 2, B),
        ("#SBATCH --nodes=1\nsrun python t.py", None, 1, SINGLE),
    ],
)
def test_processes_nodes_and_kind(
    text: str, processes: int | None, nodes: int | None, kind: MultiNode
) -> None:
    found = launch(text)
    assert (found.processes, found.nodes, found.multi_node) == (processes, nodes, kind)


def test_launcher_words_and_program_words_are_apart() -> None:
    found = launch("srun -N 2 accelerate launch --mixed_precision bf16 t.py --mixed_precision no")
    assert texts(found.launcher_args) == ["-N", "2", "--mixed_precision", "bf16"]
    assert texts(found.args) == ["--mixed_precision", "no"]
    assert texts(found.words)[:3] == ["srun", "-N", "2"]


def test_the_entry_has_its_place() -> None:
    text = "S=train.py\ntorchrun $S --a\n"
    found = launch(text)
    assert found.entry_location is not None
    assert found.entry_location.line == 1
    assert found.location.line == 2


def test_an_entry_of_which_nothing_is_known() -> None:
    assert launch("torchrun --nproc_per_node 2 $SCRIPT").entry is None
    assert launch("python $ROOT/train.py").entry == "$ROOT/train.py"


def test_environment_from_wrappers() -> None:
    text = (
        "export A=1\nmpirun -np 2 -x B=2 -x A env C=3 python t.py\n"
        'ray job submit --runtime-env-json=\'{"env_vars": {"D": "4"}}\' -- python u.py\n'
    )
    first, second = launches(text)
    assert {n: w.text for n, w in first.env.items()} == {"A": "1", "B": "2", "C": "3"}
    assert second.env["D"].text == "4"
    place = first.env["B"].location.span
    assert text[place.start : place.end] == "2"


def test_a_broken_runtime_environment_is_ignored() -> None:
    for value in ("'{'", "'[1]'", "'{\"env_vars\": 3}'", "$X"):
        assert launch(f"ray job submit --runtime-env-json {value} -- python t.py").entry == "t.py"


def test_condition_and_folder() -> None:
    found = launch('if [ "$M" = a ]; then cd sub && torchrun t.py; fi')
    assert found.condition == '[ "$M" = a ]'


def test_a_launch_in_a_followed_script() -> None:
    (found,) = launches("#SBATCH -N 2\nsrun bash t__sh\n".replace("__", "."), t__sh="python t.py")
    assert (found.launchers, found.nodes, found.location.path) == (("srun", "python"), 2, "t.sh")


def test_flags_from_an_array_are_arguments_with_their_place() -> None:
    text = 'ARGS=(--lr 1e-4)\nDIST="--nproc_per_node 8"\ntorchrun $DIST t.py "${ARGS[@]}"\n'
    found = launch(text)
    assert found.processes == 8
    assert [(w.text, w.location.line) for w in found.args] == [("--lr", 1), ("1e-4", 1)]
