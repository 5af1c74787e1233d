"""All memory that processes share, wherever one of them stands: what copies find there, which go
without the others, forwards and backwards, is what a replay with the others finds, from the
beginning of history on. To that the debugger comes back when the process makes another one in its
own memory."""

import hashlib

import gdb


def said(command):
    return gdb.execute(command, to_string=True).strip()


def value(expression):
    return int(gdb.parse_and_eval(expression))


def sum_of(address, size):
    if address == 0:
        return None
    return hashlib.md5(gdb.selected_inferior().read_memory(address, size)).hexdigest()


def state():
    whole = value("sizeof *common")
    parts = [("(long)common", whole), ("(long)file", value("file_bytes"))]
    parts += [("(long)file_again", value("file_bytes")), ("(long)named", 8192)]
    return said("when"), [sum_of(value(address), size) for address, size in parts]


gdb.execute("set style enabled off")
gdb.execute("set pagination off")
gdb.execute("break stands")

forwards = []
while "history ends" not in said("continue"):
    forwards.append(state())
    if value("last"):
        break


def backwards():
    states = []
    while True:
        said("reverse-continue")
        if gdb.selected_frame().name() != "stands":
            return states[::-1]
        states.append(state())


back = backwards()
again = []
while "history ends" not in said("continue"):
    again.append(state())
with_others = []
for position, _ in forwards:
    said("seek " + position)
    with_others.append(state())
for name, states in [("backwards", back), ("again", again), ("with the others", with_others)]:
    expected = forwards[:-1] if states is back else forwards
    wrong = [(one, other) for one, other in zip(expected, states) if one != other]
    if wrong or len(states) != len(expected):
        print(name, len(states), "of", len(expected), "first differing:", wrong[:1])
    else:
        print(name, "the same")
different = len({tuple(sums) for _, sums in forwards})
print("stops", len(forwards), "states", different)
