"""redis-py's Lock of redis.asyncio with its own settings, one event loop; only the lease is conch's."""

import asyncio
import sys
import time

import redis.asyncio

LEASE = 30
GAP = 0.003  # between two clients that ask


async def connect(port):
    # Its pool stops at 100 connections unless told otherwise; each task has one of its own here.
    client = redis.asyncio.Redis(
        connection_pool=redis.asyncio.ConnectionPool(host="127.0.0.1", port=port, max_connections=100_000)
    )
    await client.ping()
    return client


def lock_of(client, name):
    return client.lock("redis-py-asyncio:" + name, timeout=LEASE)


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def work(us):
    """The critical section: slept if it is a millisecond or more, else computed."""
    if us >= 1000:
        await asyncio.sleep(us / 1e6)
        return
    until = time.perf_counter() + us / 1e6
    while time.perf_counter() < until:
        pass


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
    return f"task {holds} {held * 1e6:.0f}" + "".join(waits)


async def stand_in_line(lock, first, after):
    await asyncio.sleep(after)
    await lock.acquire()
    first.append(time.perf_counter())
    await lock.release()


async def run(client, workload, seconds, body, count):
    contended = workload == "contended"
    names = [workload if contended else f"{workload}:{i}" for i in range(count)]
    until = time.perf_counter() + seconds
    for text in await asyncio.gather(*(task(lock_of(client, n), contended, until, body) for n in names)):
        say(text)
    say("done 0")


async def standard_input():
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def main():
    if len(sys.argv) != 4:
        sys.exit("usage: asyncio_peer.py WORKLOAD PORT TASKS")
    workload, port, tasks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
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
            say(f"drained {(time.perf_counter() - begin) * 1e6:.0f} {(first[0] - begin) * 1e6:.0f}")


asyncio.run(main())
