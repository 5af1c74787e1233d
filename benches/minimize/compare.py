#!/usr/bin/env python3
"""Measures `retrovane minimize` beside picire, lithium, shrinkray and cvise.

Each input is recorded once; then each tool makes it small with the same oracle: the recorded
exit code and, where the program ends by itself, the same telling line on standard error. Times are
wall-clock, of the whole command. Results go to a JSON file. A peer that is not installed, or does not
end in time, is null there.
"""

import argparse
import json
import os
import pathlib
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PEER_SECONDS_MAX = 300


def parser_input():
    """64 KB for a C parser that needs three words of it to fail."""
    lines = []
    size = 0
    while size < 65536 - 120:
        lines.append(f"  int value_{len(lines)} = compute({len(lines)}, argument);\n")
        size += len(lines[-1])
    lines[77] = "  if (x) goto end;\n"
    lines[1033] = "  switch (y) { case 1: break; }\n"
    lines[-4] = "  union u { int a; };\n"
    return "".join(lines)


def sql_input():
    """2,000 lines of which one statement fails."""
    chance = random.Random(2)
    lines = ["create table t(a integer, b text);\n"]
    lines += [f"insert into t values({i}, 'row {chance.randint(0, 1000)}');\n" for i in range(1998)]
    lines.insert(900, "create index i on t(b);\n")
    lines.insert(1500, "select json_extract('{bad', '$.a') from t where a = 7;\n")
    return "".join(lines)


def python_input():
    """A script that crashes an extension module."""
    lines = ["import ctypes\nimport json\n"]
    lines += [f"def f{i}(x):\n    return [x + {i} for _ in range(3)]\n\n" for i in range(100)]
    lines.append("class A:\n    def __init__(self):\n        self.p = 0\n    def go(self):\n")
    lines.append("        return ctypes.string_at(self.p + 16)\n\nfor k in range(3):\n    f3(k)\nA().go()\n")
    return "".join(lines)


def c_input():
    """A file that a compiler refuses."""
    lines = ["#include <stddef.h>\n"]
    lines += [f"int f{i}(int x) {{ return x * {i} + {i % 7}; }}\n" for i in range(200)]
    lines.insert(120, "int bad(void) { struct s y; return y.z; }\n")
    return "".join(lines)


class Case:
    def __init__(self, name, file, text, command, stdin, line):
        self.name, self.file, self.text = name, file, text
        self.command, self.stdin, self.line = command, stdin, line

    def shell(self, path):
        words = [word if word != "@" else path for word in self.command]
        text = " ".join(words if "@" in self.command else map(shlex.quote, words))
        return f"{text} <{path}" if self.stdin else text


def cases(work):
    return [
        Case("c-parser", "in.txt", parser_input(), [str(work / "parser")], True, None),
        Case("sqlite3", "in.sql", sql_input(), ["sqlite3", "-bail", ":memory:"], True, "malformed JSON"),
        Case("python", "in.py", python_input(), [sys.executable, "@"], False, None),
        Case("gcc", "in.c", c_input(), ["gcc", "-c", "@", "-o", "/dev/null"], False, "storage size of"),
    ]


def oracle(case, work, code):
    """The peers' test: a script that gets the file, or finds it where it stands."""
    script = work / f"{case.name}.sh"
    run = case.shell('"$file"')
    if case.line:
        test = f"err=$({run} 2>&1 >/dev/null)\n[ $? -eq {code} ] && case $err in *{shlex.quote(case.line)}*) ;; *) false ;; esac"
    else:
        test = f"{{ {run}; }} >/dev/null 2>&1\n[ $? -eq {code} ]"
    count = f"echo x >>{work}/{case.name}.count"
    script.write_text(f"#!/bin/sh\nulimit -c 0\nfile=${{1:-{case.file}}}\n{count}\n{test}\n")
    script.chmod(0o755)
    return script


