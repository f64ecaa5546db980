"""Writes payments into a database, and the offsets into the same database, in one transaction.

The database alone says how far the service has come: an assigned partition begins at the offset
that stands there. Each row of the table of offsets may only move forward from where this process
began to read, so a process that has lost its partition, and does not know it yet, writes nothing.
"""

import json
import os
import signal
import sqlite3
import time

from confluent_kafka import Consumer, TopicPartition

database = sqlite3.connect("ledger.db", timeout=30, isolation_level=None)
database.execute("CREATE TABLE IF NOT EXISTS payments (id TEXT, amount REAL)")
database.execute(
    "CREATE TABLE IF NOT EXISTS offsets (run TEXT, part INTEGER, next INTEGER, "
    "PRIMARY KEY (run, part))"
)
# Each run of highwater has a cluster of its own, whose offsets begin at 0.
run = os.environ["HIGHWATER_RUN"]
running = True


def stop(*_: object) -> None:
    """End after the transaction that is open."""
    global running
    running = False


def assigned(consumer: Consumer, partitions: list) -> None:
    """Begin at the offsets in the database."""
    for each in partitions:
        row = database.execute(
            "SELECT next FROM offsets WHERE run = ? AND part = ?", (run, each.partition)
        ).fetchone()
        each.offset = row[0] if row else 0
    consumer.assign(partitions)


def write(message) -> bool:
    """Write a payment and its offset; return False if another process has written it already."""
    payment = json.loads(message.value())
    time.sleep(0.01)  # the payment is checked
    database.execute("BEGIN IMMEDIATE")
    place = (run, message.partition())
    row = database.execute("SELECT next FROM offsets WHERE run = ? AND part = ?", place).fetchone()
    if row and message.offset() < row[0]:
        database.execute("ROLLBACK")
        return False
    database.execute("INSERT INTO payments VALUES (?, ?)", (payment["id"], 12.5))
    database.execute("REPLACE INTO offsets VALUES (?, ?, ?)", (*place, message.offset() + 1))
    database.execute("COMMIT")
    return True


signal.signal(signal.SIGTERM, stop)
consumer = Consumer(
    {"bootstrap.servers": os.environ["HIGHWATER_BOOTSTRAP_SERVERS"],
     "group.id": os.environ["HIGHWATER_GROUP"], "auto.offset.reset": "earliest",
     "enable.auto.commit": False, "session.timeout.ms": 6000}
)  # fmt: skip
consumer.subscribe([os.environ["HIGHWATER_INPUT_TOPIC"]], on_assign=assigned)
while running:
    message = consumer.poll(0.5)
    if message is not None and not message.error() and not write(message):
        # Another process went on with this partition. Read on from where the database is.
        place = TopicPartition(message.topic(), message.partition())
        row = database.execute(
            "SELECT next FROM offsets WHERE run = ? AND part = ?", (run, message.partition())
        ).fetchone()
        place.offset = row[0] if row else 0
        consumer.seek(place)
consumer.close()
