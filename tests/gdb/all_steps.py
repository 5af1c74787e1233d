"""Every instruction from the start to the end, forwards and then backwards: the
positions and registers have to be the same."""

import gdb

NAMES = ("rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip eflags "
         "fs_base xmm0 xmm1").split()


def state():
    values = [str(gdb.parse_and_eval("$" + name)) for name in NAMES]
    values.append(gdb.execute("monitor when", to_string=True).strip())
    values.append(str(gdb.parse_and_eval("*(int *)&handled")))
    return values


def step(command, before):
    """The state after a step; None where history ends, which the position tells."""
    gdb.execute(command, to_string=True)
    now = state()
    return None if now[POSITION] == before[POSITION] else now


POSITION = len(NAMES)
gdb.execute("set style enabled off")
seen = []
now = state()
while now:
    seen.append(now)
    now = step("stepi", now)
# The end itself is behind the last instruction.
end = seen.pop()
print("forwards", len(seen))
differences = 0
now = end
for expected in reversed(seen):
    now = step("reverse-stepi", now)
    if now != expected:
        differences += 1
        print("differs", expected[POSITION], now and [pair for pair in zip(expected, now) if pair[0] != pair[1]])
        if differences > 5 or not now:
            break
begins = now and step("reverse-stepi", now) is None
print("begins" if begins else "does not begin", "differences", differences)
