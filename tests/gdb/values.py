"""Several processes add to a value that they share."""

import multiprocessing


def add(value, n):
    for _ in range(100):
        with value.get_lock():
            value.value += n


if __name__ == "__main__":
    value = multiprocessing.Value("i", 0)
    children = [multiprocessing.Process(target=add, args=(value, n)) for n in (1, 2, 3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    print("together", value.value)
