"""Rows of vLLM on the CPU as JSON: MODEL.gguf THREADS. Runs in the environment that tools/bench/peers made."""
import json
import os
import pathlib
import sys
import time


def unpacked(gguf):
    """A folder with the same weights in bf16, made once beside this environment: vLLM's CPU path reads no Q4_1."""
    import torch
    import transformers
    folder = pathlib.Path(sys.prefix) / "models" / gguf.stem
    if not (folder / "config.json").exists():
        model = transformers.AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16,
            quantization_config=transformers.GgufConfig(dequantize=True))
        model.save_pretrained(folder)
    return str(folder)


def generator(llm):
    import vllm

    def generate(prompts, output):
        parameters = vllm.SamplingParams(max_tokens=output, ignore_eos=True, temperature=0, detokenize=False)
        inputs = [{"prompt_token_ids": prompt} for prompt in prompts]
        start = time.perf_counter()
        results = llm.generate(inputs, parameters, use_tqdm=False)
        seconds = time.perf_counter() - start
        assert all(len(result.outputs[0].token_ids) == output for result in results)
        return results[0].metrics.first_token_latency, seconds
    return generate


def main():
    gguf, threads = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    # Before the import, which reads them.
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = f"0-{threads - 1}"
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = "1"
    import vllm

    import work

    def engine(prefix_cache):
        return generator(vllm.LLM(unpacked(gguf), skip_tokenizer_init=True, dtype="bfloat16", enforce_eager=True,
                                  max_model_len=1024, max_num_batched_tokens=1024, max_num_seqs=64,
                                  enable_prefix_caching=prefix_cache, disable_log_stats=False))

    sys.stdout.flush()
    print(json.dumps({"version": vllm.__version__, "rows": work.measure(engine(False), engine(True))}))


if __name__ == "__main__":
    main()
