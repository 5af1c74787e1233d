#!/bin/sh
# The length of `66 0f 84` depends on the maker of the processor.
#
# Guess: the bytes of an x86-64 instruction decide its length. Disassemblers agree
#   on the length of a plain conditional jump, whatever prefix stands before it.
# Seen: `66 0f 84 00 00 b0 07 ...`, a near je with an operand-size prefix, in 64-bit
#   mode. On an AMD EPYC the jump has a 16-bit displacement: 5 bytes, and `mov al,
#   7` is executed behind it. Intel's opcode map says that prefixes of operand size
#   are ignored there: a 32-bit displacement, 7 bytes. The script lets the processor
#   decide (it executes the bytes with ZF clear, so that the jump is not taken).
#     objdump's default        5 bytes (AMD);   -M intel64   7 bytes
#     capstone                 7 bytes (Intel)
#     iced-x86's default       7 bytes (Intel); DecoderOptions.AMD   5 bytes
#   Each is wrong on the processors of one maker until it is told; no option for it
#   was found in capstone. Calls (66 e8) and jumps (66 e9) differ in the
#   disassemblers in the same way.
# Software: capstone 5.0.9, iced-x86 1.21.0, GNU objdump 2.40; AMD EPYC.
# Why it matters: an injector that rewrites code steps from instruction to
#   instruction by these lengths, and a replayer may run on a processor of the other
#   maker than the recorder did. Such a jump cannot be treated as known: the
#   decoder's vendor option has to follow the processor, or the site is left alone.
set -eu
[ "$(uname -m)" = x86_64 ] || { echo "needs an x86-64 processor" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check capstone==5.0.9 iced-x86==1.21.0
cd "$dir"
cat > lengths.py <<'PY'
import ctypes, mmap, subprocess, sys
from importlib.metadata import version
from capstone import CS_ARCH_X86, CS_MODE_64, Cs
from iced_x86 import Decoder, DecoderOptions

JUMP = bytes.fromhex("660f840000b007")


def on_processor():
    """5 if `mov al, 7` behind a 16-bit displacement is executed, else 7."""
    code = bytes.fromhex("31c0ffc0") + JUMP + b"\xc3"  # xor eax, eax; inc eax: ZF clear
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return {7: 5, 1: 7}[ctypes.CFUNCTYPE(ctypes.c_uint32)(address)()]


def objdump(*options):
    open("code", "wb").write(JUMP + b"\x90" * 8)
    text = subprocess.run(
        ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", *options, "code"],
        check=True, capture_output=True, text=True).stdout
    first = next(line for line in text.splitlines() if line.lstrip().startswith("0:"))
    return len(first.split("\t")[1].split())


def iced(options):
    return Decoder(64, JUMP + b"\x90" * 8, options).decode().len


vendor = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("vendor_id"))
rows = [
    ("objdump", objdump(), 5),
    ("objdump -M intel64", objdump("-M", "intel64"), 7),
    (f"capstone {version('capstone')}", next(Cs(CS_ARCH_X86, CS_MODE_64).disasm(JUMP + b"\x90" * 8, 0)).size, 7),
    (f"iced-x86 {version('iced-x86')}", iced(DecoderOptions.NONE), 7),
    (f"iced-x86 {version('iced-x86')}, AMD", iced(DecoderOptions.AMD), 5),
    (f"this processor, {vendor}", on_processor(), {"AuthenticAMD": 5, "GenuineIntel": 7}.get(vendor)),
]
failed = 0
for name, seen, expected in rows:
    print(f"{name:36} {seen} bytes")
    if expected is not None and seen != expected:
        print(f"  CHANGED: expected {expected}", file=sys.stderr)
        failed = 1
sys.exit(failed)
PY
objdump --version | head -n 1
venv/bin/python lengths.py
