"""redis-py's Lock with its own settings, threads for tasks; only the lease is conch's."""

import sys
import threading
import time

import redis

from common import CONNECTIONS, GAP, LEASE, arguments, compute, is_slept, names_of, say, say_drained, task_line


def connect(port):
    client = redis.Redis(connection_pool=redis.ConnectionPool(port=port, max_connections=CONNECTIONS))
    client.ping()
    return client


def lock_of(client, name):
    return client.lock("redis-py:" + name, timeout=LEASE)


def work(us):
    if is_slept(us):
        time.sleep(us / 1e6)
    else:
        compute(us)


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
    into.append(task_line(holds, held, waits))


def stand_in_line(lock, first):
    lock.acquire()
    first.append(time.perf_counter())
    lock.release()


def run(client, workload, seconds, body, count):
    contended = workload == "contended"
    names = names_of(workload, count)
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
    workload, port, tasks = arguments()
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
            say_drained(begin, first[0])


main()
