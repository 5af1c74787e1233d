"""Watched for reads, or for reads and writes, a place is found accessed where it is, and nowhere
else: also where gdb steps between, as it does from breakpoints. Going back finds the same places."""

import gdb


def said(command):
    return gdb.execute(command, to_string=True).strip()


def position():
    events, _, steps = said("when").partition("+")
    return int(events), int(steps)


def hits(command, watched):
    """Where the watched place was accessed, on the way to the end of history."""
    found = []
    before = watched.hit_count
    while True:
        here = position()
        said(command)
        if position() == here:
            return found
        if watched.hit_count > before:
            before = watched.hit_count
            found.append((gdb.selected_frame().name(), position()))


gdb.execute("set style enabled off")
gdb.execute("set pagination off")
gdb.execute("break main")
gdb.execute("continue", to_string=True)
gdb.execute("delete")
began = said("when")
differences = 0
for kind, name, expected in ((gdb.WP_ACCESS, "access", 8), (gdb.WP_READ, "read", 6)):
    idle = gdb.Breakpoint("idle")
    watched = gdb.Breakpoint("looked_at[0]", gdb.BP_WATCHPOINT, kind)
    forwards = hits("continue", watched)
    backwards = hits("reverse-continue", watched)[::-1]
    # Forwards gdb stops behind the instruction, backwards before it. Before main the
    # loader may have written there.
    backwards = [(function, (events, steps + 1)) for function, (events, steps) in backwards
                 if function == "look"]
    print(name, len(forwards), "in look", sum(function == "look" for function, _ in forwards))
    if forwards != backwards or len(forwards) != expected:
        differences += 1
        print("forwards", forwards)
        print("backwards", backwards)
    watched.delete()
    idle.delete()
    said("seek " + began)
print("differences", differences)
