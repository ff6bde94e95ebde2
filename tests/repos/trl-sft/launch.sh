#!/bin/sh
accelerate launch --config_file accelerate/fsdp.yaml --machine_rank "$RANK" sft.py
