"""Fine-tunes a causal language model on prompts and answers, packed to full sequences."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch
from datasets import Dataset, load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    HfArgumentParser,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)


@dataclass
class ScriptArguments:
    """What the config says besides the fields of TrainingArguments."""

    model_name_or_path: str
    train_files: str
    sequence_length: int = 4096
    attn_implementation: str = "sdpa"


def packed(tokenizer: PreTrainedTokenizerBase, files: str, length: int) -> Dataset:
    """All examples, end to end, cut into sequences of the same length: no padding at all."""
    raw = load_dataset("json", data_files=files, split="train")

    def tokenize(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        texts = [
            f"{prompt}\n{answer}{tokenizer.eos_token}"
            for prompt, answer in zip(batch["prompt"], batch["answer"], strict=True)
        ]
        return {"input_ids": tokenizer(texts)["input_ids"]}

    def pack(batch: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        flat = [token for ids in batch["input_ids"] for token in ids]
        usable = len(flat) // length * length
        pieces = [flat[at : at + length] for at in range(0, usable, length)]
        return {"input_ids": pieces, "labels": pieces}

    tokenized = raw.map(tokenize, batched=True, remove_columns=raw.column_names, num_proc=8)
    return tokenized.map(pack, batched=True, batch_size=2000, num_proc=8)


def main() -> None:
    parser = HfArgumentParser((ScriptArguments, TrainingArguments))
    script, arguments = parser.parse_yaml_file(sys.argv[1])
    set_seed(arguments.seed)
    tokenizer = AutoTokenizer.from_pretrained(script.model_name_or_path)
    with arguments.main_process_first(desc="packing"):
        dataset = packed(tokenizer, script.train_files, script.sequence_length)
    model = AutoModelForCausalLM.from_pretrained(
        script.model_name_or_path,
        torch_dtype=torch.bfloat16,
        attn_implementation=script.attn_implementation,
        use_cache=False,
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=dataset,
        data_collator=default_data_collator,
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
