"""Shows that send_offsets_to_transaction of librdkafka never returns after its group's coordinator
was fenced, on the built-in broker and on Apache Kafka.

`python -m tests.tools.hanging_offsets --system kafka` starts three nodes, commits a transaction
with offsets, kills the coordinator of the group, and waits until the client has read from the
metadata that this broker is gone. A transaction without offsets is committed, so the cluster works.
Then it asks for offsets in another one, with a time-out. Exit code 0 if the call returned in time.
docs/findings/librdkafka-send-offsets-hangs.md says why it does not.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Final

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

PATIENCE_S: Final = 90.0
CALL_S: Final = 5.0
"""The time-out of the call."""
WATCHED_S: Final = 40.0
"""How long the call may take before it is said to hang."""
NAME: Final = "hanging-offsets"
PARTITIONS: Final = 3


def highwater(*arguments: str) -> str:
    """What a command prints. Raises CalledProcessError."""
    argv = [sys.executable, "-m", "harness.cli.main", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def member(servers: dict[str, Any]) -> Consumer:
    """A member of the group that has its partitions. Raises TimeoutError."""
    consumer = Consumer({**servers, "group.id": NAME, "enable.auto.commit": False})
    consumer.subscribe(["data"])
    deadline_s = time.monotonic() + PATIENCE_S
    while not consumer.assignment():
        if time.monotonic() > deadline_s:
            raise TimeoutError("the member gets no partitions")
        consumer.poll(0.2)
    return consumer


def write(producer: Producer) -> None:
    """Begin a transaction, and write to all partitions. Raises KafkaException, TimeoutError."""
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce("data", b"x", partition=partition)
    if producer.flush(PATIENCE_S):
        raise TimeoutError("no broker takes the records")


def commit_without_offsets(producer: Producer) -> None:
    """Show that the cluster takes transactions. Raises KafkaException, TimeoutError."""
    while True:
        try:
            write(producer)
            producer.commit_transaction(PATIENCE_S)
            return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(PATIENCE_S)


def seconds_of_the_call(bootstrap: str) -> float | None:
    """How long the call took after the kill; None if it did not return."""
    servers = {"bootstrap.servers": bootstrap, "log_level": 0}
    producer = Producer({**servers, "transactional.id": NAME})
    producer.init_transactions(PATIENCE_S)
    consumer = member(servers)

    def send_offsets() -> None:
        producer.send_offsets_to_transaction(
            [TopicPartition("data", 0, 1)], consumer.consumer_group_metadata(), CALL_S
        )

    write(producer)
    send_offsets()
    producer.commit_transaction(PATIENCE_S)
    coordinator = f"group-coordinator:{NAME}"
    print(highwater("fault", "inject", "kill", "--name", NAME, "--targets", coordinator))
    deadline_s = time.monotonic() + PATIENCE_S
    while len(producer.list_topics(timeout=PATIENCE_S).brokers) > 2:
        if time.monotonic() > deadline_s:
            raise TimeoutError("the killed broker is not fenced")
        time.sleep(0.2)
    commit_without_offsets(producer)
    write(producer)
    calling = threading.Thread(target=send_offsets, daemon=True)
    began_s = time.monotonic()
    calling.start()
    while calling.is_alive() and time.monotonic() < began_s + WATCHED_S:
        consumer.poll(0.1)
    return None if calling.is_alive() else time.monotonic() - began_s


def main() -> int:
    """Run it; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.hanging_offsets")
    parser.add_argument("--system", choices=("nodes", "kafka"), default="nodes")
    system: str = parser.parse_args().system
    with tempfile.TemporaryDirectory() as folder:
        up = ("cluster", "up", "--name", NAME, "--detach", "--system", system, "--store", folder)
        found = re.search(r"^bootstrap +(\S+)", highwater(*up), re.MULTILINE)
        try:
            assert found is not None, "the cluster names no bootstrap servers"
            topic = ("cluster", "topics", "create", "data", "--partitions", str(PARTITIONS))
            highwater(*topic, "--replication-factor", "3", "--name", NAME)
            took_s = seconds_of_the_call(found[1])
        finally:
            highwater("cluster", "down", "--name", NAME)
    version, _ = confluent_kafka.libversion()
    ended = f"did not return in {WATCHED_S:g} s" if took_s is None else f"took {took_s:.1f} s"
    print(f"librdkafka {version}: a call with a time-out of {CALL_S:g} s {ended}", flush=True)
    return 1 if took_s is None else 0


if __name__ == "__main__":
    os._exit(main())  # a thread that hangs in the library would hold up the exit
