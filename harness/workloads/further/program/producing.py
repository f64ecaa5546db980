"""A transactional producer of a client program that records its transactions.

Libraries repeat requests by themselves, and report the error of the last attempt. So a commit that
ended with an error is of unknown outcome, unless the program says that it is definite.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from harness.workloads.clients.options import ProducerOptions
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.payload import value_of
from harness.workloads.clients.program.process import Program
from harness.workloads.clients.program.producer import (
    BATCH,
    CALL_S,
    open_producer,
    record_of,
)
from harness.workloads.clients.program.protocol import (
    Answer,
    Event,
    Failure,
    Noted,
    Sent,
    Values,
    by_topic,
    encode_records,
)
from harness.workloads.clients.transaction_sends import TransactionSends
from harness.workloads.further.rules import Patience
from harness.workloads.further.threads.library import Broken, NotWritten, Written
from nodes.ids import TopicPartition


def open_transactional(options: ProducerOptions, sends: TransactionSends) -> dict[str, Any]:
    """Return the values of an `open-producer` with a transactional id."""
    return {
        **open_producer(options),
        "transactional_id": sends.transactional_id,
        "transaction_timeout_ms": options.message_timeout_ms,
    }


class TransactionalProducer:
    """See the module. For one thread."""

    def __init__(
        self, program: Program, values: Values, sends: TransactionSends, patience: Patience
    ) -> None:
        """Open a producer with the values of an `open-producer`. Raises ProgramFailed."""
        self.patience = patience
        self._program = program
        self._sends = sends
        self._unsettled: set[int] = set()
        """Sends of the open transaction without an outcome, by their numbers."""
        self._failed: Failure | None = None
        """Why a record of the open transaction was not written."""
        sends.open()
        self._opened = self._ask("open-producer", values)

    def begin_producer(self) -> bool:
        """Take over the transactional id, and record it; return whether that was answered."""
        invoke_ns = self._sends.now_ns()
        failure = self._opened.failure or self._repeat("init-transactions", {})
        outcome = _outcome(failure)
        self._sends.initialized(outcome, invoke_ns, error=failure.name if failure else None)
        return failure is None

    def begin(self) -> None:
        """Begin a transaction. Raises Broken."""
        self._failed = None
        self._unsettled.clear()
        self._sends.begin()
        failure = self._ask("begin-transaction", {}).failure
        if failure is not None:
            raise Broken(failure.name)

    def write(self, records: Sequence[Written]) -> None:
        """Write records, and wait for all. Raises Broken, NotWritten."""
        for topic, several in groupby(records, attrgetter("topic")):
            sends = [record_of(each.partition, each.payload) for each in several]
            self._unsettled.update(number for number, *_ in sends)
            for index in range(0, len(sends), BATCH):
                batch = encode_records(sends[index : index + BATCH])
                values = {"topic": topic, "records": batch}
                self._program.tell(self._sends.client, "send", values)
        self._raise(self._ask("flush", {}).failure)
        while self._unsettled:
            if self.patience.over:
                raise Broken("UNFINISHED")
            for event in self._program.events(self._sends.client, CALL_S):
                self._heard(event)
        self._raise(self._failed)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int], group: str, metadata: object | None
    ) -> None:
        """Commit offsets in the transaction. Raises Broken, NotWritten."""
        for topic, positions in by_topic(offsets).items():
            values = {"topic": topic, "offsets": positions, "group": group, "metadata": metadata}
            self._raise(self._repeat("send-offsets", values))

    def commit(self) -> bool:
        """Commit, and record the outcome; return whether the producer may go on."""
        invoke_ns = self._sends.now_ns()
        failure = self._repeat("commit-transaction", {})
        self._sends.committed(_outcome(failure), invoke_ns, error=failure.name if failure else None)
        return failure is None

    def abort(self) -> bool:
        """Abort, and record the outcome; return whether the producer may go on."""
        invoke_ns = self._sends.now_ns()
        failure = self._repeat("abort-transaction", {})
        self._sends.aborted(_outcome(failure), invoke_ns, error=failure.name if failure else None)
        return failure is None

    def close(self) -> None:
        """End the client. A transaction that is open stays open."""
        self._ask("close", {})
        self._sends.left_open()
        self._sends.close()

    def _repeat(self, do: str, values: Values) -> Failure | None:
        """Give a command until it is done or refused; return why it was not done. It is definite
        only if no earlier attempt may still count."""
        asked = 0
        while True:
            failure = self._ask(do, values).failure
            asked += 1
            if failure is None:
                return None
            if failure.then != "retry" or self.patience.over:
                definite = failure.definite and asked == 1
                return Failure(name=failure.name, definite=definite, then=failure.then)

    def _ask(self, do: str, values: Values) -> Answer:
        client = self._sends.client
        return self._program.ask(client, do, values, within_s=CALL_S, handle=self._heard)

    @staticmethod
    def _raise(failure: Failure | None) -> None:
        if failure is not None:
            raise (Broken if failure.then == "close" else NotWritten)(failure.name)

    def _heard(self, event: Event) -> None:
        match event:
            case Sent():
                for number, offset in event.acked:
                    value = value_of(self._sends.client, number)
                    if value in self._sends and offset is not None:
                        self._sends.appended(value, offset)
                    self._unsettled.discard(number)
                for number, failure in event.failed:
                    self._failed = failure
                    self._unsettled.discard(number)
            case Noted():
                self._sends.note(event.error)
            case _:
                raise self._program.fail(f"the client program wrote {event} about a producer")


def _outcome(failure: Failure | None) -> Outcome:
    if failure is None:
        return Outcome.OK
    return Outcome.FAIL if failure.definite else Outcome.INFO
