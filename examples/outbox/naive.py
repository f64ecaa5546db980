"""Publishes an event for each request. It does not wait for the answers of the brokers."""

import json
import os

from confluent_kafka import Consumer, Producer

servers = {"bootstrap.servers": os.environ["HIGHWATER_BOOTSTRAP_SERVERS"]}
requests = Consumer(
    {**servers, "group.id": os.environ["HIGHWATER_GROUP"], "auto.offset.reset": "earliest",
     "enable.auto.commit": False, "session.timeout.ms": 6000}
)  # fmt: skip
producer = Producer({**servers, "acks": 1, "linger.ms": 100, "message.timeout.ms": 3000})
requests.subscribe([os.environ["HIGHWATER_INPUT_TOPIC"]])
while True:
    for message in requests.consume(100, 0.5):
        if message.error():
            continue
        event = {"request": json.loads(message.value())["id"], "state": "done"}
        producer.produce(os.environ["HIGHWATER_OUTPUT"], json.dumps(event), message.key())
        requests.commit(message)
    producer.poll(0)
