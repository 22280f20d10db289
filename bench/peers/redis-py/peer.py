"""redis-py's Lock with its own settings, threads for tasks; only the lease is conch's."""

import sys
import threading
import time

import redis

LEASE = 30


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


def task(lock, contended, until, into):
    holds, waits = 0, []
    while True:
        begin = time.perf_counter()
        lock.acquire()
        now = time.perf_counter()
        if contended:
            waits.append(f" {(now - begin) * 1e6:.1f}")
        lock.release()
        if now >= until:
            break
        holds += 1
    into.append(f"task {holds}" + "".join(waits))


def acquire_and_release(lock):
    lock.acquire()
    lock.release()


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: peer.py WORKLOAD PORT TASKS")
    workload, port, tasks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    one = connect(port)
    many = [connect(port) for _ in range(tasks)] if workload == "drain" else []
    held = lock_of(one, workload)
    waiting = []
    say("ready")
    for line in iter(sys.stdin.readline, ""):
        words = line.split()
        if words[0] == "go":
            contended = workload == "contended"
            names = [workload if contended else f"{workload}:{i}" for i in range(tasks)]
            until = time.perf_counter() + float(words[1])
            lines = []
            if tasks == 1:
                task(lock_of(one, names[0]), contended, until, lines)
            else:
                threads = [
                    threading.Thread(target=task, args=(lock_of(one, n), contended, until, lines)) for n in names
                ]
                for t in threads:
                    t.start()
                for t in threads:
                    t.join()
            for text in lines:
                say(text)
            say("done 0")
        elif words[0] in ("acquire", "wait"):
            held.acquire()
            say(f"took {time.monotonic_ns()}")
        elif words[0] == "release":
            at = time.monotonic_ns()
            held.release()
            say(f"released {at}")
        elif words[0] == "arm":
            held.acquire()
            waiting = [threading.Thread(target=acquire_and_release, args=(lock_of(c, workload),)) for c in many]
            for t in waiting:
                t.start()
            say("armed")
        elif words[0] == "drain":
            begin = time.perf_counter()
            held.release()
            for t in waiting:
                t.join()
            say(f"drained {(time.perf_counter() - begin) * 1e6:.0f}")


main()
