"""A small language model on random weights with the Trainer's defaults and a slow collator."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(0, 512, (64,), generator=generator)
        for _ in range(60):
            ids = (ids * 31 + 7) % 512
        return {"input_ids": ids, "labels": ids}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = GPT2Config(vocab_size=512, n_positions=64, n_embd=64, n_layer=2, n_head=2)
    options = TrainingArguments(
        output_dir="out",
        max_steps=600,
        per_device_train_batch_size=8,
        learning_rate=1e-3,
        report_to="none",
        disable_tqdm=True,
        logging_steps=200,
    )
    Trainer(GPT2LMHeadModel(config), options, train_dataset=Rows()).train()


if __name__ == "__main__":
    main()
