"""What is compared of a place: registers and values of all threads; and where the places are
kept from one gdb to the next."""

import json
import os

import gdb

REGISTERS = "rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r12 r13 r14 r15 rip eflags fs_base xmm0 xmm1".split()
VALUES = ["mine", "sum", "holder", "finished", "*unshared", "*wiped", "*common", "in_file[1]",
          "signals_seen", "round", "value"]
STACK_WORDS = 64
FILE = os.path.join(os.environ["HOME"], "places.json")

gdb.execute("set style enabled off")
gdb.execute("set pagination off")
gdb.execute("handle SIGUSR1 nostop noprint pass", to_string=True)


def said(command):
    return gdb.execute(command, to_string=True).strip()


def value(name):
    try:
        return str(gdb.parse_and_eval(name))
    except gdb.error:
        # It is a variable of another place.
        return None


def others():
    own = gdb.selected_thread()
    places = []
    for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.ptid):
        thread.switch()
        places.append([list(thread.ptid[1:]), thread.name, value("mine")]
                      + [value("$" + name) for name in REGISTERS[:17]])
    own.switch()
    return places


def state():
    stack = int(gdb.parse_and_eval("$rsp"))
    memory = bytes(gdb.selected_inferior().read_memory(stack, 8 * STACK_WORDS)).hex()
    return [[value("$" + name) for name in REGISTERS], [value(name) for name in VALUES], others(), memory]


def store(places):
    with open(FILE, "w") as file:
        json.dump(places, file)


def stored():
    with open(FILE) as file:
        return json.load(file)
