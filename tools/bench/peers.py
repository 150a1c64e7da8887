"""Runs the work of work.py through each engine in turns: called by tools/bench/peers."""
import argparse
import json
import os
import pathlib
import subprocess

import llama_rows
import work
from common import Machine, die, qanat, shown, spread, table

HERE = pathlib.Path(__file__).resolve().parent


def read_flags():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, required=True)
    for name in ("--model", "--q4-0", "--llama", "--out", "--openvino"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    parser.add_argument("--vllm", type=pathlib.Path, help="its Python")
    return parser.parse_args()


def measure_qanat(model, threads):
    flags = ("bench", "engine", "--model", model, "--threads", threads, "--rounds", 1, "--rows")
    single = qanat(*flags, "prefill,decode", "--streams", 1)
    many = qanat(*flags, "mix,shared", "--streams", ",".join(str(shape[0]) for shape in work.MIXES.values()))
    return {"version": single["numerics"],
            "rows": {row["name"]: row["tokens_per_second"] for row in single["rows"] + many["rows"]}}


def measure_python(python, script, model, threads):
    """A peer with Python of its own: the last line it prints is the answer."""
    done = subprocess.run([str(python), str(HERE / script), str(model), str(threads)], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    if done.returncode != 0:
        die(f"{python} {script} {model} {threads}: exit status {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def engines(flags):
    threads = len(os.sched_getaffinity(0))
    result = {
        "Qanat, Q4_1": lambda: measure_qanat(flags.model, threads),
        "llama.cpp, Q4_1": lambda: llama_rows.measure(flags.llama, flags.model, threads),
        "llama.cpp, Q4_0 (from Q4_1)": lambda: llama_rows.measure(flags.llama, flags.q4_0, threads),
        "OpenVINO GenAI, Q4_1": lambda: measure_python(flags.openvino, "openvino_rows.py", flags.model, threads),
    }
    if flags.vllm:
        result["vLLM, bf16"] = lambda: measure_python(flags.vllm, "vllm_rows.py", flags.model, threads)
    return result


def main():
    flags = read_flags()
    machine = Machine()
    rounds = {name: [] for name in engines(flags)}
    versions = {}
    for number in range(flags.rounds):
        for name, measure in engines(flags).items():
            result = measure()
            rounds[name].append(result["rows"])
            versions[name] = result["version"]
            machine.note()
            print(f"round {number + 1}: {name}: " + ", ".join(f"{row} {result['rows'][row]:.0f}" for row in work.ROWS),
                  flush=True)
    spreads = {row: {name: spread([one[row] for one in rounds[name]]) for name in rounds} for row in work.ROWS}
    state = machine.report()
    report = {"title": "Qanat and its peers on the same machine", "unit": "tokens/s", "machine": state,
              "versions": versions, "rounds": flags.rounds,
              "groups": [{"label": row, "bars": [{"label": name, "value": of["median"], "min": of["min"], "max": of["max"]}
                                                 for name, of in spreads[row].items()]} for row in work.ROWS]}
    (flags.out / "results.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print("\n" + table(["tokens/s", *rounds], [[row, *(shown(of) for of in spreads[row].values())] for row in work.ROWS]))
    print(f"\nMedian (min .. max) of {flags.rounds} rounds in turns on {state['cores']} cores; load "
          f"{state['load_average_min']:.1f} .. {state['load_average_max']:.1f}, {state['steal_percent']:.2f} % stolen. "
          + "; ".join(f"{name}: {version}" for name, version in versions.items()))


if __name__ == "__main__":
    main()
