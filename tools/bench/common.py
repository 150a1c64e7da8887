"""What the measurements of tools/bench share: servers, the machine's state, medians, tables."""
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"
TICKS = os.sysconf("SC_CLK_TCK")


def die(text):
    sys.exit(f"error: {text}")


class Server:
    """A program of ours that says where it is ready; stopped at the end of a with block."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        line = next((line for line in self.process.stdout if " ready on " in line), None)
        if line is None:
            die(f"it did not start: {' '.join(str(word) for word in command)}")
        self.address = re.search(r" ready on ([^ ]+) ", line).group(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def cpu_seconds(self):
        """User and system time so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def tail(text, lines=15):
    """The end of what a program said."""
    return "\n".join(text.rstrip().splitlines()[-lines:])


def run(what, command, **options):
    """Runs a command and returns what it prints. `what`: what it is for, to be named if it fails."""
    command = [str(word) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **options)
    if done.returncode != 0:
        die(f"{what}: {' '.join(command)}: exit status {done.returncode}\n{tail(done.stderr)}")
    return done.stdout


def qanat(*arguments, what="Qanat"):
    """Runs the qanat command and returns its JSON."""
    return json.loads(run(what, [BIN / "qanat", *arguments, "--json"]))


class Machine:
    """How busy the machine was between making this and asking."""

    def __init__(self):
        self.loads = [os.getloadavg()[0]]
        self.before = self._ticks()

    @staticmethod
    def _ticks():
        return [int(field) for field in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]

    def note(self):
        self.loads.append(os.getloadavg()[0])

    def report(self):
        spent = [after - before for before, after in zip(self.before, self._ticks())]
        return {"cores": len(os.sched_getaffinity(0)), "load_average_min": min(self.loads),
                "load_average_max": max(self.loads), "steal_percent": 100 * spent[7] / max(sum(spent), 1)}


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": len(values)}


def table(header, rows):
    """A Markdown table; the first column is text."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def shown(of, digits=0):
    """A spread as a cell: median (min .. max)."""
    return f"{of['median']:,.{digits}f} ({of['min']:,.{digits}f} .. {of['max']:,.{digits}f})"
