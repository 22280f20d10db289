"""redis-py's Lock of redis.asyncio with its own settings, one event loop; only the lease is conch's."""

import asyncio
import sys
import time

import redis.asyncio

from common import CONNECTIONS, GAP, LEASE, arguments, compute, is_slept, names_of, say, say_drained, task_line


async def connect(port):
    client = redis.asyncio.Redis(
        connection_pool=redis.asyncio.ConnectionPool(host="127.0.0.1", port=port, max_connections=CONNECTIONS)
    )
    await client.ping()
    return client


def lock_of(client, name):
    return client.lock("redis-py-asyncio:" + name, timeout=LEASE)


async def work(us):
    if is_slept(us):
        await asyncio.sleep(us / 1e6)
    else:
        compute(us)


async def task(lock, contended, until, body):
    holds, held, waits = 0, 0.0, []
    while True:
        begin = time.perf_counter()
        await lock.acquire()
        now = time.perf_counter()
        if contended:
            waits.append(f" {(now - begin) * 1e6:.1f}")
        if body:
            await work(body)
        releases = time.perf_counter()
        await lock.release()
        if now >= until:
            break
        holds += 1
        held += releases - now
    return task_line(holds, held, waits)


async def stand_in_line(lock, first, after):
    await asyncio.sleep(after)
    await lock.acquire()
    first.append(time.perf_counter())
    await lock.release()


async def run(client, workload, seconds, body, count):
    contended = workload == "contended"
    names = names_of(workload, count)
    until = time.perf_counter() + seconds
    for text in await asyncio.gather(*(task(lock_of(client, n), contended, until, body) for n in names)):
        say(text)
    say("done 0")


async def standard_input():
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def main():
    workload, port, tasks = arguments()
    one = await connect(port)
    many = [await connect(port) for _ in range(tasks)] if workload == "drain" else []
    held = lock_of(one, workload)
    waiting, first = None, []
    lines = await standard_input()
    say("ready")
    async for line in lines:
        words = line.decode().split()
        if words[0] == "go":
            await run(one, workload, float(words[1]), int(words[2]), int(words[3]))
        elif words[0] in ("acquire", "wait"):
            await held.acquire()
            say(f"took {time.monotonic_ns()}")
        elif words[0] == "release":
            at = time.monotonic_ns()
            await held.release()
            say(f"released {at}")
        elif words[0] == "arm":
            await held.acquire()
            first.clear()
            waiting = asyncio.gather(*(stand_in_line(lock_of(c, workload), first, GAP * i) for i, c in enumerate(many)))
            say("armed")
        elif words[0] == "drain":
            begin = time.perf_counter()
            await held.release()
            await waiting
            say_drained(begin, first[0])


asyncio.run(main())
