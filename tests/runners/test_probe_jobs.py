"""The probe in jobs as people start and write them: launchers, libraries, compiled models."""

import sys
from pathlib import Path

import pytest

from pitstop.runners.probing import ProbeRequest, ticks_reached

pytestmark = pytest.mark.timeout(120)

TORCHRUN = str(Path(sys.executable).with_name("torchrun"))

MODEL = """
    import os, sys, torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    def train(rank=0, world=1):
        if world > 1:
            torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
        torch.manual_seed(0)
        model = nn.Linear(16, 4)
        if world > 1:
            model = nn.parallel.DistributedDataParallel(model)
        if "COMPILE" in os.environ:
            model = torch.compile(model, backend="eager")
        optimizer = torch.optim.AdamW(model.parameters())
        step = optimizer.step
        if "COMPILE" in os.environ:
            step = torch.compile(step, backend="eager")
        data = TensorDataset(torch.randn(400, 16), torch.randn(400, 4))
        for x, y in DataLoader(data, batch_size=8, num_workers=int(os.environ.get("W", 0))):
            nn.functional.mse_loss(model(x), y).backward()
            step()
            optimizer.zero_grad()
"""


def ranks(run):
    return [(rank.rank, rank.world, len(rank.host_ticks)) for rank in run.ranks]


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_that_the_job_starts_itself(probed, method):
    program = (
        MODEL
        + f"""
    if __name__ == "__main__":
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="0", TORCH_GLOO_LAZY_INIT="0")
        import socket
        with socket.socket() as one:
            one.bind(("localhost", 0))
            os.environ["MASTER_PORT"] = str(one.getsockname()[1])
        from torch.multiprocessing import start_processes
        start_processes(train, (2,), nprocs=2, start_method={method!r})
        print("joined")
    """
    )
    result, run, _ = probed(program, ProbeRequest(steps=6))
    assert result.text().endswith("joined\n"), result.text()
    assert ranks(run) == [(0, 2, 6), (1, 2, 6)]


def test_a_forked_process_that_ends_by_itself_is_seen(probed):
    program = (
        MODEL
        + """
    if __name__ == "__main__":
        from torch.multiprocessing import start_processes
        start_processes(train, (1,), nprocs=1, start_method="fork")
    """
    )
    result, run, _ = probed(program, ProbeRequest(steps=1000))
    assert result.ok, result.text()
    assert ticks_reached(run) == 50
    assert not run.ranks[0].stopped


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_that_load_data_write_nothing(probed, method):
    program = (
        MODEL
        + f"""
    if __name__ == "__main__":
        torch.multiprocessing.set_start_method({method!r})
        train()
    """
    )
    result, run, scratch = probed(program, ProbeRequest(steps=6), W="2")
    assert result.ok, result.text()
    assert ranks(run) == [(0, 1, 6)]
    assert [path.name[:5] for path in (scratch / "out").iterdir()] == ["rank_"]


def test_a_module_run_by_its_name(probed):
    command = (sys.executable, "-m", "train")
    result, run, _ = probed(MODEL + "\n    train()\n", ProbeRequest(steps=6), command)
    assert result.ok, result.text()
    assert ranks(run) == [(0, 1, 6)]


def test_a_compiled_model_and_optimizer(probed):
    plain, one, _ = probed(MODEL + "\n    train()\n", ProbeRequest(steps=8))
    compiled, two, _ = probed(MODEL + "\n    train()\n", ProbeRequest(steps=8), COMPILE="1")
    assert plain.ok
    assert compiled.ok, compiled.text()
    assert "getpid" not in compiled.text()
    assert ranks(two) == [(0, 1, 8)]
    assert two.step_losses() == pytest.approx(one.step_losses(), rel=1e-5)


def test_the_scale_of_fp16_is_not_in_the_losses(probed):
    program = (
        MODEL
        + """
    train()
    """
    )
    scaled = program.replace(
        "optimizer = ", 'scaler = torch.amp.GradScaler("cpu"); optimizer = '
    ).replace(".backward()", "; loss = _; scaler.scale(loss).backward()")
    scaled = scaled.replace("nn.functional.mse_loss", "_ = nn.functional.mse_loss")
    scaled = scaled.replace(
        "            step()", "            scaler.step(optimizer); scaler.update()"
    )
    _, one, _ = probed(program, ProbeRequest(steps=5))
    result, two, _ = probed(scaled, ProbeRequest(steps=5))
    assert result.ok, result.text()
    assert two.step_losses() == pytest.approx(one.step_losses(), rel=1e-5)


