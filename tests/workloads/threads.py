"""Threads of Python: locks, queues, pools, and the handing over of the interpreter.
Lines with ~ tell what chance decided."""
import concurrent.futures
import hashlib
import queue
import sys
import threading
import time
import zlib

sys.setswitchinterval(0.0005)
order = []


def count(number):
    for i in range(20000):
        if i % 200 == 0:
            order.append(number)


threads = [threading.Thread(target=count, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("counted", len(order))
print("~ in the order", zlib.crc32(bytes(order)))

jobs, results = queue.Queue(8), queue.Queue()


def work():
    while (job := jobs.get()) is not None:
        results.put(job * job)


workers = [threading.Thread(target=work) for _ in range(3)]
for worker in workers:
    worker.start()
for job in range(2000):
    jobs.put(job)
for _ in workers:
    jobs.put(None)
for worker in workers:
    worker.join()
print("summed", sum(results.get() for _ in range(2000)))

condition = threading.Condition()
turn = 0


def ping_pong(own):
    global turn
    for _ in range(500):
        with condition:
            condition.wait_for(lambda: turn % 2 == own)
            turn += 1
            condition.notify_all()


other = threading.Thread(target=ping_pong, args=(1,))
other.start()
ping_pong(0)
other.join()
print("turns", turn)

# Hashing large data gives the interpreter up: these run at the same time.
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print([digest[:8] for digest in pool.map(lambda n: hashlib.sha256(bytes([n]) * 500000).hexdigest(), range(8))])

fired = threading.Event()
timer = threading.Timer(0.01, fired.set)
timer.start()
print("fired", fired.wait(30))
event = threading.Event()
start = time.monotonic()
print("timed out", not event.wait(0.02), time.monotonic() - start >= 0.02)
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
sys.exit(5)
