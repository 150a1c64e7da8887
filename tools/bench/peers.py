"""Runs the work of work.py through each engine in turns: called by tools/bench/peers."""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

import work
from common import BIN, Machine, die, qanat, run, shown, spread, table, tail
from llama_rows import Llama

HERE = pathlib.Path(__file__).resolve().parent
COMMA = ","


def read_flags():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--engines", type=lambda text: text.split(COMMA), required=True)
    parser.add_argument("--only", type=lambda text: text.split(COMMA), required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--peers", type=pathlib.Path, required=True, help="where peers are installed")
    parser.add_argument("--llama", type=pathlib.Path, help="llama.cpp's programs and libraries")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    return parser.parse_args()


class Model:
    """What Qanat says about a GGUF file."""

    def __init__(self, path):
        told = qanat("inspect", path, what="the model")
        self.path = path
        self.vocabulary = told["tokenizer"]["tokens"]
        # That of most of its matrices: vectors are F32 whatever the file is called.
        matrices = [one for one in told["types"] if one["type"] != "F32"] or told["types"]
        self.quantization = max(matrices, key=lambda one: one["tensors"])["type"]


def measure_qanat(name, model, threads, kinds):
    rows = {}
    for kind in kinds:
        streams = [shape[0] for shape in work.MIXES.values()] if kind == "mix" else [1]
        report = qanat("bench", "engine", "--model", model, "--threads", threads, "--rounds", 1, "--rows", kind, "--streams",
                       COMMA.join(map(str, streams)), what=f"{name}, row {kind}")
        rows |= {row["name"]: row["tokens_per_second"] for row in report["rows"]}
    return {"version": report["numerics"], "rows": rows}


def measure_python(name, python, script, model, threads, kinds):
    """A peer with Python of its own."""
    with tempfile.TemporaryDirectory() as folder:
        answer, log = pathlib.Path(folder, "answer.json"), pathlib.Path(folder, "log")
        command = [python, HERE / script, model.path, threads, model.vocabulary, COMMA.join(kinds), answer]
        with log.open("w", encoding="utf-8") as said:
            done = subprocess.run([str(word) for word in command], stdout=said, stderr=subprocess.STDOUT, check=False)
        told = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else {"row": "the start"}
        if done.returncode != 0 or told["row"] != work.DONE:
            die(f"{name}, row {told['row']}: {' '.join(map(str, command))}: exit status {done.returncode}\n"
                + tail(log.read_text(encoding="utf-8", errors="replace"), 40))
        return told


def engines(flags):
    """Name of each engine -> a function that measures all rows."""
    threads = len(os.sched_getaffinity(0))
    model = Model(flags.model)
    result = {}

    def add(engine, kind, measure, *arguments):
        name = f"{engine}, {kind}"
        result[name] = lambda: measure(name, *arguments, flags.only)

    def add_python(engine, kind, folder):
        add(engine, kind, measure_python, flags.peers / folder / "bin" / "python", f"{folder}_rows.py", model, threads)

    if "qanat" in flags.engines:
        add("Qanat", model.quantization, measure_qanat, flags.model, threads)
    if "llama" in flags.engines:
        llama = Llama(flags.llama, flags.peers / "llama-links", threads, model.vocabulary)
        add("llama.cpp", model.quantization, llama.measure, flags.model)
        if model.quantization != "Q4_0":
            q4_0 = flags.peers / f"{flags.model.stem}.Q4_0.gguf"
            llama.quantize(flags.model, q4_0)
            add("llama.cpp", f"Q4_0 (from {model.quantization})", llama.measure, q4_0)
    if "openvino" in flags.engines:
        add_python("OpenVINO GenAI", model.quantization, "openvino")
    if "vllm" in flags.engines:
        add_python("vLLM", "bf16", "vllm")
    return result


class Results:
    """What whole rounds measured; kept in a file, so that a round that fails loses only itself."""

    def __init__(self, names, rows):
        self.machine = Machine()
        self.rows = rows
        self.rounds = {name: [] for name in names}
        self.versions = {}

    def add(self, results):
        for name, result in results.items():
            self.rounds[name].append(result["rows"])
            self.versions[name] = result["version"]
        self.spreads = {row: {name: spread([one[row] for one in of]) for name, of in self.rounds.items()}
                        for row in self.rows}
        self.count = len(next(iter(self.rounds.values())))

    def write(self, path):
        report = {"title": "Qanat and its peers on the same machine", "unit": "tokens/s", "machine": self.machine.report(),
                  "versions": self.versions, "rounds": self.count,
                  "groups": [{"label": row, "bars": [{"label": name, "value": of["median"], "min": of["min"],
                                                      "max": of["max"]} for name, of in self.spreads[row].items()]}
                             for row in self.rows]}
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

    def print(self):
        state = self.machine.report()
        print("\n" + table(["tokens/s", *self.rounds],
                           [[row, *map(shown, of.values())] for row, of in self.spreads.items()]))
        print(f"\nMedian (min .. max) of {self.count} rounds in turns on {state['cores']} cores; load "
              f"{state['load_average_min']:.1f} .. {state['load_average_max']:.1f}, {state['steal_percent']:.2f} % stolen.")
        for name, version in self.versions.items():
            print(f"{name}: {version}")


def main():
    flags = read_flags()
    measures = engines(flags)
    results = Results(measures, [row for kind in flags.only for row in work.ROWS[kind]])
    path = flags.out / "results.json"
    try:
        for number in range(flags.rounds):
            done = {}
            for name, measure in measures.items():
                done[name] = measure()
                results.machine.note()
                print(f"round {number + 1}: {name}: "
                      + ", ".join(f"{row} {done[name]['rows'][row]:.0f}" for row in results.rows), flush=True)
            results.add(done)
            results.write(path)
    finally:
        if any(results.rounds.values()):
            run("the chart", [BIN / "qanat", "bench", "chart", path, "--out", path.with_suffix(".svg")])
            results.print()


if __name__ == "__main__":
    main()