def timed(command, cwd, log):
    began = time.monotonic()
    with open(log, "wb") as out:
        try:
            subprocess.run(
                command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=PEER_SECONDS_MAX
            )
        except (subprocess.TimeoutExpired, FileNotFoundError):
            return None
    return time.monotonic() - began


def peer(name, case, work, code, tools):
    """One peer: seconds, bytes and tries, or None."""
    folder = work / f"{case.name}-{name}"
    folder.mkdir()
    path = folder / case.file
    path.write_text(case.text)
    script = oracle(case, work, code)
    count = work / f"{case.name}.count"
    count.write_text("")
    found = shutil.which(name, path=f"{tools}:{os.environ['PATH']}")
    if not found:
        return None
    result = path
    if name == "picire":
        command = [found, "--input", str(path), "--test", str(script), "--out", str(folder / "out")]
        result = folder / "out" / case.file
    elif name == "lithium":
        module = folder / "interesting.py"
        module.write_text(
            "import subprocess\n"
            "def interesting(args, prefix):\n"
            f"    return subprocess.run([{str(script)!r}, args[0]]).returncode == 0\n"
        )
        lines = [found, str(module), str(path)]
        spent = timed(lines, folder, folder / "log")
        command = [found, "--char", str(module), str(path)]
    elif name == "shrinkray":
        # Its test gets the content as standard input.
        result = folder / f"{case.file}.reduced"
        test = folder / "test.sh"
        name_it = f'd=$(mktemp -d)\nfile=$d/{case.file}\ncat >"$file"\n'
        test.write_text(f'#!/bin/sh\n{name_it}{script} "$file"\ncode=$?\nrm -r "$d"\nexit $code\n')
        test.chmod(0o755)
        command = [found, "--target", str(result), str(test), str(path)]
    else:
        command = [found, str(script), case.file]
    seconds = timed(command, folder, folder / "log2")
    if seconds is None or not result.exists():
        return None
    if name == "lithium":
        seconds += spent or 0
    return {"s": round(seconds, 3), "bytes": result.stat().st_size, "tries": len(count.read_text().splitlines())}


def ours(case, work, tool, environment):
    folder = work / f"{case.name}-ours"
    folder.mkdir()
    (folder / case.file).write_text(case.text)
    trace = folder / "trace"
    command = [tool, "--quiet", "record", "-o", str(trace), "--"]
    command += [case.file if word == "@" else word for word in case.command]
    stdin = open(folder / case.file) if case.stdin else subprocess.DEVNULL
    run = subprocess.run(command, cwd=folder, stdin=stdin, capture_output=True, env=environment)
    code = run.returncode if run.returncode >= 0 else 128 - run.returncode
    small = folder / "small"
    minimize = [tool, "--quiet", "minimize", str(trace), "-o", str(small), "--input-only", "--json"]
    began = time.monotonic()
    done = subprocess.run(minimize, cwd=folder, capture_output=True, text=True, env=environment)
    seconds = time.monotonic() - began
    if done.returncode != 0:
        raise SystemExit(f"{case.name}: minimize ended with {done.returncode}: {done.stderr}")
    stream = json.loads(done.stdout)["streams"][0]
    # A thousand tries of the result more: no part of what a user waits for.
    again = subprocess.run(minimize + ["--rate"], cwd=folder, capture_output=True, text=True, env=environment)
    rate = json.loads(again.stdout)["streams"][0]["tries_per_s"] if again.returncode == 0 else None
    return code, {
        "ours_s": round(seconds, 3),
        "ours_bytes": stream["after_bytes"],
        "ours_tries": stream["tests"] + stream["tests_in_vain"],
        "ours_search_s": round(stream["seconds"], 3),
        "ours_tries_per_s": rate,
    }


