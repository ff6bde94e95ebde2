from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

config = SFTConfig(
    output_dir="out",
    max_length=4096,
    packing=False,
    per_device_train_batch_size=4,
    model_init_kwargs={"attn_implementation": "eager", "torch_dtype": "bfloat16"},
)
trainer = SFTTrainer(
    model="Qwen/Qwen3-30B-A3B", args=config, train_dataset=load_dataset("trl-lib/Capybara")["train"]
)
trainer.train()
