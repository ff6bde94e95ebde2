"""Perplexity of a checkpoint on held-out text."""

from __future__ import annotations

import argparse
import math

import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, default_data_collator

from train import packed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("files")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=4096)
    options = parser.parse_args()

    tokenizer = AutoTokenizer.from_pretrained(options.checkpoint)
    model = AutoModelForCausalLM.from_pretrained(
        options.checkpoint, torch_dtype=torch.bfloat16, attn_implementation="sdpa"
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device).eval()
    loader = DataLoader(
        packed(tokenizer, options.files, options.length),
        batch_size=options.batch,
        num_workers=4,
        pin_memory=True,
        collate_fn=default_data_collator,
    )
    total = torch.zeros((), device=device)
    with torch.inference_mode():
        for batch in loader:
            moved = {name: value.to(device, non_blocking=True) for name, value in batch.items()}
            total += model(**moved).loss
    print(f"perplexity {math.exp(total.item() / len(loader)):.3f}")


if __name__ == "__main__":
    main()
