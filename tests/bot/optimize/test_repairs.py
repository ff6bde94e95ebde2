"""Changes that do not run at first, and what is done about them."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from pitstop.bot.optimize import search
from pitstop.bot.optimize.loop import optimize
from pitstop.bot.optimize.repairs import LADDERS
from pitstop.rules.facts import gather
from pitstop.rules.tree import DictTree
from pitstop.runners.local_runner import LocalRunner
from pitstop.transforms.patch import Changed, apply_patches
from pitstop.transforms.set_knob import set_knobs
from tests.bot.optimize.test_loop import SLOW_LOADER, report, request

RUN = (
    "torchrun --nproc_per_node 8 run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --output_dir out"
    " --per_device_train_batch_size {} --gradient_accumulation_steps {} --dataloader_num_workers 8"
    " --attn_implementation flash_attention_2\n"
)
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"
    " capacity of 79.10 GiB of which 1.20 GiB is free. {} GiB is reserved by PyTorch but"
    " unallocated."
)


def job_of(micro: int = 8, accumulation: int = 2):
    facts = gather(DictTree({"run.sh": RUN.format(micro, accumulation)}))
    (job,) = facts.jobs
    return job, facts


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        (
            "CUDA_OOM",
            OOM.format("12.0"),
            {"env:PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        ),
        ("CUDA_OOM", OOM.format("0.5"), {"batch.micro": 4, "batch.accumulation": 4}),
        ("CUDA_OOM", "CUDA error: out of memory", {"batch.micro": 4, "batch.accumulation": 4}),
        ("HOST_OOM", "", {"dataloader.workers": 4}),
        ("SHM", "", {"dataloader.workers": 2}),
        ("COMPILE", "", None),
    ],
)
def test_the_first_rung_that_applies(kind: str, text: str, wanted: object) -> None:
    job, facts = job_of()
    found = (rung.settings(job, text) for rung in LADDERS[kind])
    assert next((one for one in found if one is not None), None) == wanted
    if wanted is not None and not any(name.startswith("env:") for name in wanted):
        outcome = set_knobs(job, wanted, facts)  # type: ignore[arg-type]
        assert isinstance(outcome, Changed), outcome
        texts, _ = apply_patches(facts.tree, (outcome.patch,))
        (after,) = gather(DictTree(dict(texts))).jobs
        for knob, value in wanted.items():  # type: ignore[attr-defined]
            assert after.value(knob) == value


@pytest.mark.parametrize("micro", [1, 3])
def test_a_micro_batch_that_cannot_be_halved_stays(micro: int) -> None:
    job, _ = job_of(micro)
    assert all(rung.settings(job, "") is None for rung in LADDERS["CUDA_OOM"])


@pytest.mark.timeout(240)
def test_a_change_is_repaired_measured_and_told_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers die after some steps, as on a machine with too little memory; the short runs that
    choose their number end before."""
    monkeypatch.setattr(search, "MOST_VARIANTS", 2)
    project = tmp_path / "project"
    project.mkdir()
    program = textwrap.dedent(SLOW_LOADER).lstrip()
    dies = (
        "            seen = locals().get('seen', 0) + 1\n"
        "            if seen == 7 and loader.num_workers > 0:\n"
        "                raise RuntimeError('DataLoader worker (pid(s) 7) exited unexpectedly')\n"
    )
    at = program.index("            optimizer.zero_grad")
    (project / "train.py").write_text(program[:at] + dies + program[at:])
    session = optimize(request(project, only=("loader-arguments",)), LocalRunner())
    (tried,) = session.tried
    why = "the machine has not enough memory"
    assert tried.repairs[-1] == f"{why}: no loader workers"
    assert "num_workers=0" in tried.diff
    assert tried.outcome in ("kept", "not faster", "within noise")
    assert tried.comparison["parity"]["ok"]
    assert f"repaired: {why}" in report(project)
    assert session.track is not None and session.start is not None
    commits = session.track.history.mail(session.start.commit, tried.commit)
    assert len(commits) == 1
