"""asyncio_server.py PORT: HTTP by streams of asyncio, with hashes from a pool of threads."""
import asyncio
import hashlib
import signal
import sys


async def answer(reader, writer):
    loop = asyncio.get_running_loop()
    while True:
        request = await reader.readline()
        if not request:
            break
        close = False
        while (line := await reader.readline()) not in (b"\r\n", b""):
            close = close or line.lower().startswith(b"connection: close")
        path = request.split()[1]
        digest = await loop.run_in_executor(None, lambda: hashlib.sha256(path * 1000).hexdigest())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n" + digest.encode())
        await writer.drain()
        if close or request.endswith(b"1.0\r\n"):
            break
    writer.close()


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", int(sys.argv[1]))
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    server.close()


asyncio.run(main())
print("ended")
