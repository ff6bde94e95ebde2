#!/bin/bash
cat > ds.json <<EOF
{
  "train_micro_batch_size_per_gpu": 4,
  "fp16": {"enabled": true},
  "zero_optimization": {"stage": 3, "overlap_comm": false}
}
EOF
deepspeed --num_gpus 8 train.py --deepspeed_config ds.json
