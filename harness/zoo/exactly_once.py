"""A program for scenarios of `highwater zoo` that test a program: it claims exactly-once.

    python -m harness.zoo.exactly_once

It copies its input to its output, as `highwater test-app` asks. The copies and the offsets of some
inputs are one transaction, which takes a while. After an error a new process begins at the
committed offsets. That is right as long as the brokers keep their promises.

send_offsets_to_transaction of librdkafka may never return, whatever the brokers do
(docs/findings/librdkafka-send-offsets-hangs.md). So an alarm ends a process that stands still.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from harness.workloads.app import environment

SESSION_MS: Final = 45_000
TRANSACTION_MS: Final = 3_000
"""How long a transaction may take before the coordinator aborts it."""
WORK_S: Final = 1.5
"""How long the program works on its inputs, while their transaction is open."""
BATCH: Final = 500
WAIT_S: Final = 0.2
LONGEST_S: Final = 15
"""A round takes less: the coordinator aborts the transaction after TRANSACTION_MS, and no scenario
pauses the program for longer than 5 s."""


def copy(consumer: Consumer, producer: Producer, output: str, messages: Sequence[Message]) -> None:
    """Write copies of the messages, and their offsets, in one transaction. Raises
    KafkaException."""
    producer.begin_transaction()
    for message in messages:
        producer.produce(output, message.value(), message.key())
    producer.flush()
    time.sleep(WORK_S)
    ends = {(m.topic(), m.partition()): (m.offset() or 0) + 1 for m in messages}
    offsets = [
        TopicPartition(topic, partition, offset)
        for (topic, partition), offset in ends.items()
        if topic is not None and partition is not None
    ]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
    producer.commit_transaction()


def main() -> int:
    """Copy until SIGTERM; return the exit code of an error."""
    servers = {"bootstrap.servers": os.environ[environment.BOOTSTRAP]}
    consumer = Consumer(
        {
            **servers,
            "group.id": os.environ[environment.GROUP],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": SESSION_MS,
        }
    )
    producer = Producer(
        {
            **servers,
            "transactional.id": f"exactly-once-{os.environ[environment.INSTANCE]}",
            "transaction.timeout.ms": TRANSACTION_MS,
        }
    )
    consumer.subscribe([os.environ[environment.INPUT]])
    try:
        producer.init_transactions()
        while True:
            signal.alarm(LONGEST_S)  # nothing handles SIGALRM, so it ends the process
            messages = [m for m in consumer.consume(BATCH, WAIT_S) if not m.error()]
            if messages:
                copy(consumer, producer, os.environ[environment.OUTPUT], messages)
    except KafkaException as error:
        print(f"starting again: {error}", flush=True)
        return 1
    finally:
        consumer.close()


if __name__ == "__main__":
    sys.exit(main())
