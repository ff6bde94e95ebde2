"""Launches of several nodes become one of this machine; every flag by the launcher's own rules."""

import socket

import pytest

from pitstop.rules.finding import UserError
from pitstop.rules.job import MultiNode
from pitstop.rules.launch import parse_command
from pitstop.runners.one_node import free_port, on_one_node, scheduler_variable

B, A = MultiNode.B, MultiNode.A

CASES = [
    pytest.param(
        "torchrun --nnodes 4 --nproc_per_node=8 --node_rank 0 --master_addr 10.0.0.1"
        " --master_port 29500 train.py --lr 1",
        2,
        B,
        "torchrun --standalone --nproc-per-node=2 --max-restarts=0 train.py --lr 1",
        id="torchrun with a static rendezvous",
    ),
    pytest.param(
        "torchrun --nnodes=2:4 --rdzv-backend=c10d --rdzv-endpoint=h:29500 --rdzv-id=7"
        " --nproc-per-node=4 --role trainer -m pkg.train --nnodes 3",
        None,
        B,
        "torchrun --standalone --nproc-per-node=4 --max-restarts=0 --role trainer -m pkg.train"
        " --nnodes 1",
        id="torchrun with c10d, a module, and a program that counts nodes itself",
    ),
    pytest.param(
        "torchrun --nnodes=2 --nproc-per-node=4 t.py",
        -1,
        B,
        "torchrun --standalone --nproc-per-node=4 --max-restarts=0 t.py",
        id="all GPUs, however many there are",
    ),
    pytest.param(
        "python -m torch.distributed.run --nnodes=2 --nproc_per_node=4 train.py",
        8,
        B,
        "python -m torch.distributed.run --standalone --nproc-per-node=4 --max-restarts=0 train.py",
        id="the module behind torchrun",
    ),
    pytest.param(
        "NNODES=2 NODE_RANK=0 MASTER_ADDR=h NPROC_PER_NODE=8 swift sft --model Q",
        4,
        B,
        "NPROC_PER_NODE=4 MASTER_PORT=4242 swift sft --model Q",
        id="ms-swift",
    ),
    pytest.param(
        "FORCE_TORCHRUN=1 NNODES=2 NODE_RANK=1 MASTER_ADDR=h MASTER_PORT=1 NPROC_PER_NODE=2"
        " llamafactory-cli train a.yaml",
        2,
        B,
        "FORCE_TORCHRUN=1 NPROC_PER_NODE=2 llamafactory-cli train a.yaml",
        id="LLaMA-Factory",
    ),
    pytest.param(
        "accelerate launch --num_machines 2 --num_processes 16 --machine_rank 0"
        " --main_process_ip x --mixed_precision bf16 train.py",
        8,
        B,
        "accelerate launch --num_machines=1 --machine_rank=0 --num_processes=8"
        " --main_process_port=0 --mixed_precision bf16 train.py",
        id="accelerate",
    ),
    pytest.param(
        "deepspeed --no_ssh --node_rank=0 --num_nodes=2 --num_gpus 8 train.py --deepspeed ds.json",
        2,
        B,
        "deepspeed --hostfile=/nonexistent/hostfile --include=localhost:0,1 --master_port=4242"
        " train.py --deepspeed ds.json",
        id="deepspeed by hand",
    ),
    pytest.param(
        "deepspeed --hostfile hosts --num_nodes 2 train.py",
        2,
        A,
        "deepspeed --hostfile=/nonexistent/hostfile --include=localhost:0,1 --master_port=4242"
        " train.py",
        id="deepspeed with a hostfile",
    ),
    pytest.param(
        "srun -N 4 --ntasks-per-node=1 torchrun --nnodes 4 --nproc-per-node 8"
        " --rdzv-backend c10d --rdzv-endpoint h:29500 train.py",
        2,
        A,
        "torchrun --standalone --nproc-per-node=2 --max-restarts=0 train.py",
        id="srun that fans torchrun out",
    ),
    pytest.param(
        "mpirun -np 16 -H a:8,b:8 -x NCCL_DEBUG=INFO python train.py",
        2,
        A,
        "mpirun -np 2 -x NCCL_DEBUG=INFO python train.py",
        id="mpirun",
    ),
]


@pytest.mark.parametrize(("typed", "gpus", "node_class", "expected"), CASES)
def test_one_node(typed, gpus, node_class, expected):
    found = on_one_node(typed, gpus, 4242)
    assert found.command == expected
    assert found.node_class is node_class
    assert found.changes
    again = parse_command(found.command)
    assert again.multi_node is MultiNode.SINGLE
    assert on_one_node(found.command, gpus, 4242).node_class is MultiNode.SINGLE


def test_a_launch_of_one_node_stays_but_for_its_port():
    assert on_one_node("python train.py --lr 1", 8).changes == ()
    assert on_one_node("torchrun --nproc_per_node 2 t.py", 2).command == (
        "torchrun --nproc_per_node 2 t.py"
    )
    found = on_one_node("MASTER_PORT=1 torchrun --master_port=29500 t.py 'a b'", 2, 4242)
    assert found.command == "MASTER_PORT=4242 torchrun --master_port=4242 t.py 'a b'"


def test_no_more_processes_than_gpus():
    found = on_one_node("torchrun --nnodes 2 --nproc_per_node 8 t.py", 3)
    assert found.processes == 3


def test_what_is_no_launch_is_refused():
    with pytest.raises(UserError):
        on_one_node("ls -l", 2)


def test_a_free_port_can_be_bound():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SLURM_JOB_ID", True),
        ("RANK", True),
        ("RAY_ADDRESS", True),
        ("RANKING", False),
        ("PATH", False),
    ],
)
def test_variables_of_a_scheduler(name, expected):
    assert scheduler_variable(name) is expected
