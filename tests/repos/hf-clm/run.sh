#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:a100-80gb:8
#SBATCH --ntasks-per-node=1

export NCCL_DEBUG=INFO
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
MODEL=Qwen/Qwen2.5-7B

torchrun --nnodes 2 --nproc_per_node 8 train.py \
    --model_name_or_path $MODEL \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps=4 \
    --bf16 \
    --learning_rate 2e-5 \
    --logging_steps 1 \
    --dataloader_num_workers 0 \
    --gradient_checkpointing True \
    --no_remove_unused_columns \
    --deepspeed configs/zero2.json \
    --output_dir out
