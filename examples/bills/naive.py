"""Reads orders and writes a bill for each. Offsets are committed by a timer, every 5 s."""

import json
import os

from confluent_kafka import Consumer, Producer

servers = {"bootstrap.servers": os.environ["HIGHWATER_BOOTSTRAP_SERVERS"]}
consumer = Consumer(
    {**servers, "group.id": os.environ["HIGHWATER_GROUP"], "auto.offset.reset": "earliest",
     "session.timeout.ms": 6000}
)  # fmt: skip
producer = Producer(servers)
consumer.subscribe([os.environ["HIGHWATER_INPUT_TOPIC"]])
while True:
    message = consumer.poll(1.0)
    producer.poll(0)
    if message is None or message.error():
        continue
    order = json.loads(message.value())
    bill = {"order": order["id"], "total": 12.5}
    producer.produce(os.environ["HIGHWATER_OUTPUT"], json.dumps(bill), message.key())
