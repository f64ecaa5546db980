"""Sends of a client program, recorded in the history.

Each instance is for one thread. Sends are written in batches, so that the pipe is no bottleneck.
"""

from collections.abc import Mapping
from typing import Any, Final

from harness.workloads.clients.librdkafka import REQUEST_TIMEOUT_MS
from harness.workloads.clients.options import ProducerOptions
from harness.workloads.clients.outcomes import NotConnected, Outcome, delivery_outcome
from harness.workloads.clients.payload import peek_value, sequence_of, value_of
from harness.workloads.clients.program.process import Program
from harness.workloads.clients.program.protocol import (
    KEYS_SINCE,
    Event,
    Failure,
    Noted,
    Record,
    Sent,
    encode_records,
)
from harness.workloads.clients.sends import USED_UP, Sends, wait_for_outcomes

CALL_MS: Final = 2_000
"""How long one call of the library may block."""
CALL_S: Final = CALL_MS / 1000
BATCH: Final = 500
"""How many sends a line has at most."""


def connection(options: ProducerOptions) -> dict[str, Any]:
    """Return the part of an `open-producer` or `open-consumer` that says how to connect."""
    return {
        "bootstrap": options.bootstrap,
        "properties": dict(options.access.properties),
        "call_timeout_ms": CALL_MS,
    }


def open_producer(options: ProducerOptions) -> dict[str, Any]:
    """Return the values of an `open-producer`."""
    return {
        **connection(options),
        "acks": options.acks,
        "idempotence": options.idempotence,
        "linger_ms": options.linger_ms,
        "timeout_ms": options.message_timeout_ms,
        "request_timeout_ms": min(REQUEST_TIMEOUT_MS, options.message_timeout_ms),
    }


def outcome_of(failure: Failure) -> Outcome:
    """Return the outcome of a send that failed like this."""
    return Outcome.FAIL if failure.definite else delivery_outcome(failure.code or -1)


class RecordingProducer:
    """Sends unique values to the partitions of one topic, and records the outcome of each."""

    def __init__(self, program: Program, values: Mapping[str, Any], sends: Sends) -> None:
        """Open a producer with the values of an `open-producer`. Raises NotConnected,
        ProgramFailed."""
        self.fatal: str | None = None
        """Set when this instance cannot send any more."""
        self._program = program
        self._sends = sends
        self._waiting: list[Record] = []
        answer = program.ask(
            sends.client, "open-producer", values, within_s=CALL_S, handle=self._heard
        )
        if answer.failure is not None:
            raise NotConnected(answer.failure.name)
        sends.open()

    def send(self, partition: int, *, copies: int | None = None) -> None:
        """Start one send, maybe of a copy. Its outcome is recorded by a later `poll`."""
        if self._sends.used_up:
            self.fatal = USED_UP
            return
        value, payload = self._sends.begin(partition, copies=copies)
        keyed = self._program.protocol >= KEYS_SINCE
        assert keyed or payload is not None, "this version of the protocol has no tombstones"
        key = self._sends.key(value, partition) if keyed else None
        self._waiting.append((sequence_of(value), partition, payload, key))
        if len(self._waiting) >= BATCH:
            self._write()

    def poll(self, timeout_s: float) -> None:
        """Record outcomes; wait up to `timeout_s` for the first."""
        self._write()
        for event in self._program.events(self._sends.client, timeout_s):
            self._heard(event)

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for outcomes, record the others as `info`, end the client."""
        wait_for_outcomes(self._sends, self.poll, timeout_s)
        client = self._sends.client
        self._program.ask(client, "close", {}, within_s=CALL_S, handle=self._heard)
        self._sends.abandon()
        self._sends.close()

    def _write(self) -> None:
        if self._waiting:
            values = {"topic": self._sends.topic, "records": encode_records(self._waiting)}
            self._waiting = []
            self._program.tell(self._sends.client, "send", values)

    def _heard(self, event: Event) -> None:
        match event:
            case Sent():
                for number, offset in event.acked:
                    self._end(number, Outcome.OK, offset=offset)
                for number, failure in event.failed:
                    if failure.then == "close":
                        self.fatal = failure.name
                    self._end(number, outcome_of(failure), error=failure.name)
            case Noted():
                self._sends.note(event.error)
            case _:
                raise self._program.fail(f"the client program wrote {event} about a producer")

    def _end(
        self, number: int, outcome: Outcome, *, offset: int | None = None, error: str | None = None
    ) -> None:
        value, now_ns = value_of(self._sends.client, number), self._sends.now_ns()
        self._sends.end(value, outcome, at_ns=now_ns, offset=offset, error=error)


def record_of(partition: int, payload: bytes) -> Record:
    """Return the send of a payload that this process made."""
    return sequence_of(peek_value(payload)), partition, payload, None
