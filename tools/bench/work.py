"""The work that engines are compared by. Runs in each peer's own Python, so it needs nothing but the standard library."""
import argparse
import json
import pathlib
import random

# Row -> streams, tokens of the prompt, tokens of the answer.
PREFILL = (1, 512, 1)
DECODE = (1, 16, 128)
MIXES = {f"{streams} x (128 + 64)": (streams, 128, 64) for streams in (1, 4, 8, 16, 32)}
GROUPS, EACH, SHARED, OWN, OUTPUT = 8, 8, 512, 32, 32
# Kind of row, as Qanat's bench calls it -> its rows.
ROWS = {"prefill": ["prefill 512"], "decode": ["decode, 1 stream"], "mix": [*MIXES], "shared": ["8 groups of 512"]}
DONE = "the end"


def prompt(tokens, vocabulary):
    return [random.randrange(vocabulary) for _ in range(tokens)]


def groups(vocabulary):
    """Prompts of the groups, dealt in turns as Qanat's bench does: group i % GROUPS."""
    shared = [prompt(SHARED, vocabulary) for _ in range(GROUPS)]
    return [shared[i % GROUPS] + prompt(OWN, vocabulary) for i in range(GROUPS * EACH)]


def total(streams, prompt_tokens, output):
    return streams * (prompt_tokens + output)


SHARED_TOTAL = total(GROUPS * EACH, SHARED + OWN, OUTPUT)


def read_flags():
    """What peers.py tells a peer's script."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path, help="GGUF file")
    parser.add_argument("threads", type=int)
    parser.add_argument("vocabulary", type=int, help="ids of tokens are below")
    parser.add_argument("kinds", type=lambda text: text.split(","), help="keys of ROWS")
    parser.add_argument("answer", type=pathlib.Path, help="where the rows go")
    return parser.parse_args()


def measure(flags, version, plain, cached):
    """Writes the rows of an engine that takes lists of ids into flags.answer, and before each row which one comes.

    `plain()` and `cached()`, the latter with a prefix cache, start the engine and return a function of (prompts, output)
    that returns the seconds to the first token of the first prompt, and in all. Groups come in two calls, the first prompt
    of each and then the others: an engine may look cached blocks up when a request is added. Every row runs once before the
    run that counts, with other prompts of the same shape.
    """
    rows = {}

    def tell(row):
        flags.answer.write_text(json.dumps({"version": version, "row": row, "rows": rows}), encoding="utf-8")

    def measure_row(row, rate):
        tell(row)
        rate()  # warms up
        rows[row] = rate()

    def measure_plain(generate):
        def run(streams, tokens, output):
            return generate([prompt(tokens, flags.vocabulary) for _ in range(streams)], output)

        def prefill():
            return PREFILL[1] / run(*PREFILL)[0]

        def decode():
            first, seconds = run(*DECODE)
            return (DECODE[2] - 1) / (seconds - first)

        if "prefill" in flags.kinds:
            measure_row(ROWS["prefill"][0], prefill)
        if "decode" in flags.kinds:
            measure_row(ROWS["decode"][0], decode)
        for row, shape in MIXES.items() if "mix" in flags.kinds else ():
            measure_row(row, lambda shape=shape: total(*shape) / run(*shape)[1])

    def measure_shared(generate):
        def rate():
            prompts = groups(flags.vocabulary)
            return SHARED_TOTAL / sum(generate(part, OUTPUT)[1] for part in (prompts[:GROUPS], prompts[GROUPS:]))
        measure_row(ROWS["shared"][0], rate)

    tell("the start")
    if set(flags.kinds) - {"shared"}:
        measure_plain(plain())
    tell("the start")
    if "shared" in flags.kinds:
        measure_shared(cached())
    tell(DONE)
