#!/bin/sh
# capstone's list of written registers lacks those of syscall and cmpxchg.
#
# Guess: regs_access() of a disassembler is the full list of registers that an
#   instruction reads and writes: explicit and implicit ones. capstone has it for
#   rdtsc, cpuid and rep movsb, so it has it for other everyday instructions.
# Seen: these are written by the instruction, iced-x86 names them, capstone does
#   not:
#     syscall             rcx and r11
#     cmpxchg edx, ecx    eax (it gets the old value of edx when they differ)
#     rdpkru              eax and edx
#     pcmpistrm           xmm0
#   The script executes the first two: the processor sides with iced-x86. Unicorn,
#   an emulator, agrees with capstone about syscall: its hook returns, and rcx and
#   r11 are as before. Capstone's later development branch has changes for syscall
#   and cmpxchg (pull requests 2820 and 2821); release 5.0.9 does not show them.
# Software: capstone 5.0.9, iced-x86 1.21.0, unicorn 2.1.2.
# Why it matters: who puts a trampoline in place of code looks for a scratch
#   register that is dead, or saves what the replaced code writes. By this list rcx
#   and eax look untouched by a system call and a compare-and-swap. A trace of an
#   emulated program and one of the processor differ in rcx and r11 after each
#   system call.
set -eu
[ "$(uname -m)" = x86_64 ] || { echo "needs an x86-64 processor" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check capstone==5.0.9 iced-x86==1.21.0 unicorn==2.1.2
cd "$dir"
cat > registers.py <<'PY'
import ctypes, mmap, sys
from importlib.metadata import version
from capstone import CS_ARCH_X86, CS_MODE_64, Cs
from iced_x86 import Decoder, InstructionInfoFactory, OpAccess, Register, RegisterExt
import unicorn
from unicorn import x86_const as x86

NAMES = {getattr(Register, name): name for name in dir(Register) if name.isupper()}
WRITES = (OpAccess.WRITE, OpAccess.READ_WRITE, OpAccess.COND_WRITE, OpAccess.READ_COND_WRITE)


def full(name):
    number = getattr(Register, name.upper(), None)
    return name.upper() if number is None else NAMES[RegisterExt.full_register(number)]


def by_capstone(code):
    engine = Cs(CS_ARCH_X86, CS_MODE_64)
    engine.detail = True
    instruction = next(engine.disasm(code, 0))
    written = {full(instruction.reg_name(r)) for r in instruction.regs_access()[1]}
    return f"{instruction.mnemonic} {instruction.op_str}".strip(), written - {"RFLAGS", "EFLAGS"}


def by_iced(code):
    info = InstructionInfoFactory().info(Decoder(64, code).decode())
    return {full(NAMES[u.register]) for u in info.used_registers() if u.access in WRITES}


def execute(code):
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(bytes.fromhex(code))
    return ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()


failed = 0


def expect(what, seen, wanted):
    global failed
    print(f"{what}: {seen}")
    if seen != wanted:
        print(f"  CHANGED: expected {wanted}", file=sys.stderr)
        failed = 1


print(", ".join(f"{name} {version(name)}" for name in ("capstone", "iced-x86", "unicorn")))
print("written registers that iced-x86 names and capstone does not")
for code, missing in (
    ("0f31", []), ("0fa2", []), ("f3a4", []),
    ("0f05", ["R11", "RCX"]),
    ("0fb1ca", ["RAX"]),
    ("0f01ee", ["RAX", "RDX"]),
    ("660f3a62c100", ["ZMM0"]),
):
    text, written = by_capstone(bytes.fromhex(code))
    expect(f"  {text}", sorted(by_iced(bytes.fromhex(code)) - written), missing)

# xor r11d, r11d; mov ecx, 0; mov eax, 39 (getpid); syscall; then whether rcx and r11 are not zero
after = "31c0" "4d85db" "0f95c0" "4885c9" "0f95c4" "c3"
expect("processor: rcx and r11 written by syscall",
       execute("4531db" "b900000000" "b827000000" "0f05" + after), 0x0101)
# mov eax, 1; mov edx, 2; mov ecx, 3; cmpxchg edx, ecx: eax and edx differ, so eax gets edx
expect("processor: eax after cmpxchg", execute("b801000000" "ba02000000" "b903000000" "0fb1ca" "c3"), 2)

machine = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
machine.mem_map(0x1000, 0x1000)
machine.mem_write(0x1000, bytes.fromhex("0f0590"))
machine.hook_add(unicorn.UC_HOOK_INSN, lambda *_: None, None, 1, 0, x86.UC_X86_INS_SYSCALL)
machine.emu_start(0x1000, 0x1003)
expect("unicorn: rcx and r11 after syscall",
       (machine.reg_read(x86.UC_X86_REG_RCX), machine.reg_read(x86.UC_X86_REG_R11)), (0, 0))
sys.exit(failed)
PY
venv/bin/python registers.py
