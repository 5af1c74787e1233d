"""Back by lines from the end to the beginning, and forwards again: each line is come to where gdb
comes to it with a count, which lets it make all its steps."""

import gdb

gdb.execute("set style enabled off")


def when():
    return gdb.execute("monitor when", to_string=True).strip()


def function():
    try:
        return gdb.newest_frame().name()
    except gdb.error:
        return None


def way(command, most):
    """Where the movement leads, again and again, until it leads out of main, or so many times."""
    gdb.execute("seek begin", to_string=True)
    gdb.execute("disable")
    gdb.execute("tbreak finished")
    gdb.execute("continue", to_string=True)
    gdb.execute("enable")
    places = []
    while len(places) < most and function() != "_start":
        gdb.execute(command, to_string=True)
        places.append((when(), function()))
    return places


def compare(command, most, title=""):
    each, over = way(f"{command} 1", most), way(command, most)
    # By itself gdb goes astray behind some calls, and comes out at the beginning.
    if each and each[-1][1] == "_start" and len(over) >= len(each):
        each.pop()
    differences = [pair for pair in zip(each, over) if pair[0] != pair[1]]
    print(f"{title}{command}: {len(each)} and {len(over)} lines, {len(differences)} differences",
          f"at {function()}", *differences[:3])


gdb.execute("handle SIGUSR1 nostop noprint", to_string=True)
compare("reverse-next", 400)
compare("reverse-step", 60)
# What stops it on the way, in the loops and in what they call.
gdb.execute("break square if i > 4 && i % 30 == 7")
gdb.execute("break compute if argument == 2")
gdb.execute("break plain if 0")
gdb.execute("watch handled if handled % 300 == 0")
compare("reverse-next", 20, "stopped: ")
gdb.execute("delete")
gdb.execute("set can-use-hw-watchpoints 0")
gdb.execute("watch rare if rare > 3")
compare("reverse-next", 2, "watched: ")
