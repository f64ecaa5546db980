"""Writes payments into a database, many at once. Offsets are committed when messages arrive."""

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
rows: list[tuple[str, float]] = []
written_s = time.monotonic()
while True:
    message = consumer.poll(0.5)
    if message is not None and not message.error():
        rows.append((json.loads(message.value())["id"], 12.5))
        consumer.commit(message)
    if time.monotonic() - written_s > 1:
        with database:
            database.executemany("INSERT INTO payments VALUES (?, ?)", rows)
        rows, written_s = [], time.monotonic()
