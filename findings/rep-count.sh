#!/bin/sh
# One `rep stosb` over 5 bytes: 5 steps under ptrace, 6 instructions in Unicorn.
#
# Guess: an emulator's count of executed instructions, and its code hook, agree with
#   single-stepping the processor. A string instruction counts either once, or once
#   for each element.
# Seen: with rcx = 5, PTRACE_SINGLESTEP stops 5 times at or behind the instruction:
#   once for each element. Unicorn calls the code hook 6 times for it, the last with
#   rcx = 0, and its block hook as often: each element is a block of its own.
#   emu_start(count=5) ends with rcx = 0 and rip still at the instruction, so one
#   more counted "instruction" does nothing but leave. With rcx = 0 both count 1.
# Software: unicorn 2.1.2; the processor by PTRACE_SINGLESTEP on Linux.
# Why it matters: a replayer that names a point in an execution by a number of
#   instructions, or checks a recording against an emulator, is off by one for each
#   string instruction that did any work. Positions have to be taken by branches or
#   by events, or string instructions counted apart.
set -eu
[ "$(uname -m)" = x86_64 ] || { echo "needs an x86-64 processor" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check unicorn==2.1.2
cd "$dir"
cat > steps.c <<'C'
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

extern const char at_rep[], behind_rep[];

static void __attribute__((noinline)) fill(char *to, long n)
{
    __asm__ volatile("at_rep: rep stosb\nbehind_rep: nop" : "+D"(to), "+c"(n) : "a"(0) : "memory");
}

int main(int argc, char **argv)
{
    char bytes[16];
    long n = argc > 1 ? atol(argv[1]) : 5;
    pid_t child = fork();
    if (child < 0)
        return perror("fork"), 1;
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
            _exit(2);
        raise(SIGSTOP);
        fill(bytes, n);
        _exit(0);
    }
    struct user_regs_struct regs = {0};
    int status, steps = 0, was_at = 0;
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        if (ptrace(PTRACE_GETREGS, child, 0, &regs) != 0)
            return perror("ptrace"), 1;
        steps += was_at;
        was_at = regs.rip == (unsigned long)at_rep;
        if (ptrace(PTRACE_SINGLESTEP, child, 0, 0) != 0)
            return perror("ptrace"), 1;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return fprintf(stderr, "the child did not end well\n"), 1;
    printf("%d\n", steps);
    return 0;
}
C
cc -O1 -no-pie -o steps steps.c
cat > emulate.py <<'PY'
import sys
from unicorn import UC_ARCH_X86, UC_HOOK_BLOCK, UC_HOOK_CODE, UC_MODE_64, Uc
from unicorn import x86_const as x86


def run(elements, count=0):
    machine = Uc(UC_ARCH_X86, UC_MODE_64)
    machine.mem_map(0x1000, 0x1000)
    machine.mem_write(0x1000, bytes.fromhex("f3aa90"))  # rep stosb; nop
    machine.mem_map(0x8000, 0x1000)
    machine.reg_write(x86.UC_X86_REG_RCX, elements)
    machine.reg_write(x86.UC_X86_REG_RDI, 0x8000)
    calls = {"code": 0, "block": 0}

    def tally(kind):
        def hook(_machine, address, _size, _data):
            calls[kind] += address == 0x1000
        return hook

    if not count:
        machine.hook_add(UC_HOOK_CODE, tally("code"))
        machine.hook_add(UC_HOOK_BLOCK, tally("block"))
    machine.emu_start(0x1000, 0x1003, count=count)
    if count:
        return f"rcx {machine.reg_read(x86.UC_X86_REG_RCX)} rip {machine.reg_read(x86.UC_X86_REG_RIP):#x}"
    return f"code {calls['code']} block {calls['block']}"


print(run(*map(int, sys.argv[1:])))
PY
failed=0
expect() { # what, wanted, got
    echo "$1: $3"
    [ "$2" = "$3" ] || { echo "  CHANGED: expected: $2" >&2; failed=1; }
}
echo "unicorn $(venv/bin/python -c 'import unicorn; print(unicorn.__version__)')"
expect "processor, rcx = 5, steps" 5 "$(./steps 5)"
expect "processor, rcx = 0, steps" 1 "$(./steps 0)"
expect "unicorn, rcx = 5, hooks" "code 6 block 6" "$(venv/bin/python emulate.py 5)"
expect "unicorn, rcx = 0, hooks" "code 1 block 1" "$(venv/bin/python emulate.py 0)"
expect "unicorn, rcx = 5, count = 5" "rcx 0 rip 0x1000" "$(venv/bin/python emulate.py 5 5)"
exit $failed
