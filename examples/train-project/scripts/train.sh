#!/usr/bin/env bash
# Instruction tuning on one node with eight H100. Takes another config as its argument.
set -euo pipefail
cd "$(dirname "$0")/.."

CONFIG=${1:-configs/sft.yaml}

export OMP_NUM_THREADS=8
export TOKENIZERS_PARALLELISM=false
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True

torchrun \
  --standalone \
  --nproc_per_node 8 \
  train.py "$CONFIG"
