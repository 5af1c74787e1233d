"""What is written to memory that processes share: the changes that are seen going forward are
those that are seen going back, in the same places, and again going forward from there."""

import gdb


def said(command):
    return gdb.execute(command, to_string=True).strip()


def counter():
    try:
        return int(gdb.parse_and_eval("common->counter"))
    except gdb.MemoryError:
        # There was no such memory yet.
        return None


gdb.execute("set style enabled off")
gdb.execute("set pagination off")
gdb.execute("break add")
gdb.execute("continue", to_string=True)
began = said("when")
gdb.execute("delete")
watched = gdb.Breakpoint("common->counter", gdb.BP_WATCHPOINT)


def forwards():
    changes, before = [], counter()
    while "history ends" not in said("continue"):
        changes.append((before, counter(), said("when").split("+")[0]))
        before = counter()
    return changes


def backwards():
    changes, after = [], counter()
    while "No more reverse-execution history" not in said("reverse-continue"):
        before = counter()
        if before is None or before == after:
            break
        changes.append((before, after))
        after = before
    return changes[::-1]


first = forwards()
end = counter()
print("changes", first)
back = backwards()
said("seek " + began)
again = forwards()
differences = [change[:2] for change in first] != back or first != again
if differences:
    print("backwards", back)
    print("again", again)
print("ends with", end, "changes are missing" if first[-1][1] != end else "")
print("differences", int(differences))
