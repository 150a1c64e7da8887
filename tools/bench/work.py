"""The work that engines are compared by. Runs in each peer's own Python, so it needs nothing but the standard library."""
import random

# Row -> streams, tokens of the prompt, tokens of the answer.
PREFILL = (1, 512, 1)
DECODE = (1, 16, 128)
MIXES = {f"{streams} x (128 + 64)": (streams, 128, 64) for streams in (1, 4, 8, 16, 32)}
GROUPS, EACH, SHARED, OWN, OUTPUT = 8, 8, 512, 32, 32
ROWS = ["prefill 512", "decode, 1 stream", *MIXES, "8 groups of 512"]

# Ordinary words of the vocabulary.
FIRST_ID, LAST_ID = 100, 49000


def prompt(tokens, source=random):
    return [source.randrange(FIRST_ID, LAST_ID) for _ in range(tokens)]


def groups():
    """Prompts of the groups, dealt in turns as Qanat's bench does: group i % GROUPS."""
    shared = [prompt(SHARED) for _ in range(GROUPS)]
    return [shared[i % GROUPS] + prompt(OWN) for i in range(GROUPS * EACH)]


def total(streams, prompt_tokens, output):
    return streams * (prompt_tokens + output)


SHARED_TOTAL = total(GROUPS * EACH, SHARED + OWN, OUTPUT)


def measure(generate, generate_shared):
    """Rows of an engine that takes lists of ids.

    `generate(prompts, output)` and `generate_shared(prompts, output)`, the latter with a prefix cache, return the seconds
    to the first token of the first prompt, and in all.
    """
    def run(streams, tokens, output):
        return generate([prompt(tokens) for _ in range(streams)], output)

    for shape in (PREFILL, DECODE, (16, 128, 8)):
        run(*shape)  # warms up
    rows = {"prefill 512": 512 / run(*PREFILL)[0]}
    first, seconds = run(*DECODE)
    rows["decode, 1 stream"] = (DECODE[2] - 1) / (seconds - first)
    for name, shape in MIXES.items():
        rows[name] = total(*shape) / run(*shape)[1]
    rows["8 groups of 512"] = SHARED_TOTAL / generate_shared(groups(), OUTPUT)[1]
    return rows
