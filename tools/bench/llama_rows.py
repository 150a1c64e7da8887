"""Rows of llama.cpp, by its own programs."""
import concurrent.futures
import http.client
import json
import pathlib
import re
import subprocess
import time

import work
from common import die


def batched_bench(folder, model, threads, context, streams, prompt, output):
    """What llama-batched-bench prints: a line for each of `prompt` and of `streams`, both lists with commas."""
    command = [str(folder / "llama-batched-bench"), "-m", str(model), "-c", str(context), "-b", "512", "-ub", "512", "-t",
               str(threads), "-tb", str(threads), "-npp", prompt, "-ntg", str(output), "-npl", streams, "--output-format",
               "jsonl"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        die(f"{' '.join(command)}: exit status {done.returncode}")
    return lines


def shared_rows(folder, model, threads):
    """Groups through llama-server: a slot for each, which keeps what its last request left."""
    command = [str(folder / "llama-server"), "-m", str(model), "--host", "127.0.0.1", "--port", "0", "-t", str(threads),
               "-tb", str(threads), "-np", str(work.GROUPS), "-c", str(work.GROUPS * 1024), "-b", "512", "-ub", "512",
               "--cache-ram", "0", "--no-webui"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        port = next((found.group(1) for found in (re.search(r"listening on http://127.0.0.1:(\d+)", line)
                                                  for line in server.stderr) if found), None)
        if port is None:
            die(f"{' '.join(command)}: it does not listen")
        # Nobody reads the rest: it must not fill the pipe.
        drain = concurrent.futures.ThreadPoolExecutor(1)
        drain.submit(lambda: [None for _ in server.stderr])

        def run_group(group_prompts):
            slot, prompts = group_prompts
            connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=600)
            for prompt in prompts:
                connection.request("POST", "/completion", json.dumps(
                    {"prompt": prompt, "n_predict": work.OUTPUT, "ignore_eos": True, "temperature": 0, "id_slot": slot,
                     "cache_prompt": True}), {"Content-Type": "application/json"})
                answer = json.loads(connection.getresponse().read())
                assert answer["tokens_predicted"] == work.OUTPUT, answer

        run_group((0, [work.prompt(16)]))  # warms up
        prompts = work.groups()
        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(work.GROUPS) as pool:
            list(pool.map(run_group, ((slot, prompts[slot::work.GROUPS]) for slot in range(work.GROUPS))))
        return work.SHARED_TOTAL / (time.perf_counter() - start)
    finally:
        server.kill()
        server.wait()


def version(folder):
    said = subprocess.run([str(folder / "llama-cli"), "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False).stdout
    found = re.search(r"version: (\S+)", said)
    return found.group(1) if found else "unknown"


def measure(folder, model, threads):
    folder = pathlib.Path(folder)
    rows = {"prefill 512": batched_bench(folder, model, threads, 1024, "1", "512,512", 1)[-1]["speed_pp"],
            "decode, 1 stream": batched_bench(folder, model, threads, 1024, "1", "16,16", 128)[-1]["speed_tg"]}
    streams = ",".join(str(shape[0]) for shape in work.MIXES.values())
    lines = batched_bench(folder, model, threads, 8192, streams, "128", 64)
    rows |= {name: line["speed"] for name, line in zip(work.MIXES, lines, strict=True)}
    rows["8 groups of 512"] = shared_rows(folder, model, threads)
    return {"version": version(folder), "rows": rows}
