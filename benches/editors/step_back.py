#!/usr/bin/env python3
"""Measures steps back by `retrovane dap` beside `reverse-next` in gdb.

Both stand where the Redis of docs/sessions/redis.md crashed, and go back by the same lines; behind each
step the innermost frame is asked for. Rounds alternate. Results go to a JSON file: medians of the rounds,
of the time of all steps, and their ratio.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/dap"))
from client import Client

END_SECONDS_MAX = 30


class Adapter(Client):
    """`retrovane dap`, as an editor has it."""

    def __init__(self, tool, trace):
        super().__init__([tool, "dap"])
        self.thread = self.begin("attach", trace=trace, at="crash")["threadId"]

    def back(self):
        self.move("stepBack", threadId=self.thread)
        frame = self.frames(self.thread, 1)[0]
        return frame["name"], frame["line"]

    def end(self):
        self.ask("disconnect")
        self.process.wait(END_SECONDS_MAX)


class Debugger:
    """gdb, as a user has it by `retrovane replay`."""

    MARK = "the command has ended"
    FRAME = 'python print("at", gdb.selected_frame().name(), gdb.selected_frame().find_sal().line)'

    def __init__(self, tool, trace):
        words = [tool, "replay", "--gdb", "-q", "--at", "crash", trace]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)
        self.ask("set pagination off")

    def ask(self, command):
        self.process.stdin.write(f'{command}\npython print("{self.MARK}")\n')
        self.process.stdin.flush()
        said = []
        for line in self.process.stdout:
            if self.MARK in line:
                return said
            said.append(line)
        sys.exit("gdb has ended: " + "".join(said))

    def back(self):
        self.ask("reverse-next")
        words = next(line for line in self.ask(self.FRAME) if "at " in line).split()
        return words[-2], int(words[-1])

    def end(self):
        self.process.stdin.close()
        self.process.wait(END_SECONDS_MAX)


def measure(way, tool, trace, steps):
    """Seconds of all steps, and where they led."""
    face = way(tool, trace)
    began = time.monotonic()
    places = [face.back() for _ in range(steps)]
    took = time.monotonic() - began
    face.end()
    return took, places


def record(tool, folder):
    """Builds that Redis, and records its crash."""
    subprocess.run([ROOT / "tests/gdb/redis/build"], cwd=folder, check=True)
    words = [tool, "record", "-q", "-o", "trace", "--", "./program", "redis.conf"]
    subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return str(folder / "trace")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", required=True, help="the retrovane to measure")
    parser.add_argument("--json", required=True, help="where results go")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    tool = str(pathlib.Path(options.tool).resolve())
    with tempfile.TemporaryDirectory() as folder:
        trace = record(tool, pathlib.Path(folder))
        seconds = {Adapter: [], Debugger: []}
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
            led_to = []
            for way, took in seconds.items():
                time_taken, places = measure(way, tool, trace, options.steps)
                took.append(time_taken)
                led_to.append(places)
            if led_to[0] != led_to[1]:
                sys.exit(f"steps led to other places: {led_to}")
    ours, gdbs = (statistics.median(took) for took in seconds.values())
    result = {"steps": options.steps, "dap_s": ours, "gdb_s": gdbs, "ratio": ours / gdbs}
    pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{options.steps} steps back: dap {ours:.2f} s, gdb {gdbs:.2f} s, ratio {ours / gdbs:.2f}")


if __name__ == "__main__":
    main()
