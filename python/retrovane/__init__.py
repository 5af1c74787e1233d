"""Checkpoint, rollback and replay of the calling program.

A program that runs under ``retrovane live`` goes back to a checkpoint that it took
itself: the whole interpreter, with all its threads.

    import retrovane

    checkpoint = retrovane.checkpoint()
    failed_before = checkpoint.rollbacks > 0
    ok = handle_request(tracing=failed_before)
    if not ok and not failed_before:
        checkpoint.rollback()
    checkpoint.discard()

Outside of a live session every function raises :class:`NotLive`, an OSError with
errno ENOSYS; :func:`replaying` is False there.

What the program printed but Python has not yet written goes back with the rest of
memory: flush before a checkpoint what must not be written twice.
"""

import ctypes
import errno
import os
import platform
import sys

__all__ = ["Checkpoint", "NotLive", "checkpoint", "live", "replaying"]

_CALL_BASE = 0x525600
_CHECKPOINT, _DISCARD, _ROLLBACK, _REPLAY, _ROLLBACKS, _REPLAYING, _CHECK, _LOST = range(8)

# The lock of the interpreter is kept over the call: it is held again after a
# rollback, because it was held at the checkpoint.
_syscall = None
if sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 2**32:
    _syscall = ctypes.PyDLL(None, use_errno=True).syscall
    _syscall.restype = ctypes.c_long
    _syscall.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_size_t]


class NotLive(OSError):
    """The program does not run under ``retrovane live``."""


def _ask(operation, identifier=0, text=None):
    """The answer of a call: 0 or more, or -errno."""
    if _syscall is None:
        return -errno.ENOSYS
    result = _syscall(_CALL_BASE + operation, identifier, text, len(text) if text else 0)
    return result if result >= 0 else -ctypes.get_errno()


def _call(operation, identifier=0, text=None):
    result = _ask(operation, identifier, text)
    if result >= 0:
        return result
    # A sandbox may refuse what it does not know with an errno of its own. In a live
    # session the question whether it is replayed never fails.
    if result == -errno.ENOSYS or _ask(_REPLAYING) < 0:
        raise NotLive(errno.ENOSYS, "the program does not run under retrovane live")
    raise OSError(-result, os.strerror(-result))


def _lines(operation, identifier):
    text = ctypes.create_string_buffer(4096)
    while (length := _call(operation, identifier, text)) >= len(text):
        text = ctypes.create_string_buffer(length + 1)
    return text.value.decode(errors="replace").splitlines()


class Checkpoint:
    """A state of this program that it can go back to, by its number."""

    __slots__ = ("id",)

    def __init__(self, identifier):
        self.id = identifier

    def __repr__(self):
        return f"Checkpoint({self.id})"

    def __eq__(self, other):
        return isinstance(other, Checkpoint) and self.id == other.id

    def __hash__(self):
        return hash(self.id)

    @property
    def rollbacks(self):
        """How often the program was rolled back to it; a replay counts as none."""
        return _call(_ROLLBACKS, self.id)

    def discard(self):
        """Forgets it and frees its memory."""
        _call(_DISCARD, self.id)

    def rollback(self):
        """Goes back to it and on from there, live.

        Does not return: checkpoint() does, again. Raises OSError if it cannot, and
        the program is where it was.
        """
        _call(_ROLLBACK, self.id)

    def replay(self):
        """Goes back to it, does the same again up to this very call, and returns in
        the present. Nothing goes out on the way."""
        _call(_REPLAY, self.id)


    def check(self):
        """What a rollback would not restore if it were done now: a list of lines.

        Nothing is changed. Raises OSError if a rollback could not be done."""
        return _lines(_CHECK, self.id)

    @property
    def lost(self):
        """What the last rollback to it did not restore: a list of lines."""
        return _lines(_LOST, self.id)


def checkpoint():
    """Takes a checkpoint. Returns when it was taken, and again after each rollback."""
    return Checkpoint(_call(_CHECKPOINT))


def replaying():
    """True while a replay is going on.

    The one answer that differs in a replay. What is done upon it may not make other
    system calls than before: no output, and little that allocates.
    """
    return _ask(_REPLAYING) == 1


def live():
    """True in a live session, in which checkpoints can be taken."""
    return _ask(_REPLAYING) >= 0
