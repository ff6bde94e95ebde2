from vllm import LLM, SamplingParams

if __name__ == "__main__":
    llm = LLM("Qwen/Qwen2.5-7B-Instruct")
    print(llm.generate(["Hello"], SamplingParams()))
