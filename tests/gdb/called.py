"""Back over the lines of main, whatever they call."""

import gdb

gdb.execute("set style enabled off")
gdb.execute("handle SIGUSR1 nostop noprint", to_string=True)


def line():
    return gdb.newest_frame().find_sal().line


def add(found):
    if not found or line() != found[-1]:
        found.append(line())


gdb.execute("break main")
gdb.execute("continue", to_string=True)
begin = gdb.newest_frame().pc()
gdb.execute("delete")
gdb.execute("break finished")
gdb.execute("continue", to_string=True)
gdb.execute("delete")
gdb.execute("reverse-finish", to_string=True)
backwards = []
add(backwards)
while len(backwards) < 200 and gdb.newest_frame().pc() != begin:
    gdb.execute("reverse-next", to_string=True)
    if gdb.newest_frame().name() != "main":
        backwards.append(gdb.newest_frame().name())
        break
    add(backwards)
print("back over", *backwards)
print(f"back in main: {gdb.newest_frame().name() == 'main' and gdb.newest_frame().pc() == begin}")

# What is in a call stops it.
gdb.execute("break finished")
gdb.execute("continue", to_string=True)
gdb.execute("delete")
gdb.execute("reverse-finish", to_string=True)
gdb.execute("break by_number if *(int *)a == 9")
gdb.execute("break last")
stops = []
while gdb.breakpoints():
    gdb.execute("reverse-next", to_string=True)
    name = gdb.newest_frame().name().split("(")[0]
    if name != "main":
        stops.append(name)
        gdb.breakpoints()[0].delete()
        # Out of what was stopped in.
        while gdb.newest_frame().name() != "main":
            gdb.execute("reverse-finish", to_string=True)
print("stopped in", *stops)

# Out of a function that has called itself since.
gdb.execute("break fibonacci if n == 9")
gdb.execute("seek begin", to_string=True)
gdb.execute("continue", to_string=True)
entered = gdb.execute("monitor when", to_string=True)
gdb.execute("delete")
gdb.execute("finish", to_string=True)
gdb.execute("reverse-stepi", to_string=True)
gdb.execute("reverse-finish", to_string=True)
gdb.execute("break fibonacci")
gdb.execute("continue", to_string=True)
print("out of the same call:", gdb.execute("monitor when", to_string=True) == entered)
