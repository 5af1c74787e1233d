"""Processes of a pool, whose maker waits for them until times that it asks the clock for again and again."""
import asyncio
import multiprocessing
import time


def work(number):
    time.sleep(0.1)
    return number * number


async def tell():
    process = await asyncio.create_subprocess_exec("sleep", "1")
    await process.wait()
    print("all are back")


if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        print(pool.map(work, range(6)))
    asyncio.run(tell())
