"""`make bench-probe`: what the probe costs a job.

Two figures for each job: the time inside the probe's hooks over the time of all steps, and how
much longer steps take with the probe than without, from interleaved runs with the verdict's own
interval. The job times its steps itself, since without the probe nothing else does, by the wall
clock and by the processor time that it used: on a machine that others use, too, only the second is
steady. On a CPU with short steps this is the worst case: the hooks take the same time however long
a step is.
"""

import argparse
import itertools
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pitstop.runners.job import Job, Limits
from pitstop.runners.local_runner import LocalRunner
from pitstop.runners.measurement import overhead
from pitstop.runners.probing import ProbeRequest, place_probe, read_probe
from pitstop.runners.verify import Pair, judge

START = """
import json, os, time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
WARM_UP, STEPS = 10, int(os.environ["STEPS"])
ticks = []
def ended():
    ticks.append((time.perf_counter(), time.process_time()))
    if len(ticks) > WARM_UP + STEPS:
        json.dump(ticks[WARM_UP:], open("own.json", "w"))
        raise SystemExit
"""

JOBS: Mapping[str, str] = {
    "small network, 4 micro batches": START
    + """
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64))
optimizer = torch.optim.AdamW(model.parameters())
data = TensorDataset(torch.randn(4096, 256), torch.randint(0, 64, (4096,)))
while True:
    for number, (x, y) in enumerate(DataLoader(data, batch_size=64)):
        nn.functional.cross_entropy(model(x), y).backward()
        if number % 4 == 3:
            optimizer.step(); optimizer.zero_grad(); ended()
""",
    "transformer of transformers": START
    + """
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(vocab_size=512, n_embd=128, n_layer=4, n_head=4))
optimizer = torch.optim.AdamW(model.parameters())
ids = torch.randint(0, 512, (4096, 64))
rows = [{"input_ids": row, "attention_mask": torch.ones_like(row)} for row in ids]
while True:
    for batch in DataLoader(rows, batch_size=8):
        model(**batch, labels=batch["input_ids"]).loss.backward()
        optimizer.step(); optimizer.zero_grad(); ended()
""",
    "Trainer of transformers": START
    + """
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
model = GPT2LMHeadModel(GPT2Config(vocab_size=512, n_embd=128, n_layer=2, n_head=4))
rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 512, (4096, 64))]
class Own(TrainerCallback):
    def on_step_end(self, *args, **keywords):
        ended()
options = TrainingArguments("out", max_steps=10**6, use_cpu=True, report_to="none",
                            save_strategy="no", disable_tqdm=True, logging_strategy="no")
Trainer(model, options, train_dataset=rows, callbacks=[Own()]).train()
""",
}


Times = tuple[float, ...]


def timed(name: str, folder: Path, steps: int, *, probed: bool) -> tuple[Times, Times, float]:
    """Step times of one run by the wall clock and by the processor's, and the share of the
    probe's hooks (NaN without it)."""
    out = folder / name / "out"
    env = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "STEPS": str(steps)}
    if probed:
        env |= place_probe(folder / name / "site", ProbeRequest(steps=1, stop=False), out)
    command = (sys.executable, "train.py")
    job = Job(name, command, folder, folder / name, env=env, limits=Limits(seconds=300))
    result = LocalRunner().run(job)
    if not result.ok:
        raise SystemExit(f"{name} failed: {result.text(2000)}")
    ticks = zip(*json.loads((folder / "own.json").read_text("utf-8")), strict=True)
    wall, used = (tuple(b - a for a, b in itertools.pairwise(clock)) for clock in ticks)
    return wall, used, overhead(read_probe(out))


def compare(program: str, pairs: int, steps: int) -> str:
    """Run a job in interleaved pairs, without and with the probe; a line of figures."""
    walls: list[Pair] = []
    useds: list[Pair] = []
    shares: list[float] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        (folder / "train.py").write_text(program, "utf-8")
        for number in range(pairs):
            order = (False, True) if number % 2 == 0 else (True, False)
            runs = {on: timed(f"{number}{'ab'[on]}", folder, steps, probed=on) for on in order}
            walls.append(Pair(runs[False][0], runs[True][0]))
            useds.append(Pair(runs[False][1], runs[True][1]))
            shares.append(runs[True][2])
    usual, share = statistics.median([t for pair in walls for t in pair.before]), max(shares)
    return (
        f"step {usual * 1e3:.2f} ms, in hooks at most {share:.2%} of it"
        f" ({share * usual * 1e6:.0f} us); with the probe, by wall clock {_longer(walls)},"
        f" by processor time {_longer(useds)}; {pairs} pairs of {steps} steps"
    )


def _longer(pairs: list[Pair]) -> str:
    found = judge(pairs)
    low, high = (1 / bound - 1 for bound in (found.high, found.low))
    return f"{1 / found.by - 1:+.1%} (95 % interval {low:+.1%} to {high:+.1%})"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pairs", type=int, default=5)
    arguments.add_argument("--steps", type=int, default=200)
    given = arguments.parse_args()
    for name, program in JOBS.items():
        print(f"{name}: {compare(program, given.pairs, given.steps)}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