def fork_exec_per_s(case, folder):
    """How often the program itself can be started and waited for, with the smallest input."""
    small = folder / "small" / "stdin"
    runs = 200
    began = time.monotonic()
    for _ in range(runs):
        with open(small, "rb") as stdin:
            subprocess.run(case.command, stdin=stdin, capture_output=True, check=False)
    return runs / (time.monotonic() - began)


# Programs of the same folder in which there is nothing to be caught.
WITHOUT_RACE = ("handed_over", "locked")


def schedule(race, work, tool, environment):
    """The fewest forced switches of a race; nothing where it is not caught, or not minimised."""
    folder = work / f"race-{race.stem}"
    folder.mkdir()
    build = ["gcc", "-g", "-O1", "-pthread", "-o", "race", str(race)]
    subprocess.run(build, cwd=folder, check=True)
    hunt = [tool, "--quiet", "hunt", "--tries", "1000", "--timeout", "5s", "-o", "trace", "--", "./race"]
    minimize = [tool, "--quiet", "minimize", "--schedule", "--json", "-o", "small", "trace"]
    for command in (hunt, minimize):
        done = subprocess.run(
            command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, env=environment
        )
        if done.returncode != 0:
            return None
    found = json.loads(done.stdout)
    return {
        "recorded_switches": found["recorded_switches"],
        "switches": found["schedule_switches"],
        "tries": found["tries"],
        "s": round(found["seconds"], 3),
    }


def schedules(quick, work, tool, environment):
    """The same of each race of the tests."""
    folder = ROOT / "tests" / "races"
    races = [race for race in sorted(folder.glob("*.c")) if race.stem not in WITHOUT_RACE]
    if quick:
        races = [folder / "lost_update.c", folder / "plain_count.c"]
    else:
        races += sorted((folder / "corpus").glob("*.c"))
    facts = {}
    for race in races:
        facts[race.stem] = schedule(race, work, tool, environment)
        print(f"schedule of {race.stem}: {facts[race.stem]}", flush=True)
    return facts


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tool", required=True)
    options.add_argument("--tools", default="", help="directory of the peers' commands")
    options.add_argument("--json", default="bench-minimize.json")
    options.add_argument("--quick", action="store_true", help="the first two inputs, the two fastest peers")
    arguments = options.parse_args()
    tool = str(pathlib.Path(arguments.tool).resolve())
    arguments.tools = str(pathlib.Path(arguments.tools).resolve())
    peers = ["picire", "lithium"] if arguments.quick else ["picire", "lithium", "shrinkray", "cvise"]
    facts = {"inputs": {}}
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        environment = dict(os.environ, RETROVANE_HOME=str(work / "home"))
        source = ROOT / "tests" / "changed" / "parser.c"
        subprocess.run(["gcc", "-g", "-O1", "-o", str(work / "parser"), str(source)], check=True)
        todo = cases(work)[:2] if arguments.quick else cases(work)
        for case in todo:
            code, row = ours(case, work, tool, environment)
            for other in peers:
                result = peer(other, case, work, code, arguments.tools)
                for part in ("s", "bytes", "tries"):
                    row[f"{other}_{part}"] = result and result[part]
            facts["inputs"][case.name] = row
            print(case.name, row, flush=True)
        first = facts["inputs"]["c-parser"]
        facts["tries_per_s"] = first["ours_tries_per_s"]
        facts["fork_exec_per_s"] = round(fork_exec_per_s(todo[0], work / "c-parser-ours"), 1)
        facts["schedules"] = schedules(arguments.quick, work, tool, environment)
        minimised = [row["switches"] for row in facts["schedules"].values() if row]
        # Of the race that needs most; those that were not minimised are null above.
        facts["schedule_switches"] = max(minimised, default=None)
    pathlib.Path(arguments.json).write_text(json.dumps(facts, indent=2) + "\n")
    print(f"tries a second: {facts['tries_per_s']}, fork and exec a second: {facts['fork_exec_per_s']}")
    print(f"written: {arguments.json}")


if __name__ == "__main__":
    main()
