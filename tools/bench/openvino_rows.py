"""Rows of OpenVINO GenAI as JSON: MODEL.gguf THREADS. Runs in the environment that tools/bench/peers made."""
import json
import sys
import time

import numpy
import openvino
import openvino_genai

import work


def pipeline(model, threads, prefix_cache):
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 1  # GB
    scheduler.max_num_batched_tokens = 512  # as Qanat's default
    scheduler.max_num_seqs = 64
    scheduler.enable_prefix_caching = prefix_cache
    return openvino_genai.LLMPipeline(model, "CPU", scheduler_config=scheduler, INFERENCE_NUM_THREADS=threads)


def generator(pipe):
    def generate(prompts, output):
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = output
        config.ignore_eos = True
        config.do_sample = False
        config.apply_chat_template = False
        ids = numpy.array(prompts, dtype=numpy.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
        start = time.perf_counter()
        result = pipe.generate(inputs, config)
        seconds = time.perf_counter() - start
        assert all(len(tokens) == output for tokens in result.tokens)
        return result.perf_metrics.get_ttft().mean / 1e3, seconds
    return generate


def main():
    model, threads = sys.argv[1], int(sys.argv[2])
    plain = generator(pipeline(model, threads, False))
    cached = generator(pipeline(model, threads, True))
    print(json.dumps({"version": openvino_genai.__version__, "rows": work.measure(plain, cached)}))


if __name__ == "__main__":
    main()
