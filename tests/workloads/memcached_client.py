"""memcached_client.py PORT THREADS KEYS: each thread stores keys of its own,
counts on a key of all, and reads back what it stored."""
import socket
import sys
import threading

PORT, THREADS, KEYS = (int(word) for word in sys.argv[1:])
failures = []


class Client:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", PORT))
        self.file = self.socket.makefile("rwb")

    def ask(self, text):
        self.file.write(text)
        self.file.flush()
        return self.file.readline()

    def get(self, key):
        head = self.ask(b"get %s\r\n" % key)
        if not head.startswith(b"VALUE"):
            return None
        value = self.file.read(int(head.split()[3]) + 2)[:-2]
        assert self.file.readline() == b"END\r\n"
        return value


def work(number):
    client = Client()
    for i in range(KEYS):
        value = b"%d-" % i * (number + 1) * (i % 50)
        assert client.ask(b"set k%d-%d 0 0 %d\r\n%s\r\n" % (number, i, len(value), value)) == b"STORED\r\n"
        assert client.ask(b"incr counter 1\r\n")[:-2].isdigit()
    for i in range(KEYS):
        assert client.get(b"k%d-%d" % (number, i)) == b"%d-" % i * (number + 1) * (i % 50)


def guarded(number):
    try:
        work(number)
    except BaseException as error:
        failures.append(repr(error))


first = Client()
assert first.ask(b"set counter 0 0 1\r\n0\r\n") == b"STORED\r\n"
threads = [threading.Thread(target=guarded, args=(number,)) for number in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
assert first.get(b"counter") == b"%d" % (THREADS * KEYS), "increments were lost"
