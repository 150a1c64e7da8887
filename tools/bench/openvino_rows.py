"""Rows of OpenVINO GenAI: flags as work.read_flags. Runs in the environment that tools/bench/peers made."""
import time

import numpy
import openvino
import openvino_genai

import work


def start(flags, prefix_cache):
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 1  # GB
    scheduler.max_num_batched_tokens = 512  # as Qanat's default
    scheduler.max_num_seqs = 64
    scheduler.enable_prefix_caching = prefix_cache
    pipe = openvino_genai.LLMPipeline(str(flags.model), "CPU", scheduler_config=scheduler,
                                      INFERENCE_NUM_THREADS=flags.threads)

    def generate(prompts, output):
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = output
        config.ignore_eos = True
        config.do_sample = False
        config.apply_chat_template = False
        ids = numpy.array(prompts, dtype=numpy.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
        began = time.perf_counter()
        result = pipe.generate(inputs, config)
        seconds = time.perf_counter() - began
        assert all(len(tokens) == output for tokens in result.tokens)
        return result.perf_metrics.get_ttft().mean / 1e3, seconds
    return generate


def main():
    flags = work.read_flags()
    work.measure(flags, openvino_genai.__version__, lambda: start(flags, False), lambda: start(flags, True))


if __name__ == "__main__":
    main()
