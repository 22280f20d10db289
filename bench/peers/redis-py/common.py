"""What both peers of redis-py share: how they ask, how long they compute, and what they say to the driver."""

import sys
import time

LEASE = 30
GAP = 0.003  # between two clients that ask
CONNECTIONS = 100_000  # its pool stops at 100 unless told otherwise; each task has one of its own here


def arguments():
    if len(sys.argv) != 4:
        sys.exit(f"usage: {sys.argv[0]} WORKLOAD PORT TASKS")
    return sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def say_drained(begin, first):
    say(f"drained {(time.perf_counter() - begin) * 1e6:.0f} {(first - begin) * 1e6:.0f}")


def names_of(workload, count):
    return [workload if workload == "contended" else f"{workload}:{i}" for i in range(count)]


def is_slept(us):
    """The critical section: slept if it is a millisecond or more, else computed."""
    return us >= 1000


def compute(us):
    until = time.perf_counter() + us / 1e6
    while time.perf_counter() < until:
        pass


def task_line(holds, held, waits):
    return f"task {holds} {held * 1e6:.0f}" + "".join(waits)
