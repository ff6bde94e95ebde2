from dataclasses import dataclass, field

import torch
import transformers
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, HfArgumentParser, Trainer


@dataclass
class ModelArguments:
    model_name_or_path: str = field(default="gpt2")


@dataclass
class TrainingArguments(transformers.TrainingArguments):
    optim: str = field(default="adamw_torch")


def main():
    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained(
        model_args.model_name_or_path, torch_dtype=torch.bfloat16, attn_implementation="sdpa"
    )
    tokenizer = AutoTokenizer.from_pretrained(model_args.model_name_or_path)
    data = load_dataset("text", data_files="corpus.txt")["train"].map(lambda b: tokenizer(b["text"]))
    Trainer(model=model, args=training_args, train_dataset=data).train()


if __name__ == "__main__":
    main()
