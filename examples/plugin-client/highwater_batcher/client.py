"""The client program: it speaks highwater's clients' protocol (docs/clients-protocol.md).

It needs nothing of highwater. It can do workloads of kind `produce`, with producers and consumers.
"""

import base64
import json
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

LINGER_MS = 50
Command = dict[str, Any]

_output = threading.Lock()


def write(line: dict[str, Any]) -> None:
    """Write a message."""
    with _output:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def failure(error: KafkaError) -> dict[str, Any]:
    """Return an error as the protocol has it. Whether the record was written is not known."""
    return {"name": error.name(), "code": max(error.code(), 0) or None, "then": "retry"}


class Client(threading.Thread):
    """One producer or consumer, which does its commands in order."""

    def __init__(self, number: int) -> None:
        super().__init__(daemon=True)
        self.number = number
        self.commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self.producer: Producer | None = None
        self.consumer: Consumer | None = None
        self.acked: list[Any] = []
        self.failed: list[Any] = []

    def run(self) -> None:
        """Do commands until `close`; tell the outcomes of sends while none waits."""
        while True:
            try:
                command = self.commands.get(timeout=0.02)
            except queue.Empty:
                self.tell_outcomes()
                continue
            self.act(command)
            if command["do"] == "close":
                return

    def act(self, command: Command) -> None:
        """Do a command, and answer it."""
        deed: Callable[[Command], Any] = getattr(self, command["do"].replace("-", "_"))
        answer: dict[str, Any] = {"id": command["id"]}
        try:
            answer |= deed(command) or {}
        except KafkaException as error:
            answer["error"] = failure(error.args[0])
        if command["do"] != "send":  # which has no answer
            write(answer)

    def tell_outcomes(self) -> None:
        """Write the outcomes of sends so far."""
        if self.producer is not None:
            self.producer.poll(0)
        if self.acked or self.failed:
            outcomes = {"acked": self.acked, "failed": self.failed}
            write({"client": self.number, "event": "sent", **outcomes})
            self.acked, self.failed = [], []

    def open_producer(self, command: Command) -> None:
        """Make the producer."""
        self.producer = Producer(
            {
                **command["properties"],
                "bootstrap.servers": command["bootstrap"],
                "acks": command["acks"],
                "enable.idempotence": command["idempotence"],
                "linger.ms": LINGER_MS,
                "message.timeout.ms": command["timeout_ms"],
                "request.timeout.ms": command["request_timeout_ms"],
            }
        )

    def send(self, command: Command) -> None:
        """Write records."""
        assert self.producer is not None
        for number, partition, payload in command["records"]:

            def delivered(error: KafkaError | None, message: Any, number: int = number) -> None:
                if error is None:
                    self.acked.append([number, message.offset()])
                else:
                    self.failed.append([number, failure(error)])

            value = base64.b64decode(payload)
            self.producer.produce(
                command["topic"], value, partition=partition, on_delivery=delivered
            )
        self.tell_outcomes()

    def flush(self, command: Command) -> None:
        """Wait for the outcomes of all sends."""
        assert self.producer is not None
        self.producer.flush(command.get("call_timeout_ms", 10_000) / 1000)
        self.tell_outcomes()

    def open_consumer(self, command: Command) -> None:
        """Make the consumer."""
        self.records = command["max_records"]
        self.call_s = command["call_timeout_ms"] / 1000
        self.consumer = Consumer(
            {
                **command["properties"],
                "bootstrap.servers": command["bootstrap"],
                "group.id": f"batcher-{self.number}",
                "enable.auto.commit": False,
                "isolation.level": command["isolation_level"],
                "auto.offset.reset": "error",
            }
        )

    def assign(self, command: Command) -> None:
        """Read these partitions from these offsets on."""
        assert self.consumer is not None
        positions = command["positions"].items()
        self.consumer.assign([TopicPartition(command["topic"], int(p), n) for p, n in positions])

    def poll(self, command: Command) -> dict[str, Any]:
        """Return records."""
        assert self.consumer is not None
        found = []
        for each in self.consumer.consume(self.records, command["timeout_ms"] / 1000):
            if (error := each.error()) is None:
                payload = base64.b64encode(each.value()).decode()
                found.append([each.partition(), each.offset(), each.leader_epoch(), payload])
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                truncated = {"name": "OFFSET_OUT_OF_RANGE", "code": 1, "then": "retry"}
                return {"error": {**truncated, "partitions": [each.partition()]}}
            else:
                write({"client": self.number, "event": "error", "error": error.name()})
        return {"records": found}

    def offsets(self, command: Command) -> dict[str, Any]:
        """Return the first offset of a partition, and the one behind the last."""
        assert self.consumer is not None
        where = TopicPartition(command["topic"], command["partition"])
        low, high = self.consumer.get_watermark_offsets(where, timeout=self.call_s)
        return {"beginning": low, "end": high}

    def close(self, command: Command) -> None:
        """Send and read nothing any more."""
        if self.producer is not None:
            self.producer.purge()
        if self.consumer is not None:
            self.consumer.close()


def main() -> None:
    """Give each client its commands, until the end of the standard input."""
    clients: dict[int, Client] = {}
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "hello":
            name = {"name": "batcher", "version": "0.1.0", "kinds": ["produce"]}
            write({"id": command["id"], "protocol": 1, **name})
            continue
        number = command["client"]
        if number not in clients:
            clients[number] = Client(number)
            clients[number].start()
        clients[number].commands.put(command)


if __name__ == "__main__":
    main()
