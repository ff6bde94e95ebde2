"""The perf-doctor: rules for launch scripts of Relax (RL post-training on Megatron and SGLang)."""
