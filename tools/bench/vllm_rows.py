"""Rows of vLLM on the CPU: flags as work.read_flags. Runs in the environment that tools/bench/peers made."""
import os
import pathlib
import shutil
import sys
import time

import work


def unpacked(gguf):
    """A folder with the same weights in bf16, made once beside this environment: vLLM's CPU path reads no Q4_1."""
    folder = pathlib.Path(sys.prefix) / "models" / gguf.stem
    if folder.exists() and folder.stat().st_mtime > gguf.stat().st_mtime:
        return str(folder)
    import torch
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16,
        quantization_config=transformers.GgufConfig(dequantize=True))
    part = folder.with_name(folder.name + ".part")
    model.save_pretrained(part)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    return str(folder)


def start(flags, prefix_cache):
    import vllm
    llm = vllm.LLM(unpacked(flags.model), skip_tokenizer_init=True, dtype="bfloat16", enforce_eager=True,
                   max_model_len=1024, max_num_batched_tokens=1024, max_num_seqs=64, enable_prefix_caching=prefix_cache,
                   disable_log_stats=False)

    def generate(prompts, output):
        parameters = vllm.SamplingParams(max_tokens=output, ignore_eos=True, temperature=0, detokenize=False)
        inputs = [{"prompt_token_ids": prompt} for prompt in prompts]
        began = time.perf_counter()
        results = llm.generate(inputs, parameters, use_tqdm=False)
        seconds = time.perf_counter() - began
        assert all(len(result.outputs[0].token_ids) == output for result in results)
        return results[0].metrics.first_token_latency, seconds
    return generate


def main():
    flags = work.read_flags()
    # Before the import, which reads them.
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = "1"
    import vllm
    work.measure(flags, vllm.__version__, lambda: start(flags, False), lambda: start(flags, True))


if __name__ == "__main__":
    main()
