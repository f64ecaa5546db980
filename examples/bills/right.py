"""Reads orders and writes a bill for each, with the offsets in one transaction.

A second process may have taken over a partition, or the transactional id. Then Kafka fences this
one: its transaction fails, and it starts again from the committed offsets. So does a process that
hangs in a call of the client library: its alarm ends it.
"""

import json
import os
import signal
import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

output = os.environ["HIGHWATER_OUTPUT"]
servers = {"bootstrap.servers": os.environ["HIGHWATER_BOOTSTRAP_SERVERS"]}
consumer = Consumer(
    {**servers, "group.id": os.environ["HIGHWATER_GROUP"], "auto.offset.reset": "earliest",
     "enable.auto.commit": False, "isolation.level": "read_committed", "session.timeout.ms": 6000}
)  # fmt: skip
producer = Producer(
    {**servers, "transactional.id": f"bills-{os.environ['HIGHWATER_INSTANCE']}",
     "transaction.timeout.ms": 10_000}
)  # fmt: skip
LONGEST_S = 15
"""A transaction takes less. It is more than transaction.timeout.ms."""
running = True


def stop(*_: object) -> None:
    """End after the transaction that is open."""
    global running
    running = False


def bill(messages: list) -> None:
    """Write the bills of some orders, and their offsets, in one transaction."""
    producer.begin_transaction()
    for message in messages:
        order = json.loads(message.value())
        text = json.dumps({"order": order["id"], "total": 12.5})
        producer.produce(output, text, message.key())
    ends = {(m.topic(), m.partition()): m.offset() + 1 for m in messages}
    offsets = [TopicPartition(*place, offset) for place, offset in ends.items()]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
    producer.commit_transaction()


signal.signal(signal.SIGTERM, stop)
consumer.subscribe([os.environ["HIGHWATER_INPUT_TOPIC"]])
try:
    producer.init_transactions()
    while running:
        signal.alarm(LONGEST_S)  # nothing handles SIGALRM, so it ends the process
        messages = [m for m in consumer.consume(100, 0.5) if not m.error()]
        if messages:
            bill(messages)
except KafkaException as error:
    # A new process begins at the committed offsets, and its init_transactions ends what is open.
    print(f"starting again: {error}", flush=True)
    sys.exit(1)
finally:
    consumer.close()
