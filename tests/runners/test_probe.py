"""The probe in real jobs: it counts, stops, keeps quiet, and never changes what is trained."""

import gzip
import json
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitstop.runners.job import Job
from pitstop.runners.local_runner import LocalRunner
from pitstop.runners.parity import compare_losses, same_work
from pitstop.runners.probing import ProbeRequest, place_probe, read_probe, ticks_reached

pytestmark = pytest.mark.timeout(120)

LOOP = """
    import os, sys, torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    model = nn.Linear(16, 4)
    data = TensorDataset(torch.randn(640, 16), torch.randint(0, 4, (640,)))
    order = torch.Generator().manual_seed(int(os.environ.get("ORDER", 0)))
    loader = DataLoader(data, batch_size=int(os.environ.get("ROWS", 16)), shuffle=True,
                        generator=order, num_workers=int(os.environ.get("W", 0)))
    getattr(model, "module", model).weight.requires_grad_("FROZEN" not in os.environ)
    lr = float(os.environ.get("LR", 0.1))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    other = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=lr)
    parts = int(os.environ.get("PARTS", 1))
    for epoch in range(2):
        for number, (x, y) in enumerate(loader):
            for part in range(parts):
                if part == parts - 1 and "DROP" in os.environ and parts > 1:
                    continue
                rows = slice(part * 16 // parts, (part + 1) * 16 // parts)
                loss = nn.functional.cross_entropy(model(x[rows]), y[rows]) / parts
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            other.step()
        torch.save(model.state_dict(), "model.pt")
    print("finished", os.path.getsize("model.pt"))
"""


def test_steps_are_counted_timed_and_capped(probed):
    result, run, _ = probed(LOOP, ProbeRequest(steps=12))
    assert result.ok, result.text()
    assert "finished" not in result.text()
    (rank,) = run.ranks
    assert ticks_reached(run) == 12
    assert len(run.step_seconds()) == 11
    assert len(run.step_losses()) == 12
    assert rank.stopped
    assert rank.samples == (16,) * 12
    assert rank.trainable_parameters == 68
    assert rank.optimizer == "SGD"
    assert rank.peak_rss is not None
    assert run.problems == ()


def test_a_job_that_ends_by_itself_is_seen_and_its_checkpoint_is_empty(probed):
    result, run, _ = probed(LOOP, ProbeRequest(steps=1000), W="2")
    assert result.text() == "finished 0\n"
    assert ticks_reached(run) == 80
    assert run.ranks[0].saves_blocked == 2
    assert not run.ranks[0].stopped


def test_losses_are_those_that_the_job_computes(probed):
    told = LOOP.replace("loss.backward()", "loss.backward(); print(repr(loss.item()))")
    result, run, _ = probed(told, ProbeRequest(steps=5))
    assert [float(line) for line in result.text().split()] == list(run.step_losses())


def test_two_processes_are_two_ranks(probed):
    program = LOOP.replace("torch.manual_seed(0)", """
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)""").replace(
        "model = nn.Linear(16, 4)",
        "model = nn.parallel.DistributedDataParallel(nn.Linear(16, 4))",
    )  # fmt: skip
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    command = (torchrun, "--standalone", "--nproc-per-node=2", "train.py")
    result, run, _ = probed(program, ProbeRequest(steps=6), command)
    assert result.ok, result.text()
    assert [(rank.rank, rank.world, len(rank.host_ticks)) for rank in run.ranks] == [
        (0, 2, 6),
        (1, 2, 6),
    ]


def test_a_profile_has_the_wanted_steps(probed):
    _, run, _ = probed(LOOP, ProbeRequest(steps=9, warm_up=3, profile=True))
    (trace,) = run.traces
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    steps = {e["name"] for e in events if str(e.get("name", "")).startswith("ProfilerStep")}
    assert len(steps) == 3


def test_what_is_written_before_the_first_step_or_stood_there_is_kept(probed):
    program = LOOP.replace("for epoch in range(2):", """
    torch.save([1, 2], "prepared.pt")
    assert torch.load("prepared.pt") == [1, 2]
    open("model.pt", "w").write("older")
    for epoch in range(2):""")  # fmt: skip
    result, run, _ = probed(program, ProbeRequest(steps=1000))
    assert result.text() == "finished 5\n"
    assert run.ranks[0].saves_blocked == 2


def test_checkpoints_are_written_when_nothing_else_is_asked(probed):
    result, run, _ = probed(LOOP, ProbeRequest(steps=1000, block_saves=False))
    assert int(result.text().split()[1]) > 100
    assert run.ranks[0].saves_blocked == 0


def test_a_library_that_looks_for_torch_first_changes_nothing(probed):
    program = "import importlib.util\nimportlib.util.find_spec('torch')\n" + textwrap.dedent(
        LOOP.replace("torch.manual_seed(0)", "print(torch.initial_seed())")
    )
    result, run, _ = probed(program, ProbeRequest(steps=3, seed=77))
    assert result.text() == "77\n"
    assert ticks_reached(run) == 3


