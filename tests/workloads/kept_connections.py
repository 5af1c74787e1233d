# kept_connections.py RV PID PORT: two connections to a web server stay open, and ask all the
# time, while the process PID is replayed and rolled back. After a rollback requests are read, and
# answered, again: each answer has to be whole and right, and none may be missing.
import select
import socket
import subprocess
import sys
import threading

rv, pid, port = sys.argv[1:4]
with open("html/small", "rb") as served:
    WANTED = served.read()


class Connection:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", int(port)))
        self.socket.settimeout(60)
        self.buffer = b""
        self.asked = self.answered = 0

    def receive(self):
        received = self.socket.recv(1 << 20)
        assert received, f"closed after {self.answered} answers"
        self.buffer += received

    def take(self):
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if not end or len(rest) < len(WANTED):
            return False
        assert head.startswith(b"HTTP/1.1 200 "), head
        assert rest[: len(WANTED)] == WANTED, rest[:80]
        self.buffer = rest[len(WANTED) :]
        self.answered += 1
        return True

    def drain(self, seconds):
        while select.select([self.socket], [], [], seconds)[0]:
            self.receive()
        while self.take():
            pass

    def ask(self):
        self.drain(0)
        before = self.answered
        self.socket.sendall(b"GET /small HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.asked += 1
        while self.answered == before:
            if not self.take():
                self.receive()


class Asker(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.connections = [Connection(), Connection()]
        self.rounds = 0
        self.ends = False
        self.failure = None

    def run(self):
        try:
            while not self.ends:
                for connection in self.connections:
                    connection.ask()
                self.rounds += 1
        except Exception as failure:  # Told by the main thread.
            self.failure = failure

    def go_on(self, rounds=10):
        target = self.rounds + rounds
        while self.rounds < target:
            self.join(0.01)
            if self.failure:
                raise self.failure


def ctl(*words):
    done = subprocess.run([rv, "ctl", pid, *words], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


asker = Asker()
asker.start()
asker.go_on()
for _ in range(3):
    number = ctl("checkpoint").split()[-1]
    asker.go_on()
    ctl("replay", number)
    asker.go_on()
    ctl("rollback", number)
    asker.go_on()
    ctl("rollback", number)
    asker.go_on()
asker.ends = True
asker.join()
for connection in asker.connections:
    connection.drain(0.2)
    assert connection.answered >= connection.asked and connection.buffer == b"", connection.buffer
print("no connection was lost, and every answer was right")
