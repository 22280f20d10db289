"""redis-py's Lock with its own settings, threads for tasks; only the lease is conch's."""

import sys
import threading
import time

import redis

LEASE = 30
GAP = 0.003  # between two clients that ask


def connect(port):
    # Its pool stops at 100 connections unless told otherwise; each task has one of its own here.
    client = redis.Redis(connection_pool=redis.ConnectionPool(port=port, max_connections=100_000))
    client.ping()
    return client


def lock_of(client, name):
    return client.lock("redis-py:" + name, timeout=LEASE)


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def work(us):
    """The critical section: slept if it is a millisecond or more, else computed."""
    if us >= 1000:
        time.sleep(us / 1e6)
        return
    until = time.perf_counter() + us / 1e6
    while time.perf_counter() < until:
        pass


def task(lock, contended, until, body, into):
    holds, held, waits = 0, 0.0, []
    while True:
        begin = time.perf_counter()
        lock.acquire()
        now = time.perf_counter()
        if contended:
            waits.append(f" {(now - begin) * 1e6:.1f}")
        if body:
            work(body)
        releases = time.perf_counter()
        lock.release()
        if now >= until:
            break
        holds += 1
        held += releases - now
    into.append(f"task {holds} {held * 1e6:.0f}" + "".join(waits))


def stand_in_line(lock, first):
    lock.acquire()
    first.append(time.perf_counter())
    lock.release()


def run(client, workload, seconds, body, count):
    contended = workload == "contended"
    names = [workload if contended else f"{workload}:{i}" for i in range(count)]
    until = time.perf_counter() + seconds
    lines = []
    if count == 1:
        task(lock_of(client, names[0]), contended, until, body, lines)
    else:
        threads = [
            threading.Thread(target=task, args=(lock_of(client, n), contended, until, body, lines)) for n in names
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    for text in lines:
        say(text)
    say("done 0")


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: peer.py WORKLOAD PORT TASKS")
    workload, port, tasks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    one = connect(port)
    many = [connect(port) for _ in range(tasks)] if workload == "drain" else []
    held = lock_of(one, workload)
    waiting, first = [], []
    say("ready")
    for line in iter(sys.stdin.readline, ""):
        words = line.split()
        if words[0] == "go":
            run(one, workload, float(words[1]), int(words[2]), int(words[3]))
        elif words[0] in ("acquire", "wait"):
            held.acquire()
            say(f"took {time.monotonic_ns()}")
        elif words[0] == "release":
            at = time.monotonic_ns()
            held.release()
            say(f"released {at}")
        elif words[0] == "arm":
            held.acquire()
            first.clear()
            waiting = [threading.Thread(target=stand_in_line, args=(lock_of(c, workload), first)) for c in many]
            for t in waiting:
                t.start()
                time.sleep(GAP)
            say("armed")
        elif words[0] == "drain":
            begin = time.perf_counter()
            held.release()
            for t in waiting:
                t.join()
            say(f"drained {(time.perf_counter() - begin) * 1e6:.0f} {(first[0] - begin) * 1e6:.0f}")


main()
