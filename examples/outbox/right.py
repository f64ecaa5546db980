"""Publishes an event for each request, at least once, in the order of each key.

The offsets are committed when all in-sync replicas have the events. An event that no broker has
confirmed ends the process; the next one begins at the committed offsets and publishes it again.
"""

import json
import os
import signal
import sys

from confluent_kafka import Consumer, KafkaException, Producer

servers = {"bootstrap.servers": os.environ["HIGHWATER_BOOTSTRAP_SERVERS"]}
requests = Consumer(
    {**servers, "group.id": os.environ["HIGHWATER_GROUP"], "auto.offset.reset": "earliest",
     "enable.auto.commit": False, "session.timeout.ms": 6000}
)  # fmt: skip
producer = Producer({**servers, "acks": "all", "enable.idempotence": True})
failed: list[str] = []
running = True


def stop(*_: object) -> None:
    """End after the events that are on their way."""
    global running
    running = False


def delivered(error, message) -> None:
    """Note an event that no broker has confirmed."""
    if error is not None:
        failed.append(str(error))


signal.signal(signal.SIGTERM, stop)
requests.subscribe([os.environ["HIGHWATER_INPUT_TOPIC"]])
try:
    while running:
        messages = [m for m in requests.consume(100, 0.5) if not m.error()]
        for message in messages:
            event = {"request": json.loads(message.value())["id"], "state": "done"}
            producer.produce(
                os.environ["HIGHWATER_OUTPUT"], json.dumps(event), message.key(),
                on_delivery=delivered,
            )  # fmt: skip
        if producer.flush(30) or failed:
            sys.exit(f"starting again: {failed[:1] or 'no answer in time'}")
        if messages:
            requests.commit(asynchronous=False)
except KafkaException as error:
    sys.exit(f"starting again: {error}")
finally:
    requests.close()
