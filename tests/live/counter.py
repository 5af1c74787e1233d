# A counter of the interpreter goes back three times, and is replayed; a thread that was
# made since is gone; input from a pipe is read again.
# prints: after 0 rollbacks: 10
# prints: after 1 rollbacks: 10
# prints: after 2 rollbacks: 10
# prints: after 3 rollbacks: 10
# prints: replayed, 5 steps counted
# prints: read again
# prints: 1 thread
# prints: 2 bytes stay written
# prints: unknown: ENOENT
import errno
import os
import socket
import sys
import threading

import retrovane


def say(text):
    print(text, flush=True)


try:
    checkpoint = retrovane.checkpoint()
except retrovane.NotLive:
    say("no retrovane")
    sys.exit(77)
count = checkpoint.rollbacks
numbers = {"counter": 0}
for _ in range(10):
    numbers["counter"] += 1
say(f"after {count} rollbacks: {numbers['counter']}")
if count < 3:
    checkpoint.rollback()
checkpoint.discard()

counted = [0]
checkpoint = retrovane.checkpoint()
for _ in range(5):
    if retrovane.replaying():
        counted[0] += 1
checkpoint.replay()
say(f"replayed, {counted[0]} steps counted")
checkpoint.discard()

source, sink = os.pipe()
child = os.fork()
if child == 0:
    os.write(sink, b"again")
    os._exit(0)
os.waitpid(child, 0)
checkpoint = retrovane.checkpoint()
read = os.read(source, 5)
if checkpoint.rollbacks == 0:
    checkpoint.rollback()
say("read " + read.decode())
checkpoint.discard()

checkpoint = retrovane.checkpoint()
if checkpoint.rollbacks == 0:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    checkpoint.rollback()
say(f"{threading.active_count()} thread")
checkpoint.discard()

pair = socket.socketpair()
checkpoint = retrovane.checkpoint()
if checkpoint.rollbacks == 0:
    before = checkpoint.check() + checkpoint.lost
    pair[0].send(b"xy")
    after = checkpoint.check()
    if before == [] and len(after) == 1:
        checkpoint.rollback()
    say(f"{before} {after}")
(line,) = checkpoint.lost
say(line[line.index("2 bytes") :].replace(" that were written to it since", ""))
checkpoint.discard()

try:
    checkpoint.rollback()
except OSError as error:
    say("unknown: " + errno.errorcode[error.errno])
