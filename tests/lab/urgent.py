"""Urgent bytes over a link that loses packets, in line and aside."""

import select
import socket
import sys
import time

PIECE = 2000
PIECES = 10


def receive():
    stream = socket.create_server(("", 700)).accept()[0]
    began = time.monotonic()
    try:
        stream.recv(1, socket.MSG_OOB)
    except OSError as error:
        print("none came:", error.errno)
    select.select([], [], [stream])
    after = round((time.monotonic() - began) * 1000)
    print(stream.recv(6), stream.recv(1, socket.MSG_OOB), f"after {after} ms")
    print(stream.recv(6), flush=True)
    count, urgent = 0, 0
    while True:
        _, _, is_urgent = select.select([stream], [], [stream])
        if is_urgent:
            urgent += stream.recv(1, socket.MSG_OOB) == b"U"
        elif piece := stream.recv(1 << 16):
            count += len(piece)
        else:
            break
    print(count + urgent == PIECES * (PIECE + 1), f"bytes, of which {urgent} urgent", flush=True)


def send(host):
    stream = socket.create_connection((host, 700))
    stream.sendall(b"abc")
    time.sleep(0.1)
    stream.send(b"!", socket.MSG_OOB)
    stream.sendall(b"def")
    for _ in range(PIECES):
        time.sleep(1)
        stream.sendall(b"x" * PIECE)
        stream.send(b"U", socket.MSG_OOB)
    stream.close()
    time.sleep(10)


if __name__ == "__main__":
    receive() if sys.argv[1] == "receive" else send(sys.argv[2])
