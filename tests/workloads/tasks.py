"""Tasks of asyncio with children, sockets and threads."""
import asyncio
import time


async def echo(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()


async def client(port, number):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = []
    for i in range(50):
        writer.write(f"client {number} line {i}\n".encode())
        answers.append(await reader.readline())
    writer.close()
    return answers[-1].decode().strip()


async def child(text):
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", "read x; echo got $x; exit 3", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate(text.encode() + b"\n")
    return output.decode().strip(), process.returncode


async def main():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(await asyncio.gather(*(client(port, number) for number in range(5))))
    print(await asyncio.gather(*(child(f"text{number}") for number in range(4))))
    print(await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.01) for _ in range(6))))
    try:
        await asyncio.wait_for(asyncio.sleep(100), 0.02)
    except asyncio.TimeoutError:
        print("timed out")
    queue = asyncio.Queue(2)
    producer = asyncio.create_task(produce(queue))
    print("summed", sum([await queue.get() for _ in range(500)]))
    await producer
    server.close()
    await server.wait_closed()


async def produce(queue):
    for i in range(500):
        await queue.put(i)


asyncio.run(main())
