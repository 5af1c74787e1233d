"""Connections that do not end as one does that both are done with: reset by who closes without waiting (SO_LINGER) or without
having read all, and by a host that is no more. The peer is told ECONNRESET, unless the end had come."""

import errno
import socket
import struct
import sys
import time


def told(receive):
    try:
        return receive()
    except OSError as error:
        return errno.errorcode[error.errno]


def server():
    listener = socket.create_server(("", 7))
    peer, _ = listener.accept()
    print("sent before:", peer.recv(10), flush=True)
    print("no linger:", told(lambda: peer.recv(10)), flush=True)
    print("then:", told(lambda: peer.recv(10)), told(lambda: peer.send(b"x")), flush=True)
    peer, _ = listener.accept()
    time.sleep(0.5)
    peer.close()
    peer, _ = listener.accept()
    print("ended:", peer.recv(10), peer.recv(10), flush=True)
    time.sleep(0.5)
    peer.close()


def client():
    time.sleep(0.5)
    peer = socket.create_connection(("server", 7))
    peer.send(b"abc")
    time.sleep(0.1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    time.sleep(0.1)
    peer = socket.create_connection(("server", 7))
    peer.send(b"unread")
    print("unread:", told(lambda: peer.recv(10)), flush=True)
    peer = socket.create_connection(("server", 7))
    peer.send(b"read")
    peer.shutdown(socket.SHUT_WR)
    print("read:", told(lambda: peer.recv(10)), flush=True)


client() if sys.argv[1:] == ["client"] else server()