def test_the_error_of_a_rank_is_told_not_that_of_its_launcher(probed):
    program = """
    import os, torch
    if os.environ["RANK"] == "0":
        raise KeyError("lost")
    """
    command = (TORCHRUN, "--standalone", "--nproc-per-node=1", "train.py")
    result, run, _ = probed(program, ProbeRequest(steps=6), command)
    assert not result.ok
    assert "ChildFailedError" in result.text()
    assert [rank.error.type for rank in run.ranks if rank.error] == ["KeyError"]


ACCELERATE = """
    import torch
    from accelerate import Accelerator
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = nn.Linear(8, 1)
    loader = DataLoader(TensorDataset(torch.randn(320, 8)), batch_size=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for (x,) in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(x).square().mean())
            optimizer.step()
            optimizer.zero_grad()
    accelerator.save_state("state")
    print("finished")
"""


def test_accelerate_counts_updates_not_batches_and_saves_no_state(probed, tmp_path):
    command = (TORCHRUN, "--standalone", "--nproc-per-node=2", "train.py")
    result, run, _ = probed(ACCELERATE, ProbeRequest(steps=8), command)
    assert result.ok, result.text()
    assert ranks(run) == [(0, 2, 8), (1, 2, 8)]
    assert all(len(step) == 2 for step in run.ranks[0].losses)
    assert run.ranks[0].samples[1:] == (8,) * 7
    result, run, _ = probed(ACCELERATE, ProbeRequest(steps=1000))
    assert result.text() == "finished\n"
    assert run.ranks[0].saves_blocked >= 3
    saved = list((tmp_path / "project" / "state").glob("*.safetensors"))
    assert [path.stat().st_size for path in saved] == [0]


TRAINER = """
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    sizes = GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    model = GPT2LMHeadModel(sizes)
    rows = [{"input_ids": torch.arange(n, n + 16) % 64, "labels": torch.arange(n, n + 16) % 64}
            for n in range(200)]
    options = TrainingArguments("out", max_steps=12, per_device_train_batch_size=4, use_cpu=True,
                                report_to="none", gradient_accumulation_steps=2, save_steps=3)
    trainer = Trainer(model, options, train_dataset=rows)
    trainer.train()
    model.save_pretrained("end")
    print("trained")
"""


def test_the_trainer_of_transformers_is_measured_as_it_is(probed):
    result, run, _ = probed(TRAINER, ProbeRequest(steps=8), HF_HUB_OFFLINE="1")
    assert result.ok, result.text()
    (rank,) = run.ranks
    assert len(rank.host_ticks) == 8
    assert all(len(step) == 2 for step in rank.losses)
    assert rank.tokens[1:] == (128,) * 7
    assert rank.saves_blocked >= 4
    assert "trained" not in result.text()


def test_the_trainer_may_end_by_itself_and_saves_nothing(probed, tmp_path):
    result, run, _ = probed(TRAINER, ProbeRequest(steps=100), HF_HUB_OFFLINE="1")
    assert "trained" in result.text()
    assert ticks_reached(run) == 12
    weights = list((tmp_path / "project").rglob("model.safetensors"))
    assert len(weights) == 5
    assert {path.stat().st_size for path in weights} == {0}


def test_the_trainer_is_believed_where_no_optimizer_steps(probed):
    program = TRAINER.replace("max_steps=12", "max_steps=40").replace("trainer.train()", """
    class Silent:
        param_groups = [{"params": list(model.parameters()), "lr": 0.1, "initial_lr": 0.1}]
        defaults, state = {"lr": 0.1}, {}
        def step(self, closure=None):
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.01 * p.grad
        def zero_grad(self, set_to_none=True):
            model.zero_grad()
        def train(self): pass
        def eval(self): pass
        def state_dict(self): return {}
        def load_state_dict(self, state): pass

    class Constant:
        def step(self): pass
        def get_last_lr(self): return [0.1]
        def state_dict(self): return {}

    trainer.optimizer, trainer.lr_scheduler = Silent(), Constant()
    trainer.train()""")  # fmt: skip
    result, run, _ = probed(program, ProbeRequest(steps=10), HF_HUB_OFFLINE="1")
    assert result.ok, result.text()
    assert ranks(run) == [(0, 1, 10)]
