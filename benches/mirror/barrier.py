#!/usr/bin/env python3
"""The barrier's cost: libraries whose memory is all in a region, built with the compiler's pass and
without, at the same work. The least processor time of several runs, which alternate."""

import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
# Between the beginnings of two checkpoints, where they are taken all the time.
PERIOD_MS = 100
LUA_PROGRAMS = ("lua.c", "luac.c", "onelua.c", "ltests.c")


def package(name):
    cargo = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
    found = glob.glob(os.path.join(cargo, "registry", "src", "*", name))
    if not found:
        raise SystemExit(f"{name} is not there: cargo fetch --manifest-path tests/sources/Cargo.toml")
    return found[0]


def programs():
    """Names, folders of headers, flags and sources."""
    sqlite = os.path.join(package("libsqlite3-sys-0.35.0"), "sqlite3")
    lua = os.path.join(package("lua-src-547.0.0"), "lua-5.4.7")
    zstd = os.path.join(package("zstd-sys-2.0.16+zstd.1.5.7"), "zstd", "lib")
    lua_sources = [path for path in sorted(glob.glob(os.path.join(lua, "*.c")))
                   if os.path.basename(path) not in LUA_PROGRAMS]
    zstd_sources = [path for part in ("common", "compress", "decompress")
                    for path in sorted(glob.glob(os.path.join(zstd, part, "*.c")))]
    return [
        ("sqlite", sqlite, ["-DSQLITE", "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION"],
         [os.path.join(sqlite, "sqlite3.c")]),
        ("lua", lua, ["-DLUA"], lua_sources),
        ("zstd", zstd, ["-DZSTD", "-DZSTD_DISABLE_ASM"], zstd_sources),
    ]


def work(program, environment=None, more=()):
    """Seconds of processor time, and pages that were stored to without the barrier."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, os.path.join(folder, "region"), *more]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    seconds, pages = said.stdout.split()
    return float(seconds), int(pages)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clang", default="14", help="its version")
    parser.add_argument("--library", required=True, help="libretrovane_mirror.a")
    parser.add_argument("--json", required=True, help="where the results go")
    parser.add_argument("--runs", type=int, default=7, help="of each")
    parser.add_argument("--only", help="one of sqlite, lua, zstd")
    parser.add_argument("--builds", required=True, help="folder for what is built, which stays")
    options = parser.parse_args()
    os.makedirs(options.builds, exist_ok=True)
    compiler = f"clang-{options.clang}"
    if not shutil.which(compiler):
        raise SystemExit(f"{compiler} is not there")
    plugin = os.path.join(options.builds, f"pass-{options.clang}.so")
    subprocess.run([os.path.join(ROOT, "crates/mirror/pass/build"), options.clang, plugin], check=True)

    keys, ratios = {}, []
    for name, headers, flags, sources in programs():
        if options.only not in (None, name):
            continue
        built = {}
        for kind, more in (("without", []), ("with", [f"-fpass-plugin={plugin}"])):
            built[kind] = os.path.join(options.builds, f"{name}-{kind}")
            subprocess.run(
                [compiler, "-O2", "-w", "-pthread", *flags, *more, f"-I{headers}", f"-I{ROOT}/include", "-o", built[kind],
                 os.path.join(HERE, "work.c"), *sources, options.library, "-lm", "-ldl", "-lgcc_s"], check=True)
        _, pages = work(built["with"], dict(os.environ, RETROVANE_MIRROR_CHECK="1"))
        if pages:
            raise SystemExit(f"{name}: {pages} pages were stored to without the barrier")
        times = {"without": [], "with": [], "saving": []}
        for _ in range(options.runs):
            for kind, seconds in times.items():
                more = [str(PERIOD_MS)] if kind == "saving" else []
                seconds.append(work(built["without" if kind == "without" else "with"], None, more)[0])
        without, barrier, saving = (min(seconds) for seconds in times.values())
        ratios.append(round(barrier / without, 3))
        keys[f"barrier_{name}"] = ratios[-1]
        keys[f"barrier_saving_{name}"] = round(saving / without, 3)
        print(f"{name:8} {without:.3f} s, with the barrier {barrier:.3f} s: {barrier / without:.3f}, "
              f"with a checkpoint each {PERIOD_MS} ms {saving / without:.3f}", flush=True)
    keys["barrier_median"], keys["barrier_worst"] = statistics.median(ratios), max(ratios)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(keys, file, indent=2)


if __name__ == "__main__":
    sys.exit(main())
