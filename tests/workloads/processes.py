"""Processes of Python that share memory: a pool, queues, values, arrays, a manager.
Lines with ~ tell what chance decided."""
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory


def square(n):
    return n * n


def add(value, order, number):
    for _ in range(500):
        with value.get_lock():
            order[value.value % len(order)] = number
            value.value += 1


def fill(name, number):
    block = shared_memory.SharedMemory(name=name)
    block.buf[number * 100:(number + 1) * 100] = bytes([number + 1]) * 100
    block.close()


def talk(pipe):
    while (text := pipe.recv()) != "end":
        pipe.send(text.upper())


def main():
    with multiprocessing.Pool(3) as pool:
        print("squares", sum(pool.map(square, range(2000), chunksize=20)))
    value, order = multiprocessing.Value("i", 0), multiprocessing.Array("i", 1500)
    children = [multiprocessing.Process(target=add, args=(value, order, number)) for number in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    print("value", value.value, [child.exitcode for child in children])
    print("~ order", hash(tuple(order)))

    block = shared_memory.SharedMemory(create=True, size=300)
    children = [multiprocessing.Process(target=fill, args=(block.name, number)) for number in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    print("filled", sum(block.buf[:300]))
    block.close()
    block.unlink()

    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=talk, args=(theirs,))
    child.start()
    ours.send("hello")
    print(ours.recv())
    ours.send("end")
    child.join()
    with multiprocessing.Manager() as manager:
        shared = manager.dict(a=1)
        child = multiprocessing.Process(target=shared.update, args=({"b": 2},))
        child.start()
        child.join()
        print(sorted(shared.items()))
    with ProcessPoolExecutor(2) as pool:
        print("sum", sum(pool.map(square, range(50))))
    print("~", os.getpid())


if __name__ == "__main__":
    main()
