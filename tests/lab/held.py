"""What a stream holds back and for how long, and how long closing it waits: who receives says when each piece came."""

import socket
import struct
import sys
import time

PORT = 7000


def receive():
    listener = socket.create_server(("0.0.0.0", PORT))
    while True:
        stream, _ = listener.accept()
        began = time.monotonic()
        pieces = []
        while piece := stream.recv(4096):
            pieces.append(f"{len(piece)} at {round((time.monotonic() - began) * 1000)}")
        print(", ".join(pieces), flush=True)
        if pieces == ["1 at 0"]:
            return


def connect(host):
    stream = socket.create_connection((host, PORT))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def cork(stream, on):
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, on)


def linger(stream, seconds):
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))


def send(host):
    # Corked: together, when it is no longer, or after 200 ms.
    with connect(host) as stream:
        cork(stream, 1)
        for _ in range(2):
            stream.send(b"a" * 10)
            time.sleep(0.05)
        cork(stream, 0)
        time.sleep(0.4)
        cork(stream, 1)
        stream.send(b"b" * 30)
        time.sleep(0.5)
        stream.send(b"c" * 40)
    # More follows.
    with connect(host) as stream:
        for flags in [socket.MSG_MORE, socket.MSG_MORE, 0]:
            stream.send(b"d" * 10, flags)
            time.sleep(0.05)
        stream.send(b"e" * 10)
    # Closing waits until all has come.
    stream = connect(host)
    linger(stream, 5)
    stream.send(b"f" * 100)
    began = time.monotonic()
    stream.close()
    print(f"closed after {round((time.monotonic() - began) * 1000)} ms", flush=True)
    with connect(host) as stream:
        stream.send(b"g")
    time.sleep(1)


if __name__ == "__main__":
    receive() if sys.argv[1] == "receive" else send(sys.argv[2])
