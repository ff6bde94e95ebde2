#!/bin/bash
# 8x H100 machine
export FORCE_TORCHRUN=1
CUDA_VISIBLE_DEVICES=0,1,2,3 llamafactory-cli train configs/qwen_lora.yaml \
    learning_rate=2e-5 bf16=false fp16=true
llamafactory-cli export configs/merge.yaml
