"""Consumers of a client program that assign themselves partitions, recorded in the history.

Each instance is for one thread.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError

from harness.workloads.clients.librdkafka import POLL_RECORDS
from harness.workloads.clients.options import ProducerOptions
from harness.workloads.clients.outcomes import NotConnected
from harness.workloads.clients.program.process import Program
from harness.workloads.clients.program.producer import CALL_S, connection
from harness.workloads.clients.program.protocol import (
    Answer,
    Event,
    Noted,
    ProtocolError,
    Values,
    number_in,
    records_of,
)
from harness.workloads.clients.reads import MemberReads, Read, Reads

RESET: Final = "OFFSET_OUT_OF_RANGE"
ERROR_PAUSE_S: Final = 0.1
"""The pause before a consumer that got an error polls again."""


def open_consumer(options: ProducerOptions, reads: Reads | MemberReads) -> dict[str, Any]:
    """Return the values of an `open-consumer` without a group."""
    return {
        **connection(options),
        "isolation_level": reads.isolation_level,
        "max_records": POLL_RECORDS,
    }


class RecordingConsumer:
    """Reads partitions of one topic from given offsets on, and records every record and jump."""

    def __init__(self, program: Program, values: Mapping[str, Any], reads: Reads) -> None:
        """Open a consumer with the values of an `open-consumer`. Raises NotConnected,
        ProgramFailed."""
        self._program = program
        self._reads = reads
        answer = self._ask("open-consumer", values)
        if answer.failure is not None:
            raise NotConnected(answer.failure.name)
        reads.open()

    def assign(self, offsets: Mapping[int, int], *, reason: str | None = None) -> None:
        """Read these partitions only, from {partition: next offset} on."""
        invoke_ns = self._reads.now_ns()
        self._ask("assign", {"topic": self._reads.topic, "positions": dict(offsets)})
        self._reads.assigned(offsets, invoke_ns, reason=reason)

    def poll(self, timeout_s: float) -> int:
        """Read what is there; wait up to `timeout_s` for the first record. Return how many."""
        invoke_ns = self._reads.now_ns()
        answer = self._ask("poll", {"timeout_ms": round(timeout_s * 1000)}, timeout_s)
        failure = answer.failure
        if failure is None:
            records = [read for _, read in read_from(self._program, answer)]
            return self._reads.polled(records, invoke_ns) if records else 0
        self._reads.note(failure.name)
        time.sleep(ERROR_PAUSE_S)
        if failure.code == KafkaError.OFFSET_OUT_OF_RANGE:
            self._rewind(failure.partitions)
        return 0

    def close(self) -> None:
        """End the client."""
        self._reads.close()
        self._ask("close", {})

    def _rewind(self, partitions: Sequence[int]) -> None:
        """Go on from offsets that exist, because logs were truncated below the positions."""
        bounds = {partition: self._bounds(partition) for partition in partitions}
        self.assign(self._reads.rewound(bounds), reason=RESET)

    def _bounds(self, partition: int) -> tuple[int, int] | None:
        """Return the partition's first and last offset; None when no leader answers."""
        answer = self._ask("offsets", {"topic": self._reads.topic, "partition": partition})
        if answer.failure is not None:
            return None
        try:
            return number_in(answer, "beginning"), number_in(answer, "end")
        except ProtocolError as error:
            raise self._program.fail(str(error)) from error

    def _ask(self, do: str, values: Values, within_s: float = CALL_S) -> Answer:
        client = self._reads.client
        return self._program.ask(client, do, values, within_s=within_s, handle=self._heard)

    def _heard(self, event: Event) -> None:
        if not isinstance(event, Noted):
            raise self._program.fail(
                f"the client program wrote {event} about a consumer that is no member of a group"
            )
        self._reads.note(event.error)


def read_from(program: Program, answer: Answer) -> list[tuple[str | None, Read]]:
    """Return the records in the answer to a `poll`, with their topics (None: the client has one).
    Raises ProgramFailed."""
    try:
        return records_of(answer)
    except ProtocolError as error:
        raise program.fail(str(error)) from error
