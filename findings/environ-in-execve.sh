#!/bin/sh
# /proc/PID/environ of a running process reads as empty, without an error.
#
# Guess: a process that was started with an environment has one at every moment until it
#   ends: fork copies it, and execve replaces the old by the new one, all at once for who looks.
# Seen: in the middle of an execve the file is empty (0 bytes, no error), while
#   /proc/PID/stat says that the process has memory (vsize, the 23rd field, is not 0) and that
#   the environment ends at address 0 (env_end, the 51st). The process has its new memory
#   already, and the kernel notes where the environment lies only when the new program is
#   loaded. Neither proc_pid_environ(5) nor execve(2) says so. A process that was started
#   with no environment is empty, too, but its env_start and env_end are equal and not 0.
# Software: Linux 6.18 (fs/proc/base.c, environ_read; fs/binfmt_elf.c), x86-64; Python 3.11 to look.
# Why it matters: whoever finds the processes of a job by a variable of their environment
#   (build servers and test harnesses do, to end what a job left) overlooks one that is just
#   starting a program: about one in 200 ends of a shell that had put a command in the background.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat > "$dir/look.py" <<'PY'
import os, sys

MARK = b"LOOKED_FOR=here"


def fields(pid):
    text = open(f"/proc/{pid}/stat").read()
    return text[text.rindex(")") + 2:].split()


def looks(environment):
    """Reads the environment of a new process until it has ended; the kinds of what was seen."""
    pid = os.fork()
    if pid == 0:
        os.execve("/bin/true", ["true"], environment)
    seen = {"with it": 0, "empty in execve": 0, "empty": 0}
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        try:
            content, stat = open(f"/proc/{pid}/environ", "rb").read(), fields(pid)
        except ProcessLookupError:  # It has ended.
            continue
        if MARK in content.split(b"\0"):
            seen["with it"] += 1
        elif not content and stat[20] != "0":
            is_in_execve = stat[48] == "0"
            seen["empty in execve" if is_in_execve else "empty"] += 1
    return seen


name, value = MARK.decode().split("=")
os.environ[name] = value
# A child has its parent's environment until its own execve, and the parent's is that of an execve, too.
if MARK not in open("/proc/self/environ", "rb").read().split(b"\0"):
    os.execv(sys.executable, [sys.executable, *sys.argv])
total = {}
for _ in range(3000):
    for kind, count in looks(dict(os.environ)).items():
        total[kind] = total.get(kind, 0) + count
print(os.uname().release, total)
sys.exit(0 if total["with it"] and total["empty in execve"] else 1)
PY
if python3 "$dir/look.py"; then
	echo "as described: a process that has an environment was seen without one"
else
	echo "CHANGED: no process was seen without its environment" >&2
	exit 1
fi