def test_only_the_first_optimizer_counts_and_its_successor_when_it_is_gone(probed):
    program = LOOP.replace("optimizer.zero_grad()", """optimizer.zero_grad()
            if number == 4:
                optimizer = torch.optim.Adam(model.parameters(), lr=lr)""")  # fmt: skip
    _, run, _ = probed(program, ProbeRequest(steps=12))
    assert ticks_reached(run) == 12
    assert run.ranks[0].optimizer == "Adam"
    assert all(len(step) == 1 for step in run.ranks[0].losses)


def test_time_in_the_hooks_is_summed_and_small(probed):
    _, run, _ = probed(LOOP, ProbeRequest(steps=60))
    (rank,) = run.ranks
    assert 0 < rank.hook_seconds < rank.host_ticks[-1] - rank.host_ticks[0]


def test_a_job_ends_at_its_last_step_even_if_nothing_can_be_written(probed):
    program = LOOP.replace("optimizer.step()", """optimizer.step()
            if number == 2:
                import pitstop_facts
                pitstop_facts.note = None""")  # fmt: skip
    result, run, _ = probed(program, ProbeRequest(steps=9))
    assert result.ok
    assert result.text() == ""
    assert run.ranks == ()


def test_an_exception_is_written_down(probed):
    program = LOOP.replace("other.step()", "1 / (len(sys.argv) - 1)")
    result, run, _ = probed(program, ProbeRequest(steps=9))
    error = run.ranks[0].error
    assert not result.ok
    assert error is not None
    assert (error.type, error.ticks) == ("ZeroDivisionError", 1)
    assert "train.py" in error.text


def test_without_torch_nothing_happens(probed):
    result, run, scratch = probed("print('plain')", ProbeRequest(steps=3))
    assert result.text() == "plain\n"
    assert run.ranks == ()
    assert list((scratch / "site").glob("failed*")) == []


def test_another_sitecustomize_still_runs(probed, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "sitecustomize.py").write_text("print('theirs')")
    folder = tmp_path / "p2"
    wish = ProbeRequest(steps=2)
    site = place_probe(folder / "site", wish, folder / "out")["PYTHONPATH"]
    (tmp_path / "project" / "train.py").write_text("print('job')")
    env = {"PYTHONPATH": f"{site}:{tmp_path / 'theirs'}"}
    command = (sys.executable, "train.py")
    result = LocalRunner().run(Job("j", command, tmp_path / "project", folder, env=env))
    assert result.text() == "theirs\njob\n"


OTHER_TRAINING = {
    "losses differ, first": {"LR": "0.11"},
    "losses differ, order": {"ORDER": "1"},
    "losses differ, batch": {"PARTS": "2", "DROP": "1"},
    "a step has 8 samples instead of 16": {"ROWS": "8"},
    "4 parameters are trained instead of 68": {"FROZEN": "1"},
}


def test_other_training_is_found_out(probed):
    wish = ProbeRequest(steps=12, deterministic=True)
    _, one, _ = probed(LOOP, wish)
    _, again, _ = probed(LOOP, wish)
    assert compare_losses(one, again, again, "exact").ok
    for why, change in OTHER_TRAINING.items():
        _, other, _ = probed(LOOP, wish, **change)
        found = same_work(one, other) or compare_losses(one, other, again, "equivalent").text
        assert found.startswith(why.partition(",")[0]), change


def test_accumulation_alone_is_the_same_training(probed):
    wish = ProbeRequest(steps=12, deterministic=True)
    _, one, _ = probed(LOOP, wish)
    _, split, _ = probed(LOOP, wish, PARTS="2")
    assert same_work(one, split) is None
    assert compare_losses(one, split, None, "equivalent").ok


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["rank_0_1.json", "error_0_1.json", "x.json"]))
def test_hostile_files_are_named_not_believed(data, name):
    with tempfile.TemporaryDirectory() as out:
        (Path(out) / name).write_bytes(data)
        assert read_probe(Path(out)).ranks == ()


def test_of_several_errors_the_first_counts(tmp_path):
    def error(pid: int, at: float, kind: str) -> None:
        record = {"rank": 0, "pid": pid, "at": at, "type": kind, "message": "", "text": "",
                  "ticks": 2}  # fmt: skip
        (tmp_path / f"error_0_{pid}.json").write_text(json.dumps(record))

    error(10, 200.0, "ChildFailedError")
    error(11, 100.0, "ValueError")
    (rank,) = read_probe(tmp_path).ranks
    assert rank.error is not None
    assert rank.error.type == "ValueError"


@pytest.mark.parametrize(
    "record",
    [
        {"rank": -1}, {"rank": True, "world": 1, "pid": 1}, {"rank": 0, "world": "x"},
        {"rank": 0, "world": 1, "pid": 1, "host_ticks": "abc"},
        {"rank": 0, "world": 1, "pid": 1, "host_ticks": [{}], "device_steps": None},
        {"rank": 0, "world": 1, "pid": 1, "host_ticks": [2.0, 1.0], "device_steps": None},
        [], None, 3,
    ],
)  # fmt: skip
def test_records_of_another_shape_are_left_out(record, tmp_path):
    (tmp_path / "rank_0_1.json").write_text(json.dumps(record))
    assert read_probe(tmp_path).ranks == ()


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "out" / "rank_0_1.json").symlink_to(tmp_path / "secret.json")
    assert read_probe(tmp_path / "out").problems == ("rank_0_1.json: not a file of ours",)
