"""Where a function is called, by all threads, forwards; then the same places in another
order, by positions: registers, memory and the other threads have to be the same there."""

import random

import gdb

gdb.execute("handle SIGUSR1 nostop noprint pass", to_string=True)

REGISTERS = "rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r12 r13 r14 r15 rip eflags fs_base xmm0 xmm1".split()
VALUES = ["mine", "sum", "holder", "finished", "*unshared", "*wiped", "*common", "in_file[1]",
          "signals_seen", "round", "value"]


def said(command):
    return gdb.execute(command, to_string=True).strip()


def value(name):
    try:
        return str(gdb.parse_and_eval(name))
    except gdb.error:
        # It is a variable of another place.
        return None


def others():
    """Where all threads stand, and their thread-local memory."""
    own = gdb.selected_thread()
    places = []
    for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.ptid):
        thread.switch()
        places.append((thread.ptid[1:], [str(gdb.parse_and_eval("$" + name)) for name in REGISTERS[:17]],
                       value("mine")))
    own.switch()
    return places


def state():
    values = [str(gdb.parse_and_eval("$" + name)) for name in REGISTERS]
    values += [value(name) for name in VALUES]
    return values, others()


gdb.execute("set style enabled off")
gdb.execute("set pagination off")
gdb.execute("break turn_of")
seen = []
while True:
    gdb.execute("continue", to_string=True)
    if not said("info symbol $pc").startswith("turn_of"):
        break
    if len(seen) % 7 == 3:
        said("stepi 25")
    seen.append((said("when"), state()))
print("forwards", len(seen))
gdb.execute("delete")
order = list(seen)
random.Random(1).shuffle(order)
differences = 0
for position, expected in order:
    said("seek " + position.split()[0])
    now = state()
    if now != expected:
        differences += 1
        if differences < 4:
            print("differs at", position, [pair for pair in zip(expected[0] + expected[1], now[0] + now[1])
                                          if pair[0] != pair[1]])
print("differences", differences)
