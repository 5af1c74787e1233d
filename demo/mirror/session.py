"""Kills a server while it writes, and looks at what is back: every key, of one moment.

Each write is a transaction with a number. After a kill the server must have the data of all
writes up to some number and of none behind it, and the number must not be lower than that of
a checkpoint that was reported as durable."""

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

MEMBERS = 1000  # of the hash, the sorted set and the list
BATCH = 100
PRIME = 7919


def request(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def answer(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server is gone")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind in b"+:":
            return rest
        count = int(rest)
        if count < 0:
            return None
        if kind == b"*":
            return [self.answer() for _ in range(count)]
        return self.file.read(count + 2)[:-2]

    def call(self, *words):
        self.socket.sendall(request(*words))
        return self.answer()

    def close(self):
        self.file.close()
        self.socket.close()


class Server:
    """A running server; ready_s is the time until it answered."""

    def __init__(self, options, check=False):
        folder = options.folder
        self.path = os.path.join(folder, "redis.sock")
        if os.path.exists(self.path):
            os.remove(self.path)
        self.log_path = os.path.join(folder, "redis.log")
        environment = dict(os.environ, REDIS_MIRROR=os.path.join(folder, "region"),
                           REDIS_MIRROR_BYTES=str(options.size))
        if check:
            environment["RETROVANE_MIRROR_CHECK"] = "1"
        begun = time.monotonic()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [options.server, "--port", "0", "--unixsocket", self.path, "--save", "", "--dir", folder],
                env=environment, stdout=log, stderr=log)
        while True:
            try:
                client = Client(self.path)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                if self.process.poll() is not None:
                    raise SystemExit("the server did not begin: see " + self.log_path) from None
                time.sleep(0.001)
        client.call("PING")
        self.ready_s = time.monotonic() - begun
        client.close()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def load(client, keys):
    for first in range(0, keys, 10000):
        count = min(10000, keys - first)
        client.socket.sendall(b"".join(request("SET", f"key:{key}", -1) for key in range(first, first + count)))
        for _ in range(count):
            client.answer()


def write(number, keys):
    """One transaction, as bytes; it has 8 answers and those of its parts."""
    member = number % MEMBERS
    return b"".join([
        request("MULTI"),
        request("SET", f"key:{number * PRIME % keys}", number),
        request("HSET", "hash", member, number),
        request("ZADD", "sorted", number, member),
        request("RPUSH", "list", number),
        request("LTRIM", "list", -MEMBERS, -1),
        request("SET", "last", number),
        request("EXEC"),
    ])


class Writer(threading.Thread):
    """Writes numbers from `first` on; `acknowledged` is the last one that was answered."""

    def __init__(self, path, first, keys):
        super().__init__()
        self.client, self.next, self.keys = Client(path), first, keys
        self.acknowledged = first - 1
        self.progress = threading.Event()

    def run(self):
        try:
            while True:
                numbers = range(self.next, self.next + BATCH)
                self.client.socket.sendall(b"".join(write(number, self.keys) for number in numbers))
                for number in numbers:
                    for _ in range(8):
                        self.client.answer()
                    self.acknowledged = number
                self.next += BATCH
                self.progress.set()
        except OSError:
            self.client.close()


def save(client, writer):
    """The last write that a checkpoint has for certain, when it is durable."""
    before = writer.acknowledged
    client.call("BGSAVE")
    while True:
        info = client.call("INFO", "persistence")
        if b"rdb_bgsave_in_progress:0" in info:
            assert b"rdb_last_bgsave_status:ok" in info, info
            return before
        time.sleep(0.001)


def saves(client, writer, results, wanted, behind):
    """Takes checkpoints until `wanted` are durable; returns that many writes behind the next one's beginning."""
    while len(results) <= wanted:
        results.append(save(client, writer))
    client.call("BGSAVE")
    enough = writer.acknowledged + behind
    while writer.acknowledged < enough:
        writer.progress.wait()
        writer.progress.clear()


class Model:
    """What the data are behind a number of writes."""

    def __init__(self, keys):
        self.values, self.last = [-1] * keys, -1

    def advance(self, last):
        for number in range(self.last + 1, last + 1):
            self.values[number * PRIME % len(self.values)] = number
        self.last = last

    def compare(self, client):
        keys, last = len(self.values), self.last
        for first in range(0, keys, 10000):
            names = [f"key:{key}" for key in range(first, min(first + 10000, keys))]
            found = client.call("MGET", *names)
            wanted = [str(value).encode() for value in self.values[first:first + len(names)]]
            if found != wanted:
                at = next(index for index, pair in enumerate(zip(found, wanted)) if pair[0] != pair[1])
                raise SystemExit(f"{names[at]} is {found[at]}, not {wanted[at]}, behind write {last}")
        recent = range(max(0, last - MEMBERS + 1), last + 1)
        members = {str(number % MEMBERS).encode(): str(number).encode() for number in recent}
        flat = client.call("HGETALL", "hash")
        assert dict(zip(flat[::2], flat[1::2])) == members, "the hash has other fields"
        flat = client.call("ZRANGE", "sorted", 0, -1, "WITHSCORES")
        assert dict(zip(flat[::2], flat[1::2])) == members, "the sorted set has other members"
        assert client.call("LRANGE", "list", 0, -1) == [str(number).encode() for number in recent], "the list is another"
        assert int(client.call("DBSIZE")) == keys + (4 if last >= 0 else 0), "there are other keys"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server")
    parser.add_argument("folder")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=1 << 29, help="bytes of the region")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    chance = random.Random(seed)
    for slot in "01":
        path = os.path.join(options.folder, f"region.{slot}")
        if os.path.exists(path):
            os.remove(path)

    server = Server(options)
    try:
        rounds(options, server, chance)
    except BaseException:
        print(f"seed {seed}; the server's log: {server.log_path}", file=sys.stderr)
        raise


def rounds(options, server, chance):
    client, model = Client(server.path), Model(options.keys)
    try:
        load(client, options.keys)
        client.call("SAVE")
        print(f"{options.keys} keys are loaded, and in a checkpoint", flush=True)
        for number in range(1, options.rounds + 1):
            writer = Writer(server.path, model.last + 1, options.keys)
            durable = [model.last]
            writer.start()
            saves(client, writer, durable, chance.randrange(1, 5), chance.randrange(1, 20 * BATCH))
            server.kill()
            writer.join()
            client.close()
            # The last one tells of stores that were not mirrored.
            server = Server(options, check=number == options.rounds)
            client = Client(server.path)
            last = client.call("GET", "last")
            last = int(last) if last is not None else -1
            if not durable[-1] <= last < writer.next + BATCH:
                raise SystemExit(f"write {last} is the last one, but {durable[-1]} was durable")
            model.advance(last)
            model.compare(client)
            print(f"kill {number}: {writer.acknowledged + 1} writes, {len(durable) - 1} checkpoints, "
                  f"{durable[-1] + 1} writes reported durable; back in {server.ready_s * 1000:.0f} ms "
                  f"with {last + 1}, all {options.keys} keys right", flush=True)
        for number in range(model.last + 1, model.last + 1 + BATCH):
            client.socket.sendall(write(number, options.keys))
            for _ in range(8):
                client.answer()
        client.call("SAVE")
    finally:
        server.kill()
    with open(server.log_path, "rb") as log:
        if b"without a barrier" in log.read():
            raise SystemExit("stores were not mirrored: see " + server.log_path)


if __name__ == "__main__":
    main()
