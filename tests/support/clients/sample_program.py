"""A client program on confluent-kafka, as a user would write one: docs/clients-protocol.md.

python -m tests.support.clients.sample_program

It needs nothing of highwater.
"""

import base64
import json
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
    libversion,
)

OUTPUT = threading.Lock()
HANGS_S = 15.0
"""A call that takes longer does not return."""


def write(line: dict[str, Any]) -> None:
    """Write a message."""
    with OUTPUT:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def failure(error: KafkaError) -> dict[str, Any]:
    """An error as the protocol has it."""
    then = "abort" if error.txn_requires_abort() else "retry" if error.retriable() else "close"
    return {"name": error.name(), "code": error.code() if error.code() > 0 else None, "then": then}


class Hangs(Exception):
    """A call of librdkafka does not return. Its producer can only be left behind."""


def returned(call: Callable[[], object]) -> None:
    """Make a call in a thread of its own, because send_offsets_to_transaction may never return
    (docs/findings/librdkafka-send-offsets-hangs.md). Raises Hangs, and what the call raises."""
    ended: Future[object] = Future()

    def make() -> None:
        try:
            ended.set_result(call())
        except Exception as error:
            ended.set_exception(error)

    threading.Thread(target=make, daemon=True).start()
    try:
        ended.result(HANGS_S)
    except TimeoutError as error:
        raise Hangs from error


class Client(threading.Thread):
    """A client that does its commands in order."""

    def __init__(self, number: int) -> None:
        super().__init__(daemon=True)
        self.number = number
        self.commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.closed = False

    def run(self) -> None:
        """Do commands until the client is closed."""
        while not self.closed:
            try:
                self.act(self.commands.get(timeout=0.02))
            except queue.Empty:
                self.idle()

    def idle(self) -> None:
        """Do what is due while no command waits."""

    def act(self, command: dict[str, Any]) -> None:
        """Do a command, and answer it."""
        deed: Callable[[dict[str, Any]], Any] = getattr(self, command["do"].replace("-", "_"))
        answer: dict[str, Any] = {"id": command["id"]}
        try:
            answer |= deed(command) or {}
        except KafkaException as error:
            answer["error"] = failure(error.args[0])
        except Hangs:
            answer["error"] = {"name": "HANGS", "then": "close"}
        except SystemError as error:  # librdkafka declared the producer broken
            answer["error"] = {"name": str(error.__cause__ or error.__context__ or error)}
        if command["do"] not in ("send", "resume"):
            write(answer)

    def tell(self, event: str, **values: Any) -> None:
        """Write an event of this client."""
        write({"client": self.number, "event": event, **values})


def places(command: dict[str, Any], name: str) -> list[TopicPartition]:
    """The {partition: offset} of a command."""
    return [TopicPartition(command["topic"], int(p), n) for p, n in command[name].items()]


def by_topic(given: list[TopicPartition]) -> list[tuple[str | None, list[TopicPartition]]]:
    """The partitions of each topic; without any, nothing of no topic."""
    topics = list(dict.fromkeys(each.topic for each in given))
    return [(t, [each for each in given if each.topic == t]) for t in topics] or [(None, [])]


class ProducerClient(Client):
    """A producer, maybe with a transactional id."""

    producer: Producer

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.acked: list[Any] = []
        self.failed: list[Any] = []

    def open_producer(self, command: dict[str, Any]) -> None:
        """Make the producer."""
        config = {
            **command["properties"],
            "bootstrap.servers": command["bootstrap"],
            "acks": command["acks"],
            "enable.idempotence": command["idempotence"],
            "linger.ms": command["linger_ms"],
            "message.timeout.ms": command["timeout_ms"],
            "request.timeout.ms": command["request_timeout_ms"],
        }
        if command.get("transactional_id"):
            config["transactional.id"] = command["transactional_id"]
            config["transaction.timeout.ms"] = command["transaction_timeout_ms"]
        self.call_s = command["call_timeout_ms"] / 1000
        self.producer = Producer(config)

    def idle(self) -> None:
        """Write outcomes."""
        self.producer.poll(0)
        self.report()

    def report(self) -> None:
        """Write the outcomes so far. Not in a callback: librdkafka may call back while it raises an
        exception, and then no lock is released."""
        if self.acked or self.failed:
            self.tell("sent", acked=self.acked, failed=self.failed)
            self.acked, self.failed = [], []

    def send(self, command: dict[str, Any]) -> None:
        """Write the records of a batch."""
        for number, partition, payload, *keys in command["records"]:

            def delivered(error: KafkaError | None, message: Any, number: int = number) -> None:
                if error is None:
                    self.acked.append([number, message.offset()])
                else:
                    self.failed.append([number, failure(error)])

            value = None if payload is None else base64.b64decode(payload)
            key = base64.b64decode(keys[0]) if keys else None
            try:
                self.producer.produce(
                    command["topic"], value, key, partition=partition, on_delivery=delivered
                )
            except KafkaException as error:  # refused before it was queued
                refused = {**failure(error.args[0]), "definite": True}
                self.failed.append([number, refused])
        self.idle()

    def flush(self, command: dict[str, Any]) -> None:
        """Wait for the outcomes of all sends, but not longer than a call may take."""
        self.producer.flush(self.call_s)
        self.report()

    def init_transactions(self, command: dict[str, Any]) -> None:
        """Take over the transactional id."""
        self.producer.init_transactions(self.call_s)

    def begin_transaction(self, command: dict[str, Any]) -> None:
        """Begin a transaction."""
        self.producer.begin_transaction()

    def send_offsets(self, command: dict[str, Any]) -> None:
        """Add offsets to the transaction."""
        member = base64.b64decode(command["metadata"])
        send, offsets = self.producer.send_offsets_to_transaction, places(command, "offsets")
        returned(lambda: send(offsets, member, self.call_s))

    def commit_transaction(self, command: dict[str, Any]) -> None:
        """Commit."""
        self.producer.commit_transaction(self.call_s)

    def abort_transaction(self, command: dict[str, Any]) -> None:
        """Abort."""
        self.producer.abort_transaction(self.call_s)

    def close(self, command: dict[str, Any]) -> None:
        """Send nothing any more."""
        self.producer.purge()
        self.closed = True


