"""Compares the engine in one process with the same engine behind a worker and behind a router."""
import argparse
import json
import os

from common import BIN, Machine, Server, die, qanat, shown, spread, table


def at_least_one(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def read_flags():
    parser = argparse.ArgumentParser(
        prog="tools/bench/service",
        description="Runs the same streams through the engine in one process, through a worker and through a router before "
                    "it, all on loopback and on the same cores, in turns. Prints tokens a second (prompts and answers), what "
                    "part of the engine's they are, and the CPU time of each process.")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="rounds that count; one more warms up (default 5)")
    parser.add_argument("--streams", type=at_least_one, default=16, help="streams at once (default 16)")
    parser.add_argument("--threads", type=int, default=0, help="compute threads; 0: all of the cpuset")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    return parser.parse_args()


class Setting:
    """A worker, a router before it, and the three ways of asking."""

    def __init__(self, flags, worker, router):
        self.flags = flags
        self.servers = {"worker": worker, "router": router}
        self.round = 0

    def engine(self):
        report = qanat("bench", "engine", "--threads", self.flags.threads, "--rows", "mix", "--streams", self.flags.streams,
                       "--rounds", 1)
        return {"tokens_per_second": report["rows"][0]["tokens_per_second"]}

    def serve(self, target):
        before = {name: server.cpu_seconds() for name, server in self.servers.items()}
        report = qanat("bench", "serve", "--target", self.servers[target].address, "--wait", "20s", "--streams",
                       self.flags.streams, "--requests", self.flags.streams, "--own", 128, "--output", 64)
        # Work that was not done must not look like speed.
        if report["served"] != report["requests"] or report["refused"] or report["short"] or report["interrupted"]:
            die(f"the {target} served {report['served']} of {report['requests']} requests: refused {report['refused']}, "
                f"short {report['short']}, interrupted {report['interrupted']}")
        row = {"tokens_per_second": report["tokens_per_second"], "ttft_p50_ms": report["ttft_ms"]["p50"],
               "itl_p99_ms": report["itl_ms"]["p99"],
               "client_us_per_token": 1e4 * report["client_core_percent"] * report["seconds"] / report["output_tokens"]}
        for name, server in self.servers.items():
            row[f"{name}_us_per_token"] = 1e6 * (server.cpu_seconds() - before[name]) / report["output_tokens"]
        return row

    def run_round(self):
        return {"engine": self.engine(), "worker": self.serve("worker"), "router": self.serve("router")}


def summarize(rounds):
    result = {}
    for way in ("engine", "worker", "router"):
        result[way] = {key: spread([one[way][key] for one in rounds]) for key in rounds[0][way]}
        result[way]["of_engine"] = spread(
            [one[way]["tokens_per_second"] / one["engine"]["tokens_per_second"] for one in rounds])
    return result


def main():
    flags = read_flags()
    machine = Machine()
    with Server(BIN / "qanat-worker", "--model", os.environ["QANAT_MODEL"], "--listen", "127.0.0.1:0", "--threads",
                flags.threads or len(os.sched_getaffinity(0)), "--prefix-cache", "off", "--speculation", "off") as worker, \
            Server(BIN / "qanat-router", "--workers", worker.address, "--listen", "127.0.0.1:0") as router:
        setting = Setting(flags, worker, router)
        setting.run_round()
        rounds = []
        for _ in range(flags.rounds):
            rounds.append(setting.run_round())
            machine.note()
    result = summarize(rounds) | {"machine": machine.report(), "streams": flags.streams}
    names = {"engine": "engine, in process", "worker": "through a worker", "router": "through a router"}
    cpu = ("worker_us_per_token", "router_us_per_token", "client_us_per_token")
    rows = [[name, shown(result[way]["tokens_per_second"]), shown(result[way]["of_engine"], 3)] +
            [f"{result[way][key]['median']:.0f}" if key in result[way] else "" for key in cpu]
            for way, name in names.items()]
    print(table([f"{flags.streams} x (128 + 64)", "tokens/s", "of the engine", "worker us/token", "router us/token",
                 "client us/token"], rows))
    print("CPU time is by generated token; the worker's holds the model's.", json.dumps(result["machine"]))
    if flags.json:
        with open(flags.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
