"""Repositories and traces that the benches make: alike in every run, as large as asked for."""

import json
from pathlib import Path

MODULE = '''"""Part {n} of a project that trains."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Samples{n}(Dataset):
    def __init__(self, rows, width=64):
        self.rows = rows
        self.width = width

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        return torch.tensor(row["input"][: self.width]), row["label"]


class Block{n}(nn.Module):
    def __init__(self, width=64, heads=4, dropout=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        wide = 4 * width
        self.mlp = nn.Sequential(nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width))

    def forward(self, x, mask=None):
        y = self.norm(x)
        y, _ = self.attention(y, y, y, attn_mask=mask, need_weights=False)
        x = x + y
        return x + self.mlp(x)


def helper_{n}(values, scale=1.0, offset=0):
    found = {{}}
    for index, value in enumerate(values):
        if value is None:
            continue
        key = f"{{index}}:{{type(value).__name__}}"
        found[key] = (float(value) * scale + offset, index)
    return sorted(found.items(), key=lambda item: item[1])
'''
LOOP = """

def train(rows):
    samples = Samples{n}(rows)
    loader = DataLoader(samples, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)
    model = Block{n}().cuda()
    optimizer = {optimizer}
    for inputs, labels in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs.cuda()).mean(1), labels.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    import json
    import sys

    train(json.load(open(sys.argv[1])))
"""
FUSED = "torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)"
CONFIG = """model_name_or_path: Qwen/Qwen2.5-7B-Instruct
stage: sft
do_train: true
finetuning_type: lora
dataset: part_{n}
template: qwen
cutoff_len: 2048
output_dir: saves/{n}
per_device_train_batch_size: 2
gradient_accumulation_steps: 8
learning_rate: 1.0e-4
bf16: true
dataloader_num_workers: 4
logging_steps: 10
save_steps: 500
"""


def make_repository(folder: Path, files: int, optimizer: str = FUSED) -> None:
    """A repository of so many files: eight of ten Python, one of them a program with its launch
    script, the others configurations, data and words."""
    for n in range(files):
        home = folder / f"part{n // 100:03d}"
        home.mkdir(parents=True, exist_ok=True)
        kind = n % 20
        if kind < 16:
            text = MODULE.format(n=n) + (LOOP.format(n=n, optimizer=optimizer) if kind == 0 else "")
            (home / f"module{n}.py").write_text(text)
        elif kind == 16:
            (home / f"run{n}.sh").write_text(
                f"#!/bin/bash\nset -e\ncd $(dirname $0)\npython module{n - 16}.py data.json\n"
            )
        elif kind == 17:
            (home / f"sft{n}.yaml").write_text(CONFIG.format(n=n))
        elif kind == 18:
            rows = [{"name": f"row {n} {i}", "value": i * 0.5} for i in range(40)]
            (home / f"data{n}.json").write_text(json.dumps(rows, indent=1))
        else:
            (home / f"notes{n}.md").write_text(f"# Notes {n}\n\n" + "Words about it.\n" * 30)


def make_trace(file: Path, megabytes: int) -> None:
    """A profiler trace of one GPU: kernels, and operators that start them, in steps."""
    written = 0
    with file.open("w") as out:
        out.write('{"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": [\n')
        n = 0
        while written < megabytes * 10**6:
            at = n // 2 * 21.0
            event: dict[str, object] = {
                "ph": "X", "cat": "kernel" if n % 2 else "cuda_runtime",
                "name": f"kernel_{n % 97}" if n % 2 else "cudaLaunchKernel",
                "pid": 0 if n % 2 else 100, "tid": 7, "ts": at + 12 * (n % 2), "dur": 8.25,
                "args": {"External id": n // 2, "stream": 7, "correlation": n // 2 + 1},
            }  # fmt: skip
            written += out.write(("," if n else "") + json.dumps(event) + "\n")
            n += 1
        out.write("]}\n")
