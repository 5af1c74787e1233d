#!/bin/sh
# timer_create(2) that fails may use up a number, and timer_delete(2) gives none back.
#
# Guess: numbers of timers are given like those of descriptors: the lowest that is free, and a call that fails
#   leaves nothing behind. So the n-th timer of a process that has deleted none has the number n - 1.
# Seen: numbers only go up. One that was deleted is not given again. A clock that there is not
#   (77) fails with EINVAL, and the next timer has the next number; the processor time of a process that
#   there is not fails with EINVAL, too, and the next timer has the number behind the next.
# Software: Linux 6.18 (kernel/time/posix-timers.c, do_timer_create: the kind of clock is looked up before a number is
#   taken, the clock itself behind that), x86-64; Python 3.11 and glibc 2.36 to call it. glibc's timer_t hides the
#   number where the timer starts threads, and is the number where it sends signals.
# Why it matters: who makes timers again with the same numbers (a checkpoint that is restored, a replay, a
#   user-space kernel) has to count the calls that failed, and for which reason.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat > "$dir/look.py" <<'PY'
import ctypes, errno, os, sys

libc = ctypes.CDLL(None, use_errno=True)
TIMER_CREATE, TIMER_DELETE = 222, 226
MONOTONIC, NO_CLOCK = 1, 77


def create(clock):
    """The timer's number, or the error's name."""
    number = ctypes.c_int(-1)
    ctypes.set_errno(0)
    if libc.syscall(TIMER_CREATE, ctypes.c_int(clock), None, ctypes.byref(number)) == 0:
        return number.value
    return errno.errorcode[ctypes.get_errno()]


# clock_getcpuclockid(3): the complement of the process's id, shifted, and the kind of clock.
nobody = int(open("/proc/sys/kernel/pid_max").read()) + 1
nobodys = (~nobody << 3) | 2
seen = [create(clock) for clock in (MONOTONIC, NO_CLOCK, MONOTONIC, nobodys, MONOTONIC)]
libc.syscall(TIMER_DELETE, seen[-1])
seen.append(create(MONOTONIC))
print(os.uname().release, seen)
if seen != [0, "EINVAL", 1, "EINVAL", 3, 4]:
    print("CHANGED")
    sys.exit(1)
PY
python3 "$dir/look.py"
