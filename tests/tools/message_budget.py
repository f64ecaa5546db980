"""What one acks=all message costs the leader and a follower: system calls, copies, turns, CPU time.

    python -m tests.tools.message_budget [--messages 1000]

Starts three nodes on addresses of the loopback device, and sends one message after the other, each
when the one before it is acknowledged. First it takes CPU time and page faults of the nodes, and
then `strace` (root, `apt install strace`) counts their system calls by stage: a stage begins when a
socket is read. A turn of the event loop is an `epoll_pwait`. After that it counts in the simulator,
where nothing disturbs: events, function calls, memory, copies of a large message, and the same for
a commit of offsets. Only the CPU time depends on what else the machine does.
"""

import argparse
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from harness.bench.clients import frames
from tests.support.simulation.message_work import WORK, commit_work, message_copies, message_work
from tests.tools.broker_cpu import Environment, started

WARM_UP: Final = 100
ATTACH_S: Final = 1.0
ROUNDS: Final = 5
RECORD_BYTES: Final = 1024
SHOWN: Final = 0.5
"""A system call that is rarer than this for a message belongs to no message."""

PRODUCE: Final = "leader, Produce: append, answer the fetches that wait"
FIRST: Final = "leader, Fetch of the first follower"
SECOND: Final = "leader, Fetch of the second follower: commit, answer the producer"
FOLLOWER: Final = "follower, answer to its Fetch: append, next Fetch"
STAGES: Final = (PRODUCE, FIRST, SECOND, FOLLOWER)

_CALL: Final = re.compile(r"\d+ +(\w+)\((?:(\d+)<([^>]*)>)?.*? = (-?\d+)")


class Usage(NamedTuple):
    """What a process has used until now."""

    cpu_us: float
    page_faults: int


def usage(pid: int) -> Usage:
    """Of all threads; the kernel counts CPU time in nanoseconds here."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    cpu_ns = sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Usage(cpu_ns / 1000, int(fields[7]))


@contextmanager
def producer(environment: Environment, messages: int) -> Iterator[tuple[int, Callable[[], None]]]:
    """Yield the leader of a new topic, and a function that sends and waits for the answer."""
    admin = environment.system.admin
    admin.create("budget", partitions=1, replicas=len(environment.pids))
    leader, address = admin.leader("budget")
    now_ms = int(time.time() * 1000)
    frame = frames.produce("budget", acks=-1, messages=messages, size=RECORD_BYTES, now_ms=now_ms)
    with socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def send() -> None:
            connection.sendall(frame.data)
            received = 0
            while received < frame.response_bytes:
                received += len(connection.recv(1 << 16))

        yield leader, send


def by_stage(lines: Sequence[str], response_bytes: int | None) -> dict[str, Counter[str]]:
    """Count system calls by stage. `response_bytes`: of the producer's answer; None for a follower.

    The producer's connection is the one on which such an answer was written.
    """
    calls = [match for match in map(_CALL.match, lines) if match is not None]
    client = next(
        (
            call[2]
            for call in calls
            if call[1] == "write" and "socket" in (call[3] or "") and int(call[4]) == response_bytes
        ),
        None,
    )
    found: dict[str, Counter[str]] = {}
    stage = FOLLOWER if response_bytes is None else SECOND
    for call in calls:
        name, descriptor, path = call[1], call[2], call[3] or ""
        kind = " socket" if "socket" in path else " file" if path.endswith(".log") else ""
        if name == "read" and kind == " socket" and response_bytes is not None:
            later = FIRST if stage == PRODUCE else SECOND
            stage = PRODUCE if descriptor == client else later
        found.setdefault(stage, Counter())[name + kind] += 1
    return found


def traced(
    environment: Environment, leader: int, send: Callable[[], None], count: int, directory: Path
) -> Mapping[str, Counter[str]]:
    """The system calls of `count` messages, by stage; of one follower only."""
    follower = leader % len(environment.pids) + 1
    found: dict[str, Counter[str]] = {}
    for node in (leader, follower):
        trace = directory / f"trace-{node}"
        command = ["strace", "-f", "-q", "-y", "-s", "0", "-o", str(trace)]
        tracer = subprocess.Popen([*command, "-p", str(environment.pids[node - 1])])
        try:
            time.sleep(ATTACH_S)
            for _ in range(count):
                send()
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait()
        size = len(frames.produce_answer("budget")) if node == leader else None
        found.update(by_stage(trace.read_text().splitlines(), size))
    return found


def measure_nodes(messages: int, count: int) -> None:
    """Print what real nodes need."""
    with tempfile.TemporaryDirectory(prefix="message-budget-") as name:
        directory = Path(name)
        with (
            started("budget", sys.executable, 9, directory) as environment,
            producer(environment, messages) as (leader, send),
        ):
            for _ in range(WARM_UP):
                send()
            rounds: list[list[Usage]] = []
            for _ in range(ROUNDS):
                before = [usage(pid) for pid in environment.pids]
                for _ in range(count):
                    send()
                after = [usage(pid) for pid in environment.pids]
                rounds.append(
                    [
                        Usage((b.cpu_us - a.cpu_us) / count, (b.page_faults - a.page_faults))
                        for a, b in zip(before, after, strict=True)
                    ]
                )
            print(f"sends of {messages} messages; medians of {ROUNDS} rounds of {count} sends")
            for node in range(len(environment.pids)):
                cpu_us = [each[node].cpu_us for each in rounds]
                faults = statistics.median(each[node].page_faults for each in rounds) / count
                role = "leader" if node + 1 == leader else "follower"
                print(
                    f"  {role}: {statistics.median(cpu_us):.0f} us of CPU ({min(cpu_us):.0f} to "
                    f"{max(cpu_us):.0f}), {faults:.1f} page faults"
                )
            if shutil.which("strace") is None:
                print("  system calls are not counted: strace is missing (apt install strace)")
                return
            stages = traced(environment, leader, send, count, directory)
            for stage in STAGES:
                calls = stages.get(stage, Counter())
                print(f"  {stage}:")
                for call, number in calls.most_common():
                    if number / count >= SHOWN:
                        print(f"    {number / count:6.2f} {call}")


def measure_simulation(size: int) -> None:
    """Print what is counted in the simulator, for a message of this many bytes."""
    work = message_work(size=size)
    print(f"in the simulator, a message of {size:,} bytes: leader, follower")
    for what in WORK:
        print(f"  {work.leader[what]:8,} {work.follower[what]:8,}  {what}")
    for (role, function), times in sorted(message_copies(size=size).items()):
        print(f"  {times:4.1f} copies by the {role} in {function}")


def measure_commit(partitions: int) -> None:
    """Print what is counted in the simulator, for a commit of so many partitions."""
    work = commit_work(partitions=partitions)
    print(f"in the simulator, a commit of {partitions} partitions: coordinator, follower")
    for what in WORK:
        print(f"  {work.leader[what]:8,} {work.follower[what]:8,}  {what}")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, action="append", help="in each send; default 1")
    parser.add_argument("--count", type=int, default=300, help="sends that are measured")
    given = parser.parse_args()
    for messages in given.messages or [1]:
        measure_nodes(messages, given.count)
    for size in (1_000, 100_000, 1_000_000):
        measure_simulation(size)
    for partitions in (1, 10):
        measure_commit(partitions)


if __name__ == "__main__":
    main()
