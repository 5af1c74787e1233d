# transaction.py RV SOCKET: a PostgreSQL session in the middle of a transaction is replayed and
# rolled back. The statements since the checkpoint are read, and answered, again.
import socket
import struct
import subprocess
import sys

rv, path = sys.argv[1:3]


class Session:
    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.socket.settimeout(60)
        self.buffer = b""
        self.pid = None
        start = struct.pack("!i", 196608) + b"user\0postgres\0database\0postgres\0\0"
        self.socket.sendall(struct.pack("!i", len(start) + 4) + start)
        self.answer()

    def message(self):
        def length():
            return 1 + struct.unpack("!i", self.buffer[1:5])[0] if len(self.buffer) >= 5 else 5

        while len(self.buffer) < length():
            received = self.socket.recv(65536)
            assert received, "the connection was closed"
            self.buffer += received
        end = length()
        message, self.buffer = self.buffer[:end], self.buffer[end:]
        return message[:1], message[5:]

    def answer(self):
        """Rows, what was done, and the state of the transaction."""
        parts = []
        while True:
            kind, body = self.message()
            if kind == b"K":
                self.pid = struct.unpack("!i", body[:4])[0]
            elif kind == b"D":
                count, body, fields = struct.unpack("!h", body[:2])[0], body[2:], []
                for _ in range(count):
                    end = 4 + struct.unpack("!i", body[:4])[0]
                    fields.append(body[4:end].decode())
                    body = body[end:]
                parts.append("|".join(fields))
            elif kind == b"C":
                parts.append(body[:-1].decode())
            elif kind == b"E":
                parts.append(repr(body))
            elif kind == b"Z":
                return ", ".join(parts + [body.decode()])

    def ask(self, text):
        query = text.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!i", len(query) + 4) + query)
        return self.answer()


def ctl(pid, *words):
    done = subprocess.run([rv, "ctl", str(pid), *words], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


one = Session()
print(one.ask("create table rows(n int)"))
print(one.ask("begin"))
print(one.ask("insert into rows values (1)"))
print(ctl(one.pid, "checkpoint").strip())
print(one.ask("insert into rows values (2)"))
print(one.ask("select count(*) from rows"))
ctl(one.pid, "replay", "0")
print("replayed:", one.ask("insert into rows values (3)"))
print(one.ask("select count(*) from rows"))
ctl(one.pid, "rollback", "0")
print("rolled back")
for _ in range(4):
    print("again:", one.answer())
print(one.ask("commit"))
print(one.ask("select count(*), sum(n) from rows"))
print("another:", Session().ask("select count(*), sum(n) from rows"))
