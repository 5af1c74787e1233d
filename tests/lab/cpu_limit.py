"""Limits of processor time: children that compute are told each second, and killed at last, or end by the first signal."""

import os
import resource
import signal


def child(body):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        body(write)
        os._exit(1)
    os.close(write)
    _, status = os.waitpid(pid, 0)
    return os.read(read, 100), os.WTERMSIG(status)


def counts(write):
    signal.signal(signal.SIGXCPU, lambda *_: os.write(write, b"x"))
    resource.setrlimit(resource.RLIMIT_CPU, (1, 4))
    while True:
        pass


def ends(write):
    resource.setrlimit(resource.RLIMIT_CPU, (1, resource.RLIM_INFINITY))
    pid = os.fork()
    if pid == 0:
        while True:
            pass
    _, status, usage = os.wait4(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGXCPU
    os.write(write, b"1 s")


told, by = child(counts)
print(f"{len(told)} times, then killed by signal {by}", flush=True)
print(f"spent: {child(ends)[0].decode()}", flush=True)
