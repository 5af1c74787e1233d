#!/bin/sh
# A debugger's breakpoint on a pushf stops the program a second time, at its popf, for no reason.
#
# Guess: a debugger steps with the trap flag, and Linux keeps that flag out of what the program sees (ptrace shows flags without
#   it, and the kernel looks for a popf that it steps over). So a program whose pushf was stepped has pushed the flags that it has
#   natively.
# Seen: PTRACE_SINGLESTEP over pushf leaves the trap flag in what is pushed, and neither the kernel nor gdb takes it out. gdb steps
#   over each breakpoint that it goes on from, so a breakpoint on the instruction and `continue` are enough: the popf that takes
#   the flags back, at any time later, sets the trap flag for good, and gdb stops with SIGTRAP, which the program has not raised.
#   Stepped from its first instruction to its last the program ends as it does natively, but says that it has seen the flag.
# Software: Linux 6.18, gdb 13.1 of Debian 12 (to be there; its version is printed), GCC 12.2.0, x86-64.
# Why it matters: compilers at run time keep the flags so around calls (HotSpot's stubs). A tool that looks at some steps of such a
#   program, and lets it go on, kills it later, far from the place at which it looked.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
for tool in gdb cc; do
	command -v $tool >/dev/null || { echo "$tool is wanted: apt-get install gdb gcc" >&2; exit 2; }
done
gdb --version | head -n 1
uname -sr
cat > keeps.c <<'C'
#include <stdio.h>

int main(void)
{
    unsigned long flags;
    __asm__ volatile("keeps_flags: pushfq\n\tnop\n\tmov (%%rsp), %0\n\tpopfq\n\tnop\n\tnop" : "=r"(flags) : : "memory", "cc");
    puts(flags & 0x100 ? "the trap flag is pushed" : "no trap flag");
    return 0;
}
C
cat > steps.c <<'C'
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execl("./keeps", "keeps", (char *)0);
        _exit(127);
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status))
        ptrace(PTRACE_SINGLESTEP, child, 0, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
C
cc -O1 -mno-red-zone -o keeps keeps.c
cc -O1 -o steps steps.c
./keeps > alone.txt
timeout 60 ./steps > stepped.txt
timeout 60 gdb -nx -batch -ex 'break keeps_flags' -ex run -ex continue ./keeps > gdb.txt 2>&1
code=0
expect() {
	if grep -q "$2" "$1"; then echo "$1: $2"; else echo "CHANGED: $1 does not say: $2" && cat "$1" && code=1; fi
}
expect alone.txt 'no trap flag'
expect stepped.txt 'the trap flag is pushed'
expect gdb.txt 'Program received signal SIGTRAP'
exit $code
