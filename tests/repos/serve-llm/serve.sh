vllm serve Qwen/Qwen2.5-7B-Instruct --gpu-memory-utilization 0.9