class ConsumerClient(Client):
    """A consumer: a member of a group, or with assigned partitions."""

    consumer: Consumer
    several = False
    """Whether the consumer has several topics."""

    def open_consumer(self, command: dict[str, Any]) -> None:
        """Make the consumer."""
        member = "group" in command
        self.incremental = command.get("protocol") == "consumer"
        config = {
            **command["properties"],
            "bootstrap.servers": command["bootstrap"],
            "group.id": command.get("group") or f"highwater-{self.number}",
            "enable.auto.commit": False,
            "isolation.level": command["isolation_level"],
            "auto.offset.reset": "error",  # nothing is reset silently
            "group.protocol": command.get("protocol", "classic"),
        }
        if member and not self.incremental:
            config["session.timeout.ms"] = command["session_timeout_ms"]
            config["heartbeat.interval.ms"] = command["heartbeat_interval_ms"]
            config["max.poll.interval.ms"] = command["max_poll_interval_ms"]
        if command.get("instance_id"):
            config["group.instance.id"] = command["instance_id"]
        self.call_s = command["call_timeout_ms"] / 1000
        self.records = command["max_records"]
        self.consumer = Consumer(config)

    def assign(self, command: dict[str, Any]) -> None:
        """Read these partitions from these offsets on."""
        self.consumer.assign(places(command, "positions"))

    def subscribe(self, command: dict[str, Any]) -> None:
        """Join the group."""
        topics = command.get("topics") or [command["topic"]]
        self.several = len(topics) > 1
        self.consumer.subscribe(
            topics, on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.lost
        )

    def poll(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return records."""
        found = []
        for each in self.consumer.consume(self.records, command["timeout_ms"] / 1000):
            if (error := each.error()) is not None:
                if error.code() != KafkaError._AUTO_OFFSET_RESET:
                    self.tell("error", error=error.name())
                    continue
                truncated = {"name": "OFFSET_OUT_OF_RANGE", "code": 1, "then": "retry"}
                return {
                    "error": {**truncated, "partitions": [each.partition()], "topic": each.topic()}
                }
            payload = base64.b64encode(each.value()).decode()
            row = [each.partition(), each.offset(), each.leader_epoch(), payload]
            found.append([*row, each.topic()] if self.several else row)
        return {"records": found}

    def commit(self, command: dict[str, Any]) -> None:
        """Commit offsets."""
        done = self.consumer.commit(offsets=places(command, "offsets"), asynchronous=False)
        for each in done:
            if each.error is not None:
                raise KafkaException(each.error)

    def committed(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return the committed offsets."""
        asked = [TopicPartition(command["topic"], partition) for partition in command["partitions"]]
        found = self.consumer.committed(asked, timeout=self.call_s)
        return {"offsets": {p.partition: None if p.offset < 0 else p.offset for p in found}}

    def seek(self, command: dict[str, Any]) -> None:
        """Go on from these offsets."""
        for place in places(command, "positions"):
            self.consumer.seek(place)

    def offsets(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return the first offset, and the one behind the last."""
        where = TopicPartition(command["topic"], command["partition"])
        low, high = self.consumer.get_watermark_offsets(where, timeout=self.call_s)
        return {"beginning": low, "end": high}

    def group_metadata(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return the member's generation, and what `send-offsets` needs."""
        metadata = self.consumer.consumer_group_metadata()
        generation = int.from_bytes(metadata[7:11], "little", signed=True)
        return {"generation": generation, "metadata": base64.b64encode(metadata).decode()}

    def close(self, command: dict[str, Any]) -> None:
        """Leave the group, or vanish."""
        if command.get("leave", True):
            self.consumer.close()
        self.closed = True

    def assigned(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        """Go on from the committed offsets, or from the beginning."""
        for each in (found := self.consumer.committed(given, timeout=self.call_s)):
            each.offset = max(each.offset, 0)
        (consumer.incremental_assign if self.incremental else consumer.assign)(found)
        generation = self.group_metadata({})["generation"]
        for topic, places in by_topic(found):
            positions = {p.partition: p.offset for p in places}
            self.tell("assigned", topic=topic, positions=positions, generation=generation)

    def revoked(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        """Do commands until highwater says that the partitions may go."""
        for topic, places in by_topic(given):
            self.tell("revoked", topic=topic, partitions=[each.partition for each in places])
            while (command := self.commands.get())["do"] != "resume":
                self.act(command)

    def lost(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        """The partitions are gone."""
        for topic, places in by_topic(given):
            self.tell("lost", topic=topic, partitions=[each.partition for each in places])


def main() -> None:
    """Read commands until the end of the standard input."""
    clients: dict[int, Client] = {}
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "hello":
            kinds = ["produce", "group", "copy", "transactions", "compacted"]
            name = {"name": "sample", "version": libversion()[0], "protocol": 3, "kinds": kinds}
            protocols = {"group_protocols": ["classic", "consumer"]}
            write({"id": command["id"], **name, **protocols})
            continue
        number = command["client"]
        if command["do"].startswith("open-"):
            made = ProducerClient if command["do"] == "open-producer" else ConsumerClient
            clients[number] = made(number)
            clients[number].start()
        clients[number].commands.put(command)


if __name__ == "__main__":
    main()
