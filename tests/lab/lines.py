"""A server of asyncio that answers lines in capitals after a while, and twenty connections of its client at once."""
import asyncio
import sys


async def answer(reader, writer):
    while line := await reader.readline():
        await asyncio.sleep(0.01)
        writer.write(line.upper())
        await writer.drain()
    writer.close()


async def ask(number):
    reader, writer = await asyncio.open_connection('server', 80)
    for round in range(5):
        writer.write(b'hi %d %d\n' % (number, round))
        last = (await reader.readline()).decode().strip()
    writer.close()
    return last


async def main():
    if sys.argv[1:]:
        await asyncio.sleep(2)
        print(await asyncio.gather(*[ask(number) for number in range(20)]))
        return
    async with await asyncio.start_server(answer, None, 80) as server:
        await server.serve_forever()


asyncio.run(main())
