"""Rows of llama.cpp, by its own programs."""
import concurrent.futures
import http.client
import json
import os
import re
import shutil
import subprocess
import threading
import time

import work
from common import die, run, tail


class Server:
    """llama-server with a slot for each group, which keeps what its last request left; stopped after a with block."""

    def __init__(self, llama, what, model):
        self.what = what
        self.command = [str(word) for word in (
            llama.folder / "llama-server", "-m", model, "--host", "127.0.0.1", "--port", 0, *llama.threads, "-np",
            work.GROUPS, "-c", work.GROUPS * 1024, "-b", 512, "-ub", 512, "--cache-ram", 0, "--no-webui")]
        self.said = []
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        env=llama.environment)
        self.port = next((int(found.group(1)) for found in map(self._port_in, self.process.stderr) if found), None)
        if self.port is None:
            self.fail("it does not listen")
        # It must not fill the pipe.
        self.reader = threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def _port_in(self, line):
        self.said.append(line)
        return re.search(r"listening on http://127.0.0.1:(\d+)", line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def fail(self, problem):
        self.process.kill()
        die(f"{self.what}: {' '.join(self.command)}: {problem}, exit status {self.process.wait()}\n"
            + tail("".join(self.said)))

    def complete(self, slot, prompts):
        """One after the other."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        for prompt in prompts:
            connection.request("POST", "/completion", json.dumps(
                {"prompt": prompt, "n_predict": work.OUTPUT, "ignore_eos": True, "temperature": 0, "id_slot": slot,
                 "cache_prompt": True}), {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
            if answer.get("tokens_predicted") != work.OUTPUT:
                raise ValueError(f"it answered {answer}")

    def serve(self, prompts):
        """The prompts of the groups, each group's to a slot of its own, all slots at once."""
        try:
            with concurrent.futures.ThreadPoolExecutor(work.GROUPS) as pool:
                slots = range(work.GROUPS)
                list(pool.map(self.complete, slots, (prompts[slot::work.GROUPS] for slot in slots)))
        except (OSError, ValueError, http.client.HTTPException) as problem:
            self.fail(problem)


class Llama:
    """The programs of one folder, which is never written to."""

    def __init__(self, folder, links, threads, vocabulary):
        """`links`: a folder of our own, made anew."""
        self.folder = folder
        self.threads = ("-t", threads, "-tb", threads)
        self.vocabulary = vocabulary
        # A wheel has no links: the libraries get the names that the programs look for.
        shutil.rmtree(links, ignore_errors=True)
        links.mkdir(parents=True)
        for library in folder.glob("lib*.so.*.*.*"):
            (links / re.sub(r"\.[^.]+\.[^.]+$", "", library.name)).symlink_to(library.resolve())
        paths = [str(links), str(folder.resolve()), os.environ.get("LD_LIBRARY_PATH", "")]
        self.environment = os.environ | {"LD_LIBRARY_PATH": ":".join(path for path in paths if path)}

    def version(self):
        """With the instructions it was built for, which it tells at the highest verbosity, before it loads the model."""
        server = self.folder / "llama-server"
        said = subprocess.run([str(server), "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, env=self.environment)
        if said.returncode != 0:
            die(f"llama.cpp: {server} --version: exit status {said.returncode}\n{tail(said.stdout)}")
        version = re.search(r"version: (.+)", said.stdout)
        talk = subprocess.run([*map(str, (server, "-m", os.devnull, "--port", 0, *self.threads, "-lv", 5))],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=self.environment)
        system = re.search(r"system_info: .*", talk.stdout)
        return "; ".join(found.group(0).strip() for found in (version, system) if found) or "unknown"

    def quantize(self, model, target):
        """Makes a Q4_0 file of the model, unless that is there already and newer."""
        if target.exists() and target.stat().st_mtime > model.stat().st_mtime:
            return
        part = target.with_name(target.name + ".part")
        run("llama.cpp, making a Q4_0 file", [self.folder / "llama-quantize", "--allow-requantize", model, part, "Q4_0"],
            env=self.environment)
        part.rename(target)

    def _batched_bench(self, what, model, context, streams, prompt, output):
        """What llama-batched-bench prints: a line for each of `prompt` and of `streams`, both lists with commas."""
        said = run(what, [self.folder / "llama-batched-bench", "-m", model, "-c", context, "-b", 512, "-ub", 512,
                          *self.threads, "-npp", prompt, "-ntg", output, "-npl", streams, "--output-format", "jsonl"],
                   env=self.environment)
        lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        if not lines:
            die(f"{what}: llama-batched-bench printed no figures")
        return lines

    def _shared(self, what, model):
        with Server(self, what, model) as server:
            server.serve(work.groups(self.vocabulary)[:work.GROUPS])  # warms up
            prompts = work.groups(self.vocabulary)
            start = time.perf_counter()
            server.serve(prompts)
            return work.SHARED_TOTAL / (time.perf_counter() - start)

    def measure(self, name, model, kinds):
        rows = {}
        for kind in kinds:
            what = f"{name}, row {kind}"
            if kind == "prefill":
                figures = [self._batched_bench(what, model, 1024, "1", "512,512", 1)[-1]["speed_pp"]]
            elif kind == "decode":
                figures = [self._batched_bench(what, model, 1024, "1", "16,16", 128)[-1]["speed_tg"]]
            elif kind == "mix":
                streams = ",".join(str(shape[0]) for shape in work.MIXES.values())
                figures = [line["speed"] for line in self._batched_bench(what, model, 8192, streams, "128", 64)]
            else:
                figures = [self._shared(what, model)]
            rows |= dict(zip(work.ROWS[kind], figures, strict=True))
        return {"version": self.version(), "rows": rows}
