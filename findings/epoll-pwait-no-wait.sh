#!/bin/sh
# epoll_pwait(2) that does not wait leaves a signal that its mask lets in where it is.
#
# Guess: a call with a mask of signals does, whatever its timeout, what ppoll(2) and pselect(2) do: a signal that
#   waits and that only this mask lets in is handled within the call, which ends with EINTR. So a
#   timeout of 0 asks "is there anything: a descriptor that is ready, or a signal?"
# Seen: ppoll and pselect with a timeout of 0 give -1 with EINTR, and the handler has run. epoll_pwait
#   with 0 gives 0, and the handler has not run; with a timeout of 1 ms it gives -1 with EINTR at
#   once, and the handler has run. epoll_pwait(2) says that it is equivalent to setting the mask, epoll_wait
#   and setting it back, in which the handler would run whatever the timeout is.
# Software: Linux 6.18 (fs/eventpoll.c, ep_poll: what is asked without waiting is answered before it looks for
#   signals; fs/select.c, do_poll and do_select look first), x86-64; Python 3.11 and glibc 2.36 to call it.
# Why it matters: who puts a waiting call into pieces that do not wait (an event loop inside another
#   one, a simulator, a user-space kernel) never sees the signals that the call was to end with.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat > "$dir/look.py" <<'PY'
import ctypes, os, signal, sys

libc = ctypes.CDLL(None, use_errno=True)
EINTR = 4
handled = []
signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
no_signals = ctypes.create_string_buffer(128)
no_time = (ctypes.c_long * 2)(0, 0)
event = ctypes.create_string_buffer(12)
epoll = libc.epoll_create1(0)


def looks(call):
    """The result, whether it was EINTR, and whether the handler ran."""
    os.kill(os.getpid(), signal.SIGUSR1)
    del handled[:]
    ctypes.set_errno(0)
    result = call()
    seen = (result, ctypes.get_errno() == EINTR, bool(handled))
    # What waits still is handled before the next one.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    return seen


seen = {
    "ppoll, 0": looks(lambda: libc.ppoll(None, 0, no_time, no_signals)),
    "pselect, 0": looks(lambda: libc.pselect(0, None, None, None, no_time, no_signals)),
    "epoll_pwait, 0": looks(lambda: libc.epoll_pwait(epoll, event, 1, 0, no_signals)),
    "epoll_pwait, 1": looks(lambda: libc.epoll_pwait(epoll, event, 1, 1, no_signals)),
}
print(os.uname().release, seen)
ended, not_ended = (-1, True, True), (0, False, False)
if list(seen.values()) != [ended, ended, not_ended, ended]:
    print("CHANGED")
    sys.exit(1)
PY
python3 "$dir/look.py"
