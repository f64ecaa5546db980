"""Writes payments into a database, and the offsets into the same database, in one transaction.

The database alone says how far the service has come. An assigned partition begins at the offset
that stands there. A process that has lost a partition, and does not know it yet, finds a greater
offset in the database, and writes nothing.
"""

import json
import os
import signal
import sqlite3

from confluent_kafka import Consumer, TopicPartition

# Each run of highwater has a cluster of its own, whose offsets begin at 0.
run = os.environ["HIGHWATER_RUN"]
database = sqlite3.connect("ledger.db", timeout=30, isolation_level=None)
database.execute("CREATE TABLE IF NOT EXISTS payments (id TEXT, amount REAL)")
database.execute(
    "CREATE TABLE IF NOT EXISTS offsets (run TEXT, part INTEGER, next INTEGER, "
    "PRIMARY KEY (run, part))"
)
running = True


def stop(*_: object) -> None:
    """End after the transaction that is open."""
    global running
    running = False


def position(partition: int) -> int:
    """The offset at which the database goes on."""
    query = "SELECT next FROM offsets WHERE run = ? AND part = ?"
    row = database.execute(query, (run, partition)).fetchone()
    return row[0] if row else 0


def assigned(consumer: Consumer, partitions: list) -> None:
    """Begin at the offsets in the database."""
    for each in partitions:
        each.offset = position(each.partition)
    consumer.assign(partitions)


def write(messages: list) -> set[int]:
    """Write the payments and their offsets; return the partitions that others have gone on with."""
    others = set()
    database.execute("BEGIN IMMEDIATE")
    for message in messages:
        partition, offset = message.partition(), message.offset()
        if offset < position(partition):
            others.add(partition)
            continue
        payment = json.loads(message.value())["id"]
        database.execute("INSERT INTO payments VALUES (?, ?)", (payment, 12.5))
        database.execute("REPLACE INTO offsets VALUES (?, ?, ?)", (run, partition, offset + 1))
    database.execute("COMMIT")
    return others


signal.signal(signal.SIGTERM, stop)
consumer = Consumer(
    {"bootstrap.servers": os.environ["HIGHWATER_BOOTSTRAP_SERVERS"],
     "group.id": os.environ["HIGHWATER_GROUP"], "auto.offset.reset": "earliest",
     "enable.auto.commit": False, "session.timeout.ms": 6000}
)  # fmt: skip
topic = os.environ["HIGHWATER_INPUT_TOPIC"]
consumer.subscribe([topic], on_assign=assigned)
while running:
    messages = [m for m in consumer.consume(100, 0.5) if not m.error()]
    mine = {each.partition for each in consumer.assignment()}
    for partition in write(messages) & mine if messages else ():
        consumer.seek(TopicPartition(topic, partition, position(partition)))
consumer.close()
